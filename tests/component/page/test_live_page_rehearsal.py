"""The live page's rehearsal of a stop: requested beside a broker, answered below the brokers."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from exporter.api import endpoints
from tests.component.page.live_desk import Desk, texts
from tests.support.api_server import Served
from tests.support.samples import broker_view, cluster_view, topic_view

ONE_LINE_PX = 30
REST_MS = 3_000
"""Longer than the page rests before it asks again what it wants to know by itself."""


def test_a_stop_is_rehearsed_beside_each_broker(desk: Desk) -> None:
    """What would change, partition by partition, with the races and what is not known; and it closes."""
    served = Served()
    served.write(
        broker_view(0),
        broker_view(1),
        broker_view(2, live=False),
        topic_view("t", replicas=((0, 1), (0,)), leader=(0, 0), isr=((0, 1), (0,))),
        cluster_view(brokers_known=(0, 1, 2)),
    )
    page = desk.page(desk.serve(served).url).open()
    panel = page.locator("#rehearsal")
    expect(panel).to_be_hidden()
    expect(page.get_by_role("button", name="Rehearse a stop of broker 2")).to_have_count(0)
    button = page.get_by_role("button", name="Rehearse a stop of broker 0")
    box = button.bounding_box()
    assert box is not None
    assert box["height"] < ONE_LINE_PX, "hundreds of brokers are looked through"
    button.click()
    expect(panel).to_be_visible()
    expect(page.locator("#rehearsal-title")).to_have_text("A stop of broker 0, rehearsed")
    expect(page.locator("#rehearsal-lead")).to_contain_text(
        "1 partition would go offline, 0 under min ISR, 1 leader would move"
    )
    expect(page.locator("#rehearsal-lead")).to_contain_text(
        "A controller would be elected: broker 1."
    )
    rows = page.locator("#rehearsal-table tbody tr")
    expect(rows).to_have_count(2)
    assert texts(rows.first.locator("th, td")) == ["t-0", "0 → 1", "0, 1 → 1"]
    assert texts(rows.last.locator("th, td")) == ["t-1", "0 → none", "0"]
    expect(page.locator("#rehearsal-notes")).to_contain_text(
        "Not known: auto.leader.rebalance.enable"
    )
    expect(page.locator("#rehearsal-kcm")).to_have_text(
        "kcm rehearse --cluster prod --stop-broker 0"
    )
    page.get_by_role("button", name="Rehearse a stop of broker 1").click()
    expect(page.locator("#rehearsal-title")).to_have_text("A stop of broker 1, rehearsed")
    expect(rows).to_have_count(1)
    panel.get_by_role("button", name="Close").click()
    expect(panel).to_be_hidden()


def test_a_refused_rehearsal_is_requested_once(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """The page says why, and what to do instead; the user can request it again."""
    served = Served()
    served.write(broker_view(0), broker_view(1), cluster_view())
    monkeypatch.setattr(endpoints, "memory_left", lambda: 0)
    one = desk.page(desk.serve(served).url)
    page = one.open()
    button = page.get_by_role("button", name="Rehearse a stop of broker 0")
    button.click()
    lead = page.locator("#rehearsal-lead")
    expect(lead).to_contain_text("the exporter has 0 left; kcm rehearse --from-topic")
    page.wait_for_timeout(REST_MS)
    assert len([url for url in one.requests if "/rehearsal?" in url]) == 1
    (complaint,) = one.complaints
    assert "400" in complaint
    one.complaints.clear()
    monkeypatch.undo()
    button.click()
    expect(lead).to_contain_text("0 partitions would go offline")
