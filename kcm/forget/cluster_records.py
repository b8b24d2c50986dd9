"""One cluster's records in the pipeline's topics: which stand there, whether a watcher adds to them, and their end.

The rule: a cluster's records stand in one partition of each topic, so what is written last there is read last. A null in
the log makes the fold forget the cluster, also in a new lineage that reads the log again; nulls in the views take it back
from exporters at once, whether a fold runs or not.
"""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from controller_model.kafka.errors import UnreadableRecordError
from controller_model.kafka.ids import partition_of
from controller_model.records.completeness import sign_of_life
from controller_model.records.views import ClusterView, cluster_key, decode_view
from pipeline.runtime import UnreachableError
from pipeline.settings import PipelineSettings
from pipeline.topic_reader import RecordReader
from pipeline.topic_records import Place
from pipeline.topic_writer import NewRecord, RecordWriter
from pipeline.topics import REQUEST_TIMEOUT_S, TopicNames

_SILENT_FOR_AT_MOST_S = 60.0
"""A broker that gives nothing for so long, while there is more, is as good as gone."""

_WRITTEN_WITHIN_S = 30.0


class StandingViews(NamedTuple):
    """What stands in the topic of views of one cluster."""

    keys: tuple[str, ...]
    heard_at: int | None
    """When its watcher was last heard of, by that watcher's clock; None: the views do not say."""


def read_published(reader: RecordReader, places: Iterable[Place]) -> dict[str, StandingViews]:
    """Return each cluster of these partitions of the views; raises TopicReadError.

    A key that cannot be one of ours is passed over.
    """
    standing: dict[str, dict[str, bytes]] = {}
    for record in reader.read(reader.extents(places), silent_s=_SILENT_FOR_AT_MOST_S):
        key = (record.key or b"").decode(errors="replace")
        cluster, slash, _ = key.partition("/")
        if not slash:
            continue
        keys = standing.setdefault(cluster, {})
        if record.value is None:
            keys.pop(key, None)
        else:
            # Of the other views only the key counts, and they may be large.
            keys[key] = record.value if key == cluster_key(cluster) else b""
    return {
        cluster: StandingViews(tuple(sorted(keys)), _heard_at(keys.get(cluster_key(cluster))))
        for cluster, keys in standing.items()
        if keys
    }


def _heard_at(value: bytes | None) -> int | None:
    try:
        view = decode_view(value or b"")
    except UnreadableRecordError:
        return None
    return sign_of_life(view) if isinstance(view, ClusterView) else None


class WatcherSigns:
    """What a watcher of a cluster has written since this was made: changes and heartbeats in the log, beats in the views."""

    def __init__(
        self, reader: RecordReader, names: TopicNames, cluster: str, partition: int
    ) -> None:
        self._reader = reader
        self._wanted: Mapping[Place, bytes] = {
            (names.changes, partition): cluster.encode(),
            (names.views, partition): f"{cluster}/watcher".encode(),
        }
        self._ends = {each.place: each.high for each in reader.extents(self._wanted)}

    def heard(self) -> bool:
        """Return whether there was anything since the last time; raises TopicReadError."""
        now = self._reader.extents(self._wanted)
        new = [each._replace(low=self._ends[each.place]) for each in now]
        self._ends = {each.place: each.high for each in now}
        return any(
            record.key == self._wanted[record.topic, record.partition] and record.value is not None
            for record in self._reader.read(new, silent_s=REQUEST_TIMEOUT_S)
        )


def take_back(
    settings: PipelineSettings,
    names: TopicNames,
    cluster: str,
    *,
    partitions: int,
    keys: Iterable[str],
) -> None:
    """Write the nulls: in the log, and, once that has it, under these keys of the views.

    Raises UnreachableError if Kafka does not take one; what it has taken stays, and the same may be written again.
    """
    partition = partition_of(cluster, partitions)
    # The cluster's own first: an exporter that reads it drops the others with it.
    own = cluster_key(cluster)
    views = [own, *(key for key in keys if key != own)]
    writer = RecordWriter(settings, within_s=_WRITTEN_WITHIN_S)
    try:
        writer.write(names.changes, partition, [NewRecord(cluster, None)])
        writer.write(names.views, partition, [NewRecord(key, None) for key in views])
    except UnreachableError as error:
        raise UnreachableError(f"{error}; run the same command again") from None
