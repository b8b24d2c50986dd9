"""The stats of znodes: where the state holds each, whether a value is new, and the digest over all of them.

The rule: values are compared by ZooKeeper's own order (mzxid) and never by their time of arrival.
After a delete there is no mzxid to compare with, so the zxid of the read's reply decides. Every
change of the set of znodes changes the digest too. The stat of a topic's znode is the origin of the value
that was read from it, so that a topic is one value; all others are in the source's own state, by path.

Why one number is enough for deletes: within a generation, reads are answered in the order of the
log, so their read_zxid never falls. A new generation begins with a resync, which starts when the
server has caught up with the largest read_zxid that the view holds; where the log held more by
then, the resync proves nothing, and the fold requests another one. So a read below the read_zxid of
the newest delete is always an old one.
"""

import enum
from collections.abc import Iterator

import msgspec
from msgspec.structs import replace

from controller_model.facts.origin import UNKNOWN_VERSION, Origin
from controller_model.facts.stamp import Stamp
from controller_model.records.changes import ZnodeChange, moved_digest, znode_digest
from controller_model.records.views import LogView
from controller_model.sources.zookeeper.denied_paths import root_of
from controller_model.sources.zookeeper.state import (
    DeniedTree,
    ZooKeeperState,
    zookeeper_of,
)
from controller_model.sources.zookeeper.znode_kinds import Znode, ZnodeKind
from controller_model.state.cluster import ClusterState
from controller_model.state.control_plane import ControlPlane
from controller_model.state.source import Handle
from controller_model.state.topic_state import PartitionRecord, TopicState

_PARTITION_STATE = ZnodeKind.PARTITION_STATE
_NOTHING = PartitionRecord()
IN_TOPIC = frozenset({ZnodeKind.TOPIC, ZnodeKind.PARTITION_STATE, ZnodeKind.TOPIC_CONFIG})
"""Kinds whose stat is an origin in the topic."""


class ZnodeRead(msgspec.Struct, gc=False):
    """A znode's value or end that is new, while it is turned into facts."""

    state: ClusterState
    znode: Znode
    change: ZnodeChange
    stamp: Stamp
    handle: Handle
    stat: Origin | None = None
    """The stat to hold of the value; None at an end."""
    topic: TopicState | None = None
    """The topic of a partition's state, as it is held."""

    @property
    def control(self) -> ControlPlane:
        """The control plane of the cluster."""
        return self.state.control


def stamp_of(change: ZnodeChange) -> Stamp:
    """Return when and where an end or a control record was read: these have no mzxid."""
    return Stamp(change.observed_at, change.position, change.read_zxid, change.path)


def find_stat(
    state: ClusterState, znode: Znode, path: str, topic: TopicState | None
) -> Origin | None:
    """Return the stat that is held of a znode; None if there is none. A topic's znodes need the topic."""
    kind = znode.kind
    if topic is None:
        return zookeeper_of(state.control).stats.get(path)
    if kind is _PARTITION_STATE:
        record = topic.partitions.get(znode.partition)
        return None if record is None else record.origin
    return topic.origin if kind is ZnodeKind.TOPIC else topic.config_origin


def store_stat(state: ClusterState, znode: Znode, path: str, stat: Origin) -> None:
    """Store the stat of a znode whose value stays; if it is unreadable, the value is marked so."""
    kind = znode.kind
    if kind not in IN_TOPIC:
        zookeeper_of(state.control).stats[path] = stat
        return
    topic = state.topic(znode.name)
    if kind is _PARTITION_STATE:
        held = topic.partitions.get(znode.partition, _NOTHING)
        new = replace(held, origin=stat, unreadable=stat.unreadable)
        state.put_partition(topic, znode.partition, new)
        return
    unreadable = tuple(part for part in topic.unreadable if part != path)
    if stat.unreadable:
        unreadable = tuple(sorted((*unreadable, path)))
    if kind is ZnodeKind.TOPIC:
        state.put_topic(replace(topic, exists=True, origin=stat, unreadable=unreadable))
    else:
        state.put_topic(replace(topic, config_origin=stat, unreadable=unreadable))


def every_stat(state: ClusterState) -> Iterator[tuple[str, Origin]]:
    """Yield all held paths and stats, topic by topic, so that a large cluster is never in memory as a whole.

    The order is that in which Kafka deletes them: states before topics, requests of deletion last.
    The caller may delete what has been yielded.
    """
    others = list(zookeeper_of(state.control).stats.items())
    last = "/admin/delete_topics/"
    yield from (entry for entry in others if not entry[0].startswith(last))
    for name in sorted(state.topics.names()):
        yield from list(_stats_of(state.topics.peek(name) or TopicState(name)))
    yield from (entry for entry in others if entry[0].startswith(last))


def _stats_of(topic: TopicState) -> Iterator[tuple[str, Origin]]:
    name = topic.name
    for partition, record in topic.partitions.items():
        if record.origin is not None:
            yield f"/brokers/topics/{name}/partitions/{partition}/state", record.origin
    if topic.origin is not None:
        yield f"/brokers/topics/{name}", topic.origin
    if topic.config_origin is not None:
        yield f"/config/topics/{name}", topic.config_origin


class Freshness(enum.Enum):
    """What a `set` is, compared with the value that is held."""

    NEWS = enum.auto()
    CONFIRMED = enum.auto()
    """The same value, reported again."""
    STALE = enum.auto()
    """An older value, which must not win."""
    REPLACED = enum.auto()
    """A value of another history: ZooKeeper was restored from a backup, or rebuilt."""


_NEWS = Freshness.NEWS
"""Python 3.11 looks up a member of an Enum in Python code: once here, instead of for each change."""


def judge(held: ZooKeeperState, stat: Origin | None, change: ZnodeChange) -> Freshness:
    """Compare a `set` with the stat that is held; a field that the change lacks is not checked."""
    resync = held.resync
    rebase = resync is not None and resync.rebase
    if stat is None:
        late = change.read_zxid is not None and change.read_zxid < held.deletes_read_zxid
        return Freshness.STALE if late and not rebase else _NEWS
    mzxid = change.mzxid
    if mzxid is None or mzxid > stat.order:
        return _NEWS
    if rebase and stat.reading != held.resync_ordinal:
        # Another history: an equal zxid there says nothing about the value here.
        return _NEWS
    if mzxid == stat.order and change.czxid in {None, stat.created}:
        return Freshness.CONFIRMED
    # A server that has reached zxid R shows every write up to R. So a read at or after the held value
    # cannot show an older one, unless the held value belongs to a history that was replaced.
    impossible = change.read_zxid is not None and change.read_zxid >= stat.order
    return Freshness.REPLACED if impossible else Freshness.STALE


def steps_merged(stat: Origin, version: int | None) -> int:
    """Return how many updates of one znode were never seen; 0 if a version is not known.

    >>> steps_merged(Origin(order=9, created=3, version=4, reading=0), 7)
    2
    """
    if version is None or stat.version == UNKNOWN_VERSION:
        return 0
    return max(0, version - stat.version - 1)


def is_another(stat: Origin | None, change: ZnodeChange) -> bool:
    """Return whether a znode was deleted and created again between two reads."""
    if stat is None or stat.created == change.czxid:
        return False
    return bool(stat.created and change.czxid)


def confirm_znode(held: ZooKeeperState, path: str, stat: Origin) -> bool:
    """Count a znode as confirmed in the current resync; return whether the stat changed."""
    resync = held.resync
    if resync is None or stat.reading == held.resync_ordinal:
        return False
    stat.reading = held.resync_ordinal
    resync.znodes += 1
    resync.digest ^= znode_digest(path, stat.order)
    return True


def count_znode(
    held: ZooKeeperState, log: LogView, path: str, old: Origin | None, new: Origin
) -> None:
    """Change the digests from a znode's old stat to its new one."""
    if old is None:
        moved = znode_digest(path, new.order)
        log.znodes += 1
    else:
        moved = moved_digest(path, old.order, new.order)
    held.digest ^= moved
    resync = held.resync
    if resync is None:
        return
    if old is None:
        resync.znodes += 1
        resync.digest ^= moved
    elif old.reading == held.resync_ordinal:
        resync.digest ^= moved
    else:
        resync.znodes += 1
        resync.digest ^= znode_digest(path, new.order)


def uncount_znode(held: ZooKeeperState, log: LogView, path: str, stat: Origin) -> None:
    """Remove a deleted znode from the digests."""
    bits = znode_digest(path, stat.order)
    log.znodes -= 1
    held.digest ^= bits
    if held.resync is not None and stat.reading == held.resync_ordinal:
        held.resync.znodes -= 1
        held.resync.digest ^= bits


def count_denied(held: ZooKeeperState, root: str, path: str, stat: Origin) -> None:
    """Count a held znode in the tree of a denied path."""
    tree = held.denied_trees.setdefault(root, DeniedTree())
    tree.znodes += 1
    tree.digest ^= znode_digest(path, stat.order)


def uncount_denied(held: ZooKeeperState, path: str, stat: Origin) -> None:
    """Note that a znode that the last resync was denied was read again, or deleted; the caller stores the stat."""
    root = root_of(path, held.denied_trees) or path
    tree = held.denied_trees[root]
    tree.znodes -= 1
    tree.digest ^= znode_digest(path, stat.order)
    if not tree.znodes:
        del held.denied_trees[root]
    stat.reading = 0
