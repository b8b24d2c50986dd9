"""How the live page keeps up with its exporter, and what it says when it cannot."""

from __future__ import annotations

import asyncio
import itertools
import re
import time
from contextlib import ExitStack
from typing import Any

import msgspec
import pytest
from playwright.sync_api import Browser, Page, Route, expect

from controller_model.records.views import Counts
from exporter.live.page_answers import PATH, PageAnswers
from exporter.serve.server import HttpServer
from tests.component.page.chromium import watched
from tests.component.page.live_desk import Desk
from tests.support.api_server import Served
from tests.support.samples import (
    as_of,
    broker_view,
    cluster_view,
)
from tests.support.waiting import DEADLINE_S
from web import server as web_server


def test_focus_and_selection_survive_updates(desk: Desk, bad: Served) -> None:
    """A user who types a topic's name or has focused a button keeps the focus over a change."""
    page = desk.page(desk.serve(bad).url).open()
    page.locator("#partition-topic").focus()
    page.keyboard.type("leg")
    view = bad.views.clusters["prod"].view
    later = as_of(view.as_of.seq + 1, generation=view.as_of.generation, lineage=view.as_of.lineage)
    counts = msgspec.structs.replace(view.counts, at_min_isr=1)
    bad.write(msgspec.structs.replace(view, as_of=later, counts=counts))
    expect(page.locator("#tiles li").nth(3)).to_contain_text("1")
    page.keyboard.type("acy")
    expect(page.locator("#partition-topic")).to_have_value("legacy")
    expect(page.locator("#partition-note")).to_contain_text("name contains “legacy”")


def _seconds_ago(page: Page) -> int:
    said = re.compile(r"That was (\d+) s ago\.")
    expect(page.locator("#not-live-more")).to_contain_text(said)
    return int(said.findall(page.locator("#not-live-more").inner_text())[0])


def test_an_exporter_that_is_gone_is_reported_and_one_that_is_back_is_found(
    browser: Browser, bad: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Since when there is no answer, counted up; the figures are grey; and live again without anybody's doing."""
    monkeypatch.setattr(web_server, "_SHUTDOWN_TIMEOUT_S", 2 * DEADLINE_S)
    with ExitStack() as stack:
        page_of = stack.enter_context(watched(browser, ""))
        with HttpServer(bad.app, "127.0.0.1", 0) as server:
            page_of.url, port = server.url, server.port
            page = page_of.open()
            expect(page.locator("#link")).to_contain_text("live")
            began = time.monotonic()
        assert time.monotonic() - began < DEADLINE_S, "an open page must not hold up the end"
        expect(page.locator("#not-live")).to_be_visible()
        expect(page.locator("#not-live-text")).to_have_text(
            re.compile(r"^No answer since \d\d:\d\d:\d\d: the exporter does not answer\.$")
        )
        ago = [_seconds_ago(page)]
        page.wait_for_timeout(2500)
        ago.append(_seconds_ago(page))
        assert ago[0] < ago[1], "it counts up"
        assert page.locator("main").evaluate("e => getComputedStyle(e).filter") == "grayscale(1)"
        expect(page.locator("#trust")).to_contain_text("Not known now")
        assert page.title().startswith("Not live · prod: 2 partitions are offline")
        expect(page.locator("#controller-who")).to_contain_text("Broker 1")
        served = Served()
        served.write(broker_view(0), broker_view(1), cluster_view())
        with HttpServer(served.app, "127.0.0.1", port):
            expect(page.locator("#not-live")).to_be_hidden()
            expect(page.locator("#controller-who")).to_contain_text("Broker 0")
            expect(page.locator("#trust")).not_to_contain_text("Not known now")
            assert not page.title().startswith("Not live")
        assert page_of.outside == []


def test_a_healthy_cluster_is_not_called_healthy_without_an_answer(desk: Desk) -> None:
    """The page and its title say at what time the state was true."""
    served = Served()
    served.write(broker_view(0), broker_view(1), cluster_view())
    with HttpServer(served.app, "127.0.0.1", 0) as server:
        one = desk.page(server.url)
        page = one.open()
        expect(page.locator("#problems")).to_contain_text("Nothing is wrong")
    expect(page.locator("#problems")).to_have_text(
        re.compile(r"As of \d\d:\d\d:\d\d, not now: nothing was known to be wrong\.")
    )
    expect(page).to_have_title("Not live · prod: nothing was known to be wrong")
    one.complaints.clear()  # that the connection was refused


def test_a_page_of_an_older_exporter_loads_itself_anew(desk: Desk, bad: Served) -> None:
    """Screens on walls are never reloaded by hand: after an upgrade they would stay old."""
    server = desk.serve(bad)
    one = desk.page(server.url)

    def answer(route: Route) -> None:
        answered = route.fetch()
        body = answered.json() | {"page": "of a newer exporter"}
        route.fulfill(response=answered, json=body)

    one.open()
    one.page.evaluate("window.isOld = true")
    bad.now += 60_000  # what is shown changes with the time
    one.page.route(f"**{PATH}*", answer, times=1)
    one.page.wait_for_function("() => window.isOld === undefined")
    expect(one.page.locator("#controller-who")).to_contain_text("Broker 1")


def test_a_refusal_is_reported_in_the_exporters_words(desk: Desk, bad: Served) -> None:
    """An exporter that refuses is not the same as one that is gone."""
    one = desk.page(desk.serve(bad).url)
    problem = {"status": 503, "detail": "too many requests wait"}
    one.page.route(f"**{PATH}*", lambda route: route.fulfill(status=503, json=problem))
    one.page.goto(one.url)
    expect(one.page.locator("#not-live-text")).to_have_text(
        "No answer yet: too many requests wait."
    )
    one.page.unroute(f"**{PATH}*")
    expect(one.page.locator("#controller-who")).to_contain_text("Broker 1")
    one.complaints.clear()  # of the 503


@pytest.mark.full
def test_a_screen_reader_gets_new_headlines_but_no_ages(desk: Desk) -> None:
    """A polite region gets a new headline once; what counts up by seconds is in no live region."""
    served = Served()
    served.write(broker_view(0), broker_view(1), cluster_view())
    page = desk.page(desk.serve(served).url).open()
    expect(page.locator("#announcement")).to_have_text("")
    served.write(cluster_view(at=as_of(2), counts=Counts(offline=2)))
    expect(page.locator("#announcement")).to_have_text(
        "prod: 2 partitions are offline: no writes, no reads"
    )
    live = page.locator("[role=status], [role=alert], [aria-live]")
    assert live.locator("time").count() == 0


def test_a_page_whose_computer_slept_is_not_live_at_once(desk: Desk, bad: Served) -> None:
    """During sleep the browser's monotonic clock stops, so what the page shows is old."""
    one = desk.page(desk.serve(bad).url)
    one.page.add_init_script(
        "const set = setInterval; window.due = [];"
        "setInterval = (act, ms) => { window.due.push(act); return set(act, ms); };"
    )
    page = one.open()
    expect(page.locator("#link")).to_contain_text("live")
    text = page.evaluate(
        "() => { const real = Date.now; Date.now = () => real() + 3_600_000;"
        " for (const act of window.due) act();"
        " return document.getElementById('not-live-text').textContent; }"
    )
    assert text.endswith("the exporter is silent.")
    expect(page.locator("#not-live")).to_be_hidden()


@pytest.mark.full
def test_a_hidden_page_polls_rarely_and_at_once_when_it_is_shown(desk: Desk, bad: Served) -> None:
    """Nobody looks at it; when somebody does, it is not ten seconds old."""
    one = desk.page(desk.serve(bad).url)
    page = one.open()
    hide = """is => {
        const real = window.fetch;
        let asked = 0;
        window.fetch = (...about) => { asked += 1; return real(...about); };
        Object.defineProperty(document, 'hidden', {configurable: true, get: () => is});
        document.dispatchEvent(new Event('visibilitychange'));
        window.fetch = real;
        return asked;
    }"""
    assert page.evaluate(hide, True) == 0
    one.requests.clear()
    page.wait_for_timeout(4_500)
    polls = [url for url in one.requests if PATH in url]
    assert len(polls) <= 1, "the one that was planned before"
    assert page.evaluate(hide, False) == 1
    expect(page.locator("#not-live")).to_be_hidden()


@pytest.mark.full
def test_a_page_asks_a_slow_exporter_less_often(
    desk: Desk, bad: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It rests for as long as the answer took; without an answer for four seconds it is not live."""
    page = desk.page(desk.serve(bad).url).open()
    begun: list[float] = []
    takes_s = 2.0
    make = PageAnswers._make

    async def make_late(*about: Any) -> None:
        begun.append(time.monotonic())
        await asyncio.sleep(takes_s)
        await make(*about)

    monkeypatch.setattr(PageAnswers, "_make", make_late)
    page.wait_for_timeout(10_000)
    assert min(later - at for at, later in itertools.pairwise(begun)) > 2 * takes_s - 0.1
    expect(page.locator("#not-live")).to_be_hidden()
    takes_s = 6.0
    expect(page.locator("#not-live-text")).to_contain_text("the exporter is silent")
    takes_s = 0.0
    expect(page.locator("#not-live")).to_be_hidden()
