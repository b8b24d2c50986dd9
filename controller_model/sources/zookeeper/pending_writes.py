"""The pending writes of the controller, tracked while the log is folded: at heartbeats, and during a failover.

ZooKeeper shows the work of a failover by the leaders that are gone. It begins with an election, or with the end
of a broker that explains one, and ends with the last pending leader write.

The rule: what is pending is computed from the totals, so it costs nothing per change. Time is the log's
and advances at its heartbeats, so that a replay finds the same zombies at the same positions. After
any time that was not watched (a hole, a lost session, a resync) the tracking starts again: silence
in such a time proves nothing. Only a write that this controller made shows that it works: what else ends a
pending write (a state set by hand, a leader's own ISR, a broker's return, a topic removed by hand) ends that write
alone, and a zombie stays one.
"""

import itertools
from collections.abc import Iterator

import msgspec

from controller_model.facts.facts import ControllerHealthIs, FailoverIs
from controller_model.facts.origin import UNKNOWN_VERSION
from controller_model.facts.stamp import Stamp
from controller_model.insight.pending_writes import is_reassignment_pending, pending_deletions
from controller_model.kafka.ids import NO_CONTROLLER, NO_LEADER
from controller_model.records import visibility
from controller_model.records.changes import SessionState, ZnodeChange, differ
from controller_model.records.completeness import LATE_MS
from controller_model.records.events import AnyEvent
from controller_model.records.pending_writes import (
    ControllerHealth,
    PendingWriteKind,
    PendingWrites,
    controller_health,
    is_silent,
    write_timeout_ms,
)
from controller_model.records.views import Failover
from controller_model.sources.zookeeper.payloads import PartitionStateZnode
from controller_model.sources.zookeeper.state import (
    FailoverState,
    PendingWriteState,
    zookeeper_of,
)
from controller_model.state import figures
from controller_model.state.cluster import ClusterState
from controller_model.state.control_plane import ControlPlane
from controller_model.state.source import Handle
from controller_model.state.topic_state import PartitionRecord

TOPICS_LOOKED_AT = 100
"""Topics examined at a heartbeat, of those that are reassigned and of those to be deleted: each must be loaded;
further ones are examined when others end."""

_NOTIFICATIONS = ("/isr_change_notification/", "/log_dir_event_notification/")
_PREFERRED_ELECTION = "/admin/preferred_replica_election"
_WAITING = {PendingWriteKind.PREFERRED_ELECTION, PendingWriteKind.NOTIFICATIONS}
"""Kinds that are znodes which the controller deletes; the others are writes of partitions' states."""
_ASKS_FROM_VERSION = 5
"""The version of a registration since inter.broker.protocol.version 2.7 (kafka.zk.BrokerInfo)."""
_FIRST_LEADER_EPOCH = 0
"""LeaderAndIsr.InitialLeaderEpoch."""


def handle_heartbeat(state: ClusterState, stamp: Stamp, handle: Handle) -> list[AnyEvent]:
    """Update what is pending at a heartbeat, and state how well the controller does its work."""
    control = state.control
    held, now = zookeeper_of(control).writes, control.now
    before, held.at = held.at, now
    holder = zookeeper_of(control).controller.czxid
    if held.written or held.holder != holder:
        held.zombie_since = None
    if held.holder != holder:
        held.removed = {}  # a new controller gives them states (PartitionStateMachine.startup)
    if not can_judge(control):
        held.known_since = held.pending_since = held.last_write_at = None
        held.reassignments = held.deletions = 0
        held.waiting = {}
    else:
        held.reassignments, held.deletions = _reassignments(state), _deletions(state)
        held.removed_count = _removed(state)
        was_unwatched = before is not None and now - before > LATE_MS
        if held.known_since is None or held.holder != holder or was_unwatched:
            held.known_since = now
            held.pending_since = held.last_write_at = None
            held.waiting = {}
            held.holder = holder
        elif held.written:
            held.last_write_at = now
        held.waiting = {znode: held.waiting.get(znode, now) for znode in _waiting(control)}
        timeout_ms = write_timeout_ms(control.totals.partitions)
        if pending_counts(control).keys() <= _WAITING:
            held.pending_since = None
        elif held.pending_since is None:
            held.pending_since = now
        elif held.zombie_since is None and is_silent(
            held.pending_since, held.last_write_at, now, timeout_ms
        ):
            held.zombie_since = now
    held.written = False
    writes = pending_writes(control)
    is_zombie = writes.health is ControllerHealth.ZOMBIE
    return handle(state, ControllerHealthIs(stamp, writes, is_zombie))


def is_by_controller(
    control: ControlPlane, old: PartitionRecord, new: PartitionStateZnode, change: ZnodeChange
) -> bool:
    """Return whether a new state of a partition is one that only the controller writes, in Kafka's form.

    It writes under its epoch. The first state has leader epoch 0 (PartitionStateMachine.initializeLeaderAndIsrForPartitions);
    each later one raises the leader epoch by one (LeaderAndIsr.newLeaderAndIsr) and keeps the leader in the ISR, or
    removes it with its leadership unless it is the only member (ReplicaStateMachine.doRemoveReplicasFromIsr). An ISR
    under the same leader epoch is the leader's own write, unless the leader asks the controller for it
    (AlterPartitionManager, since 2.7). What a person wrote in exactly this form cannot be told from it.
    """
    if new.controller_epoch != control.controller.view.epoch:
        return False
    leader, isr = new.leader, new.isr
    if leader not in isr and (leader != NO_LEADER or (len(isr) > 1 and len(isr) >= len(old.isr))):
        return False
    stat, version = old.origin, change.version
    if old.leader is None or (stat is not None and differ(stat.created, change.czxid)):
        return new.leader_epoch <= _FIRST_LEADER_EPOCH + (version or 0)
    raised = new.leader_epoch - old.leader_epoch
    if raised == 0:
        is_isr_alone = leader == old.leader and set(isr) != set(old.isr)
        return is_isr_alone and leader in zookeeper_of(control).writes.asking
    if version is None or stat is None or stat.version == UNKNOWN_VERSION:
        return raised > 0
    return 0 < raised <= version - stat.version


def note_protocol(control: ControlPlane, broker: int, version: int) -> None:
    """Remember whether a broker asks the controller to change an ISR, by the version of its registration.

    KafkaServer.startup makes an AlterPartitionManager that asks since inter.broker.protocol.version 2.7.
    """
    asking = zookeeper_of(control).writes.asking
    if version >= _ASKS_FROM_VERSION:
        asking.add(broker)
    else:
        asking.discard(broker)


def note_removed(control: ControlPlane, topic: str, partition: int) -> None:
    """Remember that a partition's state was removed, which the controller does only when it deletes the topic.

    It has the partition in its memory, so that it is no new one (KafkaController.processPartitionModifications).
    """
    removed = zookeeper_of(control).writes.removed
    if topic not in control.deleting and (topic in removed or len(removed) <= TOPICS_LOOKED_AT):
        removed.setdefault(topic, set()).add(partition)


def note_leaderless(held: PendingWriteState, isr: tuple[int, ...], zxid: int) -> None:
    """Remember, for the members of the ISR, that a state was written without a leader."""
    for broker in isr:
        held.leaderless_zxid[broker] = max(held.leaderless_zxid.get(broker, 0), zxid)


def begin_failover(state: ClusterState, stamp: Stamp, handle: Handle) -> list[AnyEvent]:
    """Begin the work, if a leader is gone; during a migration ZooKeeper does not show it."""
    control = state.control
    pending = figures.pending_leader_writes(control)
    zookeeper_of(control).failover = FailoverState(partitions=pending, pending=pending)
    if control.controller.view.migrating_to_kraft:
        begun = Failover.UNKNOWN
    else:
        begun = Failover.UNDER_WAY if pending else Failover.NOT_NEEDED
    return handle(state, FailoverIs(stamp, begun, since=stamp.at))


def count_writes(state: ClusterState, stamp: Stamp, by: int, handle: Handle) -> list[AnyEvent]:
    """Count leader writes that a partition's state made pending (`by` > 0) or did (`by` < 0)."""
    failover = zookeeper_of(state.control).failover
    if state.control.controller.view.failover is not Failover.UNDER_WAY or not by:
        return []
    failover.pending += by
    if by < 0:
        failover.last_write_at = stamp.at
    return [] if failover.pending > 0 else finish_failover(state, stamp, handle)


def finish_failover(state: ClusterState, stamp: Stamp, handle: Handle) -> list[AnyEvent]:
    """End the work if no leader write is pending any more, by a new count of them."""
    control = state.control
    view = control.controller.view
    if view.failover is not Failover.UNDER_WAY:
        return []
    failover = zookeeper_of(control).failover
    failover.pending = figures.pending_leader_writes(control)
    if failover.pending:
        return []
    ended_at = failover.last_write_at or stamp.at
    done = FailoverIs(
        stamp,
        Failover.DONE,
        since=view.failover_since,
        took_ms=max(0, ended_at - (view.failover_since or ended_at)),
        partitions=failover.partitions,
    )
    return handle(state, done)


def pending_writes(control: ControlPlane) -> PendingWrites:
    """Return what is pending now, with the controller's health."""
    held = zookeeper_of(control).writes
    if control.controller.view.migrating_to_kraft:
        return PendingWrites(counts=None)
    counts = pending_counts(control)
    since = [*held.waiting.values(), *([] if held.pending_since is None else [held.pending_since])]
    writes = PendingWrites(
        counts=counts,
        oldest_at=_oldest_at(control) if counts else None,
        pending_since=min(since, default=None) if counts else None,
        last_write_at=held.last_write_at,
        zombie_since=held.zombie_since,
        known_since=held.known_since if can_judge(control) else None,
        write_timeout_ms=write_timeout_ms(control.totals.partitions),
    )
    return msgspec.structs.replace(writes, health=controller_health(writes, control.now))


def can_judge(control: ControlPlane) -> bool:
    """Return whether a broker holds /controller under ZooKeeper's rules, and no changes are missing or denied."""
    log, controller = control.log.view, control.controller.view
    return (
        controller.id != NO_CONTROLLER
        and controller.epoch is not None
        and not controller.migrating_to_kraft
        and log.session is SessionState.CONNECTED
        and not log.resync_under_way
        and log.incomplete_since is None
        and log.divergent_since is None
        and visibility.WRITES.isdisjoint(log.hidden)
    )


def notifications(control: ControlPlane) -> int:
    """Return how many ISR and log directory notifications the controller has yet to process."""
    return sum(path.startswith(_NOTIFICATIONS) for path in zookeeper_of(control).stats)


def _waiting(control: ControlPlane) -> Iterator[str]:
    """Yield the oldest notification of each kind and the request of preferred elections, each with its zxid.

    The controller deletes all notifications that it has read at once (KafkaController.processIsrChangeNotification), so
    one that stays the oldest was not read. Their names end with a sequence number.
    """
    stats = zookeeper_of(control).stats
    for folder in _NOTIFICATIONS:
        if oldest := min((path for path in stats if path.startswith(folder)), default=None):
            yield oldest
    request = stats.get(_PREFERRED_ELECTION)
    if request is not None:
        yield f"{_PREFERRED_ELECTION} {request.created}"


def pending_counts(control: ControlPlane) -> dict[str, int]:
    """Return how many writes of each kind are pending, as far as totals show.

    Reassignments and deletions are those of the last heartbeat: they depend on all partitions of a topic.
    """
    gone, totals = _gone(control), control.totals
    held = zookeeper_of(control).writes
    counts = {
        PendingWriteKind.NEW_LEADER: figures.pending_leader_writes(control),
        PendingWriteKind.ISR_REMOVAL: sum(n for _, n in figures.pending_removals(control, gone)),
        PendingWriteKind.LEADER_BACK: sum(
            n for isr, n in totals.leaderless.items() if _is_leader_back(control, isr)
        )
        - sum(
            n
            for kind, n in figures.aborted(control)
            if kind.leader < 0 and _is_leader_back(control, kind.isr)
        ),
        PendingWriteKind.FIRST_STATE: max(0, figures.new_partitions(control) - held.removed_count),
        PendingWriteKind.REASSIGNMENT: held.reassignments,
        PendingWriteKind.TOPIC_DELETION: held.deletions,
        PendingWriteKind.PREFERRED_ELECTION: int(control.pending.preferred_election is True),
        PendingWriteKind.NOTIFICATIONS: notifications(control),
    }
    return {kind.value: count for kind, count in counts.items() if count}


def _is_leader_back(control: ControlPlane, isr: tuple[int, ...]) -> bool:
    # A replica in a failed log directory cannot lead although its broker lives; the controller leaves it in the ISR
    # only if it is the last one (ReplicaStateMachine.doRemoveReplicasFromIsr), and writes its partition leaderless
    # after the broker registered. So of one live member only a later registration makes a write pending.
    live = [broker for broker in isr if broker in control.live_brokers]
    if len(live) != 1:
        return bool(live)
    written = zookeeper_of(control).writes.leaderless_zxid.get(live[0])
    epoch = control.brokers[live[0]].record.epoch
    return written is not None and epoch is not None and epoch > written


def _removed(state: ClusterState) -> int:
    """Return how many partitions look new because their states were removed; forget those of topics that are gone."""
    control = state.control
    removed, live = zookeeper_of(control).writes.removed, control.live_brokers
    if len(removed) > TOPICS_LOOKED_AT:
        return figures.new_partitions(control)  # not known which: none is certain
    count = 0
    for name in list(removed):
        topic = state.topic(name)
        removed[name] = {p for p in removed[name] if _is_without_state(topic.partitions.get(p))}
        if not topic.exists or not removed[name]:
            del removed[name]
        elif name not in control.deleting:
            facts = (topic.facts(number, topic.partitions[number]) for number in removed[name])
            count += sum(not p.reassigning and not live.isdisjoint(p.replicas) for p in facts)
    return count


def _is_without_state(record: PartitionRecord | None) -> bool:
    return record is not None and record.replicas is not None and record.leader is None


def _reassignments(state: ClusterState) -> int:
    control = state.control
    live = control.live_brokers
    pending = 0
    for name in itertools.islice(control.reassigning, TOPICS_LOOKED_AT):
        if name in control.deleting:
            continue
        topic = state.topic(name)
        pending += sum(
            is_reassignment_pending(topic.facts(partition, record), live)
            for partition, record in topic.partitions.items()
        )
    return pending


def _deletions(state: ClusterState) -> int:
    control = state.control
    pending = 0
    for name in itertools.islice(control.deleting, TOPICS_LOOKED_AT):
        topic = state.topic(name)
        pending += len(
            pending_deletions(
                [topic.facts(*each, deleting=True) for each in topic.partitions.items()],
                control.live_brokers,
            )
        )
    return pending


def _oldest_at(control: ControlPlane) -> int | None:
    """Return the earliest end of a broker that made a write pending; None if none is known."""
    gone = _gone(control)
    brokers = {shape.leader for shape in control.totals.shapes if shape.leader in gone}
    brokers.update(broker for broker, _ in figures.pending_removals(control, gone))
    ends = (control.brokers[broker].record.since for broker in brokers if broker in control.brokers)
    return min((end for end in ends if end is not None), default=None)


def _gone(control: ControlPlane) -> set[int]:
    """Return the brokers that lead or are assigned something but are not registered."""
    return (control.totals.replicas.keys() | control.totals.leaders.keys()) - control.live_brokers
