"""From the fold's state to the views that changed.

The rule: all views of a batch carry one `as_of`, and the cluster view comes last, so that a reader
who swaps at it never shows half a batch. What was sent before is remembered by its bytes' hash
only to save the topic; forgetting it means sending again, which changes nothing.
"""

from __future__ import annotations

import itertools
import zlib
from collections.abc import Iterator
from typing import Any, NamedTuple

from controller_model.handlers.broker_inference import (
    coordinated,
    generated_broker_ids,
    inferred_states,
)
from controller_model.kafka.ids import NO_CONTROLLER, AsOf
from controller_model.records.changes import digest_text
from controller_model.records.filled import filled
from controller_model.records.views import (
    PARTITIONS_PER_TOPIC_VIEW,
    UNREADABLE_NAMED,
    VERSION,
    AnyView,
    BrokerView,
    ClusterView,
    ControllerView,
    Deleted,
    IncidentsView,
    LogView,
    Pending,
    RecommendationView,
    TopicView,
    encode_view,
    missed_among,
    topic_key,
    view_digest,
    view_key,
)
from controller_model.state import figures
from controller_model.state.broker_record import BrokerRecord
from controller_model.state.cluster import ClusterState
from controller_model.state.control_plane import ControlPlane
from controller_model.state.controller_state import ControllerState
from controller_model.state.log_state import LogState
from controller_model.state.topic_state import PartitionRecord, TopicState
from controller_model.state.znode_stat import UNKNOWN_VERSION, ZnodeStat
from controller_model.tracking import incident_tracker, prediction_tracker, recommendation_tracker
from controller_model.znodes.znode_kinds import ZnodeKind

FORGET_AFTER_MS = 3_600_000
"""How long a deleted view's key stays published as deleted: readers lag by seconds, not by an hour."""

Sent = dict[str, int]
"""What each view was when it was sent last, by key: a checksum, or the account's revision."""


class Projected(NamedTuple):
    """A view that changed, as a record of the topic of views."""

    key: str
    view: AnyView | None
    """None is Kafka's tombstone: the key was reported as deleted long ago."""
    value: bytes | None
    """The view as JSON."""


def project(state: ClusterState, *, as_of: AsOf, folded_at: int, sent: Sent) -> Iterator[Projected]:
    """Yield everything that changed since the last projection."""
    control = state.control
    tombstones = control.pending_tombstones
    for changed in _changed_views(state, as_of, sent):
        if isinstance(changed.view, Deleted):
            tombstones[changed.key] = control.now
        else:
            tombstones.pop(changed.key, None)
        yield changed
    if state.swept and control.published.topics is None:
        state.add_up_published()
    state.swept = False
    for key in [key for key, at in tombstones.items() if control.now - at >= FORGET_AFTER_MS]:
        del tombstones[key]
        yield Projected(key, None, None)
    cluster = _cluster_view(control, as_of, folded_at)
    yield _encoded(view_key(cluster), cluster)


def _encoded(key: str, view: AnyView) -> Projected:
    return Projected(key, view, encode_view(view))


def _digest(projected: Projected, as_of: AsOf) -> int:
    return view_digest(projected.value or b"", as_of)


def _changed_views(state: ClusterState, as_of: AsOf, sent: Sent) -> Iterator[Projected]:
    yield from _topic_views(state, as_of)
    forgotten = {key for key in sent if key.startswith(f"{state.control.cluster}/broker/")}
    # All are reported again after each proof: a fold that went on from an older checkpoint may have sent
    # them under an as_of below the one that readers have, and later batches may end elsewhere.
    salt = zlib.crc32(b"%d" % (state.control.log.verified_at or 0))
    published = state.control.published
    published.brokers = 0
    for view in _broker_views(state.control, as_of):
        key, value = view_key(view), encode_view(view)
        forgotten.discard(key)
        digest = view_digest(value, as_of)
        published.brokers ^= digest
        checksum = digest ^ salt
        if sent.get(key) != checksum:
            sent[key] = checksum
            yield Projected(key, view, value)
    for key in sorted(forgotten):
        # It was assigned and never registered, and is assigned no more.
        del sent[key]
        yield _encoded(key, Deleted(v=VERSION, cluster=state.control.cluster, as_of=as_of))
    yield from _account_views(state.control, as_of, sent, salt)


def _account_views(
    control: ControlPlane, as_of: AsOf, sent: Sent, salt: int
) -> Iterator[Projected]:
    """Yield the incidents and the recommendation, where their accounts have moved."""
    cluster, incidents, advice = control.cluster, control.incidents, control.recommendations
    if _is_news(sent, f"{cluster}/incidents", incidents.revision, salt):
        listed = incident_tracker.newest(control)
        incidents_view = IncidentsView(
            v=VERSION, cluster=cluster, as_of=as_of, total=incidents.total, incidents=listed
        )
        projected = _encoded(view_key(incidents_view), incidents_view)
        control.published.incidents = _digest(projected, as_of)
        yield projected
    if _is_news(sent, f"{cluster}/recommendation", advice.revision, salt):
        graded = recommendation_tracker.newest_grades(advice)
        standing = recommendation_tracker.standing_now(advice)
        made = RecommendationView(
            v=VERSION, cluster=cluster, as_of=as_of, standing=standing, graded=graded
        )
        projected = _encoded(view_key(made), made)
        control.published.recommendation = _digest(projected, as_of)
        yield projected


def _is_news(sent: Sent, key: str, revision: int, salt: int) -> bool:
    checksum = zlib.crc32(b"%d" % revision, salt)
    if sent.get(key) == checksum:
        return False
    sent[key] = checksum
    return True


def _topic_views(state: ClusterState, as_of: AsOf) -> Iterator[Projected]:
    cluster = state.control.cluster
    for name in sorted(state.changed):
        topic = state.topics.get(name)
        before = max(state.removed.get(name, 0), 0 if topic is None else topic.chunks)
        views = [] if topic is None else list(_chunks(state.control, topic, as_of))
        digest = 0
        for view in views:
            projected = _encoded(view_key(view), view)
            digest ^= _digest(projected, as_of)
            yield projected
        for chunk in range(len(views), before):
            gone = Deleted(v=VERSION, cluster=cluster, as_of=as_of)
            yield _encoded(topic_key(cluster, name, chunk), gone)
        if topic is not None and (topic.chunks, topic.views_digest) != (len(views), digest):
            state.note_views(topic, chunks=len(views), digest=digest)
    state.changed.clear()
    state.removed.clear()


def _chunks(control: ControlPlane, topic: TopicState, as_of: AsOf) -> Iterator[TopicView]:
    """Yield a topic's views; none while its znode is not there."""
    if topic.stat is None:
        return
    assigned = sorted(p for p, record in topic.partitions.items() if record.replicas is not None)
    starts = range(0, max(1, len(assigned)), PARTITIONS_PER_TOPIC_VIEW)
    parts = [assigned[start : start + PARTITIONS_PER_TOPIC_VIEW] for start in starts]
    for chunk, partitions in enumerate(parts):
        rows = [_row(topic.partitions[partition]) for partition in partitions]
        columns = zip(*rows, strict=True) if rows else itertools.repeat(())
        yield TopicView(
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
            unreadable=tuple(p for p in partitions if _is_unreadable(topic.partitions[p].stat)),
            unreadable_znodes=_unreadable_of(topic),
            **dict(zip(_COLUMNS, columns, strict=False)),
        )


def _unreadable_of(topic: TopicState) -> tuple[str, ...]:
    stats = {"/brokers/topics": topic.stat, "/config/topics": topic.config_stat}
    return tuple(f"{path}/{topic.name}" for path, stat in stats.items() if _is_unreadable(stat))


def _is_unreadable(stat: ZnodeStat | None) -> bool:
    return stat is not None and stat.is_unreadable


_COLUMNS = (
    *("replicas", "leader", "isr", "leader_epoch", "controller_epoch", "partition_epoch"),
    "leader_recovery_state",
)


def _row(record: PartitionRecord) -> tuple[Any, ...]:
    """Return what one partition says, in the order of _COLUMNS; None where it has no state."""
    replicas, epoch = record.replicas or (), partition_epoch(record)
    if record.leader is None:
        return replicas, None, None, None, None, epoch, None
    return (
        replicas,
        record.leader,
        record.isr,
        record.leader_epoch,
        record.controller_epoch,
        epoch,
        record.leader_recovery_state,
    )


def partition_epoch(record: PartitionRecord) -> int | None:
    """Return the version of the state that is held; None without one, or where the log gives none."""
    if record.stat is None or record.stat.value_version == UNKNOWN_VERSION:
        return None
    return record.stat.value_version


def _broker_views(control: ControlPlane, as_of: AsOf) -> Iterator[BrokerView]:
    totals = control.totals
    lost_with = figures.lost_with(control)
    skew = figures.leader_skew(control)
    states = inferred_states(control)
    for broker in sorted(figures.known_brokers(control)):
        record = control.brokers.get(broker, BrokerRecord())
        lost = lost_with.get(broker, figures.LostWith())
        electable = totals.preferred_not_led_in_isr.get(broker, 0)
        yield filled(
            BrokerView,
            record,
            v=VERSION,
            cluster=control.cluster,
            as_of=as_of,
            id=broker,
            leaders=totals.leaders.get(broker, 0),
            replicas=totals.replicas.get(broker, 0),
            preferred=totals.preferred.get(broker, 0),
            preferred_not_led=totals.preferred_not_led.get(broker, 0),
            preferred_electable=electable if record.live else 0,
            imbalance_ratio=figures.imbalance_ratio(control, broker),
            leader_skew=skew.get(broker),
            in_isr=lost.in_isr,
            offline_if_lost=lost.offline,
            under_min_isr_if_lost=lost.under_min_isr,
            more_if_lost=lost.unsure or bool(missed_among(control.log.denied)),
            inferred_state=states[broker].kafka_name if broker in states else None,
            coordinated=coordinated(control, broker),
        )


def _cluster_view(control: ControlPlane, as_of: AsOf, folded_at: int) -> ClusterView:
    digest = control.published.digest
    unreadable = [path for path, stat in control.stats.items() if stat.is_unreadable]
    unreadable.sort(key=lambda path: (not path.startswith("/controller"), path))
    return filled(
        ClusterView,
        control,
        v=VERSION,
        as_of=as_of,
        folded_at=folded_at,
        controller=_controller_view(control.controller),
        counts=figures.counts(control),
        pending=_pending(control),
        log=_log_view(control.log),
        writes_due=prediction_tracker.writes_due(control),
        brokers_live=tuple(sorted(control.live_brokers())),
        brokers_known=tuple(sorted(figures.known_brokers(control))),
        min_isr_assumed=control.assumed.min_insync_replicas,
        generated_broker_ids=generated_broker_ids(control),
        resync_wanted=control.log.wanted,
        incidents=incident_tracker.summary(control),
        rebalance=recommendation_tracker.summary(control),
        views_from=control.log.views_from,
        unreadable=tuple(unreadable[:UNREADABLE_NAMED]),
        unreadable_count=len(unreadable),
        views_digest=None if digest is None else digest_text(digest),
    )


def _controller_view(controller: ControllerState) -> ControllerView:
    return filled(
        ControllerView,
        controller,
        elected_at=controller.elected_at if controller.id != NO_CONTROLLER else None,
        missed_elections=controller.missed,
        migrating_to_kraft=controller.migrating,
    )


def _pending(control: ControlPlane) -> Pending:
    return Pending(
        preferred_election=ZnodeKind.PREFERRED_ELECTION.value in control.stats,
        reassign_partitions=ZnodeKind.REASSIGN_PARTITIONS.value in control.stats,
        notifications=figures.notifications(control),
        oldest_reassignment_at=min(control.reassigning.values(), default=None),
        oldest_deletion_at=min(control.deleting.values(), default=None),
    )


def _log_view(log: LogState) -> LogView:
    return filled(
        LogView,
        log,
        digest=digest_text(log.digest),
        incomplete_reason=log.why_incomplete(),
        resync_under_way=log.resync is not None,
        audits=log.reconciliations,
        dropped_by_watcher=log.dropped_base + log.dropped,
    )
