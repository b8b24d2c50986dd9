"""The exporter's process: the real stores, with its consumer played.

The rule: it reads both topics from their beginnings and keeps nothing over a restart. A topic that
was recreated is read again from its beginning; clusters that are not in it are forgotten a minute later.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from controller_model.records.event_records import EventRecord
from exporter.core.records import ClusterSnapshot
from exporter.intake.event_store import EventStore
from exporter.intake.view_store import ViewStore
from pipeline.topic_records import Record
from tests.simulation.stage import CLUSTER
from tests.simulation.topic import Stored, Topic

if TYPE_CHECKING:
    from tests.simulation.world import World

FORGET_AFTER_MS = 60_000


class Exporter:
    """One process of `kcm export`."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.on_event: Callable[[EventRecord], None] = lambda _: None
        self.on_shown: Callable[[ClusterSnapshot], None] = lambda _: None
        self.restarts = -1
        self._planned = False
        self.restart()

    def restart(self) -> None:
        """Begin from nothing."""
        self.restarts += 1
        self.views = ViewStore()
        self.events = EventStore(kept=10_000)
        self._next = {"views": 0, "events": 0}
        self._made = {"views": self.world.views.made, "events": self.world.events.made}
        self.read_to_end = False
        self.plan()

    @property
    def idle(self) -> bool:
        """Everything in the topics was read."""
        world = self.world
        return (
            self._next["views"] >= world.views.end
            and self._next["events"] >= world.events.end
            and self._made == {"views": world.views.made, "events": world.events.made}
        )

    @property
    def snapshot(self) -> ClusterSnapshot | None:
        """What it shows of the cluster; None when nothing."""
        return self.views.clusters.get(CLUSTER)

    def plan(self) -> None:
        """Plan the next reading."""
        if not self._planned:
            self._planned = True
            self.world.clock.after(self.world.rng.choice((1, 5, 20, 100)), self._read)

    def _read(self) -> None:
        self._planned = False
        for name, topic in (("views", self.world.views), ("events", self.world.events)):
            self._read_topic(name, topic)
        if self.idle:
            self.read_to_end = True
        else:
            self.plan()

    def _read_topic(self, name: str, topic: Topic) -> None:
        if self._made[name] != topic.made:
            self._made[name] = topic.made
            self._next[name] = 0
            if name == "views":
                self.views.begin_reread()
                self.world.clock.after(FORGET_AFTER_MS, self._forget)
        records = topic.read(self._next[name], self.world.rng.choice((1, 5, 500)))
        for stored in records:
            self._next[name] = stored.offset + 1
            self._apply(name, stored)
        if not records:
            self._next[name] = topic.end

    def _forget(self) -> None:
        for cluster in self.views.forget_unconfirmed():
            self.events.forget(cluster)

    def _apply(self, name: str, stored: Stored) -> None:
        record = Record(name, 0, stored.offset, stored.key, stored.value, stored.timestamp)
        if name == "events":
            event = self.events.apply(record)
            if event is not None:
                self.on_event(event)
            return
        if self.views.apply(record) is not None and self.read_to_end:
            snapshot = self.snapshot
            if snapshot is not None:
                self.on_shown(snapshot)
