"""Everything of one run: the cluster, the watchers, the topics, the fold, the exporter, the time.

The rule: one `random.Random` of the seed makes all random choices, except in modules with their
own.
"""

from __future__ import annotations

import bisect
import random
from collections import Counter
from collections.abc import Callable

from controller_model.kafka.ids import partition_of
from pipeline.topic_records import Place
from streaming import processor as processor_module
from tests.simulation.asking import Asking, is_asked
from tests.simulation.clock import Clock
from tests.simulation.edge import Edge, Proof
from tests.simulation.electing import Electing, is_electing
from tests.simulation.election import Election, SimulatedCandidacy
from tests.simulation.kafka import MAX_PARTITIONS, KafkaCluster
from tests.simulation.kafka_starts import KafkaStarts, has_starts
from tests.simulation.live_page import Viewers
from tests.simulation.neighbour import NEIGHBOURS, Neighbour
from tests.simulation.oracle import Oracle
from tests.simulation.published import Published
from tests.simulation.reader import Exporter
from tests.simulation.retention import Retention, has_retention
from tests.simulation.service import fold_of
from tests.simulation.stage import (
    CHUNKS,
    CLUSTER,
    NAMES,
    Stage,
    has_neighbours,
    lingers_ms,
    watch_settings,
)
from tests.simulation.throttling import Throttling, is_throttled
from tests.simulation.topic import Stored, Topic
from tests.simulation.zookeeper import Ensemble, Server
from zk_source.wire.operations import ZnodeData

ELECTED = 0.4
"""The share of runs whose watchers use election."""

OLD = 0.3
"""The share of ensembles with a release before ZooKeeper 3.6."""

HEADS_LOST_EVERY, HEADS_LOST_AT = 15, 14
"""One seed out of so many loses the beginning of its views repeatedly."""

HANGS_EVERY, HANGS_AT, HANGS_FROM = 11, 5, 100
"""In one seed out of so many, from the last one on, main loops of watchers hang: planted bugs keep their seeds."""


class World:
    """One run."""

    has_faults = True
    """Whether anything may fail by chance."""
    unreachable_until = 0
    minority_until = 0
    """Until when a server that was cut off may answer."""
    kafka_away_until = 0
    log_away_until = 0
    duplicates = 0
    to_lose = 0
    to_lose_inside = 0
    to_damage = 0

    def __init__(self, seed: int, stage: Stage, trace: Callable[[str], None] | None = None) -> None:
        stage.world = self
        self.stage = stage
        processor_module._remembered.clear()
        self.seed = seed
        self.rng = random.Random(seed)  # noqa: S311  # a play, not a secret
        self.heads = random.Random(f"{seed} loses its head")  # noqa: S311  # a play, not a secret
        self.loses_heads = seed % HEADS_LOST_EVERY == HEADS_LOST_AT
        self.hangs = random.Random(f"{seed} hangs")  # noqa: S311  # a play, not a secret
        self.has_hangs = seed >= HANGS_FROM and seed % HANGS_EVERY == HANGS_AT
        self.clock = Clock(seed)
        self.hits: Counter[str] = Counter()
        self._trace = trace
        self.proofs: dict[tuple[str, tuple[int, int]], Proof] = {}
        self._make_topics()
        self.zk = Ensemble(self.clock, self.rng, old=self.rng.random() < OLD)
        if self.zk.old:
            self.hit("an old ensemble, with watches that fire once")
        self.kafka = KafkaCluster(self.zk, self.rng)
        self.clusters = 0
        self._times: list[tuple[int, int, int]] = []
        self.edges: list[Edge] = []
        self.preferred: Server | None = None
        self._found()
        self._backup = self._take_backup()
        self.kafka_starts = KafkaStarts(self) if has_starts(seed) else None
        self.oracle = Oracle(self)
        self.published = Published()
        self.fold = fold_of(self)
        self.fold.on_batch = self.oracle.after_batch
        self.exporter = Exporter(self)
        daily = 10**12 if self.rng.random() < 0.7 else 90_000
        self.settings = watch_settings(self.rng.choice((1_000, 20_000)), daily, lingers_ms(seed))
        self.election = Election(self)
        self.is_elected = self.rng.random() < ELECTED
        if self.is_elected:
            self.hit("watchers that are elected")
        if CHUNKS[seed % len(CHUNKS)] < MAX_PARTITIONS:
            self.hit("topics wider than a view")
        self.neighbours: list[Neighbour] = []
        if has_neighbours(seed):
            self.hit("neighbours in two partitions")
            self.neighbours = [Neighbour(self, name) for name in NEIGHBOURS]
        elif stage.topics.partitions > 1:
            self.hit("a partition that no cluster uses")
        self.viewers = Viewers(self)
        self.throttling = Throttling(self) if is_throttled(seed) else None
        self.electing = Electing(self) if is_electing(seed) else None
        self.asking = Asking(self) if is_asked(seed) else None
        self.retention = Retention(self) if has_retention(seed) else None
        self.start_watcher()

    def _make_topics(self) -> None:
        """Create the topics, with another partition where there are neighbours."""
        self.log, self.views, self.events = map(Topic, NAMES)
        self.topics = {topic.name: topic for topic in (self.log, self.views, self.events)}
        self.partition = partition_of(CLUSTER, self.stage.topics.partitions)
        if self.stage.topics.partitions > 1:
            for topic in self.topics.values():
                topic.beside = Topic(topic.name)
        self.log.followers.append(self._on_log)
        self.views.followers.append(self._on_view)
        self.events.followers.append(lambda _: self.exporter.plan())
        for name, topic in self.topics.items():
            if topic.beside is not None:
                is_log = name == self.log.name
                topic.beside.followers.append(
                    self._beside_log if is_log else lambda _: self.exporter.plan()
                )

    @property
    def topics_unknown(self) -> bool:
        """Whether the pipeline's Kafka has just started and reports its topics as missing."""
        return self.kafka_starts is not None and self.kafka_starts.is_ignorant

    def hit(self, kind: str) -> None:
        """Count a fault that occurred."""
        self.hits[kind] += 1
        self.trace(f"FAULT {kind}")

    def trace(self, text: str) -> None:
        """Print what happens, if a trace is wanted."""
        if self._trace is not None:
            self._trace(f"{self.clock.now % 10**8:>9} {text}")

    # --- the cluster ------------------------------------------------------------------------

    def _found(self) -> None:
        self.clusters += 1
        self.kafka.found(f"cluster-{self.clusters}")

    def act(self) -> None:
        """Let the cluster do one act."""
        if self.electing is not None and self.electing.holds_still():
            return
        if self.asking is not None:
            self.asking.act()
        if self.throttling is not None:
            self.throttling.act()
        if self.kafka_starts is not None:
            self.kafka_starts.act()
        if self.retention is not None:
            self.retention.act()
        self.fold.act()
        self.kafka.act()
        self._times.append((self.clock.now, self.zk.era, self.zk.zxid))

    def recently(self, ms: int) -> Proof | None:
        """Return the zxids of the last while; None if the history was replaced within it."""
        index = bisect.bisect_left(self._times, (self.clock.now - ms, -1, -1)) - 1
        if index < 0 or self._times[index][1] != self.zk.era:
            return None
        return Proof(self.zk.era, self._times[index][2], self.zk.zxid)

    def _take_backup(self) -> tuple[dict[str, ZnodeData], int]:
        backup = (dict(self.zk.tree.nodes), self.zk.zxid)
        # So that no zxid of a restored history is also one of this history.
        self.zk.zxid = ((self.zk.zxid >> 32) + 2) << 32
        return backup

    def back_up(self) -> None:
        """Keep the current tree for a restore."""
        self._backup = self._take_backup()

    def restore(self, *, forward: bool) -> bool:
        """Restore the ensemble from its backup."""
        nodes, zxid = self._backup
        epoch = (self.zk.zxid if forward else zxid) >> 32
        self._replace(nodes, ((epoch + 1) << 32) + self.zk.era * 100_000)
        return True

    def build_anew(self) -> None:
        """Replace this cluster by another one."""
        self._replace({"/": ZnodeData(b"", 0, 0, 0, 0, 0, 0, 0)}, 1 << 32)
        self._found()
        self._backup = self._take_backup()

    def _replace(self, nodes: dict[str, ZnodeData], zxid: int) -> None:
        for edge in self.edges:
            if edge.alive:
                edge.cut()
        self.zk.replace_history(nodes, zxid)

    # --- the watchers -----------------------------------------------------------------------

    def start_watcher(self) -> None:
        """Start a watcher under a new name, once it leads."""
        if self.is_elected:
            SimulatedCandidacy(self, self._start)
        else:
            self._start(None)

    def _start(self, lease: SimulatedCandidacy | None) -> Edge:
        name = f"{self.rng.randrange(1 << 24):06x}"
        self.edges.append(Edge(self, name, self.settings, lease))
        return self.edges[-1]

    def some_edge(self) -> Edge | None:
        """Return a running watcher; None when there is none."""
        running = [e for e in self.edges if e.alive and not e.paused and not e.hangs]
        return self.rng.choice(running) if running else None

    def supervise(self) -> None:
        """Start a watcher if none runs, as a supervisor would."""
        standing = any(each.edge is None for each in self.election.standing)
        if not standing and not any(edge.alive for edge in self.edges):
            self.start_watcher()

    def server_for(self, edge: Edge) -> Server | None:
        """Return the server that a watcher can reach now."""
        del edge
        if self.clock.now < self.unreachable_until:
            return None
        if self.preferred is not None and self.preferred.up and self.rng.random() < 0.8:
            return self.preferred
        up = [server for server in self.zk.servers if server.up]
        return self.rng.choice(up) if up else None

    def drop_clients_of(self, server: Server) -> None:
        """Close a server's connections."""
        for edge in self.edges:
            if edge.alive and edge.connection is not None and edge.connection.server is server:
                edge.cut()

    # --- the topics -------------------------------------------------------------------------

    def at(self, place: Place) -> Topic:
        """Return a partition of a topic."""
        name, partition = place
        own = self.topics[name]
        if partition == self.partition:
            return own
        assert own.beside is not None, place
        return own.beside

    def _beside_log(self, record: Stored) -> None:
        if self._trace is not None:
            self._trace_message(record)
        self.fold.plan()

    def append_change(self, message: bytes) -> None:
        """Append a message to the log, or what the faults make of it."""
        now = self.clock.now
        inside = self.to_lose_inside and b'"kind":"set"' in message and b"resync_" not in message
        if self.to_lose or inside:
            self.to_lose -= bool(self.to_lose)
            self.to_lose_inside = 0
            self.hit("a message was lost")
            self.log.end += 1
            return
        if self.to_damage:
            self.to_damage -= 1
            self.hit("a message was damaged")
            message = message[: len(message) // 2]
        self.log.append(now, b"prod", message)
        if self.duplicates:
            self.duplicates -= 1
            self.hit("a message was repeated")
            wait = self.rng.choice((0, 0, 20, 500))
            self.clock.after(wait, lambda: self.log.append(self.clock.now, b"prod", message))

    def _on_log(self, record: Stored) -> None:
        if self._trace is not None:
            self._trace_message(record)
        self.fold.plan()
        for edge in self.edges:
            edge.plan_reading_back()

    def _trace_message(self, record: Stored) -> None:
        self.trace(f"LOG {record.offset} {(record.value or b'').decode(errors='replace')}")

    def _on_view(self, _record: Stored) -> None:
        self.exporter.plan()
        for edge in self.edges:
            edge.plan_reading_back()

    def cut_views(self, end: int) -> None:
        """Make the views lose their records from an offset on: a power failure of the only broker."""
        self.views.cut(end)
        self.exporter.plan()
        for edge in self.edges:
            edge.plan_reading_back()

    def pass_at_rest(self, ms: int) -> None:
        """Let time pass in which nothing happens but the signs of life of other clusters."""
        self.clock.run_for(ms)
        self.supervise()
        for neighbour in self.neighbours:
            neighbour.answer()

    # --- the end of all faults --------------------------------------------------------------

    def heal(self) -> None:
        """End every fault."""
        self.preferred = None
        self.unreachable_until = 0
        self.minority_until = min(self.minority_until, self.clock.now)
        self.kafka_away_until = self.log_away_until = 0
        self.duplicates = self.to_lose = self.to_lose_inside = self.to_damage = 0
        self.zk.clock_ahead_ms = 0
        self.fold.heal()
        self.exporter.cut_off_until = 0
        self.exporter.clock_ahead_ms = 0
        self.exporter.plan()
        self.zk.end_refusals()
        if self.retention is not None:
            self.retention.rest()
        if self.throttling is not None:
            self.throttling.rest()
        if self.kafka_starts is not None:
            self.kafka_starts.rest()
        if self.electing is not None:
            self.electing.rest()
        self.kafka.repair()
        for server in self.zk.servers:
            server.up = True
            server.frozen = server.cut_off = False
            server.catch_up()
        for edge in self.edges:
            edge.inbox._most_events = 200_000
            edge.clock_ahead_ms = 0
            if edge.connection is not None:
                edge.connection.silent_until = 0
            if edge.alive and edge.paused:
                edge.go_on()
            edge.turn_again()
            edge.send_what_waits()
        self.viewers.rest()
        # Last: what a repair truncates is lost to them as well.
        for neighbour in self.neighbours:
            neighbour.rest()

    def end(self) -> None:
        """End what would continue by itself without the played clock."""
        if self.electing is not None:
            self.electing.end()
        for browser in self.viewers.browsers:
            browser.close()  # what still arrives is not judged
        self.exporter.server.end()
