"""A main loop of the exporter that is not started, on records that a test writes."""

from __future__ import annotations

from prometheus_client import CollectorRegistry

from exporter.core.config import ExportSettings
from exporter.core.metrics import ExporterMetrics
from exporter.core.status import ReadingState, ReadingStatus
from exporter.intake.event_store import EventStore
from exporter.scrape.collector import Collector
from exporter.serve.main_loop import Feed, MainLoop
from pipeline.settings import load
from pipeline.topic_records import Record
from tests.support.samples import T0


class Reading:
    """A main loop that is not started, and the state that it fills."""

    def __init__(self, feed: Feed | None = None) -> None:
        self.events = EventStore(kept=10)
        self.registry = CollectorRegistry()
        self.now = T0
        self.state = ReadingState(ReadingStatus(), steady=lambda: self.now, wall=lambda: self.now)
        self.collector = Collector(self.state.of_cluster)
        self.loop = MainLoop(
            load(ExportSettings),
            events=self.events,
            collector=self.collector,
            state=self.state,
            metrics=ExporterMetrics(self.registry),
            clock=lambda: T0 + 5_000,
            feed=feed,
        )

    def apply(self, *records: Record) -> None:
        """Apply records as one read from Kafka."""
        self.loop.apply_records(list(records))

    def status(self) -> str:
        """Return the status of the only cluster."""
        (snapshot,) = self.collector.clusters.values()
        return self.collector.completeness(snapshot, self.now).status

    def shown(self) -> dict[str, int]:
        """Return the clusters that are shown, each with the seq of its figures."""
        held = self.collector.clusters
        return {name: each.view.as_of.seq for name, each in held.items()}

    def figure(self, name: str, **labels: str) -> float | None:
        """Return a figure of the exporter about itself."""
        return self.registry.get_sample_value(f"kcm_exporter_{name}", labels)
