"""The stats of znodes: where the state holds each, and when and where a change was read.

The rule: the stat of a topic's znode is the origin of the value that was read from it, so that a topic is one
value; all others are in the source's own state, by path.
"""

from collections.abc import Iterator

import msgspec
from msgspec.structs import replace

from controller_model.facts.origin import Origin
from controller_model.facts.stamp import Stamp
from controller_model.records.changes import ZnodeChange
from controller_model.sources.zookeeper.state import zookeeper_of
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

    @property
    def control(self) -> ControlPlane:
        """The control plane of the cluster."""
        return self.state.control


def stamp_of(change: ZnodeChange) -> Stamp:
    """Return when and where a change was read."""
    number = change.read_zxid if change.mzxid is None else change.mzxid
    return Stamp(change.observed_at, change.position, number, change.path)


def find_stat(state: ClusterState, znode: Znode, path: str) -> Origin | None:
    """Return the stat that is held of a znode; None if there is none."""
    kind = znode.kind
    if kind not in IN_TOPIC:
        return zookeeper_of(state.control).stats.get(path)
    topic = state.topic(znode.name)
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
        state.put_partition(znode.name, znode.partition, new)
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
