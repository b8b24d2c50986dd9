"""The fold's process: the real processor, with simulated batches, state and checkpoints of Spark.

The rule: a batch reads the records at its offsets now and works on a copy of the state. Only a
commit keeps the copy. A crash may leave any first part of its output in the topics, and the same
batch runs again. A checkpoint is state and offset together.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from pyspark.sql.streaming.stateful_processor import StatefulProcessorHandle, TimerValues

from bench.map_state import DictMapState
from controller_model.kafka.ids import AsOf
from controller_model.records.changes import digest_text
from controller_model.sources.zookeeper.source import ZOOKEEPER
from controller_model.state.control_plane import Assumed, ControlPlane
from controller_model.state.packing import unpack_control
from controller_model.state.topic_state import TopicState
from streaming import processor as processor_module
from streaming.processor import FoldParameters, FoldProcessor
from streaming.state_codec import StateTopics, read_control
from streaming.state_map import StateMap, StatePart
from streaming.topic_journal import JournalLimits, JournalPlace, PackedTopics
from tests.simulation.published import Views
from tests.simulation.stage import CLUSTER, NAMES

if TYPE_CHECKING:
    from tests.simulation.world import World

_MAX_KEPT = 60
"""Older checkpoints that a restart may use."""

_MAX_STATES = 300
"""The number of states that are kept for comparison with what is shown."""

Shown = tuple[AsOf, str]
"""What a cluster's view names of its state: the position, and the digest over what it holds.

A fold that restarted from an older checkpoint, in a log that has lost records since, reaches the same
position with other values.
"""


class InputRow(NamedTuple):
    """A record of the log as the processor gets it."""

    cluster: str
    partition: int
    offset: int
    timestamp_ms: int
    value: bytes | None


class State(NamedTuple):
    """The content of a checkpoint: the state, the next offset, and how it was reached."""

    stored: Handle
    offset: int
    path: Path | None = None
    note: Any = None
    """What the oracle recorded on the way here."""
    views: Views = MappingProxyType({})
    """What was published on the way here."""
    beside: int = 0
    """The next offset of the other partition."""
    others: Mapping[str, Handle] = MappingProxyType({})
    """The states of the neighbours, by cluster name."""

    def control(self) -> ControlPlane | None:
        """Return the control plane; None before the first batch."""
        state = self.stored.state()
        row = read_control(state)
        if row is None:
            return None
        control = unpack_control(row.packed, state.items(StatePart.MEMBERS).values())
        ZOOKEEPER.adopt(control)
        return control

    def all_topics(self) -> dict[str, TopicState]:
        """Return the topics as a new worker reads them."""
        return self.stored.copy().all_topics()


class Path(NamedTuple):
    """The batches that led to a state, newest first."""

    rows: list[InputRow]
    before: Path | None

    def batches(self) -> list[list[InputRow]]:
        """Return the batches in order."""
        found = []
        step: Path | None = self
        while step is not None:
            found.append(step.rows)
            step = step.before
        return found[::-1]


class Handle(NamedTuple):
    """Receives the processor's state calls."""

    rows: dict[Any, Any]

    @classmethod
    def new(cls) -> Handle:
        """Return an empty one."""
        return cls({})

    def copy(self) -> Handle:
        """Return a copy to work on."""
        return Handle(dict(self.rows))

    def state(self) -> StateMap:
        """Return the state as a new worker reads it."""
        return StateMap(DictMapState(self.rows))

    def packed_topics(self) -> PackedTopics:
        """Return the packed topics as a new worker reads them."""
        state = self.state()
        row = read_control(state)
        return PackedTopics(state, JournalPlace() if row is None else row.place)

    def all_topics(self) -> dict[str, TopicState]:
        """Return the topics as a new worker reads them."""
        topics = StateTopics(self.packed_topics())
        found = {name: topics.peek(name) for name in topics.names()}
        return {name: topic for name, topic in found.items() if topic is not None}

    def getMapState(self, _name: str, _key: Any, _value: Any) -> DictMapState:  # noqa: N802  # Spark's name
        """Return the only state that there is."""
        return DictMapState(self.rows)


def _limits(seed: int) -> JournalLimits:
    """Return journal limits with which every batch, some batches or hardly any write the base."""
    draws = random.Random(seed)  # noqa: S311  # a play, not a secret
    return JournalLimits(
        chunk_bytes=draws.choice((100, 500, 8_000)),
        least_bytes=draws.choice((0, 200, 2_000, 20_000)),
        most_bytes=draws.choice((0, 1_000, 100_000)),
        overdue=draws.choice((1, 2, 5)),
        quiet_topics=draws.choice((0, 1, 5)),
        chunks_at_once=draws.choice((1, 2, 10)),
        overdue_batches=draws.choice((1, 2, 8)),
        piece_partitions=draws.choice((1, 2, 250)),
    )


class Fold:
    """One process of `kcm stream`."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.lineages = 0
        self.stalled_until = 0
        self.clock_ahead_ms = 0
        self.crash_next = False
        self.states: dict[Shown, State] = {}
        """The newest states of all lineages, by what their views name."""
        self._planned = False
        self._retry: tuple[range, range] | None = None
        self.on_batch: Callable[[State, State, list[InputRow]], Any] = lambda *_: None
        self.limits = _limits(world.seed)
        self.lineage = ""
        self.committed = self._nothing_folded()
        self.kept: list[State] = []
        self.outputs: list[list[Any]] = []
        self._start()

    def _start(self) -> None:
        """Start to fold."""
        self.begin_lineage()

    def begin_lineage(self) -> None:
        """Start again from the earliest record, in a new lineage."""
        self.lineages += 1
        self.lineage = f"{self.world.clock.now + self.lineages:013d}-{self.world.seed:06x}"
        self.committed = self._nothing_folded()
        self.kept = []
        self.outputs = []
        self._retry = None
        self.plan()

    def lose_checkpoint(self) -> None:
        """Lose the checkpoint on disk."""
        self.begin_lineage()

    def _nothing_folded(self) -> State:
        """Return the state before the earliest record."""
        log = self.world.log
        return State(Handle.new(), log.start, beside=log.beside.start if log.beside else 0)

    def go_back(self, state: State) -> None:
        """Start again from an older checkpoint."""
        self.committed = state
        self.kept = []
        self._retry = None
        processor_module._remembered.clear()
        self.plan()

    def act(self) -> None:
        """Cause a fault around it, or none."""

    def heal(self) -> None:
        """End every fault of its machine."""
        self.stalled_until = 0
        self.clock_ahead_ms = 0
        self.plan()

    def check(self) -> None:
        """Raise BrokenError unless it is as it must be once all is quiet."""

    def plan(self) -> None:
        """Plan the next batch."""
        if not self._planned:
            self._planned = True
            wait = max(self.stalled_until - self.world.clock.now, 0)
            self.world.clock.after(wait + self.world.rng.choice((2, 10, 30, 150)), self._run)

    @property
    def idle(self) -> bool:
        """Whether everything in the log is folded."""
        return not self._is_behind and not self.crash_next

    @property
    def _is_behind(self) -> bool:
        log, held = self.world.log, self.committed
        return held.offset < log.end or (log.beside is not None and held.beside < log.beside.end)

    def _run(self) -> None:
        self._planned = False
        world = self.world
        if self.stalled_until > world.clock.now:
            self.plan()
            return
        if self._retry is not None:
            self._batch(*self._retry)
        elif self._is_behind:
            log, held = world.log, self.committed
            first = max(held.offset, log.start)
            end = min(log.end, first + world.rng.choice((1, 3, 10, 1000)))
            beside = range(0)
            if log.beside is not None:
                beside = range(max(held.beside, log.beside.start), log.beside.end)
            self._batch(range(first, max(first, end)), beside)
        else:
            return
        if self._is_behind:
            self.plan()

    def _batch(self, own: range, beside: range) -> None:
        """Fold the records at these offsets of both partitions, as one batch."""
        world, held = self.world, self.committed
        rows = self._rows(own, beside)
        mine = [row for row in rows if row.cluster == CLUSTER]
        handle = held.stored.copy()
        others = {name: each.copy() for name, each in held.others.items()}
        out = self._fold(CLUSTER, mine, handle)
        for cluster in sorted({row.cluster for row in rows} - {CLUSTER}):
            theirs = [row for row in rows if row.cluster == cluster]
            out += self._fold(cluster, theirs, others.setdefault(cluster, Handle.new()))
        reported = [row for row in out if row.topic is not None]
        events = [row for row in reported if row.topic == NAMES.events and row.key == CLUSTER]
        world.oracle.on_output(held, [row.value for row in events])
        own_views = [row for row in reported if row.topic == NAMES.views]
        own_views = [row for row in own_views if row.key.startswith(f"{CLUSTER}/")]
        published = world.published.after(held.views, [(row.key, row.value) for row in own_views])
        if self.crash_next:
            self.crash_next = False
            self._retry = own, beside
            self._write(reported[: world.rng.randint(0, len(reported))])
            world.hit("fold crashed in a batch")
            self.plan()
            return
        self._retry = None
        self._write(reported)
        self.outputs = [*self.outputs[-_MAX_KEPT:], reported]
        after = State(
            handle,
            own.stop,
            Path(mine, held.path),
            views=published,
            beside=max(beside.stop, held.beside),
            others=others,
        )
        self.committed = after._replace(note=self.on_batch(held, after, mine))
        self._store_state(self.committed)
        self.kept = [*self.kept[-_MAX_KEPT:], held]

    def _rows(self, own: range, beside: range) -> list[InputRow]:
        """Return the records at these offsets, as rows."""
        log, found = self.world.log, []
        for topic, partition, offsets in (
            (log, self.world.partition, own),
            (log.beside, 1 - self.world.partition, beside),
        ):
            stored = () if topic is None else topic.read(offsets.start)
            for each in itertools.takewhile(lambda r: r.offset < offsets.stop, stored):  # noqa: B023  # taken at once
                cluster = each.key.decode()
                found.append(InputRow(cluster, partition, each.offset, each.timestamp, each.value))
        return found

    def _fold(self, cluster: str, rows: list[InputRow], handle: Handle) -> list[Any]:
        """Run the processor of one cluster on its rows; return its output."""
        world = self.world
        parameters = FoldParameters(
            self.lineage,
            NAMES.views,
            NAMES.events,
            world.stage.topics.partitions,
            Assumed(),
            journal=self.limits,
        )
        processor = FoldProcessor(parameters, clock=lambda: world.clock.now + self.clock_ahead_ms)
        processor.init(cast("StatefulProcessorHandle", handle))
        shuffled = world.rng.sample(rows, len(rows))
        no_timers = cast("TimerValues", None)
        return (
            list(processor.handleInputRows((cluster,), iter(shuffled), no_timers)) if rows else []
        )

    def _store_state(self, state: State) -> None:
        """Store a state under what its views name."""
        control = state.control()
        if control is not None:
            if len(self.states) > _MAX_STATES:
                del self.states[next(iter(self.states))]
            log = control.log
            self.states[AsOf(self.lineage, *log.position), digest_text(control.source.digest)] = (
                state
            )

    def repeat_output(self) -> bool:
        """Make a task that Spark has given up write its output late; False: there is none."""
        rng = self.world.rng
        # A late delete does the most harm.
        deletes = [
            out for out in self.outputs if any(b'"deleted"' in (r.value or b"") for r in out)
        ]
        found = deletes if deletes and rng.random() < 0.7 else self.outputs
        if found:
            self._write(rng.choice(found))
        return bool(found)

    def _write(self, rows: list[Any]) -> None:
        for row in rows:
            value = None if row.value is None else bytes(row.value)
            place = (row.topic, row.partition)
            self.world.at(place).append(self.world.clock.now, row.key.encode(), value)
