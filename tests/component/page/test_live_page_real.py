"""The live page of a real exporter: from a record in Kafka to the text in a browser."""

from __future__ import annotations

import statistics
import time

from playwright.sync_api import Browser, expect

from controller_model.records.views import ControllerView
from kcm.servers.kafka import KraftBroker
from tests.component.exporter.test_exporter import fresh_cluster, make_settings, running
from tests.component.page.chromium import SHOWN_TIMEOUT_S, watched
from tests.support.samples import as_of, broker_view
from tests.support.waiting import wait_until


def test_a_record_in_kafka_is_on_the_page_within_a_second(
    browser: Browser, pipeline_broker: KraftBroker
) -> None:
    """Ten changes, each from its acknowledged record to what is read in the page."""
    settings = make_settings(pipeline_broker.bootstrap_servers)
    with running(settings) as exporter:
        wait_until(exporter.is_ready)
        exporter.write(broker_view(0), broker_view(1), fresh_cluster())
        with watched(browser, exporter.url) as one:
            page = one.open()
            took_s = []
            for seq in range(2, 12):
                controller = ControllerView(id=seq % 2, epoch=seq * 1000)
                exporter.write(fresh_cluster(at=as_of(seq), controller=controller))
                began = time.monotonic()
                page.wait_for_function(
                    "text => document.getElementById('controller-facts').innerText.includes(text)",
                    arg=f"{seq},000",
                    polling=10,
                )
                took_s.append(time.monotonic() - began)
            with exporter.beats("prod"):
                expect(page.locator("#trust")).to_have_attribute("data-status", "live")
                expect(page.locator("#trust")).to_contain_text("the newest change took")
            assert one.complaints == []
    assert statistics.median(took_s) < SHOWN_TIMEOUT_S, took_s
