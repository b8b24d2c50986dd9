"""Make the opt-in /metrics/partitions: brokers, topics and every partition under kafka_exporter's names.

Names and values are kafka_exporter's, so that existing dashboards work, with an additional `cluster`
label. A topic is rendered at a scrape if its view has changed; the rest of a scrape sends cached bytes. Both are
done in steps, because a large cluster takes seconds and makes tens of megabytes. A value that is not known has no
sample.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

from controller_model.kafka.cluster_facts import PartitionFacts
from controller_model.metrics.metric import Metric, Sample
from controller_model.records.view_facts import partitions_in
from exporter.core.records import ClusterSnapshot, TopicEntry
from exporter.core.render import Format, header, lines
from exporter.partitions.conditions import is_under_replicated

_Metric = Metric[Sequence[PartitionFacts]]
_Counts = Mapping[str, int]


class _Cached(NamedTuple):
    """A chunk of a topic, rendered."""

    cluster: str
    entry: TopicEntry
    blocks: tuple[bytes, ...]
    partitions: int


STEP_BYTES = 2 * 1024 * 1024
"""Bytes rendered in one step: some 5,000 partitions, 0.1 s."""
PIECE_BYTES = 256 * 1024
"""Bytes sent at a time: large enough that 90 MB are few pieces."""


def _leader_is_preferred(partition: PartitionFacts) -> int | None:
    if partition.leader is None or not partition.replicas:
        return None
    return int(partition.leader == partition.replicas[0])


def _metric(name: str, text: str, value: Callable[[PartitionFacts], int | None]) -> _Metric:
    def read(partitions: Sequence[PartitionFacts]) -> Iterator[Sample]:
        for partition in partitions:
            figure = value(partition)
            if figure is not None:
                yield (partition.topic, str(partition.partition)), figure

    labels = ("cluster", "topic", "partition")
    return Metric(name=name, help=text, labels=labels, read=read)


PARTITION_METRICS = (
    _metric(
        "kafka_topic_partition_leader",
        "Broker that leads the partition; -1 while it has no leader.",
        lambda partition: partition.leader,
    ),
    _metric(
        "kafka_topic_partition_in_sync_replica",
        "Replicas of the partition in the ISR.",
        lambda partition: None if partition.leader is None else len(partition.isr),
    ),
    _metric(
        "kafka_topic_partition_replicas",
        "Replicas of the partition.",
        lambda partition: len(partition.replicas),
    ),
    _metric(
        "kafka_topic_partition_leader_is_preferred",
        "1 if the partition is led by its preferred (first) replica.",
        _leader_is_preferred,
    ),
    _metric(
        "kafka_topic_partition_under_replicated_partition",
        "1 if fewer replicas are in sync than there are; 0 in a healthy cluster.",
        lambda partition: int(is_under_replicated(partition)) if partition.counts else None,
    ),
)


BROKERS: Metric[_Counts] = Metric(
    name="kafka_brokers",
    help="Number of brokers that are registered now.",
    labels=("cluster",),
    read=lambda brokers: [((cluster,), count) for cluster, count in brokers.items()],
)
TOPIC_PARTITIONS: Metric[Mapping[tuple[str, str], int]] = Metric(
    name="kafka_topic_partitions",
    help="Number of partitions of the topic.",
    labels=("cluster", "topic"),
    read=lambda partitions: partitions.items(),
)


class PartitionCollector:
    """Renders the topics that have changed since the last scrape; used by one scrape at a time."""

    def __init__(self) -> None:
        self._cached: dict[str, _Cached] = {}
        self._brokers: dict[str, int] = {}

    def render(self, clusters: Mapping[str, ClusterSnapshot]) -> Iterator[int]:
        """Render every topic that has changed; yield the size of each step in bytes.

        The result of a step is kept even if the scrape is given up before the last one.
        """
        size = 0
        for name, snapshot in sorted(clusters.items()):
            for key, entry in snapshot.topics.items():
                old = self._cached.get(key)
                if old is None or old.entry is not entry:
                    self._cached[key] = rendered = _render(name, entry)
                    size += sum(map(len, rendered.blocks))
                if size >= STEP_BYTES:
                    yield size
                    size = 0
        live = {name: clusters[name].view.brokers_live for name in sorted(clusters)}
        self._brokers = {name: len(each) for name, each in live.items() if each is not None}
        held = {key for snapshot in clusters.values() for key in snapshot.topics}
        for key in self._cached.keys() - held:
            del self._cached[key]

    def lines(self, format_: Format) -> Iterator[bytes]:
        """Return the rendered lines in pieces, without the "# EOF" of OpenMetrics; a later `render` does not change them."""
        return _lines(format_, self._brokers, list(self._cached.values()))


def _lines(format_: Format, brokers: _Counts, chunks: Sequence[_Cached]) -> Iterator[bytes]:
    """Yield the lines about brokers, then those about topics, then those about partitions."""
    partitions: Counter[tuple[str, str]] = Counter()
    for each in chunks:  # a topic may have several
        partitions[each.cluster, each.entry.name] += each.partitions
    found = (
        (header(BROKERS, format_), lines(BROKERS, brokers, (), None).text),
        (header(TOPIC_PARTITIONS, format_), lines(TOPIC_PARTITIONS, partitions, (), None).text),
    )
    yield b"".join(head + text for head, text in found if text)
    yield from _pieces(format_, [each.blocks for each in chunks])


def _pieces(format_: Format, topics: Sequence[tuple[bytes, ...]]) -> Iterator[bytes]:
    """Yield the lines of all metrics, metric by metric."""
    for index, metric in enumerate(PARTITION_METRICS):
        piece: list[bytes] = [header(metric, format_)]
        size = 0
        for blocks in topics:
            piece.append(blocks[index])
            size += len(blocks[index])
            if size >= PIECE_BYTES:
                yield b"".join(piece)
                piece, size = [], 0
        # A metric without a sample has no header either.
        if piece and any(blocks[index] for blocks in topics):
            yield b"".join(piece)


def _render(cluster: str, entry: TopicEntry) -> _Cached:
    partitions = list(partitions_in(entry.decode()))
    # Gauges only: the lines are the same in both formats.
    blocks = tuple(lines(metric, partitions, (cluster,), None).text for metric in PARTITION_METRICS)
    return _Cached(cluster, entry, blocks, len(partitions))
