"""Who the controller is, and the exact account of its elections.

The rule: the controller epoch grows by one per election, so the count follows the epoch, and an
election that nobody watched is still counted. Since Kafka 2.1 /controller and /controller_epoch
change in one transaction (KafkaZkClient.registerControllerAndIncrementControllerEpoch) but are
read one after the other: the count runs ahead of the epoch by the elections whose /controller has
been read and whose epoch has not, and never falls.
"""

from __future__ import annotations

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
from controller_model.records.views import Failover
from controller_model.state.cluster import ClusterState
from controller_model.state.control_plane import ControllerLedger
from controller_model.state.figures import leader_writes_due
from controller_model.znodes.znode_kinds import (
    ControllerZnode,
    Znode,
    decode_controller,
    decode_controller_epoch,
)

UNTOLD_FOR_AT_MOST_MS = 2_000
"""How long an election waits for its epoch to be read before it is told without."""


def set_controller(
    state: ClusterState, _znode: Znode, change: ZnodeChange, payload: bytes
) -> list[AnyEvent]:
    """Take a new value of /controller."""
    holder = decode_controller(payload)
    ledger = state.control.controller
    was_migrating = ledger.migrating
    ledger.migrating = holder.kraft_controller_epoch is not None and (
        holder.kraft_controller_epoch >= 0
    )
    if _is_known(ledger, holder, change):
        return []
    if not state.control.log.baseline:
        _hold(state, change, holder)
        return []
    told = _tell(ledger)
    vacancy_ms = _close_vacancy(state, change)
    before = ledger.id if ledger.id != NO_CONTROLLER else ledger.last_id
    if ledger.migrating and ledger.epoch_zxid == change.czxid:
        _skip_epochs(ledger)
    ledger.seen += 1
    ledger.id_changes += before not in {NO_CONTROLLER, holder.brokerid}
    # Where the end was not seen by itself, the end of the holder's registration may be read yet.
    unsure = ledger.id != NO_CONTROLLER or state.control.log.resync is not None
    cause = ElectionCause.MIGRATION
    if ledger.migrating is was_migrating:
        cause = _cause(state, before, change, unsure=unsure)
    ledger.unsure_of = before if unsure and cause is ElectionCause.UNKNOWN else NO_CONTROLLER
    ledger.last_id = before
    _hold(state, change, holder)
    ledger.unread = ledger.unread + 1 if _epoch_is_behind(ledger) else 0
    ledger.untold_after = ledger.epoch
    ledger.untold = ControllerElected(
        at=change.observed_at,
        position=change.position,
        zxid=change.czxid,
        from_broker=before,
        to_broker=holder.brokerid,
        epoch=None,
        vacancy_ms=vacancy_ms,
        vacancy_min_ms=ledger.vacancy_last_min_ms,
        vacancy_max_ms=ledger.vacancy_last_max_ms,
        cause=cause,
    )
    _begin_failover(state, change)
    _count(ledger)
    return told + _tell_if_epoch_is_read(ledger)


def end_controller(state: ClusterState, _znode: Znode, change: ZnodeChange) -> list[AnyEvent]:
    """Take the end of /controller."""
    ledger = state.control.controller
    told = _tell(ledger)
    gone = ledger.id
    if gone == NO_CONTROLLER:
        return told  # its last value was unreadable: it stays vacant for us
    ledger.last_id = gone
    ledger.id = NO_CONTROLLER
    ledger.czxid = None
    ledger.elected_at = None
    ledger.timestamp = None
    ledger.failover = Failover.UNKNOWN
    if not state.control.log.baseline:
        return told
    ledger.vacant_since = change.observed_at
    if change.kind is ChangeKind.DELETED and state.control.log.resync is None:
        ledger.held_until = change.observed_at  # else it may have gone at any time since then
    vacated = ControllerVacated(
        **where(change),
        from_broker=gone,
        epoch=ledger.epoch,
    )
    return [*told, vacated]


def set_epoch(
    state: ClusterState, _znode: Znode, change: ZnodeChange, payload: bytes
) -> list[AnyEvent]:
    """Take a new controller epoch."""
    epoch = decode_controller_epoch(payload)
    log = state.control.log
    ledger = state.control.controller
    before, ledger.epoch = ledger.epoch, epoch
    ledger.epoch_zxid = change.mzxid or 0
    ledger.unread = int(_epoch_is_behind(ledger))
    if not log.baseline:
        return []
    both_read = ledger.czxid == ledger.epoch_zxid
    replaced = log.resync is not None and log.resync.rebase
    if before is None or epoch < before or replaced or (ledger.migrating and both_read):
        # A history that was replaced, an epoch that could not be read before, or one that KRaft
        # gave: what has been counted stands, and counting goes on from here.
        _count_from(ledger, epoch)
    elif epoch > before + 1 and not both_read:
        # Elections in a row, or KRaft taking over: the value of /controller will tell which.
        return _tell_if_epoch_is_read(ledger)
    _count(ledger)
    return _tell_if_epoch_is_read(ledger)


def baseline(state: ClusterState, change: ZnodeChange) -> None:
    """Start counting: a present controller stands for one election."""
    ledger = state.control.controller
    ledger.unread = int(_epoch_is_behind(ledger))
    ledger.base_epoch = None if ledger.epoch is None else ledger.epoch + ledger.unread
    ledger.base_elections = int(ledger.id != NO_CONTROLLER)
    ledger.elections = ledger.base_elections
    ledger.seen = 0
    ledger.untold = None
    if ledger.czxid is None and "/controller" not in state.control.marks:
        ledger.vacant_since = change.observed_at


def catch_up(state: ClusterState, change: ZnodeChange) -> list[AnyEvent]:
    """Settle the account at a heartbeat: both znodes of any election before it have been read."""
    ledger = state.control.controller
    if not state.control.log.baseline or state.control.log.resync is not None:
        return []
    if ledger.id != NO_CONTROLLER:
        ledger.held_until = change.observed_at
    ledger.unsure_of = NO_CONTROLLER
    _count(ledger)
    _count_missed(ledger)
    late = (
        ledger.untold is not None and change.observed_at - ledger.untold.at > UNTOLD_FOR_AT_MOST_MS
    )
    return _tell(ledger) if late else []


def account(ledger: ControllerLedger) -> tuple[int, int]:
    """Return (elections, missed ones) if the log ends here.

    No /controller is then going to be read after the epoch: what only the epoch tells of is missed.
    """
    settled = msgspec.structs.replace(ledger)
    _count(settled)
    _count_missed(settled)
    return settled.elections, settled.missed


def holder_registered(state: ClusterState, broker: int, epoch: int | None) -> None:
    """Remember with which registration /controller is held, if that was read after it."""
    ledger = state.control.controller
    if ledger.id != broker or ledger.czxid is None or epoch is None:
        return
    if epoch < ledger.czxid:  # a broker registers before it stands for election
        ledger.last_holder_epoch = epoch


def holder_died(state: ClusterState, broker: int, change: ZnodeChange) -> None:
    """Take the end of a registration that an election may have been about."""
    ledger = state.control.controller
    if broker != ledger.unsure_of:
        return
    ledger.unsure_of = NO_CONTROLLER
    if ledger.untold is not None:
        cause = ElectionCause.SESSION_LOST
        ledger.untold = msgspec.structs.replace(ledger.untold, cause=cause)
    if ledger.failover is Failover.NOT_NEEDED:
        _begin_failover(state, change)


def move_due(state: ClusterState, change: ZnodeChange, by: int) -> list[AnyEvent]:
    """Note that a partition's state made leader writes due, or did one that was."""
    ledger = state.control.controller
    if ledger.failover is not Failover.UNDER_WAY or not by:
        return []
    ledger.failover_due += by
    if by < 0:
        ledger.failover_last_write_at = change.observed_at
    return [] if ledger.failover_due > 0 else finish_failover(state, change.observed_at)


def recount_due(state: ClusterState, change: ZnodeChange) -> list[AnyEvent]:
    """Count the leader writes due anew, after a change that moves more than one partition."""
    if state.control.controller.failover is not Failover.UNDER_WAY:
        return []
    state.settle()
    return finish_failover(state, change.observed_at)


def finish_failover(state: ClusterState, at: int) -> list[AnyEvent]:
    """End the failover work if no leader write is due any more."""
    ledger = state.control.controller
    if ledger.failover is not Failover.UNDER_WAY:
        return []
    state.settle()
    ledger.failover_due = leader_writes_due(state.control)
    if ledger.failover_due:
        return []
    ended_at = ledger.failover_last_write_at or at
    took_ms = max(0, ended_at - (ledger.failover_since or ended_at))
    ledger.failover = Failover.DONE
    ledger.failover_last_ms = took_ms
    return [
        FailoverWork(
            at=at,
            position=state.control.log.position,
            controller=ledger.id,
            epoch=ledger.epoch,
            took_ms=took_ms,
            partitions=ledger.failover_partitions,
        )
    ]


def _is_known(ledger: ControllerLedger, holder: ControllerZnode, change: ZnodeChange) -> bool:
    """Tell whether this is the /controller that is held; take what was not known of it.

    What a record lacks is not checked.
    """
    if holder.brokerid != ledger.id:
        return False
    # A cluster that was built anew may come to the same zxids, at another time.
    if differ(ledger.czxid, change.czxid) or differ(ledger.elected_at, change.ctime):
        return False
    timestamp = _timestamp(holder)
    # Kafka never rewrites the payload: without a czxid, its time tells the next election.
    if None in {ledger.czxid, change.czxid} and differ(ledger.timestamp, timestamp):
        return False
    ledger.czxid = change.czxid if ledger.czxid is None else ledger.czxid
    ledger.elected_at = change.ctime if ledger.elected_at is None else ledger.elected_at
    ledger.timestamp = timestamp if ledger.timestamp is None else ledger.timestamp
    return True


def _timestamp(holder: ControllerZnode) -> str | None:
    return None if holder.timestamp is None else str(holder.timestamp)


def _hold(state: ClusterState, change: ZnodeChange, holder: ControllerZnode) -> None:
    ledger = state.control.controller
    ledger.id = holder.brokerid
    ledger.czxid = change.czxid
    ledger.elected_at = change.ctime
    ledger.timestamp = _timestamp(holder)
    ledger.vacant_since = None
    ledger.held_until = change.observed_at
    record = state.control.brokers.get(holder.brokerid)
    ledger.last_holder_epoch = record.epoch if record and record.live else None


def _cause(state: ClusterState, before: int, change: ZnodeChange, *, unsure: bool) -> ElectionCause:
    ledger = state.control.controller
    if before == NO_CONTROLLER:
        return ElectionCause.FIRST if _is_first(state, change) else ElectionCause.UNKNOWN
    if ledger.migrating or ledger.last_holder_epoch is None:
        return ElectionCause.UNKNOWN
    record = state.control.brokers.get(before)
    stayed = record is not None and record.live and record.epoch == ledger.last_holder_epoch
    if not stayed:
        return ElectionCause.SESSION_LOST
    return ElectionCause.UNKNOWN if unsure else ElectionCause.DELETED


def _is_first(state: ClusterState, change: ZnodeChange) -> bool:
    """Tell whether nobody was elected before: found vacant, and under no epoch but this one's."""
    ledger = state.control.controller
    if ledger.vacant_since is None:
        return False
    if ledger.epoch is None:
        return "/controller_epoch" not in state.control.marks
    is_its_own = ledger.epoch_zxid == change.czxid
    return ledger.epoch <= is_its_own


def _close_vacancy(state: ClusterState, change: ZnodeChange) -> int | None:
    """Add the vacancy that this election ends; return it when both its ends were seen."""
    ledger = state.control.controller
    seen_live = ledger.vacant_since is not None and state.control.log.resync is None
    # Nobody held it for at least as long as that was seen, and at most since it was last known
    # to be held: the same, where both its ends were seen as they happened. Of one that began
    # before anybody looked nobody knows the most; the sums are of the time that is watched.
    known_ms = _since(ledger.vacant_since, change)
    most_ms = None if ledger.held_until is None else _since(ledger.held_until, change)
    counted_ms = known_ms if most_ms is None else most_ms
    least_ms = min(counted_ms, known_ms) if seen_live else 0
    ledger.vacancy_last_min_ms = least_ms
    ledger.vacancy_last_max_ms = most_ms
    ledger.vacancy_total_min_ms += least_ms
    ledger.vacancy_total_max_ms += counted_ms
    return most_ms if seen_live and least_ms == most_ms else None


def _since(began: int | None, change: ZnodeChange) -> int:
    return 0 if began is None else max(0, change.observed_at - began)


def _begin_failover(state: ClusterState, change: ZnodeChange) -> None:
    ledger = state.control.controller
    state.settle()
    due = leader_writes_due(state.control)
    ledger.failover = Failover.UNDER_WAY if due else Failover.NOT_NEEDED
    ledger.failover_since = change.observed_at
    ledger.failover_partitions = due
    ledger.failover_due = due
    ledger.failover_last_write_at = None
    if ledger.migrating:
        ledger.failover = Failover.UNKNOWN


def _count(ledger: ControllerLedger) -> None:
    by_epoch = 0
    if ledger.epoch is not None and ledger.base_epoch is not None:
        by_epoch = ledger.epoch - ledger.base_epoch + ledger.unread
    counted = ledger.base_elections + max(by_epoch, ledger.seen)
    ledger.elections = max(ledger.elections, counted)
    if ledger.czxid is not None and ledger.czxid == ledger.epoch_zxid:
        if ledger.base_epoch is not None and ledger.seen > by_epoch:
            # Counting began between the two reads of an election: from here on they agree.
            ledger.base_epoch -= ledger.seen - by_epoch
        _count_missed(ledger)


def _count_from(ledger: ControllerLedger, epoch: int) -> None:
    ledger.base_epoch = epoch
    ledger.base_elections = ledger.elections
    ledger.base_missed = ledger.missed
    ledger.seen = 0


def _skip_epochs(ledger: ControllerLedger) -> None:
    """Leave out the epochs that KRaft skipped: its own epoch becomes the controller's."""
    if ledger.epoch is None or ledger.base_epoch is None:
        return
    if ledger.base_elections + ledger.epoch - ledger.base_epoch > ledger.elections:
        _count_from(ledger, ledger.epoch)


def _count_missed(ledger: ControllerLedger) -> None:
    missed = ledger.elections - ledger.base_elections - ledger.seen
    ledger.missed = max(ledger.missed, ledger.base_missed + missed)


def _epoch_is_behind(ledger: ControllerLedger) -> bool:
    """Tell whether /controller is newer than the epoch: its election's epoch is not read yet."""
    return ledger.czxid is not None and 0 < ledger.epoch_zxid < ledger.czxid


def _tell_if_epoch_is_read(ledger: ControllerLedger) -> list[AnyEvent]:
    untold = ledger.untold
    return _tell(ledger) if untold is not None and _is_read(ledger, untold) else []


def _is_read(ledger: ControllerLedger, untold: ControllerElected) -> bool:
    return untold.zxid is not None and ledger.epoch_zxid >= untold.zxid


def _tell(ledger: ControllerLedger) -> list[AnyEvent]:
    untold, ledger.untold = ledger.untold, None
    if untold is None:
        return []
    missed, ledger.missed_told = ledger.missed - ledger.missed_told, ledger.missed
    # Before 2.1 the epoch is set after /controller; a wider jump holds later elections' epochs.
    exact = untold.zxid == ledger.epoch_zxid
    after = ledger.untold_after
    followed = after is not None and ledger.epoch == after + 1
    epoch = ledger.epoch if exact or (followed and _is_read(ledger, untold)) else None
    return [msgspec.structs.replace(untold, epoch=epoch, missed_elections=missed)]
