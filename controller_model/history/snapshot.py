"""Everything that is known of a cluster at one position of its log, as one record: the snapshot.

A snapshot's names and definitions are a stable interface; fields may be added, none may change.
A snapshot is made from the fold's own state and figures, so it cannot disagree with the views. In
it None (null) means that there is nothing, or that it is not known; never zero.
"""

from collections.abc import Set as AbstractSet

import msgspec

from controller_model.kafka.ids import NO_CONTROLLER, Position
from controller_model.kafka.states import PartitionState, partition_state_of
from controller_model.records.changes import SessionState
from controller_model.records.views import Capability, LogView
from controller_model.records.visibility import visible_counts, visible_pending
from controller_model.state import figures
from controller_model.state.cluster import ClusterState
from controller_model.state.control_plane import ControlPlane
from controller_model.state.held_broker import HeldBroker
from controller_model.state.topic_state import PartitionRecord, TopicState


class AsOfLog(msgspec.Struct, frozen=True, kw_only=True):
    """The position of the last change that the snapshot includes."""

    generation: int
    seq: int


class ControllerSnapshot(msgspec.Struct, frozen=True, kw_only=True):
    """The controller, and the counts of its elections; all None: not known."""

    id: int | None
    """None: nobody is the controller, or who it is is not known."""
    epoch: int | None
    elections: int | None
    """Creations of /controller seen, and those that only the epoch shows; a controller that existed
    at the baseline counts as one."""
    changes: int | None
    """Elections after the first."""
    id_changes: int | None
    """Elections won by another broker than the one before."""
    missed_elections: int | None
    known: bool = True
    """Whether it is known who is the controller, or that nobody is; a snapshot of a metadata log does not say it."""


class BrokerSnapshot(msgspec.Struct, frozen=True, kw_only=True):
    """A broker that was ever registered or is assigned."""

    live: bool | None
    """None: not known; then its epoch and registrations are the last that were known."""
    epoch: int | None
    """The czxid of its registration, of the last one for a dead broker."""
    registrations: int
    """Distinct czxids seen."""
    leaders: int
    replicas: int
    preferred: int
    """Partitions whose first replica it is, except those of topics being deleted."""
    imbalance_ratio: float
    """The fraction of `preferred` that it does not lead (0..1); 0 without any."""


class PartitionSnapshot(msgspec.Struct, frozen=True, kw_only=True):
    """A partition; without a state znode its leader, ISR and epochs are None."""

    replicas: tuple[int, ...]
    adding: tuple[int, ...]
    removing: tuple[int, ...]
    leader: int | None
    """As written: -1 stays -1."""
    isr: tuple[int, ...] | None
    leader_epoch: int | None
    controller_epoch: int | None
    partition_epoch: int | None
    """The version of the state znode from which this was read; a later unreadable version is not counted."""
    leader_recovery_state: int | None
    state: PartitionState | None
    """None: not known. The state that a new controller would derive from what ZooKeeper holds (states.partition_state_of)."""


class TopicSnapshot(msgspec.Struct, frozen=True, kw_only=True):
    """A topic whose znode exists."""

    topic_id: str | None
    deleting: bool
    partitions: dict[int, PartitionSnapshot]


class CountsSnapshot(msgspec.Struct, frozen=True, kw_only=True):
    """The cluster's figures (views.Counts; None: not known), and what was missed or damaged in the log."""

    topics: int | None
    partitions: int | None
    offline: int | None
    under_replicated: int | None
    under_min_isr: int | None
    at_min_isr: int | None
    """Both None if min.insync.replicas of some partition is not known."""
    preferred_imbalance: int | None
    reassigning: int | None
    deleting_topics: int | None
    missed_updates: int | None
    """None: a metadata log holds each change."""
    unreadable: int
    stale: int | None
    """None: a metadata log has one order."""


class PendingSnapshot(msgspec.Struct, frozen=True, kw_only=True):
    """The requests that exist in ZooKeeper."""

    preferred_election: bool | None
    reassign_partitions: bool | None
    notifications: int | None


class Snapshot(msgspec.Struct, frozen=True, kw_only=True):
    """A cluster at one position of its log."""

    cluster: str | None
    """None: no record of the log names it."""
    as_of: AsOfLog
    at: int
    """The log's time at that position: its largest observed_at, in milliseconds since 1970."""
    controller: ControllerSnapshot
    brokers: dict[int, BrokerSnapshot]
    topics: dict[str, TopicSnapshot]
    counts: CountsSnapshot
    pending: PendingSnapshot
    complete: bool
    """Whether the log has reported everything that ZooKeeper held then, as far as the log can show."""
    incomplete_reason: str | None
    """Why it is not complete; None if it is."""
    denied: tuple[str, ...]
    """Paths that the watcher may not read: what depends on them is not known."""
    absent: tuple[Capability, ...] = ()
    """What this kind of cluster does not have, or its source never shows: what depends on it is None."""
    unproven_from: int | None = None
    """Of a KRaft node's folder: the offset from which on nothing proves that what the snapshot includes was committed."""

    @property
    def position(self) -> Position:
        """The position of the last change that it includes."""
        return Position(self.as_of.generation, self.as_of.seq)


def snapshot(state: ClusterState) -> Snapshot:
    """Return a snapshot of the state."""
    control = state.control
    log = control.log
    state.source.infer(control)
    hidden = log.view.unseen
    is_kraft = control.controller.view.migrating_to_kraft or control.quorum is not None
    is_kraft_log = Capability.SESSION in log.view.absent
    counts = visible_counts(figures.counts(control), hidden, is_kraft=is_kraft)
    pending = visible_pending(control.pending, hidden)
    reason = _why_incomplete(control)
    live = None if Capability.BROKERS in hidden else control.live_brokers
    return Snapshot(
        cluster=control.cluster or None,
        as_of=AsOfLog(generation=log.position.generation, seq=log.position.seq),
        at=control.now,
        controller=_controller(state),
        brokers={
            broker: _broker(control, broker) for broker in sorted(figures.known_brokers(control))
        },
        topics={
            name: _topic(topic, log.view, deleting=name in control.deleting, live=live)
            for name in sorted(state.topics.names())
            if (topic := state.topics.get(name)) is not None and topic.exists
        },
        counts=CountsSnapshot(
            topics=counts.topics,
            partitions=counts.partitions,
            offline=counts.offline,
            under_replicated=counts.under_replicated,
            under_min_isr=counts.under_min_isr,
            at_min_isr=counts.at_min_isr,
            preferred_imbalance=counts.preferred_imbalance,
            reassigning=counts.reassigning,
            deleting_topics=counts.deleting_topics,
            missed_updates=None if is_kraft_log else log.view.missed_updates,
            unreadable=log.view.unreadable,
            stale=None if is_kraft_log else log.view.stale,
        ),
        pending=PendingSnapshot(
            preferred_election=pending.preferred_election,
            reassign_partitions=pending.reassign_partitions,
            notifications=pending.notifications,
        ),
        complete=reason is None,
        incomplete_reason=reason,
        denied=log.view.denied,
        absent=log.view.absent,
    )


def encode_snapshot(taken: Snapshot) -> bytes:
    """Return a snapshot as one line of JSON; ids of brokers and partitions become text."""
    return msgspec.json.encode(taken)


def _why_incomplete(control: ControlPlane) -> str | None:
    # In the order of completeness.assess, which judges the fold's views of the same state.
    log = control.log
    if log.view.session not in {None, SessionState.CONNECTED}:
        return f"the watcher had no ZooKeeper session: {log.view.session}"
    if log.view.divergent_since is not None:
        return "a reconciliation found that this is not what the cluster holds"
    if log.view.incomplete_since is None and not log.baseline:
        return "the first resync has not ended"
    return log.why_incomplete


def _controller(state: ClusterState) -> ControllerSnapshot:
    if Capability.CONTROLLER in state.control.log.view.unseen:
        return ControllerSnapshot(
            id=None,
            epoch=None,
            elections=None,
            changes=None,
            id_changes=None,
            missed_elections=None,
            known=False,
        )
    view = state.control.controller.view
    present = view.id != NO_CONTROLLER
    # Before the baseline nothing is counted: a controller that exists will count as one.
    elections, missed = int(present), 0
    if state.control.log.baseline:
        elections, missed = state.source.elections(state.control)
    return ControllerSnapshot(
        id=view.id if present else None,
        epoch=view.epoch,
        elections=elections,
        changes=max(0, elections - 1),
        id_changes=view.id_changes,
        missed_elections=missed,
        known=present or view.vacant_since is not None or state.control.quorum is None,
    )


def _broker(control: ControlPlane, broker: int) -> BrokerSnapshot:
    record = control.brokers.get(broker, HeldBroker()).record
    totals = control.totals
    return BrokerSnapshot(
        live=None if Capability.BROKERS in control.log.view.unseen else record.live,
        epoch=record.epoch,
        registrations=record.registrations,
        leaders=totals.leaders.get(broker, 0),
        replicas=totals.replicas.get(broker, 0),
        preferred=totals.preferred.get(broker, 0),
        imbalance_ratio=figures.imbalance_ratio(control, broker),
    )


def _topic(
    topic: TopicState, log: LogView, *, deleting: bool, live: AbstractSet[int] | None
) -> TopicSnapshot:
    return TopicSnapshot(
        topic_id=topic.topic_id,
        deleting=deleting,
        partitions={
            partition: _partition(
                topic,
                partition,
                record,
                live,
                is_hidden=log.hides_state(topic.name, partition),
            )
            for partition, record in sorted(topic.partitions.items())
            if record.replicas is not None
        },
    )


def _partition(
    topic: TopicState,
    partition: int,
    record: PartitionRecord,
    live: AbstractSet[int] | None,
    *,
    is_hidden: bool,
) -> PartitionSnapshot:
    stated = record.leader is not None and not is_hidden
    is_known = not is_hidden and (
        live is not None or (leader := record.leader) is None or leader < 0
    )
    return PartitionSnapshot(
        replicas=record.replicas or (),
        adding=topic.adding.get(partition, ()),
        removing=topic.removing.get(partition, ()),
        leader=record.leader if stated else None,
        isr=record.isr if stated else None,
        leader_epoch=record.leader_epoch if stated else None,
        controller_epoch=record.controller_epoch if stated else None,
        partition_epoch=record.partition_epoch if stated else None,
        leader_recovery_state=record.leader_recovery_state if stated else None,
        state=partition_state_of(record.leader, live or ()) if is_known else None,
    )
