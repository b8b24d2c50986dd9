"""The exporter's process: its real main loop, with its probe and all that it shows.

The rule: the clock calls the turns of both threads, and a restart keeps nothing. What is shown is
judged every `SAMPLED_MS` by the status that it has.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, cast

from prometheus_client import CollectorRegistry

from controller_model.records.completeness import Completeness, Status
from controller_model.records.event_records import EventRecord
from exporter.core.metrics import ExporterMetrics
from exporter.core.records import ClusterSnapshot
from exporter.core.status import ReadingState, ReadingStatus
from exporter.intake.event_store import EventStore
from exporter.intake.view_store import ViewStore
from exporter.scrape.collector import Collector
from exporter.serve.main_loop import MainLoop
from pipeline.topic_records import Record
from tests.simulation.kafka_clients import Thread
from tests.simulation.live_page import Server
from tests.simulation.stage import CLUSTER, export_settings

if TYPE_CHECKING:
    from tests.simulation.world import World

SAMPLED_MS = 500
"""How often what is shown is read."""

_PROBED_MS = 1_000


class NotedEvents(EventStore):
    """The events; each new one is judged."""

    on_event: Callable[[EventRecord], None]

    def apply(self, record: Record) -> EventRecord | None:
        """Take a record in."""
        event = super().apply(record)
        if event is not None and record.key == CLUSTER.encode():
            self.on_event(event)
        return event


class NotedViews(ViewStore):
    """The views; each new snapshot is judged."""

    on_commit: Callable[[ClusterSnapshot], None]
    """Called with the fully simulated cluster."""

    def apply(self, record: Record) -> str | None:
        """Take a record in."""
        changed = super().apply(record)
        if changed == CLUSTER and changed in self.clusters:
            self.on_commit(self.clusters[changed])
        return changed


class Exporter:
    """One process of `kcm export`."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.clock_ahead_ms = 0
        self.cut_off_until = 0
        self.restarts = -1
        self._planned = False
        self._start()

    def _start(self) -> None:
        world = self.world
        self.restarts += 1
        restart = self.restarts
        self._steady_ahead_ms = world.clock.steady_ahead_ms()
        self.state = ReadingState(
            ReadingStatus(), steady=lambda: self.steady, wall=lambda: self.wall
        )
        self.collector = Collector(self.state.of_cluster)
        events = NotedEvents(kept=10_000)
        events.on_event = world.oracle.on_event
        self._loop = MainLoop(
            export_settings(),
            events=events,
            collector=self.collector,
            state=self.state,
            metrics=ExporterMetrics(CollectorRegistry()),
            clock=lambda: self.wall,
        )
        views = self._loop._views = NotedViews()
        views.on_commit = world.oracle.on_commit
        ids = {topic.name: topic.id for topic in world.topics.values()}
        self.server = Server(self, events)
        self._topics = world.stage.topics._replace(ids=ids)
        self._source = self._loop.open(self._topics)
        world.clock.after(0, lambda: self._ask(restart))
        self._sample(restart)

    def restart(self) -> None:
        """Restart without state."""
        self.server.end()
        self._start()
        self.world.viewers.on_restart()

    @property
    def steady(self) -> int:
        """The process's steady clock."""
        return self.world.clock.now + self._steady_ahead_ms

    @property
    def wall(self) -> int:
        """The clock of the exporter's machine."""
        return self.world.clock.now + self.clock_ahead_ms

    @property
    def is_cut_off(self) -> bool:
        """Whether Kafka does not answer it."""
        return self.world.clock.now < self.cut_off_until

    @property
    def idle(self) -> bool:
        """Whether everything in the topics was read."""
        world, read = self.world, self._source.reader.next_offset
        return all(
            read.get((name, partition), 0) == world.at((name, partition)).end
            and self._source.ids[name] == world.topics[name].id
            for name in (world.views.name, world.events.name)
            for partition in range(world.stage.topics.partitions)
        )

    @property
    def snapshot(self) -> ClusterSnapshot | None:
        """The snapshot of the cluster that is shown; None when there is none."""
        return self.collector.clusters.get(CLUSTER)

    def completeness(self, snapshot: ClusterSnapshot) -> Completeness:
        """Return the status that is shown with it."""
        return self.collector.completeness(snapshot, self.wall)

    @property
    def is_shown_live(self) -> bool:
        """Whether something is shown as live."""
        shown = self.snapshot
        return shown is not None and self.completeness(shown).status is Status.LIVE

    def plan(self) -> None:
        """Plan the next reading."""
        if not self._planned:
            self._planned = True
            self.world.clock.after(self.world.rng.choice((1, 5, 20, 100)), self._read)

    def _read(self) -> None:
        self._planned = False
        self._loop.poll()
        if not self.idle and not self.is_cut_off:
            self.plan()

    def _ask(self, restart: int) -> None:
        """Run the probe, as long as this process runs."""
        if restart == self.restarts:
            cast("Thread", self._source.probe.thread).poll()
            self.plan()
            self.world.clock.after(_PROBED_MS, lambda: self._ask(restart))

    def _sample(self, restart: int) -> None:
        if restart == self.restarts:
            snapshot = self.snapshot
            if snapshot is not None and self.state.status.read_to_end_once:
                self.world.oracle.on_shown(snapshot, self.completeness(snapshot), self.wall)
            self.world.clock.after(SAMPLED_MS, lambda: self._sample(restart))
