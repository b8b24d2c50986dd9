"""Apply the log to a cluster, one change after the other.

The rule: `replay` never raises because of what ZooKeeper or the log holds. It compares each change by
its position in the log and by ZooKeeper's own order (zxids), passes it to the handler of its znode,
and updates the digest by which the whole can be proved equal to ZooKeeper.
"""

from controller_model.fold.control_records import CONTROL_RECORDS, Reported, anomaly, miss
from controller_model.fold.log_clock import LEAP_MS, take_time
from controller_model.handlers import znode_handlers
from controller_model.kafka.errors import UnreadableRecordError, UnreadableZnodeError
from controller_model.kafka.ids import Position, new_tuple
from controller_model.records.changes import ChangeKind, ZnodeChange
from controller_model.records.events import AnyEvent
from controller_model.sources.zookeeper.payloads import decode_cluster_id
from controller_model.sources.zookeeper.znode_kinds import Znode, ZnodeKind, classify
from controller_model.state.bookkeeping import Freshness, confirm, forget, judge, keep, steps_merged
from controller_model.state.cluster import ClusterState
from controller_model.state.log_state import LogState
from controller_model.state.znode_stat import UNKNOWN_VERSION, ZnodeStat
from controller_model.tracking import incident_tracker

# Python 3.11 looks up a member of an Enum in Python code: once here, instead of for each change.
_SET, _DELETED = ChangeKind.SET, ChangeKind.DELETED
_OTHER = ZnodeKind.OTHER
_NEWS = Freshness.NEWS

_SAMPLED = frozenset({ZnodeKind.CONTROLLER, ZnodeKind.BROKER})
"""Kinds of znodes: after a change of one, the health of the cluster is sampled."""


def replay(state: ClusterState, change: ZnodeChange) -> Reported:
    """Apply one change to the state, and return what it reports."""
    control = state.control
    log = control.log
    generation, seq = change.generation, change.seq
    hole = odd = None
    # As a whole: the fields of a NamedTuple are slow to read.
    follows = log.position == (generation, seq - 1)
    if follows and (change.watcher == log.watcher or not log.watcher):
        log.position = new_tuple(Position, (generation, seq))
    elif is_dropped(log, change):
        log.not_newer += 1
        return [], None
    else:
        follows = False
    at = change.observed_at
    if log.clock is None and 0 <= at - control.now <= LEAP_MS:
        control.now = at
    else:
        change, odd = take_time(state, change)
    if not follows:
        hole = _jump(state, change)
    kind = change.kind
    if kind is _SET or kind is _DELETED:
        events, sample = _apply(state, change)
    else:
        events, sample = CONTROL_RECORDS[kind](state, change)
    if hole:
        events = hole + events
    if odd is not None:
        events = [anomaly(state, at=control.now, path=change.path, reason=odd), *events]
    read_zxid = change.read_zxid
    if read_zxid is not None and read_zxid != log.read_zxid:
        _note_read(log, read_zxid)
    return events, sample


def _note_read(log: LogState, read_zxid: int) -> None:
    """Store the newest zxid at which a read was answered; no resync of older reads is trusted.

    A generation's first resync starts when its server has reached all that was read before. Its
    messages may still arrive late, behind newer ones of the watcher that it deposed: then a znode
    that it does not name may have been created since.
    """
    if read_zxid > log.read_zxid:
        log.read_zxid = read_zxid
    elif log.resync is not None and log.resync.began.seq == 1 and not log.resync.rebase:
        log.resync.whole = False


def count_error(state: ClusterState, change: ZnodeChange, error: str) -> list[AnyEvent]:
    """Count an unexpected exception (a bug of kcm) of a change: the figures are incomplete from here on."""
    state.control.log.errors += 1
    reason = f"an error of the monitor's own in {change.kind} {change.path}: {error}"
    return [
        anomaly(state, at=change.observed_at, path=change.path, reason=reason),
        *miss(state, at=change.observed_at, reason="an error of the monitor's own", ask=True),
    ]


def is_dropped(log: LogState, change: ZnodeChange) -> bool:
    """Return whether `replay` drops a change: it is not after the last one, or is another watcher's."""
    if change.position <= log.position:
        return True
    # One watcher per generation: the first to write it owns it.
    same_generation = change.generation == log.position.generation
    return same_generation and bool(log.watcher) and change.watcher != log.watcher


def _jump(state: ClusterState, change: ZnodeChange) -> list[AnyEvent]:
    """Move the log's position to a change that does not follow the last one, and report the hole."""
    log = state.control.log
    before = log.position
    log.position = change.position
    begins = change.kind is ChangeKind.RESYNC_STARTED
    if change.generation != before.generation:
        if change.watcher != log.watcher:
            log.watcher = change.watcher
            log.dropped_base += log.dropped
            log.dropped = 0
        # What the deposed watcher had begun will not be finished.
        log.resync = None
        if begins and change.seq == 1:
            return []
        hole = f"the beginning of generation {change.generation} is missing"
    else:
        hole = f"changes {before.seq + 1} to {change.seq - 1} are missing"
    log.holes += 1
    if log.resync is not None:
        log.resync.whole = False
    return miss(state, at=change.observed_at, reason=f"a hole in the log: {hole}", ask=not begins)


def _apply(state: ClusterState, change: ZnodeChange) -> Reported:
    path = change.path
    znode = classify(path)
    if znode.kind is _OTHER:
        reason = "not a znode that a watcher publishes"
        return [anomaly(state, at=change.observed_at, path=path, reason=reason)], None
    log = state.control.log
    if log.unreadable_znodes:
        log.unreadable_znodes.pop(path, None)
    stat = znode_handlers.find_stat(state, znode, path)
    if change.kind is _DELETED:
        return _delete(state, znode, change, stat)
    freshness = judge(log, stat, change)
    if freshness is not _NEWS:
        return _refuse(state, znode, change, stat, freshness), None
    return _set(state, znode, change, stat)


def _set(state: ClusterState, znode: Znode, change: ZnodeChange, old: ZnodeStat | None) -> Reported:
    """Apply a value that is new; if it cannot be read, the last good one is kept."""
    log = state.control.log
    _note_change(log, change)
    log.missed_updates += _updates_missed(old, change)
    new = _stat_of(log, change, old, None)
    sample = None
    try:
        events = znode_handlers.set_znode(state, znode, change, change.payload(), new)
    except (UnreadableZnodeError, UnreadableRecordError) as error:
        good_version = UNKNOWN_VERSION if old is None else old.value_version
        new = _stat_of(log, change, old, good_version)
        znode_handlers.keep_stat(state, znode, change.path, new)
        log.unreadable += 1
        reason = f"unreadable, the last good value stays: {error}"
        events = [anomaly(state, at=change.observed_at, path=change.path, reason=reason)]
    else:
        if znode.kind in _SAMPLED:
            sample = incident_tracker.take_sample(state)
    # Last: if a handler raises, the digest must not include a znode that is not held.
    keep(log, change.path, old, new)
    return events, sample


def _updates_missed(old: ZnodeStat | None, change: ZnodeChange) -> int:
    """Return how many updates of a znode between the held one and this one were never seen."""
    # Nearly always it is the next version, into which nothing was merged.
    if old is None or old.czxid != change.czxid or change.version == old.version + 1:
        return 0
    return steps_merged(old, change.version)


def _stat_of(
    log: LogState, change: ZnodeChange, old: ZnodeStat | None, good_version: int | None
) -> ZnodeStat:
    """Return the stat to hold of a znode; `good_version` is that of the last good value, if it is kept."""
    return ZnodeStat(
        change.mzxid or 0,
        change.czxid or (0 if old is None else old.czxid),
        UNKNOWN_VERSION if change.version is None else change.version,
        log.resync_ordinal if log.resync else 0,
        good_version,
    )


def _refuse(
    state: ClusterState,
    znode: Znode,
    change: ZnodeChange,
    stat: ZnodeStat | None,
    freshness: Freshness,
) -> list[AnyEvent]:
    """Count a value that is not new: confirmed, stale, or of another history."""
    log = state.control.log
    another = freshness is Freshness.CONFIRMED and _is_another_cluster(state, znode, change)
    if freshness is Freshness.CONFIRMED and stat is not None and not another:
        if confirm(log, change.path, stat):
            znode_handlers.keep_stat(state, znode, change.path, stat)
        return []
    log.stale += 1
    return [] if freshness is Freshness.STALE else _find_rebase(state, change)


def _is_another_cluster(state: ClusterState, znode: Znode, change: ZnodeChange) -> bool:
    """Return whether another cluster's id has the zxid of the one that is held.

    A new ensemble begins with the same zxids, so zxids alone do not show it.
    """
    if znode.kind is not ZnodeKind.CLUSTER_ID:
        return False
    try:
        return decode_cluster_id(change.payload()) != state.control.cluster_id
    except (UnreadableZnodeError, UnreadableRecordError):
        return False


def _find_rebase(state: ClusterState, change: ZnodeChange) -> list[AnyEvent]:
    """Note that a value proves another history; if its zxids continued, the watcher cannot know that.

    Only a resync can read such a value, because a watcher reads another history on another connection.
    The value does not win yet: this resync mixes two histories, and the next one replaces everything.
    """
    log = state.control.log
    if log.resync is None:
        return []
    log.resync.whole = False
    if log.rebasing:
        return []
    log.rebases += 1
    log.rebasing = True
    reason = "ZooKeeper's history was replaced: a value was read that it could not hold any more"
    return [anomaly(state, at=change.observed_at, path=change.path, reason=reason)]


def _delete(
    state: ClusterState, znode: Znode, change: ZnodeChange, stat: ZnodeStat | None
) -> Reported:
    """Apply the deletion of a znode, unless the held value is newer."""
    log = state.control.log
    log.deletes_read_zxid = max(log.deletes_read_zxid, change.read_zxid or 0)
    if stat is None:
        return [], None
    rebase = log.resync is not None and log.resync.rebase
    if change.read_zxid is not None and change.read_zxid < stat.mzxid and not rebase:
        log.stale += 1
        return [], None
    _note_change(log, change)
    events = znode_handlers.delete_znode(state, znode, change)
    sample = incident_tracker.take_sample(state) if znode.kind in _SAMPLED else None
    forget(log, change.path, stat)
    return events, sample


def _note_change(log: LogState, change: ZnodeChange) -> None:
    log.last_change_at = change.observed_at
    if change.mtime is not None:
        log.last_change_mtime = change.mtime
