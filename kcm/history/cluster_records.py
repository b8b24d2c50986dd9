"""Find one cluster's records in the pipeline's topics, see whether a watcher adds to them, and remove them.

The rule: a cluster's records are in one partition of each topic, so the order in which they are
written is the order in which they are read. A null in the log makes the fold forget the cluster,
also in a new lineage that reads the log again. Nulls in the views remove it from exporters at once,
whether a fold runs or not.
"""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from controller_model.kafka.errors import UnreadableRecordError
from controller_model.kafka.ids import partition_of
from controller_model.records.views import ClusterView, cluster_key, decode_view
from pipeline.runtime import UnreachableError
from pipeline.settings import PipelineSettings
from pipeline.topic_reader import RecordReader
from pipeline.topic_records import Place
from pipeline.topic_writer import NewRecord, RecordWriter
from pipeline.topics import REQUEST_TIMEOUT_S, TopicNames

_SILENT_FOR_AT_MOST_S = 60.0
"""A broker that sends nothing for so long, while there is more to read, counts as down."""

_WRITTEN_TIMEOUT_S = 30.0


class PublishedCluster(NamedTuple):
    """The keys of one cluster in the topic of views, and its watcher's last sign of life."""

    keys: tuple[str, ...]
    alive_at: int | None
    """When its watcher last gave a sign of life, by that watcher's clock; None: the views do not hold it."""


def read_published(reader: RecordReader, places: Iterable[Place]) -> dict[str, PublishedCluster]:
    """Return each cluster in these partitions of the views; raises TopicReadError.

    A key that no part of kcm writes is ignored.
    """
    published: dict[str, dict[str, bytes]] = {}
    for record in reader.read(reader.extents(places), silent_s=_SILENT_FOR_AT_MOST_S):
        key = (record.key or b"").decode(errors="replace")
        cluster, slash, _ = key.partition("/")
        if not slash:
            continue
        keys = published.setdefault(cluster, {})
        if record.value is None:
            keys.pop(key, None)
        else:
            # Of the other views only the key is needed, and they may be large.
            keys[key] = record.value if key == cluster_key(cluster) else b""
    return {
        cluster: PublishedCluster(tuple(sorted(keys)), _alive_at(keys.get(cluster_key(cluster))))
        for cluster, keys in published.items()
        if keys
    }


def _alive_at(value: bytes | None) -> int | None:
    try:
        view = decode_view(value or b"")
    except UnreadableRecordError:
        return None
    return view.log.sign_of_life if isinstance(view, ClusterView) else None


class WatcherSigns:
    """Finds records that a cluster's watcher has written since this was made.

    They are changes and heartbeats in the log, and beats in the views.
    """

    def __init__(
        self, reader: RecordReader, names: TopicNames, cluster: str, partition: int
    ) -> None:
        self._reader = reader
        self._wanted: Mapping[Place, bytes] = {
            (names.changes, partition): cluster.encode(),
            (names.views, partition): f"{cluster}/watcher".encode(),
        }
        self._ends = {each.place: each.high for each in reader.extents(self._wanted)}

    def has_written(self) -> bool:
        """Return whether there was a record since the last call; raises TopicReadError."""
        now = self._reader.extents(self._wanted)
        new = [each._replace(low=self._ends[each.place]) for each in now]
        self._ends = {each.place: each.high for each in now}
        return any(
            record.key == self._wanted[record.topic, record.partition] and record.value is not None
            for record in self._reader.read(new, silent_s=REQUEST_TIMEOUT_S)
        )


def write_tombstones(
    settings: PipelineSettings,
    names: TopicNames,
    cluster: str,
    *,
    partitions: int,
    keys: Iterable[str],
) -> None:
    """Write the nulls: first in the log and, once the log has one, under these keys of the views.

    Raises UnreachableError if Kafka does not take one. Nulls that were written stay; writing them
    again is harmless.
    """
    partition = partition_of(cluster, partitions)
    # The cluster's own key first: an exporter that reads its null drops the others as well.
    own = cluster_key(cluster)
    views = [own, *(key for key in keys if key != own)]
    writer = RecordWriter(settings, within_s=_WRITTEN_TIMEOUT_S)
    try:
        writer.write(names.changes, partition, [NewRecord(cluster, None)])
        writer.write(names.views, partition, [NewRecord(key, None) for key in views])
    except UnreachableError as error:
        raise UnreachableError(f"{error}; run the same command again") from None
