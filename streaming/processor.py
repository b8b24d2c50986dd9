"""Folds one cluster's batch: decodes, replays and projects it.

The rule: a batch is a function of the state before it and of its rows, so Spark may run it again.
Rows are processed in the order of their offsets, whatever order they arrive in. Nothing in the log
raises an exception: unreadable records are counted, and an unexpected exception costs only the
change that caused it, and is reported. A null in the log forgets its cluster (`kcm forget`): all
its state is dropped, and nulls delete its views. The null stays in the log, so that a new lineage
forgets the cluster again. What follows the null begins a new cluster.
"""

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import astuple, dataclass, field
from typing import Any, NamedTuple

from pyspark import TaskContext
from pyspark.errors import PySparkException
from pyspark.sql.streaming.stateful_processor import (
    StatefulProcessor,
    StatefulProcessorHandle,
    TimerValues,
)
from pyspark.sql.types import Row

from controller_model.fold.batch_output import finish_batch
from controller_model.fold.projection import SentViews, published_keys
from controller_model.fold.replay import EventBatch
from controller_model.kafka.errors import ModelError, UnreadableRecordError
from controller_model.kafka.ids import check_cluster_name, partition_of
from controller_model.records.changes import MAX_CHANGE_BYTES, AnyRecord, decode_message
from controller_model.records.election_requests import ElectionRequest
from controller_model.records.event_records import encode_event
from controller_model.records.views import cluster_key
from controller_model.sources.source_of import is_of, source_of
from controller_model.state.cluster import ClusterState
from controller_model.state.control_plane import Assumed, ControlPlane
from controller_model.state.log_state import is_time
from controller_model.state.packing import UnreadableStateError
from pipeline.clock import clock_ms
from streaming.fixed_costs import freeze_long_lived, relax_gc
from streaming.schemas import OUTPUT, STATE_KEY, STATE_VALUE
from streaming.state_codec import (
    ControlRow,
    StateTopics,
    StoredCluster,
    read_control,
    write_control,
)
from streaming.state_map import StateMap, StatePart
from streaming.topic_journal import JournalLimits, PackedTopics, RememberedTopics

_Output = Row(*OUTPUT.names)
_NO_COUNTS = (0, 0, 0, 0, None)
"""What a record for the sink holds in the columns of the counts."""

_FATAL = (UnreadableStateError, PySparkException, OSError, EOFError, MemoryError)
"""Errors that no change causes: Spark runs the batch again, or a new lineage begins."""


_OF_ANOTHER_KIND = (
    "a ZooKeeper cluster and a KRaft cluster share this name: give each a name of its own"
)


class Unreadable(NamedTuple):
    """Records at one offset of the log that cannot be read, or that do not belong to this cluster."""

    records: int
    at: int
    """When the log received them, by the broker's clock."""
    reason: str


LogItem = AnyRecord | ElectionRequest | Unreadable
"""What one offset of the log holds."""


def import_fold(_: int) -> None:
    """Do nothing: a worker that runs this has imported all that the fold needs."""


@dataclass
class BatchCounts:
    """What a batch did, for the fold's own metrics, in the order of the row's columns."""

    changes: int = 0
    unreadable: int = 0
    unattributed: int = 0
    errors: int = 0
    newest_ms: int | None = None


@dataclass
class Remembered:
    """What a worker process keeps about a cluster between batches."""

    held: StoredCluster
    row: ControlRow | None = None
    """The state that this was made from. A batch that another worker ran, or that was not committed, leaves another one."""
    members: dict[int, bytes] = field(default_factory=dict)
    """The memberships of each group of brokers, as they are stored."""
    sent: SentViews = field(default_factory=SentViews)
    topics: RememberedTopics = field(default_factory=RememberedTopics)


_remembered: dict[tuple[str, str], Remembered] = {}
"""By lineage and cluster, the most recently used last. Spark makes a new processor for each batch
but keeps the worker process, so only a new worker unpacks the control plane, reads the topics, and
sends all views again."""

_MAX_REMEMBERED_BYTES = 64 << 20
"""Bytes of packed topics that one worker keeps; it drops those of the cluster used longest ago first."""


@dataclass(frozen=True)
class FoldParameters:
    """What a processor must know in addition to its rows."""

    lineage: str
    views_topic: str
    events_topic: str
    partitions: int
    assumed: Assumed
    """What ZooKeeper does not hold, for clusters that `assumed_by_cluster` does not name."""
    assumed_by_cluster: Mapping[str, Assumed] = field(default_factory=dict)
    journal: JournalLimits = field(default_factory=JournalLimits)


class FoldProcessor(StatefulProcessor):
    """Folds the log of one cluster for each key."""

    def __init__(self, parameters: FoldParameters, clock: Callable[[], int] = clock_ms) -> None:
        self._parameters = parameters
        self._clock = clock

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Declare the state."""
        relax_gc()
        if TaskContext.get() is not None:  # a worker of Spark: no other code shares the process
            freeze_long_lived()
        self._rows = handle.getMapState("cluster", STATE_KEY, STATE_VALUE)

    def handleInputRows(  # noqa: N802  # Spark's name
        self,
        key: Any,
        rows: Iterator[Any],
        timerValues: TimerValues,  # noqa: ARG002, N803  # Spark's name; the log provides the time
    ) -> Iterator[Row]:
        """Fold a cluster's rows; yield its events, its views, and the counts."""
        cluster = key[0]
        self._state = StateMap(self._rows)
        self._partition = partition_of(cluster, self._parameters.partitions)
        ordered = sorted(rows, key=lambda row: (row.partition, row.offset))
        counts = BatchCounts(newest_ms=max(row.timestamp_ms for row in ordered))
        try:
            check_cluster_name(cluster)
        except ModelError:
            counts.unattributed = len(ordered)
            ordered = []
        for part, is_forgotten in _up_to_each_null(ordered, self._partition):
            items = list(_read(cluster, part, self._partition))
            known = self._known(cluster, items) if part else None
            if known is None:
                # Neither these rows nor the state know the cluster.
                counts.unattributed += len(part)
            else:
                yield from self._fold(cluster, known, items, counts)
            if is_forgotten:
                yield from self._forget(cluster)
        # The counts have a row of their own, which never reaches the sink.
        yield _Output(None, None, None, None, *astuple(counts))

    def _forget(self, cluster: str) -> Iterator[Row]:
        """Drop all state of a cluster; yield the nulls that delete its views."""
        known = self._known(cluster, ())
        keys = [cluster_key(cluster)]
        if known is not None:
            topics = StateTopics(PackedTopics(self._state, known.held.place))
            control = known.held.control
            keys = list(published_keys(ClusterState(control, topics, source_of(control))))
        for key in keys:
            yield _Output(self._parameters.views_topic, self._partition, key, None, *_NO_COUNTS)
        self._state.clear()

    def _known(self, cluster: str, items: Iterable[LogItem]) -> Remembered | None:
        """Return what is known of a cluster, new or not; None if there is no state and no readable change."""
        parameters = self._parameters
        assumed = parameters.assumed_by_cluster.get(cluster, parameters.assumed)
        # What is remembered must not be used again until the batch is done.
        known = _remembered.pop((parameters.lineage, cluster), None)
        row = read_control(self._state)
        if row is not None:
            if known is None or known.row != row:
                members = self._state.items(StatePart.MEMBERS)
                unpacked = row.unpack(members.values(), parameters.lineage)
                known = Remembered(unpacked, members=members)
            known.held.control.assumed = assumed
            return known
        times = [record.observed_at for record in _of_sources(items)]
        if not times:
            return None
        since = next((at for at in times if is_time(at)), 0)
        return Remembered(
            StoredCluster(ControlPlane(cluster, assumed=assumed, counters_since=since))
        )

    def _fold(
        self, cluster: str, known: Remembered, items: Sequence[LogItem], counts: BatchCounts
    ) -> Iterator[Row]:
        parameters = self._parameters
        held = known.held
        packed = PackedTopics(self._state, held.place, known.topics, parameters.journal)
        topics = StateTopics(packed)
        source = source_of(held.control, _of_sources(items))
        state = ClusterState(held.control, topics, source)
        batch = EventBatch(state, fatal=_FATAL)
        for item in items:
            if isinstance(item, Unreadable):
                counts.unreadable += item.records
                batch.count_unreadable(item.records, at=item.at, reason=item.reason)
            elif isinstance(item, ElectionRequest):
                batch.store_request(item)
            elif not is_of(source, item):
                counts.unreadable += 1
                batch.count_unreadable(1, at=item.observed_at, reason=_OF_ANOTHER_KIND)
            else:
                counts.changes += 1
                batch.apply(item)
        records, changed = finish_batch(
            batch,
            lineage=parameters.lineage,
            after=held.last_event,
            folded_at=self._clock(),
            sent=known.sent,
        )
        counts.errors += batch.errors
        published = ((parameters.events_topic, cluster, encode_event(record)) for record in records)
        shown = ((parameters.views_topic, view.key, view.value) for view in changed)
        for topic, key, value in itertools.chain(published, shown):
            if value is not None and len(value) > MAX_CHANGE_BYTES:
                # The sink would refuse the record, and the query would fail on it at each start.
                counts.errors += 1
                continue
            yield _Output(topic, self._partition, key, value, *_NO_COUNTS)
        topics.flush()
        last = records[-1].id if records else held.last_event
        known.held = StoredCluster(state.control, held.folds + 1, last, packed.place)
        known.row = write_control(self._state, known.held, known.members)
        _remember((parameters.lineage, cluster), known)


def _of_sources(items: Iterable[LogItem]) -> Iterator[AnyRecord]:
    """Yield what a watcher wrote."""
    return (each for each in items if not isinstance(each, ElectionRequest | Unreadable))


def _remember(key: tuple[str, str], known: Remembered) -> None:
    """Keep what is known of a cluster, and drop the topics of others beyond the limit."""
    _remembered[key] = known
    size = sum(each.topics.size for each in _remembered.values())
    for other in list(_remembered)[:-1]:
        if size <= _MAX_REMEMBERED_BYTES:
            break
        size -= _remembered.pop(other).topics.size


def _up_to_each_null(rows: Sequence[Any], own: int) -> Iterator[tuple[Sequence[Any], bool]]:
    """Split rows at each null of the cluster's own partition; yield each piece without the null, and whether a null ended it."""
    start = 0
    for at, row in enumerate(rows):
        if row.value is None and row.partition == own:
            yield rows[start:at], True
            start = at + 1
    yield rows[start:], False


def _read(cluster: str, rows: Iterable[Any], own: int) -> Iterator[LogItem]:
    """Yield what the rows hold, in order; `own` is the cluster's partition."""
    for row in rows:
        if row.partition != own:
            yield Unreadable(
                1, row.timestamp_ms, f"a message in partition {row.partition}, not {own}"
            )
            continue
        try:
            batch = decode_message(bytes(row.value))
        except UnreadableRecordError as error:
            yield Unreadable(1, row.timestamp_ms, str(error))
            continue
        if batch.unreadable:
            reason = "damaged records, or of another version"
            yield Unreadable(batch.unreadable, row.timestamp_ms, reason)
        records: tuple[ElectionRequest | AnyRecord, ...] = (*batch.requests, *batch.records)
        foreign = sum(record.cluster != cluster for record in records)
        if foreign:
            yield Unreadable(foreign, row.timestamp_ms, "records that name another cluster")
        yield from (record for record in records if record.cluster == cluster)
