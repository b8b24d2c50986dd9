"""One cluster's batch: decode, replay, project.

The rule: a batch is a function of the state before it and of its rows, so Spark may run it again.
Rows are taken in the order of their offsets whatever order they come in. What the log holds never
raises: garbage is counted, and an error of ours costs the one change that met it, and is reported.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from pyspark.errors import PySparkException
from pyspark.sql.streaming.stateful_processor import (
    StatefulProcessor,
    StatefulProcessorHandle,
    TimerValues,
)
from pyspark.sql.types import Row

from controller_model.fold.event_batch import EventBatch
from controller_model.fold.log_clock import is_time
from controller_model.fold.projection import Sent, project
from controller_model.kafka.errors import ModelError, UnreadableRecordError
from controller_model.kafka.ids import AsOf, check_cluster_name, partition_of
from controller_model.records.changes import MAX_CHANGE_BYTES, ZnodeChange, decode_message
from controller_model.records.event_records import coalesce, encode_event, number
from controller_model.records.events import AnyEvent
from controller_model.state.cluster import ClusterState
from controller_model.state.control_plane import Assumed, ControlPlane
from controller_model.state.packing import UnreadableStateError
from pipeline.clock import clock_ms
from streaming.cycles import look_for_cycles_rarely
from streaming.schemas import CONTROL, OUTPUT, TOPIC, TOPIC_KEY
from streaming.state_codec import StateTopics, StoredCluster, read_control, write_control

_Output = Row(*OUTPUT.names)


_FATAL = (UnreadableStateError, PySparkException, OSError, EOFError, MemoryError)
"""Errors that no change is to blame for: Spark runs the batch again, or a new lineage begins."""


class Unreadable(NamedTuple):
    """Records at one place of the log that cannot be read, or are not this cluster's."""

    records: int
    at: int
    """When the log took them, by the broker's clock."""
    reason: str


@dataclass
class BatchCounts:
    """What a batch did, for our own metrics."""

    changes: int = 0
    unreadable: int = 0
    unattributed: int = 0
    errors: int = 0
    newest_ms: int | None = None

    def row(self) -> Row:
        """Return the row that never reaches the sink."""
        figures = (self.changes, self.unreadable, self.unattributed, self.errors)
        return _Output(None, None, None, None, *figures, self.newest_ms)


_sent: dict[tuple[str, str], tuple[int, Sent]] = {}
"""What a worker process knows of the views that it has sent, by lineage and cluster, and after how
many folds. Spark makes a new processor for each batch but keeps the worker process; a batch that
another worker ran, or that was not committed, shows in the folds."""


@dataclass(frozen=True)
class FoldParameters:
    """What a processor must know besides its rows."""

    lineage: str
    views_topic: str
    events_topic: str
    partitions: int
    assumed: Assumed
    """What ZooKeeper does not hold, of clusters that `assumed_by_cluster` does not name."""
    assumed_by_cluster: Mapping[str, Assumed] = field(default_factory=dict)


class FoldProcessor(StatefulProcessor):
    """Folds the log of one cluster per key."""

    def __init__(self, parameters: FoldParameters, clock: Callable[[], int] = clock_ms) -> None:
        self._parameters = parameters
        self._clock = clock

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Declare the state: a value for the control plane, a map of topics."""
        look_for_cycles_rarely()
        self._control = handle.getValueState("control", CONTROL)
        self._topics = handle.getMapState("topics", TOPIC_KEY, TOPIC)

    def handleInputRows(  # noqa: N802  # Spark's name
        self,
        key: Any,
        rows: Iterator[Any],
        timerValues: TimerValues,  # noqa: ARG002, N803  # Spark's name; the log is our clock
    ) -> Iterator[Row]:
        """Fold a cluster's rows; yield its events, its views, and what was counted."""
        cluster = key[0]
        ordered = sorted(rows, key=lambda row: (row.partition, row.offset))
        counts = BatchCounts(newest_ms=max((row.timestamp_ms for row in ordered), default=None))
        is_name = _is_name(cluster)
        items = list(_read(cluster, ordered, self._parameters.partitions)) if is_name else []
        held = self._held(cluster, items)
        if held is None:
            counts.unattributed = len(ordered)
        else:
            yield from self._fold(cluster, held, items, counts)
        yield counts.row()

    def _held(
        self, cluster: str, items: Iterable[ZnodeChange | Unreadable]
    ) -> StoredCluster | None:
        """Return what is held of a cluster, or a new one: None if nothing can be read of that."""
        parameters = self._parameters
        assumed = parameters.assumed_by_cluster.get(cluster, parameters.assumed)
        held = read_control(self._control, parameters.lineage)
        if held is not None:
            held.control.assumed = assumed
            return held
        times = [item.observed_at for item in items if isinstance(item, ZnodeChange)]
        if not times:
            return None
        since = next((at for at in times if is_time(at)), 0)
        new = ControlPlane(cluster, assumed=assumed, counters_since=since)
        new.published.topics = 0  # nothing is published yet
        return StoredCluster(new)

    def _fold(
        self,
        cluster: str,
        held: StoredCluster,
        items: Iterable[ZnodeChange | Unreadable],
        counts: BatchCounts,
    ) -> Iterator[Row]:
        parameters = self._parameters
        topics = StateTopics(self._topics)
        state = ClusterState(held.control, topics)
        partition = partition_of(cluster, parameters.partitions)
        happened = _replay_all(state, items, counts)
        records = number(cluster, parameters.lineage, coalesce(happened), after=held.last_event)
        # Unknown until the batch is through; without knowledge everything is sent again.
        folds, sent = _sent.pop((parameters.lineage, cluster), (held.folds, {}))
        sent = sent if folds == held.folds else {}
        position = state.control.log.position
        as_of = AsOf(parameters.lineage, position.generation, position.seq)
        changed = project(state, as_of=as_of, folded_at=self._clock(), sent=sent)
        published = ((parameters.events_topic, cluster, encode_event(record)) for record in records)
        shown = ((parameters.views_topic, view.key, view.value) for view in changed)
        for topic, key, value in itertools.chain(published, shown):
            if value is not None and len(value) > MAX_CHANGE_BYTES:
                # The sink would refuse it, and the query would end with it at each start.
                counts.errors += 1
                continue
            yield _Output(topic, partition, key, value, 0, 0, 0, 0, None)
        topics.flush()
        last = records[-1].id if records else held.last_event
        write_control(self._control, StoredCluster(state.control, held.folds + 1, last))
        _sent[parameters.lineage, cluster] = (held.folds + 1, sent)


def _is_name(cluster: str) -> bool:
    try:
        check_cluster_name(cluster)
    except ModelError:
        return False
    return True


def _read(cluster: str, rows: Iterable[Any], partitions: int) -> Iterator[ZnodeChange | Unreadable]:
    """Yield what the rows hold, in order."""
    own = partition_of(cluster, partitions)
    for row in rows:
        if row.partition != own:
            yield Unreadable(
                1, row.timestamp_ms, f"a message in partition {row.partition}, not {own}"
            )
            continue
        try:
            batch = decode_message(bytes(row.value or b""))
        except UnreadableRecordError as error:
            yield Unreadable(1, row.timestamp_ms, str(error))
            continue
        if batch.unreadable:
            reason = "damaged records, or of another version"
            yield Unreadable(batch.unreadable, row.timestamp_ms, reason)
        foreign = sum(change.cluster != cluster for change in batch.changes)
        if foreign:
            yield Unreadable(foreign, row.timestamp_ms, "records that name another cluster")
        yield from (change for change in batch.changes if change.cluster == cluster)


def _replay_all(
    state: ClusterState, items: Iterable[ZnodeChange | Unreadable], counts: BatchCounts
) -> list[AnyEvent]:
    batch = EventBatch(state, fatal=_FATAL)
    for item in items:
        if isinstance(item, Unreadable):
            counts.unreadable += item.records
            batch.count_unreadable(item.records, at=item.at, reason=item.reason)
        else:
            counts.changes += 1
            batch.apply(item)
    counts.errors += batch.errors
    return batch.finish()
