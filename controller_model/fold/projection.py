"""Make the views that changed from the fold's state.

The rule: all views of a batch carry one `as_of`, and the cluster view comes last, so that a reader
that swaps at it never shows half a batch. What was sent before is remembered only to save work and
space in the topic; without it views are sent again, which changes nothing.
"""

import itertools
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from typing import NamedTuple, cast

from controller_model.fold.broker_views import BrokerViews
from controller_model.kafka.ids import AsOf
from controller_model.records.changes import digest_text
from controller_model.records.views import (
    PARTITIONS_PER_TOPIC_VIEW,
    TOPIC_COLUMNS,
    VERSION,
    AnyView,
    ClusterView,
    Deleted,
    FoldView,
    IncidentsView,
    RecommendationView,
    TopicView,
    broker_key,
    cluster_key,
    encode_view,
    topic_key,
    view_digest,
    view_key,
)
from controller_model.records.visibility import visible_cluster
from controller_model.state import figures
from controller_model.state.cluster import ClusterState
from controller_model.state.control_plane import ControlPlane
from controller_model.state.source import Inferred
from controller_model.state.topic_state import TopicState
from controller_model.tracking import incident_tracker, recommendation_tracker

FORGET_AFTER_MS = 3_600_000
"""How long a deleted view's key stays published as deleted: readers lag by seconds, not by an hour."""


@dataclass
class SentViews:
    """What is known of the views that were sent; a new object knows of none."""

    brokers: BrokerViews = field(default_factory=BrokerViews)
    incidents: tuple[int, int | None] | None = None
    recommendation: tuple[int, int | None] | None = None
    """The revision of incidents and of recommendations, and the proof after which each was sent: as for brokers."""


class Projected(NamedTuple):
    """A view that changed, as a record of the topic of views.

    The view shares parts with the state, which changes them: whoever keeps a view decodes `value`.
    """

    key: str
    view: AnyView | None
    """None is Kafka's tombstone: the key was reported as deleted long before."""
    value: bytes | None
    """The view as JSON."""


def project(
    state: ClusterState, *, as_of: AsOf, folded_at: int, sent: SentViews
) -> Iterator[Projected]:
    """Yield all views that changed since the last projection, the cluster's last."""
    control = state.control
    inferred = state.source.infer(control)
    tombstones = control.pending_tombstones
    changed_brokers = sent.brokers.changed(control, as_of, state.source)
    for changed in itertools.chain(
        _topic_views(state, as_of),
        itertools.starmap(Projected, changed_brokers),
        _account_views(control, as_of, sent),
    ):
        if isinstance(changed.view, Deleted):
            tombstones[changed.key] = control.now
        else:
            tombstones.pop(changed.key, None)
        yield changed
    for key in [key for key, at in tombstones.items() if control.now - at >= FORGET_AFTER_MS]:
        del tombstones[key]
        yield Projected(key, None, None)
    safe = sent.brokers.controllers_safe_to_stop()
    view = _cluster_view(state, inferred, as_of, folded_at, safe)
    yield Projected(cluster_key(control.cluster), view, encode_view(view))


def published_keys(state: ClusterState) -> Iterator[str]:
    """Yield the keys of a cluster's views that may exist, including its watcher's beats; the cluster's own last."""
    control = state.control
    cluster = control.cluster
    for name in state.topics.names():
        topic = state.topics.peek(name)
        for chunk in range(0 if topic is None else len(topic.view_digests)):
            yield topic_key(cluster, name, chunk)
    for broker in sorted(figures.known_brokers(control)):
        yield broker_key(cluster, broker)
    yield from sorted(control.pending_tombstones)
    yield from (f"{cluster}/{kind}" for kind in ("incidents", "recommendation", "watcher"))
    yield cluster_key(cluster)


def _projected(view: FoldView) -> tuple[Projected, int]:
    """Return a view as a record, and its digest."""
    value = encode_view(view)
    return Projected(view_key(view), view, value), view_digest(value, view.as_of)


def _account_views(control: ControlPlane, as_of: AsOf, sent: SentViews) -> Iterator[Projected]:
    """Yield the views of incidents and of recommendations, if they changed or a new proof arrived."""
    cluster, incidents, advice = control.cluster, control.incidents, control.recommendations
    proved_at = control.log.view.verified_at
    if sent.incidents != (incidents.revision, proved_at):
        sent.incidents = (incidents.revision, proved_at)
        listed = incident_tracker.newest(control)
        incidents_view = IncidentsView(
            v=VERSION, cluster=cluster, as_of=as_of, total=incidents.summary.total, incidents=listed
        )
        projected, control.published.incidents = _projected(incidents_view)
        yield projected
    if sent.recommendation != (advice.revision, proved_at):
        sent.recommendation = (advice.revision, proved_at)
        graded = recommendation_tracker.newest_grades(advice)
        standing = recommendation_tracker.standing_now(advice)
        made = RecommendationView(
            v=VERSION, cluster=cluster, as_of=as_of, standing=standing, graded=graded
        )
        projected, control.published.recommendation = _projected(made)
        yield projected


def _topic_views(state: ClusterState, as_of: AsOf) -> Iterator[Projected]:
    cluster = state.control.cluster
    for name, partitions in sorted(state.changed.items()):
        topic = state.topics.get(name)
        published = () if topic is None else topic.view_digests
        parts: list[list[int]] = []
        if topic is not None and topic.exists:
            assigned = sorted(
                p for p, held in topic.partitions.items() if held.replicas is not None
            )
            starts = range(0, max(1, len(assigned)), PARTITIONS_PER_TOPIC_VIEW)
            parts = [assigned[start : start + PARTITIONS_PER_TOPIC_VIEW] for start in starts]
        digests = list(published) + [0] * (len(parts) - len(published))
        for chunk in _changed_chunks(parts, partitions, published):
            view = _topic_view(state.control, cast("TopicState", topic), as_of, parts, chunk)
            projected, digests[chunk] = _projected(view)
            yield projected
        for chunk in range(len(parts), max(state.removed.get(name, 0), len(published))):
            gone = Deleted(v=VERSION, cluster=cluster, as_of=as_of)
            yield Projected(topic_key(cluster, name, chunk), gone, encode_view(gone))
        now = tuple(digests[: len(parts)])
        if topic is not None and now != published:
            state.note_views(topic, now)
    state.changed.clear()
    state.removed.clear()


def _changed_chunks(
    parts: Sequence[Sequence[int]], partitions: AbstractSet[int] | None, published: Sequence[int]
) -> Iterable[int]:
    """Return which of a topic's views may differ from those published: those of the changed partitions.

    All of them, if more than states changed, or if the number of views did, which each view holds.
    """
    if partitions is None or len(parts) != len(published):
        return range(len(parts))
    firsts = [part[0] for part in parts if part]
    return sorted({max(0, bisect_right(firsts, each) - 1) for each in partitions if firsts})


def _topic_view(
    control: ControlPlane, topic: TopicState, as_of: AsOf, parts: Sequence[list[int]], chunk: int
) -> TopicView:
    """Return one of a topic's views; what a partition's state would hold is None where it has none, or where it is not known."""
    partitions = parts[chunk]
    log = control.log.view
    hidden = {p for p in partitions if log.hides_state(topic.name, p)} if log.denied else set()
    rows = [
        (held.replicas or (), None, None, None, None, held.partition_epoch, None)
        if held.leader is None or number in hidden
        else (
            held.replicas or (),
            held.leader,
            held.isr,
            held.leader_epoch if held.leader_epoch >= 0 else None,
            held.controller_epoch if held.controller_epoch >= 0 else None,
            held.partition_epoch,
            held.leader_recovery_state if held.leader_recovery_state >= 0 else None,
        )
        for number, held in ((p, topic.partitions[p]) for p in partitions)
    ]
    held = topic.partitions
    eligible = {p: each for p in partitions if (each := held[p].eligible) is not None}
    columns = zip(*rows, strict=True) if rows else itertools.repeat(())
    return TopicView(
        v=VERSION,
        cluster=control.cluster,
        as_of=as_of,
        name=topic.name,
        chunk=chunk,
        chunks=len(parts),
        topic_id=topic.topic_id,
        deleting=topic.name in control.deleting,
        min_isr=topic.min_isr,
        unclean=topic.unclean,
        partitions=tuple(partitions),
        adding={p: topic.adding[p] for p in partitions if topic.adding.get(p)},
        removing={p: topic.removing[p] for p in partitions if topic.removing.get(p)},
        elr={p: each.elr for p, each in eligible.items() if each.elr},
        last_known_elr={p: each.last_known for p, each in eligible.items() if each.last_known},
        offline_replicas={p: each.failed for p, each in eligible.items() if each.failed},
        unreadable=tuple(p for p in partitions if held[p].unreadable or p in hidden),
        unreadable_parts=topic.unreadable,
        **dict(zip(TOPIC_COLUMNS, columns, strict=False)),
    )


def _cluster_view(
    state: ClusterState,
    inferred: Inferred,
    as_of: AsOf,
    folded_at: int,
    controllers_safe_to_stop: dict[int, bool],
) -> ClusterView:
    control = state.control
    log = control.log
    log.view.incomplete_reason = log.why_incomplete
    log.view.dropped_by_watcher = log.dropped_base + log.dropped
    pending = control.pending
    pending.oldest_reassignment_at = min(control.reassigning.values(), default=None)
    pending.oldest_deletion_at = min(control.deleting.values(), default=None)
    is_reassigning = control.totals.reassigning > 0
    waiting = (
        pending.preferred_election_at,
        None if is_reassigning else pending.reassign_partitions_at,
    )
    pending.oldest_request_at = min((at for at in waiting if at is not None), default=None)
    view = ClusterView(
        v=VERSION,
        cluster=control.cluster,
        as_of=as_of,
        counters_since=control.counters_since,
        folded_at=folded_at,
        controller=control.controller.view,
        counts=figures.counts(control),
        foreign_writes=control.foreign_writes,
        counters=control.counters,
        config=control.config,
        pending=pending,
        log=log.view,
        pending_writes=inferred.pending_writes,
        brokers_live=tuple(sorted(control.live_brokers)),
        brokers_known=tuple(sorted(figures.known_brokers(control))),
        min_isr_assumed=control.assumed.min_insync_replicas,
        resync_wanted=log.wanted,
        incidents=control.incidents.summary,
        rebalance=recommendation_tracker.summary(control),
        views_from=log.views_from,
        unreadable=inferred.unreadable,
        unreadable_count=inferred.unreadable_count,
        unreadable_controller=inferred.unreadable_controller,
        views_digest=digest_text(control.published.digest),
        quorum=control.quorum,
        controllers_safe_to_stop=controllers_safe_to_stop,
    )
    return visible_cluster(view)
