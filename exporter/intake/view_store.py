"""The newest complete views of every cluster, out of the raw records of kcm.views.

The rule: of two views of one key the newer `as_of` wins, whatever order they come in; views wait
until their batch's cluster view (the commit mark) is there, then all are swapped at once. A newer
lineage replaces all of an older one, once it has come as far: a fold that reads the whole log again
passes states of days ago, which nobody must take for now. Garbage is counted and skipped. No clock,
no I/O, no lock: one thread applies records, any thread may read `clusters`.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple, TypeVar

from controller_model.kafka.errors import UnreadableRecordError
from controller_model.kafka.ids import AsOf, Position
from controller_model.records.completeness import sign_of_life
from controller_model.records.views import (
    AnyView,
    BrokerView,
    ClusterView,
    Deleted,
    IncidentsView,
    RecommendationView,
    TopicView,
    decode_view,
    view_key,
)
from exporter.core.records import ClusterSnapshot, Entry, Record, TopicEntry

E = TypeVar("E", BrokerView, TopicEntry)

UNPROVEN_AT_MOST_MS = 600_000
"""How long, by the log's clock, a new lineage's first proof is waited for when it has come as far:
a resync that is asked for takes seconds, minutes where ZooKeeper is sick. Beyond it, figures that
say that they are incomplete are better than those of before."""


class Counts(NamedTuple):
    """What became of the records applied so far."""

    applied: int = 0
    commits: int = 0
    unreadable: int = 0
    not_newer: int = 0
    """Records older than what was held: a batch written twice, or a reading from the beginning."""


class _Pending(NamedTuple):
    """A view that waits for its commit mark; an entry of None is a delete."""

    as_of: AsOf | None
    """None for a bare null, which stands after the delete that it lets compaction forget."""
    entry: Entry | None


class ViewStore:
    """What the views say: `clusters` is replaced, never changed, when a batch is complete."""

    def __init__(self) -> None:
        self.clusters: Mapping[str, ClusterSnapshot] = MappingProxyType({})
        self.counts = Counts()
        self._pending: dict[str, dict[str, _Pending]] = {}
        self._coming: dict[str, ClusterSnapshot] = {}
        """Of lineages that have not come as far yet as the one that is shown."""
        self._unconfirmed: set[str] = set()
        self._versions = itertools.count(1)

    def apply(self, record: Record) -> str | None:
        """Take a record in; return the cluster whose snapshot it replaced or removed, if any.

        A record that cannot be read is counted and changes nothing.
        """
        try:
            key = (record.key or b"").decode()
            cluster, kind = _split(key)
            if record.value is None:
                return self._delete(cluster, key, kind, None)
            view = _decode(record.value, cluster, key)
        except (UnreadableRecordError, UnicodeDecodeError):
            self.counts = self.counts._replace(unreadable=self.counts.unreadable + 1)
            return None
        self.counts = self.counts._replace(applied=self.counts.applied + 1)
        match view:
            case ClusterView():
                return self._commit(view, record.partition)
            case Deleted():
                return self._delete(cluster, key, kind, view.as_of)
            case BrokerView() | IncidentsView() | RecommendationView():
                self._wait(cluster, key, _Pending(view.as_of, view))
            case TopicView():
                entry = TopicEntry(
                    as_of=view.as_of,
                    name=view.name,
                    chunk=view.chunk,
                    chunks=view.chunks,
                    value=record.value,
                )
                self._wait(cluster, key, _Pending(view.as_of, entry))
        return None

    def begin_reread(self) -> None:
        """Note that the topic was made anew: clusters count as unconfirmed until seen in it."""
        self._unconfirmed = set(self.clusters)

    def forget_unconfirmed(self) -> list[str]:
        """Drop the clusters that the topic made anew does not hold; return their names."""
        gone = sorted(self._unconfirmed & set(self.clusters))
        self._unconfirmed = set()
        for cluster in gone:
            self._drop_cluster(cluster)
        return gone

    def _wait(self, cluster: str, key: str, new: _Pending) -> None:
        waiting = self._pending.setdefault(cluster, {})
        old = waiting.get(key)
        snapshot = self._newest(cluster)
        # A view at or before the last commit is held already, or has been deleted since.
        is_old = snapshot is not None and new.as_of is not None and new.as_of < snapshot.view.as_of
        if is_old or (old and old.as_of and new.as_of and new.as_of < old.as_of):
            self.counts = self.counts._replace(not_newer=self.counts.not_newer + 1)
            return
        waiting[key] = new

    def _delete(self, cluster: str, key: str, kind: str, as_of: AsOf | None) -> str | None:
        if kind != "cluster":
            self._wait(cluster, key, _Pending(as_of, None))
            return None
        held = self._newest(cluster)
        if held is None or (as_of is not None and as_of < held.view.as_of):
            return None
        self._drop_cluster(cluster)
        return cluster

    def _drop_cluster(self, cluster: str) -> None:
        self.clusters = MappingProxyType(
            {name: held for name, held in self.clusters.items() if name != cluster}
        )
        self._pending.pop(cluster, None)
        self._coming.pop(cluster, None)

    def _newest(self, cluster: str) -> ClusterSnapshot | None:
        """Return the newest snapshot of a cluster, shown or coming; None: there is none."""
        return self._coming.get(cluster) or self.clusters.get(cluster)

    def _commit(self, view: ClusterView, partition: int) -> str | None:
        held = self._newest(view.cluster)
        if held is not None and view.as_of < held.view.as_of:
            self.counts = self.counts._replace(not_newer=self.counts.not_newer + 1)
            return None
        self._unconfirmed.discard(view.cluster)
        ready = self._take_ready(view)
        brokers: Mapping[str, BrokerView] = {}
        topics: Mapping[str, TopicEntry] = {}
        incidents = ready.get(f"{view.cluster}/incidents")
        recommendation = ready.get(f"{view.cluster}/recommendation")
        if held is not None and held.view.as_of.lineage == view.as_of.lineage:
            incidents = incidents or held.incidents
            recommendation = recommendation or held.recommendation
            brokers = {f"{view.cluster}/broker/{id_}": b for id_, b in held.brokers.items()}
            topics = held.topics
        brokers = _known(view, _merge(brokers, ready, BrokerView))
        topics = _without_leftovers(_merge(topics, ready, TopicEntry), ready)
        if held is None or held.view.views_from != view.views_from:
            topics = _since(view, topics)
        snapshot = ClusterSnapshot(
            name=view.cluster,
            partition=partition,
            view=view,
            brokers={b.id: b for b in sorted(brokers.values(), key=lambda b: b.id)},
            topics=topics,
            topics_version=(
                held.topics_version
                if held is not None and topics is held.topics
                else next(self._versions)
            ),
            incidents=incidents if isinstance(incidents, IncidentsView) else None,
            recommendation=(
                recommendation if isinstance(recommendation, RecommendationView) else None
            ),
        )
        self.counts = self.counts._replace(commits=self.counts.commits + 1)
        shown = self.clusters.get(view.cluster)
        if shown is not None and not _has_come_as_far(view, shown.view):
            self._coming[view.cluster] = snapshot
            return None
        self._coming.pop(view.cluster, None)
        self.clusters = MappingProxyType({**self.clusters, view.cluster: snapshot})
        return view.cluster

    def _take_ready(self, view: ClusterView) -> dict[str, Entry | None]:
        """Return what this commit mark completes; drop older lineages, keep later batches."""
        waiting = self._pending.pop(view.cluster, {})
        later = {
            key: pending
            for key, pending in waiting.items()
            if pending.as_of is not None and pending.as_of > view.as_of
        }
        if later:
            self._pending[view.cluster] = later
        return {
            key: pending.entry
            for key, pending in waiting.items()
            if key not in later
            and (pending.as_of is None or pending.as_of.lineage == view.as_of.lineage)
        }


def _has_come_as_far(new: ClusterView, shown: ClusterView) -> bool:
    """Return whether what is shown may be replaced: always within a lineage.

    Another lineage must have come as far in the log, or, where the log was made anew, as far by the
    log's clock; and it must have been proven where what is shown was.
    """
    if new.as_of.lineage == shown.as_of.lineage:
        return True
    ahead_ms = (sign_of_life(new) or 0) - (sign_of_life(shown) or 0)
    if ahead_ms < 0 and _position(new) < _position(shown):
        return False
    if new.log.verified_at is None and shown.log.verified_at is not None:
        return ahead_ms > UNPROVEN_AT_MOST_MS
    return True


def _position(view: ClusterView) -> Position:
    return Position(view.as_of.generation, view.as_of.seq)


def _known(view: ClusterView, brokers: Mapping[str, BrokerView]) -> Mapping[str, BrokerView]:
    """Leave out brokers that the cluster's view does not know: their deletes were never told."""
    known = set(view.brokers_known)
    if all(broker.id in known for broker in brokers.values()):
        return brokers
    return {key: broker for key, broker in brokers.items() if broker.id in known}


def _since(view: ClusterView, topics: Mapping[str, TopicEntry]) -> Mapping[str, TopicEntry]:
    """Leave out topics that the last whole resync has not told."""
    first = AsOf(view.as_of.lineage, *view.views_from)
    if all(topic.as_of >= first for topic in topics.values()):
        return topics
    return {key: topic for key, topic in topics.items() if topic.as_of >= first}


def _without_leftovers(
    topics: Mapping[str, TopicEntry], ready: Mapping[str, Entry | None]
) -> Mapping[str, TopicEntry]:
    """Leave out chunks beyond a topic's last, which end with the topic's first."""
    left: set[str] = set()
    for key, entry in ready.items():
        root, _, chunk = key.rpartition("/")
        if chunk != "0" or "/topic/" not in root:
            continue
        number = entry.chunks if isinstance(entry, TopicEntry) else 1
        while f"{root}/{number}" in topics:
            left.add(f"{root}/{number}")
            number += 1
    return {k: t for k, t in topics.items() if k not in left} if left else topics


def _merge(
    held: Mapping[str, E], ready: Mapping[str, Entry | None], kind: type[E]
) -> Mapping[str, E]:
    """Return the held entries with the ready ones of this kind put in and the deleted taken out."""
    put = {key: entry for key, entry in ready.items() if isinstance(entry, kind)}
    gone = {key for key, entry in ready.items() if entry is None and key in held}
    if not put and not gone:
        return held
    merged = {**held, **put}
    for key in gone:
        del merged[key]
    return merged


def _decode(value: bytes, cluster: str, key: str) -> AnyView:
    view = decode_view(value)
    if view.cluster != cluster or not (isinstance(view, Deleted) or view_key(view) == key):
        raise UnreadableRecordError(f"a view of another key stands under {key}")
    return view


_KINDS = frozenset({"cluster", "broker", "topic", "incidents", "recommendation"})


def _split(key: str) -> tuple[str, str]:
    """Return the cluster and the kind in a key; raise UnreadableRecordError if it is not ours."""
    cluster, slash, rest = key.partition("/")
    kind = rest.partition("/")[0]
    if not (cluster and slash and kind in _KINDS):
        raise UnreadableRecordError(f"{key!r} is not the key of a view")
    return cluster, kind
