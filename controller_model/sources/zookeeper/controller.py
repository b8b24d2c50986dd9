"""The join of /controller with /controller_epoch: who was elected, why, and under which epoch.

The rule: since Kafka 2.1 both change in one transaction
(KafkaZkClient.registerControllerAndIncrementControllerEpoch), but they are read one after the other.
An election waits for its epoch, for at most ELECTION_PENDING_MAX_MS.
"""

from controller_model.facts.facts import (
    ControllerConfirmed,
    ControllerEpochIs,
    ControllerGone,
    ControllerIs,
    CountingStarts,
    ElectionCauseIs,
    ElectionConfirmed,
    ElectionsAre,
    KraftMigrationIs,
)
from controller_model.facts.stamp import Stamp
from controller_model.kafka.ids import NO_CONTROLLER
from controller_model.records.changes import ChangeKind, ZnodeChange, differ
from controller_model.records.events import AnyEvent, ControllerElected, ElectionCause
from controller_model.records.views import Failover
from controller_model.sources.zookeeper.election_count import (
    continue_from,
    skip_epochs,
    start_count,
    tally,
)
from controller_model.sources.zookeeper.foreign_writes import PERSISTENT, report_epoch
from controller_model.sources.zookeeper.payloads import (
    ControllerZnode,
    decode_controller,
    decode_controller_epoch,
)
from controller_model.sources.zookeeper.pending_writes import begin_failover
from controller_model.sources.zookeeper.state import ControllerZnodes, zookeeper_of
from controller_model.sources.zookeeper.stats import ZnodeRead
from controller_model.state.cluster import ClusterState
from controller_model.state.source import Handle

ELECTION_PENDING_MAX_MS = 2_000
"""How long an election waits for its epoch to be read before it is reported without one."""


def read_controller(read: ZnodeRead) -> list[AnyEvent]:
    """Read a new value of /controller."""
    state, change, stamp, handle = read.state, read.change, read.stamp, read.handle
    holder = decode_controller(change.payload())
    zookeeper, controller = zookeeper_of(state.control), state.control.controller
    view, znodes, count = controller.view, zookeeper.controller, zookeeper.elections
    was_migrating = view.migrating_to_kraft
    kraft_epoch = holder.kraft_controller_epoch
    is_migrating = kraft_epoch is not None and kraft_epoch >= 0
    handle(state, KraftMigrationIs(stamp, is_migrating))
    if change.ephemeral_owner == PERSISTENT and not is_migrating:
        # Nobody was elected, and nobody can be while it is there.
        events = _end_term(read, was_seen=False)
        znodes.owner = PERSISTENT
        return events
    if change.ephemeral_owner is not None:
        znodes.owner = change.ephemeral_owner
    if _is_known(state, holder, change):
        at = change.ctime if view.elected_at is None else view.elected_at
        return handle(state, ControllerIs(stamp, holder.brokerid, at, is_same=True))
    if not state.control.log.baseline:
        _store_holder(state, change, holder)
        return handle(state, ControllerIs(stamp, holder.brokerid, change.ctime))
    events = _report_election(state, stamp, handle)
    before = controller.last_known_id
    if is_migrating and znodes.epoch_zxid == change.czxid:
        skip_epochs(count, view)
    cause = _resolve_cause(state, before, change, changed_hands=is_migrating is not was_migrating)
    count.known_before = view.vacant_since or controller.held_until
    _store_holder(state, change, holder)
    elected = ControllerIs(
        Stamp(stamp.at, stamp.position, change.czxid, stamp.place),
        holder.brokerid,
        change.ctime,
        cause=cause,
        epoch_follows=True,
    )
    events += handle(state, elected)
    count.seen += 1
    count.awaiting_epoch = count.awaiting_epoch + 1 if znodes.epoch_is_behind else 0
    znodes.epoch_before = view.epoch
    events += begin_failover(state, stamp, handle)
    _count_elections(state, stamp, handle)
    return events + _report_if_epoch_is_read(state, stamp, handle)


def read_controller_end(read: ZnodeRead) -> list[AnyEvent]:
    """Read the deletion of /controller."""
    zookeeper = zookeeper_of(read.control)
    was_seen = read.change.kind is ChangeKind.DELETED and zookeeper.resync is None
    events = _end_term(read, was_seen=was_seen)
    zookeeper.controller.owner = None
    return events


def _end_term(read: ZnodeRead, *, was_seen: bool) -> list[AnyEvent]:
    state, stamp, handle = read.state, read.stamp, read.handle
    events = _report_election(state, stamp, handle)
    if state.control.controller.view.id == NO_CONTROLLER:
        return events  # its last value was unreadable or persistent, so it already counts as vacant
    znodes = zookeeper_of(state.control).controller
    znodes.czxid = None
    znodes.timestamp = None
    return events + handle(state, ControllerGone(stamp, was_seen))


def read_epoch(read: ZnodeRead) -> list[AnyEvent]:
    """Read a new controller epoch."""
    state, change, stamp, handle = read.state, read.change, read.stamp, read.handle
    epoch = decode_controller_epoch(change.payload())
    zookeeper, view = zookeeper_of(state.control), state.control.controller.view
    znodes, count = zookeeper.controller, zookeeper.elections
    before = view.epoch
    events = report_epoch(read, before, epoch)
    handle(state, ControllerEpochIs(stamp, epoch))
    znodes.epoch_zxid = change.mzxid or 0
    count.awaiting_epoch = int(znodes.epoch_is_behind)
    if not state.control.log.baseline:
        return events
    both_read = znodes.czxid == znodes.epoch_zxid
    is_replaced = zookeeper.resync is not None and zookeeper.resync.rebase
    is_of_kraft = view.migrating_to_kraft and both_read
    if before is None or epoch < before or is_replaced or is_of_kraft:
        # The history was replaced, the epoch could not be read before, or KRaft set it.
        continue_from(count, view, epoch)
    elif epoch > before + 1 and not both_read:
        # Several elections, or KRaft taking over: the value of /controller will show which.
        return events + _report_if_epoch_is_read(state, stamp, handle)
    _count_elections(state, stamp, handle)
    return events + _report_if_epoch_is_read(state, stamp, handle)


def read_epoch_end(read: ZnodeRead) -> list[AnyEvent]:
    """Read the deletion of /controller_epoch: the last value stays the one that brokers know."""
    return report_epoch(read, read.control.controller.view.epoch, None)


def start_counting(state: ClusterState, stamp: Stamp, handle: Handle) -> list[AnyEvent]:
    """Start counting elections and changes: the baseline."""
    control = state.control
    zookeeper, view = zookeeper_of(control), control.controller.view
    znodes = zookeeper.controller
    start_count(zookeeper.elections, view, epoch_is_behind=znodes.epoch_is_behind)
    is_held = "/controller" in zookeeper.stats and znodes.owner != PERSISTENT
    is_vacant = znodes.czxid is None and not is_held
    return handle(state, CountingStarts(stamp, control.log.view.znodes, is_vacant))


def catch_up(state: ClusterState, stamp: Stamp, handle: Handle) -> list[AnyEvent]:
    """Bring the count up to date at a heartbeat: both znodes of any earlier election have been read."""
    control = state.control
    zookeeper = zookeeper_of(control)
    if not control.log.baseline or zookeeper.resync is not None:
        return []
    if control.controller.view.id != NO_CONTROLLER:
        handle(state, ControllerConfirmed(stamp))
    zookeeper.controller.unresolved_holder = NO_CONTROLLER
    _count_elections(state, stamp, handle, is_final=True)
    election = control.controller.pending_election
    is_late = election is not None and stamp.at - election.at > ELECTION_PENDING_MAX_MS
    return _report_election(state, stamp, handle) if is_late else []


def note_registration(state: ClusterState, broker: int, epoch: int | None) -> None:
    """Remember under which registration a broker holds /controller, if that is read later."""
    znodes = zookeeper_of(state.control).controller
    holder = state.control.controller.view.id
    if holder != broker or znodes.czxid is None or epoch is None:
        return
    if epoch < znodes.czxid:  # a broker registers before it stands for election
        znodes.holder_epoch = epoch


def explain_by_end(
    state: ClusterState, broker: int, stamp: Stamp, handle: Handle
) -> list[AnyEvent]:
    """Apply the end of a registration that may be the cause of an election."""
    znodes, controller = zookeeper_of(state.control).controller, state.control.controller
    if broker != znodes.unresolved_holder:
        return []
    znodes.unresolved_holder = NO_CONTROLLER
    handle(state, ElectionCauseIs(stamp, ElectionCause.SESSION_LOST))
    if controller.view.failover is Failover.NOT_NEEDED:
        return begin_failover(state, stamp, handle)
    return []


def _is_known(state: ClusterState, holder: ControllerZnode, change: ZnodeChange) -> bool:
    """Return whether this /controller is already held, and add what was not known of it.

    A field that a record lacks is not checked.
    """
    view, znodes = state.control.controller.view, zookeeper_of(state.control).controller
    if holder.brokerid != view.id:
        return False
    # A cluster that was rebuilt may reach the same zxids, at another time.
    if differ(znodes.czxid, change.czxid) or differ(view.elected_at, change.ctime):
        return False
    timestamp = _timestamp(holder)
    # Kafka never rewrites the payload: without a czxid, its timestamp shows the next election.
    if None in {znodes.czxid, change.czxid} and differ(znodes.timestamp, timestamp):
        return False
    znodes.czxid = change.czxid if znodes.czxid is None else znodes.czxid
    znodes.timestamp = timestamp if znodes.timestamp is None else znodes.timestamp
    return True


def _timestamp(holder: ControllerZnode) -> str | None:
    return None if holder.timestamp is None else str(holder.timestamp)


def _store_holder(state: ClusterState, change: ZnodeChange, holder: ControllerZnode) -> None:
    znodes = zookeeper_of(state.control).controller
    znodes.czxid = change.czxid
    znodes.timestamp = _timestamp(holder)
    held = state.control.brokers.get(holder.brokerid)
    znodes.holder_epoch = held.record.epoch if held is not None and held.record.live else None


def _resolve_cause(
    state: ClusterState, before: int, change: ZnodeChange, *, changed_hands: bool
) -> ElectionCause:
    """Return the election's cause, and remember the former holder while its end may still show another."""
    zookeeper, view = zookeeper_of(state.control), state.control.controller.view
    # If /controller was not seen to be deleted, the end of the holder's registration may be read later.
    unsure = view.id != NO_CONTROLLER or zookeeper.resync is not None
    cause = ElectionCause.MIGRATION if view.migrating_to_kraft else ElectionCause.ROLLBACK
    if not changed_hands:
        cause = _cause(state, before, change, unsure=unsure)
    is_open = unsure and cause is ElectionCause.UNKNOWN
    zookeeper.controller.unresolved_holder = before if is_open else NO_CONTROLLER
    return cause


def _cause(state: ClusterState, before: int, change: ZnodeChange, *, unsure: bool) -> ElectionCause:
    znodes = zookeeper_of(state.control).controller
    if before == NO_CONTROLLER:
        return ElectionCause.FIRST if _is_first(state, change) else ElectionCause.UNKNOWN
    if state.control.controller.view.migrating_to_kraft or znodes.holder_epoch is None:
        return ElectionCause.UNKNOWN
    held = state.control.brokers.get(before)
    stayed = held is not None and held.record.live and held.record.epoch == znodes.holder_epoch
    if not stayed:
        return ElectionCause.SESSION_LOST
    return ElectionCause.UNKNOWN if unsure else ElectionCause.DELETED


def _is_first(state: ClusterState, change: ZnodeChange) -> bool:
    """Return whether nobody was elected before: vacant so far, and no epoch before this election's."""
    zookeeper, view = zookeeper_of(state.control), state.control.controller.view
    if view.vacant_since is None:
        return False
    if view.epoch is None:
        return "/controller_epoch" not in zookeeper.stats
    is_its_own = zookeeper.controller.epoch_zxid == change.czxid
    return view.epoch <= is_its_own


def _count_elections(
    state: ClusterState, stamp: Stamp, handle: Handle, *, is_final: bool = False
) -> None:
    zookeeper, view = zookeeper_of(state.control), state.control.controller.view
    znodes, count = zookeeper.controller, zookeeper.elections
    both_read = znodes.czxid is not None and znodes.czxid == znodes.epoch_zxid
    elections, missed = tally(count, view, both_read=both_read, is_final=is_final)
    if (elections, missed) != (view.elections, view.missed_elections):
        handle(state, ElectionsAre(stamp, elections, missed, count.known_before))


def _report_if_epoch_is_read(state: ClusterState, stamp: Stamp, handle: Handle) -> list[AnyEvent]:
    election = state.control.controller.pending_election
    is_read = election is not None and _is_read(zookeeper_of(state.control).controller, election)
    return _report_election(state, stamp, handle) if is_read else []


def _is_read(znodes: ControllerZnodes, election: ControllerElected) -> bool:
    return election.source_number is not None and znodes.epoch_zxid >= election.source_number


def _report_election(state: ClusterState, stamp: Stamp, handle: Handle) -> list[AnyEvent]:
    """Let the election be reported that waits for its epoch, with the epoch if that is its own."""
    controller = state.control.controller
    election, view = controller.pending_election, controller.view
    if election is None:
        return []
    znodes = zookeeper_of(state.control).controller
    missed = view.missed_elections - znodes.missed_reported
    znodes.missed_reported = view.missed_elections
    # Before 2.1 the epoch is set after /controller; a larger jump includes epochs of later elections.
    exact = election.source_number == znodes.epoch_zxid
    before = znodes.epoch_before
    followed = before is not None and view.epoch == before + 1
    is_its_own = exact or (followed and _is_read(znodes, election))
    return handle(state, ElectionConfirmed(stamp, view.epoch if is_its_own else None, missed))
