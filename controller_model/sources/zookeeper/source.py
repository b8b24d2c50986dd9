"""ZooKeeper as a source: a change of a znode becomes facts, if it is new.

The rule: nothing raises because of what ZooKeeper or the log holds. A change is compared by ZooKeeper's own
order (zxids), and the digest by which the whole can be proved equal to ZooKeeper is brought up to date last:
if a handler raises, it must not include a znode that is not held.
"""

from typing import Final

from controller_model.facts.origin import UNKNOWN_VERSION, Origin
from controller_model.facts.stamp import Stamp
from controller_model.kafka.errors import UnreadableRecordError, UnreadableZnodeError
from controller_model.records.changes import ChangeKind, ZnodeChange, digest_text
from controller_model.records.events import AnyEvent
from controller_model.records.views import UNREADABLE_NAMED
from controller_model.sources.zookeeper.brokers import BrokerState, is_in_sync_with_others
from controller_model.sources.zookeeper.denied_paths import is_below
from controller_model.sources.zookeeper.election_count import final_tally
from controller_model.sources.zookeeper.kraft import note_hidden
from controller_model.sources.zookeeper.payloads import decode_cluster_id, shorten
from controller_model.sources.zookeeper.pending_writes import (
    finish_failover,
    notifications,
    pending_writes,
)
from controller_model.sources.zookeeper.proofs import CONTROL_RECORDS, Applied
from controller_model.sources.zookeeper.state import DENIED, ZooKeeperState, zookeeper_of
from controller_model.sources.zookeeper.stats import (
    IN_TOPIC,
    Freshness,
    ZnodeRead,
    confirm_znode,
    count_znode,
    find_stat,
    judge,
    stamp_of,
    steps_merged,
    store_stat,
    uncount_denied,
    uncount_znode,
)
from controller_model.sources.zookeeper.znode_kinds import Znode, ZnodeKind, classify
from controller_model.sources.zookeeper.znodes import END_READERS, READERS
from controller_model.state.cluster import ClusterState
from controller_model.state.completeness import count_anomaly
from controller_model.state.control_plane import ControlPlane
from controller_model.state.source import Handle, Inferred, Source

# Python 3.11 looks up a member of an Enum in Python code: once here, instead of for each change.
_SET, _DELETED = ChangeKind.SET, ChangeKind.DELETED
_OTHER = ZnodeKind.OTHER
_NEWS = Freshness.NEWS

_SAMPLED = frozenset({ZnodeKind.CONTROLLER, ZnodeKind.BROKER})
"""Kinds of znodes: after a change of one, the health of the cluster is sampled."""

_PATH_CHARACTERS = 1_000
"""The most characters of an unreadable znode's path in a cluster's view: Kafka's own have 300. A view that is too large
for Kafka is not published, and without the cluster's view none of its batches is complete."""


class ZooKeeperSource(Source):
    """Makes facts of the changes that a watcher of ZooKeeper writes."""

    absent = ()
    state_type = ZooKeeperState

    def name_of(self, record: ZnodeChange) -> tuple[str, str]:
        """Return the kind of a change and its path."""
        return record.kind, record.path

    def begins_reading(self, record: ZnodeChange) -> bool:
        """Return whether a resync starts with this change."""
        return record.kind is ChangeKind.RESYNC_STARTED

    def interrupt(self, control: ControlPlane, *, new_generation: bool) -> None:
        """Note a hole; what a deposed watcher had begun will not be finished."""
        zookeeper = zookeeper_of(control)
        if new_generation:
            zookeeper.resync = None
            control.log.view.resync_under_way = False
        elif zookeeper.resync is not None:
            zookeeper.resync.whole = False

    def apply(self, state: ClusterState, record: ZnodeChange, handle: Handle) -> Applied:
        """Apply a change; return its events, and whether the health of the cluster is sampled after it."""
        kind = record.kind
        if kind is _SET:
            applied = _set(state, record, handle)
        elif kind is _DELETED:
            applied = _delete(state, record, handle)
        else:
            applied = CONTROL_RECORDS[kind](state, record, handle)
        if applied[1]:
            note_hidden(state.control)
        read_zxid = record.read_zxid
        view = state.control.log.view
        if read_zxid is not None and read_zxid != view.read_zxid:
            # No resync of older reads is trusted. A resync starts when its server has reached all that the views
            # and its watcher had read, but a former watcher may have read more: the fold was behind when this one
            # took over, or that one's messages arrived late. Then what it does not name may have been created since.
            resync = state.control.source.resync
            if read_zxid > view.read_zxid:
                view.read_zxid = read_zxid
            elif resync is not None and not resync.rebase:
                resync.whole = False
        return applied

    def finish_batch(self, state: ClusterState, handle: Handle) -> list[AnyEvent]:
        """End a failover whose work disappeared without a write."""
        return finish_failover(state, Stamp(state.control.now, state.control.log.position), handle)

    def infer(self, control: ControlPlane) -> Inferred:
        """Return pending writes and unreadable znodes; bring the digest and the notifications up to date."""
        zookeeper = zookeeper_of(control)
        note_hidden(control)
        control.log.view.digest = digest_text(zookeeper.digest)
        control.pending.notifications = notifications(control)
        unreadable = [path for path, stat in zookeeper.stats.items() if stat.unreadable]
        unreadable.sort(key=lambda path: (not path.startswith("/controller"), path))
        return Inferred(
            pending_writes=pending_writes(control),
            unreadable=tuple(
                shorten(path, _PATH_CHARACTERS) for path in unreadable[:UNREADABLE_NAMED]
            ),
            unreadable_count=len(unreadable),
            unreadable_controller=bool(unreadable) and unreadable[0].startswith("/controller"),
        )

    def broker_state(self, control: ControlPlane, broker: int) -> str | None:
        """Return the state that a broker is most likely in; None if it was never registered."""
        held = control.brokers.get(broker)
        if held is None:
            return None
        if not held.record.live:
            return BrokerState.NOT_RUNNING
        if held.is_drained and not is_in_sync_with_others(control, broker):
            return BrokerState.PENDING_CONTROLLED_SHUTDOWN
        return BrokerState.RUNNING_AS_BROKER

    def elections(self, control: ControlPlane) -> tuple[int, int]:
        """Return (elections, missed ones) as if the log ended here."""
        return final_tally(zookeeper_of(control).elections, control.controller.view)


ZOOKEEPER: Final[Source] = ZooKeeperSource()
"""The source of all clusters that keep their metadata in ZooKeeper; it holds nothing itself."""


def _reject(state: ClusterState, change: ZnodeChange) -> Applied:
    reason = "not a znode that a watcher publishes"
    return [count_anomaly(state, at=change.observed_at, path=change.path, reason=reason)], False


def _set(state: ClusterState, change: ZnodeChange, handle: Handle) -> Applied:
    """Apply a value if it is new; if it cannot be read, the last good one is kept."""
    path = change.path
    znode = classify(path)
    kind = znode.kind
    if kind is _OTHER:
        return _reject(state, change)
    control = state.control
    zookeeper: ZooKeeperState = control.source
    topic = state.topic(znode.name) if kind in IN_TOPIC else None
    old = find_stat(state, znode, path, topic)
    freshness = judge(zookeeper, old, change)
    if old is not None and old.reading == DENIED:
        uncount_denied(zookeeper, path, old)
        if freshness is not _NEWS:
            store_stat(state, znode, path, old)
    if freshness is not _NEWS:
        return _refuse(state, znode, change, old, freshness), False
    log, view = control.log, control.log.view
    view.last_change_at = change.observed_at
    if change.mtime is not None:
        view.last_change_mtime = change.mtime
    version = change.version
    # Nearly always it is the next version, into which nothing was merged.
    if old is not None and old.created == change.czxid and version != old.version + 1:
        view.missed_updates += steps_merged(old, version)
    new = Origin(
        change.mzxid or 0,
        change.czxid or (0 if old is None else old.created),
        UNKNOWN_VERSION if version is None else version,
        zookeeper.resync_ordinal if zookeeper.resync else 0,
    )
    mzxid = change.mzxid
    number = change.read_zxid if mzxid is None else mzxid
    stamp = Stamp(change.observed_at, control.log.position, number, path)
    is_sampled = False
    # What could not be read before is found now: as before counting began, nothing has happened.
    is_found = old is None and log.baseline and bool(view.denied) and is_below(path, view.denied)
    try:
        log.baseline = log.baseline and not is_found
        events = READERS[kind](ZnodeRead(state, znode, change, stamp, handle, new, topic))
    except (UnreadableZnodeError, UnreadableRecordError) as error:
        new.unreadable = True
        store_stat(state, znode, path, new)
        view.unreadable += 1
        reason = f"unreadable, the last good value stays: {error}"
        events = [count_anomaly(state, at=change.observed_at, path=path, reason=reason)]
    else:
        if topic is None:
            zookeeper.stats[path] = new
            is_sampled = kind in _SAMPLED
    finally:
        log.baseline = log.baseline or is_found
    count_znode(zookeeper, view, path, old, new)
    return events, is_sampled


def _refuse(
    state: ClusterState,
    znode: Znode,
    change: ZnodeChange,
    stat: Origin | None,
    freshness: Freshness,
) -> list[AnyEvent]:
    """Count a value that is not new: confirmed, stale, or of another history."""
    another = freshness is Freshness.CONFIRMED and _is_another_cluster(state, znode, change)
    if freshness is Freshness.CONFIRMED and stat is not None and not another:
        if confirm_znode(zookeeper_of(state.control), change.path, stat):
            store_stat(state, znode, change.path, stat)
        return []
    state.control.log.view.stale += 1
    return [] if freshness is Freshness.STALE else _find_rebase(state, change)


def _is_another_cluster(state: ClusterState, znode: Znode, change: ZnodeChange) -> bool:
    """Return whether another cluster's id has the zxid of the one that is held.

    A new ensemble begins with the same zxids, so zxids alone do not show it.
    """
    if znode.kind is not ZnodeKind.CLUSTER_ID:
        return False
    try:
        return decode_cluster_id(change.payload()) != state.control.config.cluster_id
    except (UnreadableZnodeError, UnreadableRecordError):
        return False


def _find_rebase(state: ClusterState, change: ZnodeChange) -> list[AnyEvent]:
    """Note that a value proves another history; if its zxids continued, the watcher cannot know that.

    Only a resync can read such a value, because a watcher reads another history on another connection.
    The value does not win yet: this resync mixes two histories, and the next one replaces everything.
    """
    zookeeper = zookeeper_of(state.control)
    if zookeeper.resync is None:
        return []
    zookeeper.resync.whole = False
    if zookeeper.rebasing:
        return []
    zookeeper.rebases += 1
    zookeeper.rebasing = True
    reason = "ZooKeeper's history was replaced: a value was read that it could not hold any more"
    return [count_anomaly(state, at=change.observed_at, path=change.path, reason=reason)]


def _delete(state: ClusterState, change: ZnodeChange, handle: Handle) -> Applied:
    """Apply the deletion of a znode, unless the held value is newer."""
    znode = classify(change.path)
    if znode.kind is _OTHER:
        return _reject(state, change)
    log, zookeeper = state.control.log.view, zookeeper_of(state.control)
    topic = state.topic(znode.name) if znode.kind in IN_TOPIC else None
    stat = find_stat(state, znode, change.path, topic)
    zookeeper.deletes_read_zxid = max(zookeeper.deletes_read_zxid, change.read_zxid or 0)
    if stat is None:
        return [], False
    if stat.reading == DENIED:
        uncount_denied(zookeeper, change.path, stat)
        store_stat(state, znode, change.path, stat)
    rebase = zookeeper.resync is not None and zookeeper.resync.rebase
    if change.read_zxid is not None and change.read_zxid < stat.order and not rebase:
        log.stale += 1
        return [], False
    log.last_change_at = change.observed_at
    read_end = END_READERS.get(znode.kind)
    read = ZnodeRead(state, znode, change, stamp_of(change), handle)
    events = [] if read_end is None else read_end(read)
    zookeeper.stats.pop(change.path, None)
    uncount_znode(zookeeper, log, change.path, stat)
    return events, znode.kind in _SAMPLED
