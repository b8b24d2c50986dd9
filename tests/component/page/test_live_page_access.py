"""Who can use the live page: by keyboard, by ear, in the dark, on a phone."""

from __future__ import annotations

import re
from importlib import resources

import pytest
from playwright.sync_api import Page, expect

from controller_model.records.views import Counts
from exporter.serve.server import HttpServer
from tests.component.page.live_desk import DESK, PHONE, Desk, fleet, wait_for_lists
from tests.support.api_server import Served
from tests.support.samples import (
    broker_view,
    cluster_view,
    topic_view,
)


def test_everything_can_be_reached_and_seen_by_keyboard(desk: Desk, bad: Served) -> None:
    """Tab goes through every control in reading order, each shows its focus, none is a trap."""
    page = desk.page(desk.serve(bad).url).open()
    wait_for_lists(page)
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "Skip to the figures"
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "main"
    expected = page.evaluate(
        """() => [...document.querySelectorAll('main a[href], main button, main select, main input, main summary, main [tabindex="0"]')]
            .filter(e => e.checkVisibility()).length"""
    )
    reached = []
    for _ in range(expected):
        page.keyboard.press("Tab")
        reached.append(
            page.evaluate(
                """() => {
                    const e = document.activeElement, s = getComputedStyle(e);
                    return [e.id || e.textContent.trim(), s.outlineStyle !== 'none' && s.outlineWidth !== '0px', Boolean(e.closest('main'))];
                }"""
            )
        )
    assert [name for name, is_seen, is_inside in reached if not (is_seen and is_inside)] == []
    assert len({name for name, _, _ in reached}) == expected
    page.keyboard.press("Tab")
    assert page.evaluate("Boolean(document.activeElement.closest('footer'))")


def test_a_problem_leads_to_its_partitions_by_keyboard(desk: Desk, bad: Served) -> None:
    """Enter on a sentence lists what it is about, and the address says so for others."""
    page = desk.page(desk.serve(bad).url).open()
    page.locator("#problems a", has_text="under-replicated").press("Enter")
    expect(page.locator("#partition-note")).to_have_text("50 of 57 shown: under-replicated.")
    expect(page).to_have_url(re.compile("filter=under-replicated"))
    page.locator("#partition-next").press("Enter")
    expect(page.locator("#partition-note")).to_have_text(re.compile(r"^After .*: 7 of 57 shown"))
    page.reload()
    expect(page.locator("#partition-filter")).to_have_value("under-replicated")


def violations(page: Page) -> list[str]:
    """Return what axe finds wrong, by the rules of WCAG 2 A and AA and of good practice."""
    axe = (resources.files("axe_core_python") / "axe.min.js").read_text(encoding="utf-8")
    page.evaluate(axe)
    found = page.evaluate("async () => (await axe.run(document)).violations")
    return [
        f"{each['id']}: {node['html'][:200]} {node.get('failureSummary', '')}"
        for each in found
        for node in each["nodes"]
    ]


@pytest.mark.parametrize(
    ("scheme", "viewport"),
    [
        pytest.param("light", DESK, id="light-desk"),
        pytest.param("dark", PHONE, id="dark-phone"),
        pytest.param("light", PHONE, id="light-phone", marks=pytest.mark.full),
        pytest.param("dark", DESK, id="dark-desk", marks=pytest.mark.full),
    ],
)
def test_axe_finds_nothing_wrong(
    desk: Desk, bad: Served, scheme: str, viewport: dict[str, int]
) -> None:
    """Names, roles, order of headings, contrast: in trouble, in both schemes, wide and narrow."""
    page = desk.page(desk.serve(bad).url, color_scheme=scheme, viewport=viewport).open()
    wait_for_lists(page)
    page.locator("#elections summary").click()
    assert violations(page) == []


@pytest.mark.parametrize("scheme", ["light", pytest.param("dark", marks=pytest.mark.full)])
def test_axe_finds_nothing_wrong_with_the_fleet_and_with_a_page_that_is_not_live(
    desk: Desk, scheme: str
) -> None:
    """What is grey can still be read."""
    with HttpServer(fleet().app, "127.0.0.1", 0) as server:
        one = desk.page(server.url, color_scheme=scheme)
        page = one.open()
        assert violations(page) == []
    expect(page.locator("#not-live")).to_be_visible()
    assert violations(page) == []
    one.complaints.clear()  # that the connection was refused


def test_the_schemes_are_really_two(desk: Desk, bad: Served) -> None:
    """Dark on light, and light on dark, as the reader's system wants it."""
    url = desk.serve(bad).url
    grounds = {}
    for scheme in ("light", "dark"):
        page = desk.page(url, color_scheme=scheme).open()
        colour = page.evaluate("getComputedStyle(document.body).backgroundColor")
        grounds[scheme] = sum(map(int, re.findall(r"\d+", colour)))
    assert grounds["light"] > 600
    assert grounds["dark"] < 100


def test_a_phone_needs_no_sideways_scrolling(desk: Desk, bad: Served) -> None:
    """At 360 pixels, with the longest names that Kafka allows; a row of a table is a card."""
    bad.write(*(broker_view(id_, cluster="long", host="h" * 200) for id_ in range(2)))
    bad.write(
        topic_view("t" * 249, cluster="long", leader=(-1, -1)),
        cluster_view("long", counts=Counts(offline=2)),
    )
    url = desk.serve(bad).url
    for path in ("/", "/?cluster=prod", "/?cluster=long"):
        page = desk.page(url, viewport=PHONE).open(path)
        page.wait_for_load_state()
        if path != "/":
            wait_for_lists(page)
            row = page.locator("#partition-table tbody tr").first
            expect(row).to_be_visible()
            assert row.evaluate("e => getComputedStyle(e).display") == "block", "a card"
        assert page.evaluate("document.documentElement.scrollWidth") <= PHONE["width"], path
        wide = page.evaluate(
            """() => [...document.querySelectorAll('body *')].filter(e => e.checkVisibility() && !e.closest('.unseen, .strip, .skip, caption, thead')
                && e.getBoundingClientRect().right > innerWidth + 1).map(e => e.outerHTML.slice(0, 80))"""
        )
        assert wide == [], path
