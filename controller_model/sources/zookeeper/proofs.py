"""Control records of the log: what resyncs, reconciliations and heartbeats change, and what they leave unknown.

The rule: only a proof makes the figures complete. A resync deletes what it did not name only if its count
and digest equal the fold's. Anything else makes the figures incomplete and requests another resync.
"""

from collections.abc import Callable, Collection

import msgspec

from controller_model.records.changes import (
    ChangeKind,
    SessionState,
    ZnodeChange,
    digest_text,
    moved_digest,
)
from controller_model.records.events import AnyEvent, Divergent
from controller_model.sources.zookeeper import (
    controller,
    denied_paths,
    foreign_writes,
    pending_writes,
)
from controller_model.sources.zookeeper.denied_paths import is_below, root_of
from controller_model.sources.zookeeper.state import DENIED, ResyncState, zookeeper_of
from controller_model.sources.zookeeper.stats import (
    IN_TOPIC,
    ZnodeRead,
    count_denied,
    every_stat,
    stamp_of,
    store_stat,
    uncount_znode,
)
from controller_model.sources.zookeeper.znode_kinds import classify
from controller_model.sources.zookeeper.znodes import END_READERS
from controller_model.state.cluster import ClusterState
from controller_model.state.completeness import (
    count_anomaly,
    mark_incomplete,
    mark_unfollowed,
    mark_verified,
    request_resync,
)
from controller_model.state.source import Handle
from controller_model.tracking import asked_elections

Applied = tuple[list[AnyEvent], bool]
"""Events, and whether the health of the cluster is sampled after them."""


def _start_resync(state: ClusterState, change: ZnodeChange, _handle: Handle) -> Applied:
    log, zookeeper = state.control.log, zookeeper_of(state.control)
    log.view.resyncs += 1
    log.view.resync_under_way = True
    zookeeper.resync_ordinal += 1
    zookeeper.rebases += change.rebase
    zookeeper.rebasing = zookeeper.rebasing or change.rebase
    zookeeper.resync = ResyncState(
        id=change.resync or 0, rebase=zookeeper.rebasing, began=change.position
    )
    if change.rebase:
        log.view.read_zxid = 0
        zookeeper.deletes_read_zxid = 0
    wanted, answers = log.wanted, change.answers
    if wanted is not None and answers is not None and answers >= wanted.number:
        log.wanted = None
    if log.baseline and (change.seq == 1 or not log.view.is_followed):
        # The held values are old; what happened since is not known until everything is read again.
        reason = f"a resync is under way after a time out of sight: {change.reason or 'no reason'}"
        return mark_unfollowed(state, at=change.observed_at, reason=reason, ask=False), False
    return [], False


def _finish_resync(state: ClusterState, change: ZnodeChange, handle: Handle) -> Applied:
    log, zookeeper = state.control.log, zookeeper_of(state.control)
    resync = zookeeper.resync
    zookeeper.resync = None
    log.view.resync_under_way = False
    at = change.observed_at
    if resync is None or resync.id != (change.resync or 0):
        return _fail(state, at=at, reason="a resync ended whose start is missing")
    if not resync.whole:
        return _fail(state, at=at, reason="a resync with a hole, two histories or old reads in it")
    if not _is_proved(change, resync.znodes, resync.digest):
        return _fail(state, at=at, reason="a resync whose count or digest is not ours")
    events = _sweep(state, change, resync, handle)
    denied_paths.note_denied(state, change)
    log.views_from = resync.began
    was_counting = log.baseline
    if not was_counting:
        events += controller.start_counting(state, stamp_of(change), handle)
    if resync.rebase and was_counting:
        # Here, after all that differs: what the first differing value reported is hard to find among that.
        reason = (
            "ZooKeeper's history was replaced: it was restored or rebuilt, and all is read again"
        )
        events.append(count_anomaly(state, at=at, path="/", reason=reason))
    return events + _verify(state, at), True


def _fail(state: ClusterState, *, at: int, reason: str) -> Applied:
    """Report that a resync failed, and request another one: changes may be missing since the last proof."""
    log = state.control.log
    request_resync(log, reason, again=True)
    since = log.view.verified_at
    return mark_incomplete(state, at=at, since=since, reason=reason, ask=False), False


def _verify(state: ClusterState, at: int) -> list[AnyEvent]:
    zookeeper_of(state.control).rebasing = False
    return mark_verified(state, at=at, entries=state.control.log.view.znodes)


def _is_proved(change: ZnodeChange, znodes: int, digest: int) -> bool:
    """Return whether a control record's count and digest are these.

    A record of another program may lack the digest, which is kcm's own; without a count nothing is proved.
    """
    return change.znodes == znodes and change.digest in {None, digest_text(digest)}


def _sweep(
    state: ClusterState, change: ZnodeChange, resync: ResyncState, handle: Handle
) -> list[AnyEvent]:
    """Delete what a complete resync did not name, except below what it was denied, which may exist."""
    log, zookeeper = state.control.log.view, zookeeper_of(state.control)
    events: list[AnyEvent] = []
    zookeeper.denied_trees = {}
    if log.znodes == resync.znodes:
        return events
    newest = 0
    denied = frozenset(change.denied)
    for path, stat in every_stat(state):
        if stat.reading == zookeeper.resync_ordinal:
            newest = max(newest, stat.order)
            continue
        znode = classify(path)
        root = root_of(path, denied)
        if root is not None:
            is_marked = stat.reading == DENIED
            stat.reading = DENIED
            if resync.rebase:
                # It is of a replaced history, and no value of the new one may count as older.
                zookeeper.digest ^= moved_digest(path, stat.order, 0)
                stat.order = 0
            if resync.rebase or not is_marked:
                store_stat(state, znode, path, stat)
            count_denied(zookeeper, root, path, stat)
            if znode.kind in IN_TOPIC:
                # Its views are older than this resync, so readers would drop them.
                state.mark_changed(znode.name)
            continue
        gone = msgspec.structs.replace(change, path=path)
        read_end = END_READERS.get(znode.kind)
        if read_end is not None:
            events += read_end(ZnodeRead(state, znode, gone, stamp_of(gone), handle))
        zookeeper.stats.pop(path, None)
        uncount_znode(zookeeper, log, path, stat)
    # The server of this resync had reached what it named, and no longer held these znodes: a server
    # that has not reached that point yet, such as one in a minority, must not bring them back.
    zookeeper.deletes_read_zxid = max(zookeeper.deletes_read_zxid, newest)
    return events


def _reconcile(state: ClusterState, change: ZnodeChange, _handle: Handle) -> Applied:
    log, zookeeper = state.control.log, zookeeper_of(state.control)
    log.view.reconciliations += 1
    at = change.observed_at
    if zookeeper.resync is not None:
        # A watcher reconciles only between resyncs: the end of this one is lost.
        zookeeper.resync = None
        log.view.resync_under_way = False
        return _fail(state, at=at, reason="a resync whose end is missing")
    if not log.baseline:
        # The resync that the watcher had done before is lost as a whole, and perhaps with it the answer to a request.
        request_resync(log, "no resync before a reconciliation", again=True)
    if not log.baseline or change.znodes is None:
        return [], False
    if not _regroup(state, change.denied):
        return _fail(state, at=at, reason="znodes that were denied are not there any more")
    znodes, digest = log.view.znodes, zookeeper.digest
    for tree in zookeeper.denied_trees.values():
        znodes -= tree.znodes
        digest ^= tree.digest
    if _is_proved(change, znodes, digest):
        return _verify(state, at), False
    reason = (
        f"a reconciliation counted {change.znodes} znodes with digest {change.digest}, "
        f"the fold holds {znodes} with {digest_text(digest)}"
    )
    request_resync(log, "divergent", again=True)
    if log.view.divergent_since is not None:
        return [], False
    log.view.divergent_since = at
    return [Divergent(at=at, position=change.position, reason=reason)], False


def _regroup(state: ClusterState, denied: Collection[str]) -> bool:
    """Group the znodes that the last resync was denied by the paths that are denied now.

    Return False if one is below none of them: the watcher is no longer denied it, and did not find it.
    """
    zookeeper = zookeeper_of(state.control)
    if all(is_below(root, denied) for root in zookeeper.denied_trees):
        return True
    before, zookeeper.denied_trees = zookeeper.denied_trees, {}
    for path, stat in every_stat(state):
        if stat.reading != DENIED:
            continue
        root = root_of(path, denied)
        if root is None:
            zookeeper.denied_trees = before
            return False
        count_denied(zookeeper, root, path, stat)
    return True


def _handle_heartbeat(state: ClusterState, change: ZnodeChange, handle: Handle) -> Applied:
    log, zookeeper = state.control.log, zookeeper_of(state.control)
    view = log.view
    view.heartbeat_at = change.observed_at
    view.zookeeper = change.zookeeper
    if zookeeper.resync is None:
        # A permission may change at any time; the end of a resync reports what it was denied.
        denied_paths.note_denied(state, change, still=_still_held(state, change))
    if change.session is not None:
        view.session = change.session
        view.session_since = change.session_since
    if change.dropped is not None:
        log.dropped = change.dropped
    asked_elections.release_expired(state.control)
    stamp = stamp_of(change)
    is_connected = change.session is SessionState.CONNECTED
    events = controller.catch_up(state, stamp, handle) if is_connected else []
    events = [*events, *foreign_writes.handle_heartbeat(state, stamp, handle)]
    return events + pending_writes.handle_heartbeat(state, stamp, handle), True


def _still_held(state: ClusterState, change: ZnodeChange) -> Collection[str]:
    """Return paths no longer denied, below which znodes are held that were denied when last read: not proved."""
    trees = zookeeper_of(state.control).denied_trees
    over = set(state.control.log.view.denied).difference(change.denied)
    return {each for each in over if any(is_below(root, (each,)) for root in trees)}


CONTROL_RECORDS: dict[ChangeKind, Callable[[ClusterState, ZnodeChange, Handle], Applied]] = {
    ChangeKind.RESYNC_STARTED: _start_resync,
    ChangeKind.RESYNC_FINISHED: _finish_resync,
    ChangeKind.RECONCILED: _reconcile,
    ChangeKind.HEARTBEAT: _handle_heartbeat,
}
"""What applies each kind of control record."""
