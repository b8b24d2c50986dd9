"""The fold's process: the real processor, with Spark's batches, state and checkpoints played.

The rule: a batch reads what stands at its offsets now and works on a copy of the state. Only a
commit keeps the copy; a crash may leave any beginning of its output in the topics, and the same
batch runs again. A checkpoint is state and offset together.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from pyspark.sql.streaming.stateful_processor import StatefulProcessorHandle, TimerValues

from controller_model.kafka.ids import AsOf
from controller_model.state.control_plane import Assumed, ControlPlane
from controller_model.state.packing import unpack_control, unpack_topic
from controller_model.state.topic_state import TopicState
from streaming import processor as processor_module
from streaming.processor import FoldParameters, FoldProcessor
from tests.simulation.published import Views
from tests.simulation.stage import CLUSTER, NAMES

if TYPE_CHECKING:
    from tests.simulation.world import World

_MOST_KEPT = 60
"""Older checkpoints that a restart may find."""

_MOST_STATES = 300
"""States that what is shown is held against."""


class InputRow(NamedTuple):
    """A record of the log as the processor gets it."""

    cluster: str
    partition: int
    offset: int
    timestamp_ms: int
    value: bytes | None


class Value:
    """A ValueState on a slot."""

    def __init__(self, slots: dict[str, Any], name: str) -> None:
        self._slots = slots
        self._name = name

    def get(self) -> Any:
        """Return the value; None when there is none."""
        return self._slots.get(self._name)

    def update(self, value: Any) -> None:
        """Replace the value."""
        self._slots[self._name] = value


class Map:
    """A MapState on a dict."""

    def __init__(self, entries: dict[Any, Any]) -> None:
        self._entries = entries

    def getValue(self, key: Any) -> Any:  # noqa: N802  # Spark's name
        """Return an entry; None when there is none."""
        return self._entries.get(key)

    def updateValue(self, key: Any, value: Any) -> None:  # noqa: N802  # Spark's name
        """Replace an entry."""
        self._entries[key] = value

    def removeKey(self, key: Any) -> None:  # noqa: N802  # Spark's name
        """Remove an entry."""
        self._entries.pop(key, None)

    def keys(self) -> Iterator[Any]:
        """Return the keys."""
        return iter(list(self._entries))


class State(NamedTuple):
    """What a checkpoint holds: the state, the next offset, and the way here."""

    slots: dict[str, Any]
    topics: dict[Any, Any]
    offset: int
    path: Path | None = None
    note: Any = None
    """What the oracle remembers of the way here."""
    views: Views = MappingProxyType({})
    """What was published on the way here."""

    def handle(self) -> Handle:
        """Return a copy to work on."""
        return Handle(dict(self.slots), dict(self.topics))

    def control(self) -> ControlPlane | None:
        """Return the control plane; None before the first batch."""
        row = self.slots.get("control")
        return None if row is None else unpack_control(bytes(row[0]))

    def all_topics(self) -> dict[str, TopicState]:
        """Return the topics."""
        return {key[0]: unpack_topic(bytes(row[0])) for key, row in self.topics.items()}


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
    """What the processor's state calls go to."""

    slots: dict[str, Any]
    topics: dict[Any, Any]

    def getValueState(self, name: str, _schema: Any) -> Value:  # noqa: N802  # Spark's name
        """Return a value."""
        return Value(self.slots, name)

    def getMapState(self, _name: str, _key: Any, _value: Any) -> Map:  # noqa: N802  # Spark's name
        """Return a map."""
        return Map(self.topics)


class Fold:
    """One process of `kcm stream`."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.lineages = 0
        self.stalled_until = 0
        self.clock_ahead_ms = 0
        self.crash_next = False
        self._planned = False
        self._retry: tuple[int, int] | None = None
        self.on_batch: Callable[[State, State, list[InputRow]], Any] = lambda *_: None
        self.begin_lineage()

    def begin_lineage(self) -> None:
        """Start again, from the earliest record."""
        self.lineages += 1
        world = self.world
        self.lineage = f"{world.clock.now + self.lineages:013d}-{world.seed:06x}"
        self.committed = State({}, {}, world.log.start)
        self.kept: list[State] = []
        self.states: dict[AsOf, State] = {}
        self.outputs: list[list[Any]] = []
        self._retry = None
        self.plan()

    def go_back(self, state: State) -> None:
        """Start again from an older checkpoint."""
        self.committed = state
        self.kept = []
        self._retry = None
        processor_module._sent.clear()
        self.plan()

    def plan(self) -> None:
        """Plan the next batch."""
        if not self._planned:
            self._planned = True
            wait = max(self.stalled_until - self.world.clock.now, 0)
            self.world.clock.after(wait + self.world.rng.choice((2, 10, 30, 150)), self._run)

    @property
    def idle(self) -> bool:
        """Everything in the log is folded."""
        return self.committed.offset >= self.world.log.end and not self.crash_next

    def _run(self) -> None:
        self._planned = False
        world = self.world
        if self.stalled_until > world.clock.now:
            self.plan()
            return
        first = max(self.committed.offset, world.log.start)
        end = world.log.end
        if self._retry is not None:
            first, end = self._retry
        elif first >= end:
            return
        else:
            end = min(end, first + world.rng.choice((1, 3, 10, 1000)))
        self._batch(first, end)
        if self.committed.offset < world.log.end:
            self.plan()

    def _batch(self, first: int, end: int) -> None:
        world = self.world
        stored = itertools.takewhile(lambda record: record.offset < end, world.log.read(first))
        rows = [InputRow(CLUSTER, 0, r.offset, r.timestamp, r.value) for r in stored]
        handle = self.committed.handle()
        parameters = FoldParameters(self.lineage, NAMES.views, NAMES.events, 1, Assumed())
        processor = FoldProcessor(parameters, clock=lambda: world.clock.now + self.clock_ahead_ms)
        processor.init(cast("StatefulProcessorHandle", handle))
        shuffled = world.rng.sample(rows, len(rows))
        no_timers = cast("TimerValues", None)
        out = list(processor.handleInputRows((CLUSTER,), iter(shuffled), no_timers)) if rows else []
        reported = [row for row in out if row.topic is not None]
        world.oracle.on_output(
            self.committed, [row.value for row in reported if row.topic == NAMES.events]
        )
        views = [(row.key, row.value) for row in reported if row.topic == NAMES.views]
        published = world.published.after(self.committed.views, views)
        if self.crash_next:
            self.crash_next = False
            self._retry = (first, end)
            self._write(reported[: world.rng.randint(0, len(reported))])
            world.hit("fold crashed in a batch")
            self.plan()
            return
        self._retry = None
        self._write(reported)
        self.outputs = [*self.outputs[-_MOST_KEPT:], reported]
        before = self.committed
        after = State(handle.slots, handle.topics, end, Path(rows, before.path), views=published)
        self.committed = after._replace(note=self.on_batch(before, after, rows))
        self._keep(self.committed)
        self.kept = [*self.kept[-_MOST_KEPT:], before]

    def _keep(self, state: State) -> None:
        """Keep a state by the place that its views name."""
        control = state.control()
        if control is not None:
            if len(self.states) > _MOST_STATES:
                del self.states[next(iter(self.states))]
            self.states[AsOf(self.lineage, *control.log.position)] = state

    def repeat_output(self) -> bool:
        """Let a task that Spark has given up write what it had, long after; False: there is none."""
        rng = self.world.rng
        # A delete that comes late is the worst of them.
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
            self.world.topics[row.topic].append(self.world.clock.now, row.key.encode(), value)
