"""Make a cluster's next snapshot: the one before, with one complete batch of views merged in.

Within a lineage a batch changes the snapshot before; another lineage starts from
an empty one, since nothing shows that what an older lineage wrote is still true.
"""

from collections.abc import Iterable, Mapping
from typing import TypeVar

from msgspec.structs import replace

from controller_model.kafka.ids import AsOf
from controller_model.records.views import (
    BrokerView,
    ClusterView,
    view_key,
)
from exporter.core.records import ClusterSnapshot, Entry, TopicEntry

VIEWS_MISSING = (
    "the pipeline's Kafka has lost views, or they cannot be read: what is shown is older in part"
)
"""Why a cluster is incomplete: its views are not those that the fold has published."""

Batch = Mapping[str, Entry | None]
"""The views of a complete batch by key; None: the key is deleted."""

Held = TypeVar("Held", BrokerView, TopicEntry)


def next_snapshot(
    held: ClusterSnapshot | None,
    view: ClusterView,
    batch: Batch,
    *,
    digests: Mapping[str, int],
    partition: int,
    version: int,
) -> ClusterSnapshot:
    """Return the snapshot after a batch and the cluster view that completes it.

    Args:
        held: the snapshot before; None if there is none.
        view: the cluster view that completes the batch.
        batch: the other views of the batch.
        digests: the digests of the batch's views by key, except those of topics.
        partition: the partition of the topics that holds the cluster's records.
        version: the `topics_version` of the result if its topics differ from those before.
    """
    before = held
    if before is None or before.view.as_of.lineage != view.as_of.lineage:
        before = ClusterSnapshot(
            name=view.cluster, partition=partition, view=view, topics_version=version
        )
    topics, topics_digest = _topics(before, view, batch)
    by_key = {view_key(broker): broker for broker in before.brokers.values()}
    brokers = {broker.id: broker for broker in _merge(by_key, batch, BrokerView).values()}
    incidents = batch.get(f"{view.cluster}/incidents")
    recommendation = batch.get(f"{view.cluster}/recommendation")
    snapshot = replace(
        before,
        partition=partition,
        view=view,
        # A broker that the cluster's view does not know is left over: its delete was never written.
        brokers={id_: brokers[id_] for id_ in sorted(brokers.keys() & set(view.brokers_known))},
        topics=topics,
        topics_version=before.topics_version if topics is before.topics else version,
        # Where the batch has none, or deletes it, the one from before stays.
        incidents=incidents or before.incidents,
        recommendation=recommendation or before.recommendation,
        topics_digest=topics_digest,
    )
    views = (*snapshot.brokers.values(), snapshot.incidents, snapshot.recommendation)
    kept = {view_key(view) for view in views if view is not None}
    of_views = {key: n for key, n in {**before.digests, **digests}.items() if key in kept}
    snapshot = replace(snapshot, digests=of_views)
    return _incomplete(before, snapshot) if snapshot.lacks_views else snapshot


def _incomplete(before: ClusterSnapshot, snapshot: ClusterSnapshot) -> ClusterSnapshot:
    """Return a snapshot that lacks views, marked as incomplete: the fold cannot know that it does."""
    log, log_before = snapshot.view.log, before.view.log
    if log.incomplete_since is not None:
        return snapshot
    lacked = log_before.incomplete_reason == VIEWS_MISSING
    since = log_before.incomplete_since if lacked else snapshot.view.folded_at
    log = replace(log, incomplete_since=since, incomplete_reason=VIEWS_MISSING)
    return replace(snapshot, view=replace(snapshot.view, log=log))


def _topics(
    before: ClusterSnapshot, view: ClusterView, batch: Batch
) -> tuple[Mapping[str, TopicEntry], int]:
    """Return the chunks of topics by key (the mapping from before if none changes), and their digest."""
    topics = _merge(before.topics, batch, TopicEntry)
    beyond = _chunks_beyond_the_last(topics, batch)
    topics = _without(topics, beyond)
    older: list[str] = []
    # What was denied then may be read now: a topic whose end was lost with its view is found only then.
    if not before.topics or before.view.views_from != view.views_from or before.lacks_views:
        older = _not_in_the_resync(topics, view)
        topics = _without(topics, older)
    digest = before.topics_digest
    for key in {*batch, *beyond, *older}:
        for entry in (before.topics.get(key), topics.get(key)):
            digest ^= entry.digest if entry else 0
    return topics, digest


def _merge(held: Mapping[str, Held], batch: Batch, kind: type[Held]) -> Mapping[str, Held]:
    """Return the held entries with the batch's entries of this kind added and its deleted keys removed."""
    put = {key: entry for key, entry in batch.items() if isinstance(entry, kind)}
    deleted = [key for key, entry in batch.items() if entry is None]
    return _without({**held, **put} if put else held, deleted)


def _chunks_beyond_the_last(topics: Mapping[str, TopicEntry], batch: Batch) -> set[str]:
    """Return the keys of chunks that a topic no longer has: its first chunk holds their number."""
    found: set[str] = set()
    for key, entry in batch.items():
        root, _, chunk = key.rpartition("/")
        if chunk != "0":
            continue
        number = entry.chunks if isinstance(entry, TopicEntry) else 1
        while f"{root}/{number}" in topics:
            found.add(f"{root}/{number}")
            number += 1
    return found


def _not_in_the_resync(topics: Mapping[str, TopicEntry], view: ClusterView) -> list[str]:
    """Return the keys of topics that are older than the last complete resync, which did not contain them.

    Topics that the watcher was denied stay, as in the fold: whether they exist is not known.
    """
    first = AsOf(view.as_of.lineage, *view.views_from)
    older = (key for key, topic in topics.items() if topic.as_of < first)
    return [key for key in older if not view.log.hides_topic(topics[key].name)]


def _without(held: Mapping[str, Held], keys: Iterable[str]) -> Mapping[str, Held]:
    """Return the entries without these keys: the same mapping if it has none of them."""
    gone = held.keys() & set(keys)
    return {key: entry for key, entry in held.items() if key not in gone} if gone else held
