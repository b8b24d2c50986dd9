"""Keep the newest complete views of every cluster, from the raw records of kcm.views.

The rule: of two views of one key the newer `as_of` wins, in whatever order they arrive. Views wait
for their batch's cluster view (the commit marker); then all of them are swapped at once. Another
lineage replaces an older one only once it has reached the same place: a fold that reads the whole log again
passes through states that are days old and must not be shown as current. Only a `Deleted` deletes, by its
as_of: a tombstone, by which compaction removes a key, has none, and may precede a newer view of the key.
No clock, no I/O, no lock: one thread applies records, any thread may read `clusters`.
"""

import itertools
from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

from controller_model.kafka.errors import UnreadableRecordError
from controller_model.kafka.ids import AsOf
from controller_model.records.views import (
    BrokerView,
    ClusterView,
    Deleted,
    IncidentsView,
    RecommendationView,
    TopicView,
    WatcherBeat,
    decode_view,
    view_digest,
    view_key,
)
from exporter.core.records import ClusterSnapshot, Entry, TopicEntry
from exporter.intake.batch_merge import next_snapshot
from pipeline.topic_records import Record

UNPROVEN_AT_MOST_MS = 600_000
"""How long, by the log's clock, a new lineage that has reached the same place waits for its first proof:
a resync takes seconds once it is requested, minutes where ZooKeeper is slow. After that, figures that
are marked as incomplete are better than the older ones."""


class _Pending(NamedTuple):
    """A view that waits for its commit marker; an entry of None is a delete."""

    as_of: AsOf
    entry: Entry | None
    digest: int = 0
    """The view's digest; 0 for a topic's, whose entry holds it."""


class ViewStore:
    """The current snapshots of all clusters: `clusters` is replaced, never changed, when a batch is complete."""

    def __init__(self) -> None:
        self.clusters: Mapping[str, ClusterSnapshot] = MappingProxyType({})
        self._pending: dict[str, dict[str, _Pending]] = {}
        self._held_back: dict[str, ClusterSnapshot] = {}
        """Snapshots of lineages that have not yet reached the place of the one that is shown."""
        self._unconfirmed: set[str] = set()
        self._reread: set[str] = set()
        """Clusters that are read again from nothing, until that has come as far as what is shown."""
        self._last_offset: dict[str, int] = {}
        """The offset of the newest cluster view of each cluster."""
        self._versions = itertools.count(1)
        self._beats: list[WatcherBeat] = []

    def apply(self, record: Record) -> str | None:
        """Apply a record; return the cluster whose snapshot it replaced or removed, if any.

        Raises UnreadableRecordError for a record that cannot be read, which changes nothing.
        """
        key, cluster, kind = _split(record.key or b"")
        if record.value is None:
            return self._forget(cluster, record.offset) if kind == "cluster" else None
        view = decode_view(record.value)
        if view.cluster != cluster or not (isinstance(view, Deleted) or view_key(view) == key):
            raise UnreadableRecordError(f"a view of another key stands under {key}")
        match view:
            case ClusterView():
                return self._commit(view, record)
            case WatcherBeat():
                self._beats.append(view)
            case Deleted():
                return self._delete(cluster, key, kind, view.as_of)
            case BrokerView() | IncidentsView() | RecommendationView():
                digest = view_digest(record.value, view.as_of)
                self._wait(cluster, key, _Pending(view.as_of, view, digest))
            case TopicView():
                self._wait(cluster, key, _Pending(view.as_of, TopicEntry.of(view, record.value)))
        return None

    def pop_beats(self) -> list[WatcherBeat]:
        """Return the beats that arrived since the last call, in order."""
        taken, self._beats = self._beats, []
        return taken

    def begin_reread(self) -> None:
        """Note that the topic was recreated: clusters count as unconfirmed until seen in it.

        Each is read again from nothing: until the reader noticed, it may have read the new topic from the
        middle, and lacks what is before that.
        """
        self._unconfirmed = set(self.clusters)
        self._reread = set(self.clusters)
        self._pending.clear()
        self._held_back.clear()
        self._last_offset.clear()

    def forget_unconfirmed(self) -> list[str]:
        """Drop the clusters that the recreated topic does not hold; return their names."""
        gone = sorted(self._unconfirmed & set(self.clusters))
        self._unconfirmed = set()
        for cluster in gone:
            self._drop_cluster(cluster)
        return gone

    def _wait(self, cluster: str, key: str, new: _Pending) -> None:
        waiting = self._pending.setdefault(cluster, {})
        old = waiting.get(key)
        snapshot = self._newest(cluster)
        # A view before the last commit is either held already or has been deleted since.
        is_old = snapshot is not None and new.as_of < snapshot.view.as_of
        if not (is_old or (old is not None and new.as_of < old.as_of)):
            waiting[key] = new

    def _forget(self, cluster: str, offset: int) -> str | None:
        """Drop a cluster removed by `kcm forget`, unless a cluster view of it was read after that record."""
        if offset < self._last_offset.get(cluster, -1):
            return None
        is_shown = cluster in self.clusters
        self._drop_cluster(cluster)
        return cluster if is_shown else None

    def _delete(self, cluster: str, key: str, kind: str, as_of: AsOf) -> str | None:
        if kind != "cluster":
            self._wait(cluster, key, _Pending(as_of, None))
            return None
        held = self._newest(cluster)
        if held is None or as_of < held.view.as_of:
            return None
        self._drop_cluster(cluster)
        return cluster

    def _drop_cluster(self, cluster: str) -> None:
        self.clusters = MappingProxyType(
            {name: held for name, held in self.clusters.items() if name != cluster}
        )
        self._pending.pop(cluster, None)
        self._held_back.pop(cluster, None)

    def _newest(self, cluster: str) -> ClusterSnapshot | None:
        """Return the newest snapshot of a cluster, held back or shown; None: there is none, or all is read again."""
        shown = None if cluster in self._reread else self.clusters.get(cluster)
        return self._held_back.get(cluster) or shown

    def _commit(self, view: ClusterView, record: Record) -> str | None:
        """Complete a batch; return the cluster if the batch is now shown, None if it is old or held back."""
        held = self._newest(view.cluster)
        if held is not None and view.as_of < held.view.as_of:
            return None
        self._unconfirmed.discard(view.cluster)
        self._last_offset[view.cluster] = record.offset
        ready = self._pop_ready(view)
        snapshot = next_snapshot(
            held,
            view,
            {key: pending.entry for key, pending in ready.items()},
            digests={key: pending.digest for key, pending in ready.items()},
            partition=record.partition,
            version=next(self._versions),
        )
        shown = self.clusters.get(view.cluster)
        if shown is not None and not _has_come_as_far(snapshot.view, shown.view):
            self._held_back[view.cluster] = snapshot
            return None
        self._held_back.pop(view.cluster, None)
        self._reread.discard(view.cluster)
        self.clusters = MappingProxyType({**self.clusters, view.cluster: snapshot})
        return view.cluster

    def _pop_ready(self, view: ClusterView) -> dict[str, _Pending]:
        """Return the views that this commit marker completes; drop those of other lineages, keep those of later batches."""
        waiting = self._pending.pop(view.cluster, {})
        later = {key: pending for key, pending in waiting.items() if pending.as_of > view.as_of}
        if later:
            self._pending[view.cluster] = later
        return {
            key: pending
            for key, pending in waiting.items()
            if key not in later and pending.as_of.lineage == view.as_of.lineage
        }


def _has_come_as_far(new: ClusterView, shown: ClusterView) -> bool:
    """Return whether `new` may replace what is shown: within a lineage, by its place.

    Another lineage must have reached the same place in the log or, where the log was recreated, the same time by
    the log's clock. If what is shown was verified, it must also have been verified, for `UNPROVEN_AT_MOST_MS`.
    """
    if new.as_of.lineage == shown.as_of.lineage:
        return new.as_of >= shown.as_of
    ahead_ms = (new.log.sign_of_life or 0) - (shown.log.sign_of_life or 0)
    if ahead_ms < 0 and new.as_of.position < shown.as_of.position:
        return False
    if new.log.verified_at is None and shown.log.verified_at is not None:
        return ahead_ms > UNPROVEN_AT_MOST_MS
    return True


_KINDS = frozenset({"cluster", "broker", "topic", "incidents", "recommendation", "watcher"})


def _split(key: bytes) -> tuple[str, str, str]:
    """Return a key as text, and the cluster and the kind that it names; raises UnreadableRecordError."""
    try:
        text = key.decode()
    except UnicodeDecodeError:
        raise UnreadableRecordError(f"{key!r} is not text") from None
    cluster, slash, rest = text.partition("/")
    kind = rest.partition("/")[0]
    if not (cluster and slash and kind in _KINDS):
        raise UnreadableRecordError(f"{text!r} is not the key of a view")
    return text, cluster, kind
