"""What a change means that is no znode's: resyncs, reconciliations and heartbeats, and what they leave unknown.

The rule: only a proof completes the figures. A resync deletes what it did not hold only if its count and
digest are ours; whatever else comes between makes the figures incomplete and asks for another.
"""

from collections.abc import Callable, Collection

import msgspec

from controller_model.handlers import controller, znode_handlers
from controller_model.records.changes import (
    ChangeKind,
    SessionState,
    ZnodeChange,
    digest_text,
    moved_digest,
    znode_digest,
)
from controller_model.records.events import (
    Anomaly,
    AnyEvent,
    Baseline,
    Divergent,
    Incomplete,
    Verified,
    where,
)
from controller_model.records.views import ResyncWanted, is_below
from controller_model.state.bookkeeping import forget
from controller_model.state.cluster import ClusterState
from controller_model.state.incident_state import HealthSample
from controller_model.state.log_state import LogState, ResyncState
from controller_model.tracking import asked_elections, incident_tracker, prediction_tracker
from controller_model.znodes.znode_kinds import ZnodeKind, classify

_CUT_AT = 100
"""Where watchers that do not say `denied_more` cut their list of denied paths."""

_OF_TOPIC = frozenset({ZnodeKind.TOPIC, ZnodeKind.TOPIC_CONFIG, ZnodeKind.PARTITION_STATE})

Reported = tuple[list[AnyEvent], HealthSample | None]
"""Events, and the health sample that was taken after them, if one was."""


def _start_resync(state: ClusterState, change: ZnodeChange) -> Reported:
    log = state.control.log
    log.resyncs += 1
    log.resync_ordinal += 1
    log.rebases += change.rebase
    log.rebasing = log.rebasing or change.rebase
    log.resync = ResyncState(
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
    out_of_sight = log.session not in {None, SessionState.CONNECTED}
    if log.baseline and (change.seq == 1 or out_of_sight):
        # What is held is of before; nobody knows what happened since, until all is read again.
        reason = f"a resync is under way after a time out of sight: {change.reason or 'no reason'}"
        return miss(state, at=change.observed_at, reason=reason, ask=False), None
    return [], None


def _finish_resync(state: ClusterState, change: ZnodeChange) -> Reported:
    log = state.control.log
    resync = log.resync
    log.resync = None
    at = change.observed_at
    if resync is None or resync.id != (change.resync or 0):
        return _fail(state, at=at, reason="a resync ended whose start is missing")
    if not resync.whole:
        return _fail(state, at=at, reason="a resync with a hole, two histories or old reads in it")
    if not _is_proved(change, resync.znodes, resync.digest):
        return _fail(state, at=at, reason="a resync whose count or digest is not ours")
    events = _sweep(state, change, resync)
    _note_denied(log, change)
    log.views_from = resync.began
    was_counting = log.baseline
    if not was_counting:
        log.baseline = True
        controller.baseline(state, change)
        events.append(baseline(state, change))
    if resync.rebase and was_counting:
        # Here, after all that differs: among that, what the first value that differed reported is out of sight.
        reason = (
            "ZooKeeper's history was replaced: it was restored or rebuilt, and all is read again"
        )
        events.append(anomaly(state, at=at, path="/", reason=reason))
    events += _verify(state, at)
    return events, incident_tracker.take_sample(state)


def baseline(state: ClusterState, change: ZnodeChange) -> Baseline:
    """Return the event that counting starts with."""
    control = state.control
    holder = control.controller
    return Baseline(
        **where(change), znodes=control.log.znodes, controller=holder.id, epoch=holder.epoch
    )


def _fail(state: ClusterState, *, at: int, reason: str) -> Reported:
    """Note that a resync was in vain."""
    _ask(state.control.log, reason, again=True)
    return miss(state, at=at, reason=reason, ask=False), None


def _is_proved(change: ZnodeChange, znodes: int, digest: int) -> bool:
    """Return whether a control record's count and digest are these.

    One of another watcher may lack the digest, which is ours; without a count nothing is proved.
    """
    return change.znodes == znodes and change.digest in {None, digest_text(digest)}


def _sweep(state: ClusterState, change: ZnodeChange, resync: ResyncState) -> list[AnyEvent]:
    """Delete what a whole resync did not name: it is gone, unseen; what it was denied may be there."""
    log = state.control.log
    events: list[AnyEvent] = []
    denied = _denied_by(change)
    log.unreadable_znodes = {}
    if log.znodes == resync.znodes:
        return events
    newest = 0
    for path, stat in znode_handlers.every_stat(state):
        if stat.resync == log.resync_ordinal:
            newest = max(newest, stat.mzxid)
            continue
        if is_below(path, denied):
            znode = classify(path)
            if resync.rebase:
                # It is of a history that is over, and no value of this one may count as older.
                log.digest ^= moved_digest(path, stat.mzxid, 0)
                stat.mzxid = 0
                znode_handlers.keep_stat(state, znode, path, stat)
            log.unreadable_znodes[path] = stat.mzxid
            if znode.kind in _OF_TOPIC:
                # Its views are older than this resync: readers would drop them.
                state.mark_changed(znode.name)
            continue
        gone = msgspec.structs.replace(change, path=path)
        events += znode_handlers.delete_znode(state, classify(path), gone)
        forget(log, path, stat)
    # The server of this resync had come to what it named, and did not hold these any more: a server
    # that has not come as far yet, such as one in a minority, must not bring them back.
    log.deletes_read_zxid = max(log.deletes_read_zxid, newest)
    return events


def _reconcile(state: ClusterState, change: ZnodeChange) -> Reported:
    log = state.control.log
    log.reconciliations += 1
    at = change.observed_at
    if log.resync is not None:
        # A watcher reconciles between resyncs only: the end of this one is lost.
        log.resync = None
        return _fail(state, at=at, reason="a resync whose end is missing")
    if not log.baseline or change.znodes is None:
        return [], None
    denied = _denied_by(change)
    if any(not is_below(path, denied) for path in log.unreadable_znodes):
        # Nothing keeps the watcher from them any more, and it did not meet them.
        return _fail(state, at=at, reason="znodes that were denied are not there any more")
    znodes, digest = log.znodes - len(log.unreadable_znodes), log.digest
    for path, mzxid in log.unreadable_znodes.items():
        digest ^= znode_digest(path, mzxid)
    if _is_proved(change, znodes, digest):
        return _verify(state, at), None
    reason = (
        f"a reconciliation counted {change.znodes} znodes with digest {change.digest}, "
        f"the fold holds {znodes} with {digest_text(digest)}"
    )
    _ask(log, "divergent", again=True)
    if log.divergent_since is not None:
        return [], None
    log.divergent_since = at
    return [Divergent(at=at, position=change.position, reason=reason)], None


def _heartbeat(state: ClusterState, change: ZnodeChange) -> Reported:
    log = state.control.log
    log.heartbeat_at = change.observed_at
    log.zookeeper = change.zookeeper
    log.beats = change.beats
    if log.resync is None:
        # A right may be taken, or given, at any time; a resync's end says what it was denied.
        _note_denied(log, change, still=_still_held(log, change))
    if change.session is not None:
        log.session = change.session
        log.session_since = change.session_since
    if change.dropped is not None:
        log.dropped = change.dropped
    asked_elections.let_go(state.control)
    connected = change.session is SessionState.CONNECTED
    events = controller.catch_up(state, change) if connected else []
    events += prediction_tracker.heartbeat(state, change)
    return events, incident_tracker.take_sample(state)


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


def _still_held(log: LogState, change: ZnodeChange) -> set[str]:
    """Return what is denied no more, and was when znodes below it were read last: they are not proved."""
    over = set(log.denied).difference(change.denied)
    return {each for each in over if any(is_below(path, (each,)) for path in log.unreadable_znodes)}


def _note_denied(log: LogState, change: ZnodeChange, still: Collection[str] = ()) -> None:
    log.denied = tuple(sorted({*change.denied, *still})) if still else change.denied
    log.denied_more = change.denied_more or 0


def _denied_by(change: ZnodeChange) -> tuple[str, ...]:
    """Return the paths at or below which the watcher may have been denied something."""
    return change.denied if _names_all_denied(change) else ("/",)


def _names_all_denied(change: ZnodeChange) -> bool:
    """Return whether every denied path is named, or is below one that is."""
    return change.denied_more is not None or len(change.denied) < _CUT_AT


def miss(state: ClusterState, *, at: int, reason: str, ask: bool) -> list[AnyEvent]:
    """Call the figures incomplete; ask for a resync unless one is on its way."""
    log = state.control.log
    if ask:
        _ask(log, reason.partition(":")[0])
    first = log.incomplete_since is None
    log.incomplete_reason = reason
    if not first:
        return []
    log.incomplete_since = at
    return [Incomplete(at=at, position=log.position, reason=reason)]


def _ask(log: LogState, reason: str, *, again: bool = False) -> None:
    """Ask for a resync, with a new number; back off while one reason comes again and again.

    A request that is open stays as it is, unless `again`: a resync or a reconciliation that ends in vain
    shows that the watcher has not heard it, or that its answer was lost.
    """
    if log.wanted is not None and not again:
        return
    log.asked_times = log.asked_times + 1 if reason == log.asked_reason else 1
    log.asked_reason = reason
    if log.asked_times & (log.asked_times - 1):
        return  # asked the 1st, 2nd, 4th, 8th time in a row; reported at the others
    log.asked += 1
    log.wanted = ResyncWanted(number=log.asked, reason=reason)


def anomaly(state: ClusterState, *, at: int, path: str, reason: str) -> Anomaly:
    """Count something odd that the log or a znode holds, and return the event that reports it."""
    state.control.log.anomalies += 1
    return Anomaly(at=at, position=state.control.log.position, path=path, reason=reason)


CONTROL_RECORDS: dict[ChangeKind, Callable[[ClusterState, ZnodeChange], Reported]] = {
    ChangeKind.RESYNC_STARTED: _start_resync,
    ChangeKind.RESYNC_FINISHED: _finish_resync,
    ChangeKind.RECONCILED: _reconcile,
    ChangeKind.HEARTBEAT: _heartbeat,
}
"""What a change that is no znode's does."""
