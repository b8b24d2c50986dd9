"""How the live page keeps up with its exporter, and what it says when it cannot."""

from __future__ import annotations

import re
import socket
import statistics
import time
from contextlib import ExitStack

import msgspec
import pytest
from playwright.sync_api import Browser, Route, expect

from controller_model.records.views import ControllerView, Counts
from exporter.serve.server import HttpServer
from pipeline import web
from tests.component.page.chromium import SHOWN_TIMEOUT_S, WAIT_MS, watched
from tests.component.page.live_desk import Desk
from tests.support.api_server import Served
from tests.support.samples import (
    as_of,
    broker_view,
    cluster_view,
)
from tests.support.waiting import DEADLINE_S


def test_a_change_is_seen_within_a_second(desk: Desk) -> None:
    """From the exporter's swap to the text on the page, ten changes one after the other."""
    served = Served()
    served.write(broker_view(0), broker_view(1), cluster_view())
    page = desk.page(desk.serve(served).url).open()
    took_s = []
    for seq in range(2, 12):
        began = time.monotonic()
        served.write(
            cluster_view(at=as_of(seq), controller=ControllerView(id=seq % 2, epoch=seq * 1000))
        )
        page.wait_for_function(
            "text => document.getElementById('controller-facts').innerText.includes(text)",
            arg=f"{seq},000",
            polling=10,
        )
        took_s.append(time.monotonic() - began)
    assert statistics.median(took_s) < SHOWN_TIMEOUT_S, took_s


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


def test_an_exporter_that_is_gone_is_reported_and_one_that_is_back_is_found(
    browser: Browser, bad: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not live since when; the figures are grey; and live again without anybody's doing."""
    monkeypatch.setattr(web, "_SHUTDOWN_TIMEOUT_S", 2 * DEADLINE_S)
    with ExitStack() as stack:
        page_of = stack.enter_context(watched(browser, ""))
        with HttpServer(bad.app, "127.0.0.1", 0) as server:
            page_of.url, port = server.url, server.port
            page = page_of.open()
            expect(page.locator("#link")).to_contain_text("live")
            began = time.monotonic()
        assert time.monotonic() - began < DEADLINE_S, (
            "a stream that stays open must not hold up the end"
        )
        expect(page.locator("#not-live")).to_be_visible()
        expect(page.locator("#not-live-text")).to_have_text(
            re.compile(r"^Not live since \d\d:\d\d:\d\d: the exporter does not answer\.$")
        )
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


def test_a_healthy_cluster_is_not_called_healthy_after_the_stream_ends(desk: Desk) -> None:
    """After the end of the stream the page and its title say at what time the state was true."""
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
    with_another = {"count": 0}

    def answer(route: Route) -> None:
        with_another["count"] += 1
        body = (
            f'event: beat\ndata: {{"now": 1, "page": "{with_another["count"]}", "reasons": []}}\n\n'
        )
        route.fulfill(status=200, content_type="text/event-stream", body=body)

    one.page.route("**/live*", answer)
    one.page.goto(server.url)
    one.page.evaluate("window.isOld = true")
    one.page.wait_for_function("() => window.isOld === undefined")
    one.page.unroute("**/live*")
    expect(one.page.locator("#controller-who")).to_contain_text("Broker 1")


def test_a_refusal_of_the_stream_is_reported_in_the_exporters_words(
    desk: Desk, bad: Served
) -> None:
    """Too many open pages is not the same as an exporter that is gone."""
    one = desk.page(desk.serve(bad).url)
    problem = {"status": 503, "detail": "200 pages are open already"}
    one.page.route("**/live*", lambda route: route.fulfill(status=503, json=problem))
    one.page.goto(one.url)
    expect(one.page.locator("#not-live-text")).to_have_text(
        "Not connected: 200 pages are open already."
    )
    one.page.unroute("**/live*")
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
        "prod: 2 partitions are offline: no writes, no reads", timeout=2 * WAIT_MS
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


def test_a_hidden_page_holds_no_stream_and_a_shown_one_has_it_again(
    desk: Desk, bad: Served
) -> None:
    """Browsers have six connections for a host: hidden tabs must not take them."""
    page = desk.page(desk.serve(bad).url).open()
    hide = """is => {
        Object.defineProperty(document, 'hidden', {configurable: true, get: () => is});
        document.dispatchEvent(new Event('visibilitychange'));
    }"""
    page.evaluate(hide, True)
    expect(page.locator("#not-live-text")).to_contain_text("this page was hidden")
    page.evaluate(hide, False)
    expect(page.locator("#not-live")).to_be_hidden()


def test_a_viewer_that_stops_reading_does_not_delay_others(desk: Desk) -> None:
    """A connection that reads nothing fills its own buffers only; another page stays current."""
    served = Served()
    served.write(*(broker_view(id_) for id_ in range(2)), cluster_view())
    server = desk.serve(served)
    stuck = socket.create_connection((server.host, server.port))
    stuck.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    stuck.sendall(b"GET /live?cluster=prod HTTP/1.1\r\nhost: x\r\n\r\n")
    try:
        page = desk.page(server.url).open()
        for seq in range(2, 12):
            many = [broker_view(id_, as_of(seq), host=f"h{seq}" * 50) for id_ in range(500)]
            known = tuple(range(500))
            served.write(
                *many, cluster_view(at=as_of(seq), brokers_known=known, brokers_live=known)
            )
            expect(page.locator("#broker-table tbody th").nth(499)).to_contain_text(f"h{seq}")
    finally:
        stuck.close()
