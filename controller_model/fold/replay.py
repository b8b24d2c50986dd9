"""Apply the log to a cluster, one change after the other: the observer.

The rule: `replay` never raises on what ZooKeeper or the log may hold. It judges each change by its
place in the log (position) and by ZooKeeper's own order (zxids), hands it to the ledger of its
znode, and keeps the digest by which the whole can be proved equal to ZooKeeper.
"""

from __future__ import annotations

from controller_model.fold.control_records import CONTROL_RECORDS, anomaly, miss
from controller_model.handlers import controller, znode_handlers
from controller_model.kafka.errors import UnreadableRecordError, UnreadableZnodeError
from controller_model.kafka.ids import Position, new_tuple
from controller_model.records.changes import (
    ChangeKind,
    ZnodeChange,
)
from controller_model.records.events import (
    AnyEvent,
)
from controller_model.state.bookkeeping import (
    Freshness,
    confirm,
    forget,
    judge,
    keep,
    steps_merged,
)
from controller_model.state.cluster import ClusterState
from controller_model.state.log_state import LogState
from controller_model.state.znode_stat import UNKNOWN_VERSION, ZnodeStat
from controller_model.znodes.znode_kinds import Znode, ZnodeKind, classify, decode_cluster_id

# Python 3.11 finds a member of an Enum by running Python code: here once, not with each change.
_SET, _DELETED = ChangeKind.SET, ChangeKind.DELETED
_OTHER = ZnodeKind.OTHER
_NEWS = Freshness.NEWS


def replay(state: ClusterState, change: ZnodeChange) -> tuple[ClusterState, list[AnyEvent]]:
    """Apply one change and return the state with what happened.

    The state is changed in place and returned: the caller must not use an older one.
    """
    control = state.control
    log = control.log
    generation, seq = change.generation, change.seq
    hole = None
    # As a whole: the fields of a NamedTuple are slow to read.
    if log.position == (generation, seq - 1) and (change.watcher == log.watcher or not log.watcher):
        log.position = new_tuple(Position, (generation, seq))
    elif is_dropped(log, change):
        log.not_newer += 1
        return state, []
    else:
        hole = _jump(state, change)
    if change.observed_at > control.now:  # noqa: PLR1730  # max() costs a part of a microsecond
        control.now = change.observed_at
    kind = change.kind
    if kind is _SET or kind is _DELETED:
        events = _apply(state, change)
    else:
        events = CONTROL_RECORDS[kind](state, change)
    if hole:
        events = hole + events
    read_zxid = change.read_zxid
    if read_zxid is not None and read_zxid > log.read_zxid:
        log.read_zxid = read_zxid
    return state, events


def count_unreadable(state: ClusterState, records: int, *, at: int, reason: str) -> list[AnyEvent]:
    """Count records of the log that could not be read, and tell it."""
    state.control.log.unreadable += records
    return [anomaly(state, at=at, path="", reason=reason)]


def count_error(state: ClusterState, change: ZnodeChange, error: str) -> list[AnyEvent]:
    """Count a mistake of ours that a change met: the figures are incomplete from here on."""
    state.control.log.errors += 1
    reason = f"an error of the monitor's own in {change.kind} {change.path}: {error}"
    return [
        anomaly(state, at=change.observed_at, path=change.path, reason=reason),
        *miss(state, at=change.observed_at, reason="an error of the monitor's own", ask=True),
    ]


def finish_batch(state: ClusterState, *, at: int) -> list[AnyEvent]:
    """Settle the totals, and tell what was due by `at` and only totals show.

    That is the end of a failover whose work went away without a write; all else is told by the
    change that shows it, so that no event depends on where a batch ends.
    """
    state.settle()
    return controller.finish_failover(state, at)


def is_dropped(log: LogState, change: ZnodeChange) -> bool:
    """Tell whether `replay` drops a change: it is not newer than the last, or another watcher's."""
    if change.position <= log.position:
        return True
    # One watcher per generation: the first to write it owns it.
    same_generation = change.generation == log.position.generation
    return same_generation and bool(log.watcher) and change.watcher != log.watcher


def _jump(state: ClusterState, change: ZnodeChange) -> list[AnyEvent]:
    """Move the log's position to a change that does not follow the last one, and tell the hole."""
    log = state.control.log
    before = log.position
    log.position = change.position
    begins = change.kind is ChangeKind.RESYNC_STARTED
    if change.generation != before.generation:
        if change.watcher != log.watcher:
            log.watcher = change.watcher
            log.dropped_base += log.dropped
            log.dropped = 0
        # Whatever the deposed watcher was in the middle of will not be finished.
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


def _apply(state: ClusterState, change: ZnodeChange) -> list[AnyEvent]:
    path = change.path
    znode = classify(path)
    if znode.kind is _OTHER:
        reason = "not a znode that a watcher publishes"
        return [anomaly(state, at=change.observed_at, path=path, reason=reason)]
    log = state.control.log
    if log.unreadable_znodes:
        log.unreadable_znodes.pop(path, None)
    stat = znode_handlers.find_stat(state, znode, path)
    if change.kind is _DELETED:
        return _delete(state, change, stat)
    freshness = judge(log, stat, change)
    if freshness is not _NEWS:
        return _refuse(state, znode, change, stat, freshness)
    _note_change(log, change)
    version = UNKNOWN_VERSION if change.version is None else change.version
    # The next version has nothing merged into it, and is what comes nearly always.
    if stat is not None and stat.czxid == change.czxid and version != stat.version + 1:
        log.missed_updates += steps_merged(stat, change.version)
    ordinal = log.resync_ordinal if log.resync else 0
    czxid = change.czxid or (0 if stat is None else stat.czxid)
    new = ZnodeStat(change.mzxid or 0, czxid, version, ordinal)
    try:
        events = znode_handlers.set_znode(state, znode, change, change.payload(), new)
    except (UnreadableZnodeError, UnreadableRecordError) as error:
        new.held_version = UNKNOWN_VERSION if stat is None else stat.value_version
        znode_handlers.keep_stat(state, znode, path, new)
        log.unreadable += 1
        reason = f"unreadable, the last good value stays: {error}"
        events = [anomaly(state, at=change.observed_at, path=path, reason=reason)]
    # Last: should a ledger fail, the digest must not claim a znode that is not held.
    keep(log, path, stat, new)
    return events


def _refuse(
    state: ClusterState,
    znode: Znode,
    change: ZnodeChange,
    stat: ZnodeStat | None,
    freshness: Freshness,
) -> list[AnyEvent]:
    """Take note of a value that is no news."""
    log = state.control.log
    another = freshness is Freshness.CONFIRMED and _is_another_cluster(state, znode, change)
    if freshness is Freshness.CONFIRMED and stat is not None and not another:
        if confirm(log, change.path, stat):
            znode_handlers.keep_stat(state, znode, change.path, stat)
        return []
    log.stale += 1
    return [] if freshness is Freshness.STALE else _find_rebase(state, change)


def _is_another_cluster(state: ClusterState, znode: Znode, change: ZnodeChange) -> bool:
    """Tell whether another cluster's id came with the zxid of the one that is held.

    A new ensemble begins with the same zxids, so they alone cannot tell.
    """
    if znode.kind is not ZnodeKind.CLUSTER_ID:
        return False
    try:
        return decode_cluster_id(change.payload()) != state.control.cluster_id
    except (UnreadableZnodeError, UnreadableRecordError):
        return False


def _find_rebase(state: ClusterState, change: ZnodeChange) -> list[AnyEvent]:
    """Note that a value proves another history; where its zxids went on, the watcher cannot know.

    Only a resync can meet it, since a watcher reads another history on another connection. The
    value does not win yet: this resync is of two histories, and the next one replaces all.
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


def _delete(state: ClusterState, change: ZnodeChange, stat: ZnodeStat | None) -> list[AnyEvent]:
    log = state.control.log
    log.deletes_read_zxid = max(log.deletes_read_zxid, change.read_zxid or 0)
    if stat is None:
        return []
    rebase = log.resync is not None and log.resync.rebase
    if change.read_zxid is not None and change.read_zxid < stat.mzxid and not rebase:
        log.stale += 1
        return []
    _note_change(log, change)
    events = znode_handlers.delete_znode(state, classify(change.path), change)
    forget(log, change.path, stat)
    return events


def _note_change(log: LogState, change: ZnodeChange) -> None:
    log.last_change_at = change.observed_at
    if change.mtime is not None:
        log.last_change_mtime = change.mtime
