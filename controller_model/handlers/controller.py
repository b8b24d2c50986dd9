"""Who the controller is, and the exact count of its elections.

The rule: the controller epoch grows by one per election, so the count follows the epoch, and an
election that nobody watched is still counted. Since Kafka 2.1 /controller and /controller_epoch
change in one transaction (KafkaZkClient.registerControllerAndIncrementControllerEpoch), but they are
read one after the other. So the count is ahead of the epoch by the elections whose /controller has
been read and whose epoch has not. The count never falls.
"""

import msgspec

from controller_model.kafka.ids import NO_CONTROLLER
from controller_model.records.changes import ChangeKind, ZnodeChange, differ
from controller_model.records.events import (
    AnyEvent,
    ControllerElected,
    ControllerVacated,
    ElectionCause,
    FailoverWork,
    where,
)
from controller_model.records.recent_elections import noted
from controller_model.records.views import Failover
from controller_model.sources.zookeeper.payloads import (
    ControllerZnode,
    decode_controller,
    decode_controller_epoch,
)
from controller_model.sources.zookeeper.znode_kinds import Znode
from controller_model.state.cluster import ClusterState
from controller_model.state.controller_state import ControllerState
from controller_model.state.figures import pending_leader_writes

ELECTION_PENDING_AT_MOST_MS = 2_000
"""How long an election waits for its epoch to be read before it is reported without one."""


def set_controller(
    state: ClusterState, _znode: Znode, change: ZnodeChange, payload: bytes
) -> list[AnyEvent]:
    """Apply a new value of /controller."""
    holder = decode_controller(payload)
    controller = state.control.controller
    was_migrating = controller.migrating
    kraft_epoch = holder.kraft_controller_epoch
    controller.migrating = kraft_epoch is not None and kraft_epoch >= 0
    if _is_known(controller, holder, change):
        return []
    if not state.control.log.baseline:
        _hold(state, change, holder)
        return []
    events = _report_pending(controller)
    before = controller.id if controller.id != NO_CONTROLLER else controller.last_id
    if controller.migrating and controller.epoch_zxid == change.czxid:
        _skip_epochs(controller)
    vacancy_ms = _close_vacancy(state, change)
    changed_hands = controller.migrating is not was_migrating
    cause = _resolve_cause(state, before, change, changed_hands=changed_hands)
    controller.last_id = before
    controller.known_before = controller.vacant_since or controller.held_until
    _hold(state, change, holder)
    _begin_election(controller, before, change)
    controller.pending_election = ControllerElected(
        at=change.observed_at,
        position=change.position,
        zxid=change.czxid,
        from_broker=before,
        to_broker=holder.brokerid,
        epoch=None,
        vacancy_ms=vacancy_ms,
        vacancy_min_ms=controller.vacancy_last_min_ms,
        vacancy_max_ms=controller.vacancy_last_max_ms,
        cause=cause,
    )
    _begin_failover(state, change)
    _count(controller)
    return events + _report_if_epoch_is_read(controller)


def _resolve_cause(
    state: ClusterState, before: int, change: ZnodeChange, *, changed_hands: bool
) -> ElectionCause:
    """Return the election's cause, and remember the former holder while its end may still show another."""
    controller = state.control.controller
    # If /controller was not seen to be deleted, the end of the holder's registration may be read later.
    unsure = controller.id != NO_CONTROLLER or state.control.log.resync is not None
    cause = ElectionCause.MIGRATION
    if not changed_hands:
        cause = _cause(state, before, change, unsure=unsure)
    is_open = unsure and cause is ElectionCause.UNKNOWN
    controller.unresolved_holder = before if is_open else NO_CONTROLLER
    return cause


def _begin_election(controller: ControllerState, before: int, change: ZnodeChange) -> None:
    """Count a creation of /controller, whose epoch may be read later, and store when it was."""
    controller.seen += 1
    controller.id_changes += before not in {NO_CONTROLLER, controller.id}
    awaiting = controller.elections_awaiting_epoch + 1 if _epoch_is_behind(controller) else 0
    controller.elections_awaiting_epoch = awaiting
    controller.pending_election_after = controller.epoch
    at = change.observed_at if change.ctime is None else change.ctime
    controller.recent_elections = noted(controller.recent_elections, at)


def end_controller(state: ClusterState, _znode: Znode, change: ZnodeChange) -> list[AnyEvent]:
    """Apply the deletion of /controller."""
    controller = state.control.controller
    events = _report_pending(controller)
    gone = controller.id
    if gone == NO_CONTROLLER:
        return events  # its last value was unreadable, so it already counts as vacant
    controller.last_id = gone
    controller.id = NO_CONTROLLER
    controller.czxid = None
    controller.elected_at = None
    controller.timestamp = None
    controller.failover = Failover.UNKNOWN
    if not state.control.log.baseline:
        return events
    controller.vacant_since = change.observed_at
    if change.kind is ChangeKind.DELETED and state.control.log.resync is None:
        controller.held_until = change.observed_at  # otherwise it may have ended at any time since
    vacated = ControllerVacated(**where(change), from_broker=gone, epoch=controller.epoch)
    return [*events, vacated]


def set_epoch(
    state: ClusterState, _znode: Znode, change: ZnodeChange, payload: bytes
) -> list[AnyEvent]:
    """Apply a new controller epoch."""
    epoch = decode_controller_epoch(payload)
    log = state.control.log
    controller = state.control.controller
    before, controller.epoch = controller.epoch, epoch
    controller.epoch_zxid = change.mzxid or 0
    controller.elections_awaiting_epoch = int(_epoch_is_behind(controller))
    if not log.baseline:
        return []
    both_read = controller.czxid == controller.epoch_zxid
    replaced = log.resync is not None and log.resync.rebase
    if before is None or epoch < before or replaced or (controller.migrating and both_read):
        # The history was replaced, the epoch could not be read before, or KRaft set it: what has
        # been counted is kept, and counting continues from this epoch.
        _count_from(controller, epoch)
    elif epoch > before + 1 and not both_read:
        # Several elections, or KRaft taking over: the value of /controller will show which.
        return _report_if_epoch_is_read(controller)
    _count(controller)
    return _report_if_epoch_is_read(controller)


def baseline(state: ClusterState, change: ZnodeChange) -> None:
    """Start counting: a controller that is there counts as one election."""
    controller = state.control.controller
    controller.elections_awaiting_epoch = int(_epoch_is_behind(controller))
    controller.base_epoch = (
        None if controller.epoch is None else controller.epoch + controller.elections_awaiting_epoch
    )
    controller.base_elections = int(controller.id != NO_CONTROLLER)
    if controller.elected_at is not None:
        controller.recent_elections = ((controller.elected_at, 1),)
    controller.elections = controller.base_elections
    controller.seen = 0
    controller.pending_election = None
    if controller.czxid is None and "/controller" not in state.control.stats:
        controller.vacant_since = change.observed_at


def catch_up(state: ClusterState, change: ZnodeChange) -> list[AnyEvent]:
    """Bring the counts up to date at a heartbeat: both znodes of any earlier election have been read."""
    controller = state.control.controller
    if not state.control.log.baseline or state.control.log.resync is not None:
        return []
    if controller.id != NO_CONTROLLER:
        controller.held_until = change.observed_at
    controller.unresolved_holder = NO_CONTROLLER
    _count(controller)
    _count_missed(controller)
    late = (
        controller.pending_election is not None
        and change.observed_at - controller.pending_election.at > ELECTION_PENDING_AT_MOST_MS
    )
    return _report_pending(controller) if late else []


def account(controller: ControllerState) -> tuple[int, int]:
    """Return (elections, missed ones) as if the log ended here.

    Then no /controller will be read after the epoch, so what only the epoch shows is missed.
    """
    settled = msgspec.structs.replace(controller)
    _count(settled)
    _count_missed(settled)
    return settled.elections, settled.missed


def holder_registered(state: ClusterState, broker: int, epoch: int | None) -> None:
    """Remember under which registration a broker holds /controller, if that is read later."""
    controller = state.control.controller
    if controller.id != broker or controller.czxid is None or epoch is None:
        return
    if epoch < controller.czxid:  # a broker registers before it stands for election
        controller.last_holder_epoch = epoch


def holder_died(state: ClusterState, broker: int, change: ZnodeChange) -> None:
    """Apply the end of a registration that may be the cause of an election."""
    controller = state.control.controller
    if broker != controller.unresolved_holder:
        return
    controller.unresolved_holder = NO_CONTROLLER
    if controller.pending_election is not None:
        cause = ElectionCause.SESSION_LOST
        controller.pending_election = msgspec.structs.replace(
            controller.pending_election, cause=cause
        )
    if controller.failover is Failover.NOT_NEEDED:
        _begin_failover(state, change)


def count_pending(state: ClusterState, change: ZnodeChange, by: int) -> list[AnyEvent]:
    """Count leader writes that a partition's state made due (`by` > 0) or did (`by` < 0)."""
    controller = state.control.controller
    if controller.failover is not Failover.UNDER_WAY or not by:
        return []
    controller.failover_pending += by
    if by < 0:
        controller.failover_last_write_at = change.observed_at
    return [] if controller.failover_pending > 0 else finish_failover(state, change.observed_at)


def finish_failover(state: ClusterState, at: int) -> list[AnyEvent]:
    """End the failover work if no leader write is due any more, by a new count of those due."""
    controller = state.control.controller
    if controller.failover is not Failover.UNDER_WAY:
        return []
    controller.failover_pending = pending_leader_writes(state.control)
    if controller.failover_pending:
        return []
    ended_at = controller.failover_last_write_at or at
    took_ms = max(0, ended_at - (controller.failover_since or ended_at))
    controller.failover = Failover.DONE
    controller.failover_last_ms = took_ms
    return [
        FailoverWork(
            at=at,
            position=state.control.log.position,
            controller=controller.id,
            epoch=controller.epoch,
            took_ms=took_ms,
            partitions=controller.failover_partitions,
        )
    ]


def _is_known(controller: ControllerState, holder: ControllerZnode, change: ZnodeChange) -> bool:
    """Return whether this /controller is already held, and add what was not known of it.

    A field that a record lacks is not checked.
    """
    if holder.brokerid != controller.id:
        return False
    # A cluster that was rebuilt may reach the same zxids, at another time.
    if differ(controller.czxid, change.czxid) or differ(controller.elected_at, change.ctime):
        return False
    timestamp = _timestamp(holder)
    # Kafka never rewrites the payload: without a czxid, its timestamp shows the next election.
    if None in {controller.czxid, change.czxid} and differ(controller.timestamp, timestamp):
        return False
    controller.czxid = change.czxid if controller.czxid is None else controller.czxid
    controller.elected_at = change.ctime if controller.elected_at is None else controller.elected_at
    controller.timestamp = timestamp if controller.timestamp is None else controller.timestamp
    return True


def _timestamp(holder: ControllerZnode) -> str | None:
    return None if holder.timestamp is None else str(holder.timestamp)


def _hold(state: ClusterState, change: ZnodeChange, holder: ControllerZnode) -> None:
    controller = state.control.controller
    controller.id = holder.brokerid
    controller.czxid = change.czxid
    controller.elected_at = change.ctime
    controller.timestamp = _timestamp(holder)
    controller.vacant_since = None
    controller.held_until = change.observed_at
    record = state.control.brokers.get(holder.brokerid)
    controller.last_holder_epoch = record.epoch if record and record.live else None


def _cause(state: ClusterState, before: int, change: ZnodeChange, *, unsure: bool) -> ElectionCause:
    controller = state.control.controller
    if before == NO_CONTROLLER:
        return ElectionCause.FIRST if _is_first(state, change) else ElectionCause.UNKNOWN
    if controller.migrating or controller.last_holder_epoch is None:
        return ElectionCause.UNKNOWN
    record = state.control.brokers.get(before)
    stayed = record is not None and record.live and record.epoch == controller.last_holder_epoch
    if not stayed:
        return ElectionCause.SESSION_LOST
    return ElectionCause.UNKNOWN if unsure else ElectionCause.DELETED


def _is_first(state: ClusterState, change: ZnodeChange) -> bool:
    """Return whether nobody was elected before: vacant so far, and no epoch before this election's."""
    controller = state.control.controller
    if controller.vacant_since is None:
        return False
    if controller.epoch is None:
        return "/controller_epoch" not in state.control.stats
    is_its_own = controller.epoch_zxid == change.czxid
    return controller.epoch <= is_its_own


def _close_vacancy(state: ClusterState, change: ZnodeChange) -> int | None:
    """Add the vacancy that this election ends; return its length if both its ends were seen."""
    controller = state.control.controller
    seen_live = controller.vacant_since is not None and state.control.log.resync is None
    # The minimum is the time in which it was seen to be vacant; the maximum, the time since it was
    # last known to be held. They are equal if both ends were seen live. If it began before anybody
    # watched, the maximum is not known, and the sums contain only the watched time.
    known_ms = _since(controller.vacant_since, change)
    most_ms = None if controller.held_until is None else _since(controller.held_until, change)
    counted_ms = known_ms if most_ms is None else most_ms
    least_ms = min(counted_ms, known_ms) if seen_live else 0
    controller.vacancy_last_min_ms = least_ms
    controller.vacancy_last_max_ms = most_ms
    controller.vacancy_total_min_ms += least_ms
    controller.vacancy_total_max_ms += counted_ms
    return most_ms if seen_live and least_ms == most_ms else None


def _since(began: int | None, change: ZnodeChange) -> int:
    return 0 if began is None else max(0, change.observed_at - began)


def _begin_failover(state: ClusterState, change: ZnodeChange) -> None:
    controller = state.control.controller
    due = pending_leader_writes(state.control)
    controller.failover = Failover.UNDER_WAY if due else Failover.NOT_NEEDED
    controller.failover_since = change.observed_at
    controller.failover_partitions = due
    controller.failover_pending = due
    controller.failover_last_write_at = None
    if controller.migrating:
        controller.failover = Failover.UNKNOWN


def _count(controller: ControllerState) -> None:
    """Count elections up to what is known now, and missed ones once both znodes of the last are read."""
    by_epoch = _elections_by_epoch(controller)
    counted = controller.base_elections + max(by_epoch, controller.seen)
    controller.elections = max(controller.elections, counted)
    if controller.czxid is None or controller.czxid != controller.epoch_zxid:
        return
    if controller.base_epoch is not None:
        # Counting may have begun between the two reads of an election: from here on both agree.
        controller.base_epoch -= max(0, controller.seen - by_epoch)
    _count_missed(controller)


def _elections_by_epoch(controller: ControllerState) -> int:
    """Return how many elections the epoch shows since counting started."""
    if controller.epoch is None or controller.base_epoch is None:
        return 0
    return controller.epoch - controller.base_epoch + controller.elections_awaiting_epoch


def _count_from(controller: ControllerState, epoch: int) -> None:
    controller.base_epoch = epoch
    controller.base_elections = controller.elections
    controller.base_missed = controller.missed
    controller.seen = 0


def _skip_epochs(controller: ControllerState) -> None:
    """Leave out the epochs that KRaft skipped: its own epoch becomes the controller epoch."""
    if controller.epoch is None or controller.base_epoch is None:
        return
    if controller.base_elections + controller.epoch - controller.base_epoch > controller.elections:
        _count_from(controller, controller.epoch)


def _count_missed(controller: ControllerState) -> None:
    missed = controller.elections - controller.base_elections - controller.seen
    more = controller.base_missed + missed - controller.missed
    if more <= 0:
        return
    controller.missed += more
    if controller.known_before is not None:
        controller.recent_elections = noted(
            controller.recent_elections, controller.known_before, more
        )


def _epoch_is_behind(controller: ControllerState) -> bool:
    """Return whether /controller is newer than the epoch: its election's epoch has yet to be read."""
    return controller.czxid is not None and 0 < controller.epoch_zxid < controller.czxid


def _report_if_epoch_is_read(controller: ControllerState) -> list[AnyEvent]:
    pending_election = controller.pending_election
    is_read = pending_election is not None and _is_read(controller, pending_election)
    return _report_pending(controller) if is_read else []


def _is_read(controller: ControllerState, pending_election: ControllerElected) -> bool:
    return pending_election.zxid is not None and controller.epoch_zxid >= pending_election.zxid


def _report_pending(controller: ControllerState) -> list[AnyEvent]:
    pending_election, controller.pending_election = controller.pending_election, None
    if pending_election is None:
        return []
    missed = controller.missed - controller.missed_reported
    controller.missed_reported = controller.missed
    # Before 2.1 the epoch is set after /controller; a larger jump includes epochs of later elections.
    exact = pending_election.zxid == controller.epoch_zxid
    after = controller.pending_election_after
    followed = after is not None and controller.epoch == after + 1
    is_its_own = exact or (followed and _is_read(controller, pending_election))
    epoch = controller.epoch if is_its_own else None
    return [msgspec.structs.replace(pending_election, epoch=epoch, missed_elections=missed)]
