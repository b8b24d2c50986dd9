"""The exporter's application in this process, on records that a test writes, and a client for it."""

from __future__ import annotations

import asyncio
from typing import Any

import httpx
from prometheus_client import CollectorRegistry

from controller_model.records.event_records import EventRecord
from controller_model.records.views import AnyView
from exporter.core.metrics import ExporterMetrics
from exporter.core.status import ReadingState, ReadingStatus
from exporter.intake.event_store import EventStore
from exporter.intake.view_store import ViewStore
from exporter.scrape.collector import Collector
from exporter.serve.pages import Pages
from exporter.serve.server import make_app
from tests.support.samples import T0, event_record, progress_by_view, record
from web.health import PartHealth


class Served:
    """The state of the exporter's reader, filled without topics."""

    def __init__(self, *, partition_metrics: bool = False) -> None:
        self.state = ReadingState(
            ReadingStatus(read_to_end_once=True, kafka_answered_at=T0),
            steady=lambda: self.now,
            wall=lambda: self.now,
        )
        self.now = T0
        self.collector = Collector(lambda snapshot: progress_by_view(snapshot.view, self.now))
        self.loop_age_s = 0.0
        self.views = ViewStore()
        self.events = EventStore(kept=1000)
        metrics = ExporterMetrics(CollectorRegistry())
        pages = Pages(
            self.collector,
            self.events,
            metrics,
            state=self.state,
            health=PartHealth(metrics.registry, lambda: self.loop_age_s),
            clock=lambda: self.now,
            kafka_gone_s=15,
            partition_metrics=partition_metrics,
        )
        self.app = make_app(pages, metrics)

    def write(self, *views: AnyView) -> None:
        """Take in views, in this order, and show complete batches."""
        changed = [name for view in views if (name := self.views.apply(record(view)))]
        self.collector.update(changed, self.views.clusters)

    def publish(self, *events: EventRecord) -> None:
        """Take in events."""
        for event in events:
            assert self.events.apply(event_record(event)) is not None

    def get(
        self, path: str, params: dict[str, Any] | None = None, headers: dict[str, str] | None = None
    ) -> httpx.Response:
        """Send a request to the application, and return the answer."""

        async def ask() -> httpx.Response:
            transport = httpx.ASGITransport(app=self.app)
            async with httpx.AsyncClient(transport=transport, base_url="http://kcm") as client:
                return await client.get(path, params=params, headers=headers)

        return asyncio.run(ask())

    def json(self, path: str, **params: Any) -> Any:
        """Return the body of an answer that must be successful."""
        answer = self.get(path, params)
        assert answer.status_code == 200, answer.text
        return answer.json()
