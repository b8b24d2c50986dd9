"""Control records of the log: what resyncs, reconciliations and heartbeats change, and what they leave unknown.

The rule: only a proof makes the figures complete. A resync deletes what it did not name only if its count
and digest equal the fold's. Anything else makes the figures incomplete and requests another resync.
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
from controller_model.sources.zookeeper.znode_kinds import ZnodeKind, classify
from controller_model.state.bookkeeping import forget
from controller_model.state.cluster import ClusterState
from controller_model.state.incident_state import HealthSample
from controller_model.state.log_state import LogState, ResyncState
from controller_model.tracking import asked_elections, incident_tracker, pending_write_tracker

_CUT_AT = 100
"""The length at which watchers that do not send `denied_more` cut their list of denied paths."""

_OF_TOPIC = frozenset({ZnodeKind.TOPIC, ZnodeKind.TOPIC_CONFIG, ZnodeKind.PARTITION_STATE})

Reported = tuple[list[AnyEvent], HealthSample | None]
"""Events, and the health sample that was taken after them, if there was one."""


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
        # The held values are old; what happened since is not known until everything is read again.
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
        # Here, after all that differs: what the first differing value reported is hard to find among that.
        reason = (
            "ZooKeeper's history was replaced: it was restored or rebuilt, and all is read again"
        )
        events.append(anomaly(state, at=at, path="/", reason=reason))
    events += _verify(state, at)
    return events, incident_tracker.take_sample(state)


def baseline(state: ClusterState, change: ZnodeChange) -> Baseline:
    """Return the event with which counting starts."""
    control = state.control
    holder = control.controller
    return Baseline(
        **where(change), znodes=control.log.znodes, controller=holder.id, epoch=holder.epoch
    )


def _fail(state: ClusterState, *, at: int, reason: str) -> Reported:
    """Report that a resync failed, and request another one."""
    _ask(state.control.log, reason, again=True)
    return miss(state, at=at, reason=reason, ask=False), None


def _is_proved(change: ZnodeChange, znodes: int, digest: int) -> bool:
    """Return whether a control record's count and digest are these.

    A record of another program may lack the digest, which is kcm's own; without a count nothing is proved.
    """
    return change.znodes == znodes and change.digest in {None, digest_text(digest)}


def _sweep(state: ClusterState, change: ZnodeChange, resync: ResyncState) -> list[AnyEvent]:
    """Delete what a complete resync did not name, except below what it was denied, which may exist."""
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
                # It is of a replaced history, and no value of the new one may count as older.
                log.digest ^= moved_digest(path, stat.mzxid, 0)
                stat.mzxid = 0
                znode_handlers.keep_stat(state, znode, path, stat)
            log.unreadable_znodes[path] = stat.mzxid
            if znode.kind in _OF_TOPIC:
                # Its views are older than this resync, so readers would drop them.
                state.mark_changed(znode.name)
            continue
        gone = msgspec.structs.replace(change, path=path)
        events += znode_handlers.delete_znode(state, classify(path), gone)
        forget(log, path, stat)
    # The server of this resync had reached what it named, and no longer held these znodes: a server
    # that has not reached that point yet, such as one in a minority, must not bring them back.
    log.deletes_read_zxid = max(log.deletes_read_zxid, newest)
    return events


def _reconcile(state: ClusterState, change: ZnodeChange) -> Reported:
    log = state.control.log
    log.reconciliations += 1
    at = change.observed_at
    if log.resync is not None:
        # A watcher reconciles only between resyncs: the end of this one is lost.
        log.resync = None
        return _fail(state, at=at, reason="a resync whose end is missing")
    if not log.baseline or change.znodes is None:
        return [], None
    denied = _denied_by(change)
    if any(not is_below(path, denied) for path in log.unreadable_znodes):
        # The watcher is no longer denied these znodes, and did not find them.
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
        # A permission may change at any time; the end of a resync reports what it was denied.
        _note_denied(log, change, still=_still_held(log, change))
    if change.session is not None:
        log.session = change.session
        log.session_since = change.session_since
    if change.dropped is not None:
        log.dropped = change.dropped
    asked_elections.let_go(state.control)
    connected = change.session is SessionState.CONNECTED
    events = controller.catch_up(state, change) if connected else []
    events += pending_write_tracker.heartbeat(state, change)
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
    """Return paths no longer denied, below which znodes are held that were denied when last read: not proved."""
    over = set(log.denied).difference(change.denied)
    return {each for each in over if any(is_below(path, (each,)) for path in log.unreadable_znodes)}


def _note_denied(log: LogState, change: ZnodeChange, still: Collection[str] = ()) -> None:
    log.denied = tuple(sorted({*change.denied, *still})) if still else change.denied
    log.denied_more = change.denied_more or 0


def _denied_by(change: ZnodeChange) -> tuple[str, ...]:
    """Return the paths at or below which the watcher may have been denied something."""
    # Then every denied path is named, or is below one that is named.
    are_all_named = change.denied_more is not None or len(change.denied) < _CUT_AT
    return change.denied if are_all_named else ("/",)


def miss(state: ClusterState, *, at: int, reason: str, ask: bool) -> list[AnyEvent]:
    """Mark the figures as incomplete; with `ask`, request a resync unless one is requested already."""
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
    """Request a resync, under a new number; back off while the same reason repeats.

    An open request stays as it is, unless `again`: a resync or a reconciliation that failed shows that the
    watcher has not received the request, or that its answer was lost.
    """
    if log.wanted is not None and not again:
        return
    log.asked_times = log.asked_times + 1 if reason == log.asked_reason else 1
    log.asked_reason = reason
    if log.asked_times & (log.asked_times - 1):
        return  # requested the 1st, 2nd, 4th, 8th time in a row; the other times are only reported
    log.asked += 1
    log.wanted = ResyncWanted(number=log.asked, reason=reason)


def anomaly(state: ClusterState, *, at: int, path: str, reason: str) -> Anomaly:
    """Count something odd in the log or in a znode, and return the event that reports it."""
    state.control.log.anomalies += 1
    return Anomaly(at=at, position=state.control.log.position, path=path, reason=reason)


CONTROL_RECORDS: dict[ChangeKind, Callable[[ClusterState, ZnodeChange], Reported]] = {
    ChangeKind.RESYNC_STARTED: _start_resync,
    ChangeKind.RESYNC_FINISHED: _finish_resync,
    ChangeKind.RECONCILED: _reconcile,
    ChangeKind.HEARTBEAT: _heartbeat,
}
"""The handler of each kind of control record."""
