"""The live page of a real exporter: from a record in Kafka to the text in a browser."""

from __future__ import annotations

import time

from playwright.sync_api import Browser, expect

from controller_model.records.views import ControllerView
from kcm.servers.kafka import KraftBroker
from tests.component.exporter.test_exporter import fresh_cluster, make_settings, running
from tests.component.page.chromium import SHOWN_TIMEOUT_S, watched
from tests.support.samples import as_of, broker_view
from tests.support.waiting import wait_until

QUICK = 5
"""So many changes must be on the page in time."""


def test_a_record_in_kafka_is_on_the_page_within_a_second(
    browser: Browser, pipeline_broker: KraftBroker
) -> None:
    """Each change from its acknowledged record to what is read in the page.

    Each is made when the one before is shown, which is right after a poll: were polls rarer, all would take longer; a
    busy machine delays some.
    """
    settings = make_settings(pipeline_broker.bootstrap_servers)
    with running(settings) as exporter:
        wait_until(exporter.is_ready)
        exporter.write(broker_view(0), broker_view(1), fresh_cluster())
        with watched(browser, exporter.url) as one:
            page = one.open()
            took_s: list[float] = []

            def one_more() -> list[float]:
                seq = 2 + len(took_s)
                controller = ControllerView(id=seq % 2, epoch=seq * 1000)
                exporter.write(fresh_cluster(at=as_of(seq), controller=controller))
                began = time.monotonic()
                page.wait_for_function(
                    "text => document.getElementById('controller-facts').innerText.includes(text)",
                    arg=f"{seq},000",
                    polling=10,
                )
                took_s.append(time.monotonic() - began)
                return took_s

            wait_until(one_more, lambda found: sum(s < SHOWN_TIMEOUT_S for s in found) >= QUICK)
            with exporter.beating():
                expect(page.locator("#trust")).to_have_attribute("data-status", "live")
                expect(page.locator("#trust")).to_contain_text("the newest change took")
            assert one.complaints == []
