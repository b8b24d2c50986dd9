"""The records of the exporter: a topic kept as bytes, and the snapshot of a cluster.

The rule: what a request reads never changes while it runs. A snapshot is immutable and is replaced as a
whole when a batch is complete, so a scrape needs no lock and never shows half a batch.
"""

from collections.abc import Iterator, Mapping
from functools import reduce
from operator import xor
from typing import Self

import msgspec

from controller_model.kafka.cluster_facts import ClusterFacts, PartitionFacts
from controller_model.kafka.ids import AsOf
from controller_model.records.changes import digest_text
from controller_model.records.view_facts import cluster_facts, partitions_in
from controller_model.records.views import (
    BrokerView,
    ClusterView,
    IncidentsView,
    RecommendationView,
    TopicView,
    decode_view,
    view_digest,
)


class TopicEntry(msgspec.Struct, frozen=True, kw_only=True):
    """One chunk of a topic, kept as the bytes in which it was read.

    As JSON a partition takes about 100 bytes, decoded six times that; most partitions are never asked for.
    """

    as_of: AsOf
    name: str
    chunk: int
    chunks: int
    value: bytes
    digest: int
    """The chunk's part of the digest over all views (`view_digest`)."""

    @classmethod
    def of(cls, view: TopicView, value: bytes) -> Self:
        """Return the entry of a view that was read from these bytes."""
        return cls(
            as_of=view.as_of,
            name=view.name,
            chunk=view.chunk,
            chunks=view.chunks,
            value=value,
            digest=view_digest(value, view.as_of),
        )

    def decode(self) -> TopicView:
        """Return the view; the bytes are known to decode, because they were decoded when they arrived."""
        view = decode_view(self.value)
        if not isinstance(view, TopicView):
            raise TypeError(f"a topic entry holds a {type(view).__name__}")
        return view


Entry = BrokerView | TopicEntry | IncidentsView | RecommendationView


class ClusterSnapshot(msgspec.Struct, frozen=True, kw_only=True):
    """A cluster as of the last complete batch."""

    name: str
    partition: int
    """The partition of the three topics that holds the cluster's records."""
    view: ClusterView
    brokers: Mapping[int, BrokerView] = {}
    """By id, in order of ids."""
    topics: Mapping[str, TopicEntry] = {}
    """By view key: all chunks of all topics."""
    topics_version: int = 0
    """Changes whenever `topics` does. To compare it is enough, and unlike a reference it keeps no old topics in memory."""
    incidents: IncidentsView | None = None
    recommendation: RecommendationView | None = None
    """None: the fold has published none yet."""
    topics_digest: int = 0
    """The digest over all chunks of all topics."""
    digests: Mapping[str, int] = {}
    """The digests of the other views, by their keys."""

    def facts(self) -> ClusterFacts:
        """Return what has to be known of the cluster to judge its partitions."""
        return cluster_facts(self.view, self.brokers.values())

    def all_partitions(self) -> Iterator[PartitionFacts]:
        """Yield every partition; decode one chunk at a time."""
        for entry in self.topics.values():
            yield from partitions_in(entry.decode())

    @property
    def lacks_views(self) -> bool:
        """Whether the views held differ from those that the fold had published at this commit.

        False where the fold does not know what it published.
        """
        held = reduce(xor, self.digests.values(), self.topics_digest)
        return self.view.views_digest not in {None, digest_text(held)}
