"""Apply the log to a cluster, one change after the other: the observer.

The rule: `replay` never raises on what ZooKeeper or the log may hold. It judges each change by its
place in the log (position) and by ZooKeeper's own order (zxids), hands it to the ledger of its
znode, and keeps the digest by which the whole can be proved equal to ZooKeeper.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from controller_model import election_ledger, incident_ledger, ledgers, prediction_ledger
from controller_model.bookkeeping import (
    Verdict,
    confirm,
    forget,
    judge,
    keep,
    steps_merged,
)
from controller_model.changes import ChangeKind, SessionState, ZnodeChange, digest_text
from controller_model.cluster import (
    UNKNOWN_VERSION,
    ClusterState,
    LogLedger,
    Mark,
    ResyncLedger,
)
from controller_model.errors import UnreadableRecordError, UnreadableZnodeError
from controller_model.events import (
    Anomaly,
    AnyEvent,
    Baseline,
    Divergent,
    Incomplete,
    Verified,
    where,
)
from controller_model.views import ResyncWanted
from controller_model.znodes import Znode, ZnodeKind, classify, decode_cluster_id

# Python 3.11 finds a member of an Enum by running Python code: here once, not with each change.
_SET, _DELETED = ChangeKind.SET, ChangeKind.DELETED
_OTHER = ZnodeKind.OTHER
_NEWS = Verdict.NEWS


def replay(state: ClusterState, change: ZnodeChange) -> tuple[ClusterState, list[AnyEvent]]:
    """Apply one change and return the state with what happened.

    The state is changed in place and returned: the caller must not use an older one.
    """
    control = state.control
    log = control.log
    before = log.position
    position = change.position
    hole: list[AnyEvent] = []
    if (
        position.seq == before.seq + 1
        and position.generation == before.generation
        and (change.watcher == log.watcher or not log.watcher)
    ):
        log.position = position
    elif position <= before or _is_foreign(log, change):
        log.not_newer += 1
        return state, []
    else:
        hole = _jump(state, change)
    control.now = max(control.now, change.observed_at)
    kind = change.kind
    if kind is _SET or kind is _DELETED:
        events = _apply(state, change)
    else:
        events = _MARKS[kind](state, change)
    if hole:
        events = hole + events
    log.read_zxid = max(log.read_zxid, change.read_zxid or 0)
    return state, events


def count_unreadable(state: ClusterState, records: int, *, at: int, reason: str) -> list[AnyEvent]:
    """Count records of the log that could not be read, and tell it."""
    state.control.log.unreadable += records
    return [_anomaly(state, at=at, path="", reason=reason)]


def count_error(state: ClusterState, change: ZnodeChange, error: str) -> list[AnyEvent]:
    """Count a mistake of ours that a change met: the figures are incomplete from here on."""
    state.control.log.errors += 1
    reason = f"an error of the monitor's own in {change.kind} {change.path}: {error}"
    return [
        _anomaly(state, at=change.observed_at, path=change.path, reason=reason),
        *_miss(state, at=change.observed_at, reason="an error of the monitor's own", ask=True),
    ]


def finish_batch(state: ClusterState, *, at: int) -> list[AnyEvent]:
    """Settle the totals, and tell what was due by `at` and only totals show.

    That is the end of a failover whose work went away without a write; all else is told by the
    change that shows it, so that no event depends on where a batch ends.
    """
    state.settle()
    return election_ledger.finish_failover(state, at)


def _is_foreign(log: LogLedger, change: ZnodeChange) -> bool:
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
    return _miss(state, at=change.observed_at, reason=f"a hole in the log: {hole}", ask=not begins)


def _apply(state: ClusterState, change: ZnodeChange) -> list[AnyEvent]:
    znode = classify(change.path)
    if znode.kind is _OTHER:
        reason = "not a znode that a watcher publishes"
        return [_anomaly(state, at=change.observed_at, path=change.path, reason=reason)]
    log = state.control.log
    mark = ledgers.find_mark(state, znode, change.path)
    if change.kind is _DELETED:
        return _delete(state, change, mark)
    verdict = judge(log, mark, change)
    if verdict is not _NEWS:
        return _refuse(state, znode, change, mark, verdict)
    _note_change(log, change)
    if mark is not None and mark.czxid == change.czxid:
        log.missed_updates += steps_merged(mark, change.version)
    version = UNKNOWN_VERSION if change.version is None else change.version
    ordinal = log.resync_ordinal if log.resync else 0
    new = Mark(change.mzxid or 0, change.czxid or 0, version, ordinal)
    try:
        events = ledgers.set_znode(state, znode, change, change.payload(), new)
    except (UnreadableZnodeError, UnreadableRecordError) as error:
        ledgers.keep_mark(state, znode, change.path, new)
        log.unreadable += 1
        reason = f"unreadable, the last good value stays: {error}"
        events = [_anomaly(state, at=change.observed_at, path=change.path, reason=reason)]
    # Last: should a ledger fail, the digest must not claim a znode that is not held.
    keep(log, change.path, mark, new)
    return events


def _refuse(
    state: ClusterState, znode: Znode, change: ZnodeChange, mark: Mark | None, verdict: Verdict
) -> list[AnyEvent]:
    """Take note of a value that is no news."""
    log = state.control.log
    another = verdict is Verdict.CONFIRMED and _is_another_cluster(state, znode, change)
    if verdict is Verdict.CONFIRMED and mark is not None and not another:
        if confirm(log, change.path, mark):
            ledgers.touch_mark(state, znode, change.path, mark)
        return []
    log.stale += 1
    return [] if verdict is Verdict.STALE else _find_rebase(state, change)


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
    return [_anomaly(state, at=change.observed_at, path=change.path, reason=reason)]


def _delete(state: ClusterState, change: ZnodeChange, mark: Mark | None) -> list[AnyEvent]:
    log = state.control.log
    log.deletes_read_zxid = max(log.deletes_read_zxid, change.read_zxid or 0)
    if mark is None:
        return []
    rebase = log.resync is not None and log.resync.rebase
    if change.read_zxid is not None and change.read_zxid < mark.mzxid and not rebase:
        log.stale += 1
        return []
    _note_change(log, change)
    events = ledgers.delete_znode(state, classify(change.path), change)
    forget(log, change.path, mark)
    return events


def _note_change(log: LogLedger, change: ZnodeChange) -> None:
    log.last_change_at = change.observed_at
    if change.mtime is not None:
        log.last_change_mtime = change.mtime


def _start_resync(state: ClusterState, change: ZnodeChange) -> list[AnyEvent]:
    log = state.control.log
    log.resyncs += 1
    log.resync_ordinal += 1
    log.rebases += change.rebase
    log.rebasing = log.rebasing or change.rebase
    log.resync = ResyncLedger(
        id=change.resync or 0,
        rebase=log.rebasing,
        reason=change.reason or "",
        began=change.position,
    )
    if change.rebase:
        log.read_zxid = 0
        log.deletes_read_zxid = 0
    if (
        log.wanted is not None
        and change.answers is not None
        and change.answers >= log.wanted.number
    ):
        log.wanted = None
    return []


def _finish_resync(state: ClusterState, change: ZnodeChange) -> list[AnyEvent]:
    control = state.control
    log = control.log
    resync = log.resync
    log.resync = None
    at = change.observed_at
    if resync is None or resync.id != (change.resync or 0):
        return _fail(state, at=at, reason="a resync ended whose start is missing")
    if not resync.whole:
        return _fail(state, at=at, reason="a resync with a hole or two histories in it")
    if not _is_proved(change, resync.znodes, resync.digest):
        return _fail(state, at=at, reason="a resync whose count or digest is not ours")
    events = _sweep(state, change, told=resync.znodes)
    log.denied = change.denied
    log.views_from = resync.began
    if not log.baseline:
        log.baseline = True
        events += ledgers.baseline(state, change)
        events.append(
            Baseline(
                **where(change),
                znodes=log.znodes,
                controller=control.controller.id,
                epoch=control.controller.epoch,
            )
        )
    events += _verify(state, at)
    incident_ledger.look(state)
    return events


def _fail(state: ClusterState, *, at: int, reason: str) -> list[AnyEvent]:
    """Note that a resync was in vain."""
    _ask(state.control.log, reason, again=True)
    return _miss(state, at=at, reason=reason, ask=False)


def _is_proved(change: ZnodeChange, znodes: int, digest: int) -> bool:
    """Tell whether a mark's count and digest are these.

    A mark of another watcher may lack the digest, which is ours; without a count nothing is proved.
    """
    return change.znodes == znodes and change.digest in {None, digest_text(digest)}


def _sweep(state: ClusterState, change: ZnodeChange, *, told: int) -> list[AnyEvent]:
    """Delete what a whole resync did not tell: it is gone, unseen."""
    log = state.control.log
    events: list[AnyEvent] = []
    if log.znodes == told:
        return events
    for path, mark in ledgers.unconfirmed(state, log.resync_ordinal):
        gone = msgspec.structs.replace(change, path=path)
        events += ledgers.delete_znode(state, classify(path), gone)
        forget(log, path, mark)
    # The server of this resync had come to what it told, and did not hold these any more: a server
    # that has not come as far yet, such as one in a minority, must not bring them back.
    newest = ledgers.newest_told(state, log.resync_ordinal)
    log.deletes_read_zxid = max(log.deletes_read_zxid, newest)
    return events


def _reconcile(state: ClusterState, change: ZnodeChange) -> list[AnyEvent]:
    log = state.control.log
    log.audits += 1
    at = change.observed_at
    if log.resync is not None:
        # A watcher audits between resyncs only: the end of this one is lost.
        log.resync = None
        return _fail(state, at=at, reason="a resync whose end is missing")
    if not log.baseline or change.znodes is None:
        return []
    if _is_proved(change, log.znodes, log.digest):
        return _verify(state, at)
    reason = (
        f"an audit counted {change.znodes} znodes with digest {change.digest}, "
        f"the fold holds {log.znodes} with {digest_text(log.digest)}"
    )
    _ask(log, "divergent", again=True)
    if log.divergent_since is not None:
        return []
    log.divergent_since = at
    return [Divergent(at=at, position=change.position, reason=reason)]


def _heartbeat(state: ClusterState, change: ZnodeChange) -> list[AnyEvent]:
    log = state.control.log
    log.heartbeat_at = change.observed_at
    log.zookeeper = change.zookeeper
    if log.resync is None:
        # A right may be taken, or given, at any time; a resync's end tells what it was denied.
        log.denied = change.denied
    if change.session is not None:
        log.session = change.session
        log.session_since = change.session_since
    if change.dropped is not None:
        log.dropped = change.dropped
    told = ledgers.catch_up(state, change) if change.session is SessionState.CONNECTED else []
    told += prediction_ledger.heartbeat(state, change)
    incident_ledger.look(state)
    return told


def _verify(state: ClusterState, at: int) -> list[AnyEvent]:
    log = state.control.log
    trouble = (
        log.verified_at is None
        or log.incomplete_since is not None
        or log.divergent_since is not None
    )
    log.verified_at = at
    log.rebasing = False
    log.incomplete_since = None
    log.incomplete_reason = None
    log.divergent_since = None
    log.wanted = None
    log.asked_times = 0
    return [Verified(at=at, position=log.position, znodes=log.znodes)] if trouble else []


def _miss(state: ClusterState, *, at: int, reason: str, ask: bool) -> list[AnyEvent]:
    """Mark the figures incomplete; ask for a resync unless one is on its way."""
    log = state.control.log
    if ask:
        _ask(log, reason.partition(":")[0])
    first = log.incomplete_since is None
    log.incomplete_reason = reason
    if not first:
        return []
    log.incomplete_since = at
    return [Incomplete(at=at, position=log.position, reason=reason)]


def _ask(log: LogLedger, reason: str, *, again: bool = False) -> None:
    """Ask for a resync, with a new number; back off while one reason comes again and again.

    A request that is open stays as it is, unless `again`: a resync or an audit that ends in vain
    shows that the watcher has not heard it, or that its answer was lost.
    """
    if log.wanted is not None and not again:
        return
    log.asked_times = log.asked_times + 1 if reason == log.asked_reason else 1
    log.asked_reason = reason
    if log.asked_times & (log.asked_times - 1):
        return  # asked the 1st, 2nd, 4th, 8th time in a row; told at the others
    log.asked += 1
    log.wanted = ResyncWanted(number=log.asked, reason=reason)


def _anomaly(state: ClusterState, *, at: int, path: str, reason: str) -> Anomaly:
    state.control.log.anomalies += 1
    return Anomaly(at=at, position=state.control.log.position, path=path, reason=reason)


_MARKS: dict[ChangeKind, Callable[[ClusterState, ZnodeChange], list[AnyEvent]]] = {
    ChangeKind.RESYNC_STARTED: _start_resync,
    ChangeKind.RESYNC_FINISHED: _finish_resync,
    ChangeKind.RECONCILED: _reconcile,
    ChangeKind.HEARTBEAT: _heartbeat,
}
"""What a change that is no znode's does."""
