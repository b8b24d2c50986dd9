"""Who the controller is, and the exact account of its elections.

The rule: the controller epoch grows by one per election, so the count follows the epoch, and an
election that nobody watched is still counted. Since Kafka 2.1 /controller and /controller_epoch
change in one transaction (KafkaZkClient.registerControllerAndIncrementControllerEpoch) but are
read one after the other: the count runs ahead of the epoch by the elections whose /controller has
been read and whose epoch has not, and never falls.
"""

import msgspec

from controller_model.insights.recent_elections import noted
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
from controller_model.records.views import Failover
from controller_model.state.cluster import ClusterState
from controller_model.state.controller_state import ControllerState
from controller_model.state.figures import leader_writes_due
from controller_model.znodes.payloads import (
    ControllerZnode,
    decode_controller,
    decode_controller_epoch,
)
from controller_model.znodes.znode_kinds import Znode

ELECTION_PENDING_AT_MOST_MS = 2_000
"""How long an election waits for its epoch to be read before it is reported without."""


def set_controller(
    state: ClusterState, _znode: Znode, change: ZnodeChange, payload: bytes
) -> list[AnyEvent]:
    """Take a new value of /controller."""
    holder = decode_controller(payload)
    controller = state.control.controller
    was_migrating = controller.migrating
    controller.migrating = _is_migrating(holder)
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
    _begin_election(controller, before)
    _note_election(controller, change)
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


def _is_migrating(holder: ControllerZnode) -> bool:
    return holder.kraft_controller_epoch is not None and holder.kraft_controller_epoch >= 0


def _resolve_cause(
    state: ClusterState, before: int, change: ZnodeChange, *, changed_hands: bool
) -> ElectionCause:
    """Return why there was an election, and note whether the former holder's end may still show it."""
    controller = state.control.controller
    # Where the end was not seen by itself, the end of the holder's registration may be read yet.
    unsure = controller.id != NO_CONTROLLER or state.control.log.resync is not None
    cause = ElectionCause.MIGRATION
    if not changed_hands:
        cause = _cause(state, before, change, unsure=unsure)
    is_open = unsure and cause is ElectionCause.UNKNOWN
    controller.unresolved_holder = before if is_open else NO_CONTROLLER
    return cause


def _begin_election(controller: ControllerState, before: int) -> None:
    """Count a creation of /controller, of which the epoch may be read later."""
    controller.seen += 1
    controller.id_changes += before not in {NO_CONTROLLER, controller.id}
    awaiting = controller.elections_awaiting_epoch + 1 if _epoch_is_behind(controller) else 0
    controller.elections_awaiting_epoch = awaiting
    controller.pending_election_after = controller.epoch


def _note_election(controller: ControllerState, change: ZnodeChange) -> None:
    """Note when the present controller was elected."""
    at = change.observed_at if change.ctime is None else change.ctime
    controller.recent_elections = noted(controller.recent_elections, at)


def end_controller(state: ClusterState, _znode: Znode, change: ZnodeChange) -> list[AnyEvent]:
    """Take the end of /controller."""
    controller = state.control.controller
    events = _report_pending(controller)
    gone = controller.id
    if gone == NO_CONTROLLER:
        return events  # its last value was unreadable: it stays vacant for us
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
        controller.held_until = change.observed_at  # else it may have gone at any time since then
    vacated = ControllerVacated(**where(change), from_broker=gone, epoch=controller.epoch)
    return [*events, vacated]


def set_epoch(
    state: ClusterState, _znode: Znode, change: ZnodeChange, payload: bytes
) -> list[AnyEvent]:
    """Take a new controller epoch."""
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
        # A history that was replaced, an epoch that could not be read before, or one that KRaft
        # gave: what has been counted stands, and counting goes on from here.
        _count_from(controller, epoch)
    elif epoch > before + 1 and not both_read:
        # Elections in a row, or KRaft taking over: the value of /controller will show which.
        return _report_if_epoch_is_read(controller)
    _count(controller)
    return _report_if_epoch_is_read(controller)


def baseline(state: ClusterState, change: ZnodeChange) -> None:
    """Start counting: a present controller stands for one election."""
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
    """Settle the account at a heartbeat: both znodes of any election before it have been read."""
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
    """Return (elections, missed ones) if the log ends here.

    No /controller is then going to be read after the epoch: what only the epoch shows is missed.
    """
    settled = msgspec.structs.replace(controller)
    _count(settled)
    _count_missed(settled)
    return settled.elections, settled.missed


def holder_registered(state: ClusterState, broker: int, epoch: int | None) -> None:
    """Remember with which registration /controller is held, if that was read after it."""
    controller = state.control.controller
    if controller.id != broker or controller.czxid is None or epoch is None:
        return
    if epoch < controller.czxid:  # a broker registers before it stands for election
        controller.last_holder_epoch = epoch


def holder_died(state: ClusterState, broker: int, change: ZnodeChange) -> None:
    """Take the end of a registration that an election may have been about."""
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


def move_due(state: ClusterState, change: ZnodeChange, by: int) -> list[AnyEvent]:
    """Note that a partition's state made leader writes due, or did one that was."""
    controller = state.control.controller
    if controller.failover is not Failover.UNDER_WAY or not by:
        return []
    controller.failover_due += by
    if by < 0:
        controller.failover_last_write_at = change.observed_at
    return [] if controller.failover_due > 0 else finish_failover(state, change.observed_at)


def finish_failover(state: ClusterState, at: int) -> list[AnyEvent]:
    """End the failover work if no leader write is due any more: all that are due are counted again."""
    controller = state.control.controller
    if controller.failover is not Failover.UNDER_WAY:
        return []
    controller.failover_due = leader_writes_due(state.control)
    if controller.failover_due:
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
    """Return whether this is the /controller that is held; take what was not known of it.

    What a record lacks is not checked.
    """
    if holder.brokerid != controller.id:
        return False
    # A cluster that was rebuilt may come to the same zxids, at another time.
    if differ(controller.czxid, change.czxid) or differ(controller.elected_at, change.ctime):
        return False
    timestamp = _timestamp(holder)
    # Kafka never rewrites the payload: without a czxid, its time shows the next election.
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
    """Return whether nobody was elected before: found vacant, and under no epoch but this one's."""
    controller = state.control.controller
    if controller.vacant_since is None:
        return False
    if controller.epoch is None:
        return "/controller_epoch" not in state.control.stats
    is_its_own = controller.epoch_zxid == change.czxid
    return controller.epoch <= is_its_own


def _close_vacancy(state: ClusterState, change: ZnodeChange) -> int | None:
    """Add the vacancy that this election ends; return it when both its ends were seen."""
    controller = state.control.controller
    seen_live = controller.vacant_since is not None and state.control.log.resync is None
    # Nobody held it for at least as long as that was seen, and at most since it was last known
    # to be held: the same, where both its ends were seen as they happened. Of one that began
    # before anybody watched nobody knows the most; the sums are of the time that is watched.
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
    due = leader_writes_due(state.control)
    controller.failover = Failover.UNDER_WAY if due else Failover.NOT_NEEDED
    controller.failover_since = change.observed_at
    controller.failover_partitions = due
    controller.failover_due = due
    controller.failover_last_write_at = None
    if controller.migrating:
        controller.failover = Failover.UNKNOWN


def _count(controller: ControllerState) -> None:
    """Count elections up to what is known now; missed ones once both znodes of the last are read."""
    by_epoch = _elections_by_epoch(controller)
    counted = controller.base_elections + max(by_epoch, controller.seen)
    controller.elections = max(controller.elections, counted)
    if controller.czxid is None or controller.czxid != controller.epoch_zxid:
        return
    if controller.base_epoch is not None:
        # Counting may have begun between the two reads of an election: from here on they agree.
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
    """Leave out the epochs that KRaft skipped: its own epoch becomes the controller's."""
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
    """Return whether /controller is newer than the epoch: its election's epoch is not read yet."""
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
    # Before 2.1 the epoch is set after /controller; a wider jump holds later elections' epochs.
    exact = pending_election.zxid == controller.epoch_zxid
    after = controller.pending_election_after
    followed = after is not None and controller.epoch == after + 1
    is_its_own = exact or (followed and _is_read(controller, pending_election))
    epoch = controller.epoch if is_its_own else None
    return [msgspec.structs.replace(pending_election, epoch=epoch, missed_elections=missed)]
