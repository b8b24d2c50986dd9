"""The handler of each kind of znode, and the place of each znode's stat.

The rule: one table maps every published ZnodeKind to a handler for a new value, another maps kinds
to a handler for a deletion; for kinds without an entry there, only the stat is removed. Stats of topic
znodes are in the topic, so that a topic is one value; all others are in the control plane.
"""

from collections.abc import Callable, Iterator

import msgspec

from controller_model.handlers import brokers, configs, controller, topics
from controller_model.records.changes import ZnodeChange
from controller_model.records.events import (
    Anomaly,
    AnyEvent,
    PreferredElectionRequested,
    ReassignmentRequested,
    TopicDeletionCompleted,
    TopicDeletionRequested,
    where,
)
from controller_model.sources.zookeeper.config_payloads import decode_config_change
from controller_model.sources.zookeeper.payloads import (
    decode_cluster_id,
    decode_feature,
    decode_migration,
    decode_nothing,
    decode_partitions,
    decode_reassign_partitions,
)
from controller_model.sources.zookeeper.znode_kinds import Znode, ZnodeKind
from controller_model.state.cluster import ClusterState
from controller_model.state.topic_state import PartitionRecord, TopicState
from controller_model.state.znode_stat import ZnodeStat
from controller_model.tracking import asked_elections

SetHandler = Callable[[ClusterState, Znode, ZnodeChange, bytes], list[AnyEvent]]
SetInTopicHandler = Callable[[ClusterState, Znode, ZnodeChange, bytes, ZnodeStat], list[AnyEvent]]
DeleteHandler = Callable[[ClusterState, Znode, ZnodeChange], list[AnyEvent]]

_PARTITION_STATE = ZnodeKind.PARTITION_STATE
_NOTHING = PartitionRecord()
_IN_TOPIC = frozenset({ZnodeKind.TOPIC, ZnodeKind.PARTITION_STATE, ZnodeKind.TOPIC_CONFIG})


def set_znode(
    state: ClusterState, znode: Znode, change: ZnodeChange, payload: bytes, stat: ZnodeStat
) -> list[AnyEvent]:
    """Apply a znode's new value and stat; raise UnreadableZnodeError before anything has changed."""
    kind = znode.kind
    if kind in _IN_TOPIC:
        return _SET_IN_TOPIC[kind](state, znode, change, payload, stat)
    events = _SET[kind](state, znode, change, payload)
    state.control.stats[change.path] = stat
    return events


def delete_znode(state: ClusterState, znode: Znode, change: ZnodeChange) -> list[AnyEvent]:
    """Apply a znode's deletion."""
    handler = _DELETE.get(znode.kind)
    events = handler(state, znode, change) if handler else []
    if znode.kind not in _IN_TOPIC:
        state.control.stats.pop(change.path, None)
    return events


def find_stat(state: ClusterState, znode: Znode, path: str) -> ZnodeStat | None:
    """Return the stat that is held of a znode; None if there is none."""
    kind = znode.kind
    if kind not in _IN_TOPIC:
        return state.control.stats.get(path)
    topic = state.topic(znode.name)
    if kind is _PARTITION_STATE:
        record = topic.partitions.get(znode.partition)
        return None if record is None else record.stat
    return topic.stat if kind is ZnodeKind.TOPIC else topic.config_stat


def keep_stat(state: ClusterState, znode: Znode, path: str, stat: ZnodeStat) -> None:
    """Store the stat of a znode."""
    kind = znode.kind
    if kind not in _IN_TOPIC:
        state.control.stats[path] = stat
        return
    topic = state.topic(znode.name)
    if kind is _PARTITION_STATE:
        held = topic.partitions.get(znode.partition, _NOTHING)
        state.put_partition(znode.name, znode.partition, msgspec.structs.replace(held, stat=stat))
    elif kind is ZnodeKind.TOPIC:
        state.put_topic(msgspec.structs.replace(topic, stat=stat))
    else:
        state.put_topic(msgspec.structs.replace(topic, config_stat=stat))


def every_stat(state: ClusterState) -> Iterator[tuple[str, ZnodeStat]]:
    """Yield all held paths and stats, topic by topic, so that a large cluster is never in memory as a whole.

    The order is that in which Kafka deletes them: states before topics, requests of deletion last.
    The caller may delete what has been yielded.
    """
    control = list(state.control.stats.items())
    last = "/admin/delete_topics/"
    yield from (entry for entry in control if not entry[0].startswith(last))
    for name in sorted(state.topics.names()):
        yield from list(_stats_of(state, name))
    yield from (entry for entry in control if entry[0].startswith(last))


def _stats_of(state: ClusterState, name: str) -> Iterator[tuple[str, ZnodeStat]]:
    topic = state.topics.peek(name) or TopicState(name)
    for partition, record in topic.partitions.items():
        if record.stat is not None:
            yield f"/brokers/topics/{name}/partitions/{partition}/state", record.stat
    if topic.stat is not None:
        yield f"/brokers/topics/{name}", topic.stat
    if topic.config_stat is not None:
        yield f"/config/topics/{name}", topic.config_stat


def _set_cluster_id(
    state: ClusterState, _znode: Znode, change: ZnodeChange, payload: bytes
) -> list[AnyEvent]:
    control = state.control
    new = decode_cluster_id(payload)
    old, control.cluster_id = control.cluster_id, new
    if old in {None, new}:
        return []
    control.log.anomalies += 1
    reason = f"the cluster id changed from {old} to {new}: another cluster under the same name"
    return [Anomaly(**where(change), path=change.path, reason=reason)]


def _set_delete_topic(
    state: ClusterState, znode: Znode, change: ZnodeChange, _payload: bytes
) -> list[AnyEvent]:
    if znode.name in state.control.deleting:
        return []
    state.set_deleting(znode.name, change.ctime or change.observed_at)
    if not state.control.log.baseline:
        return []
    requested = TopicDeletionRequested(**where(change), topic=znode.name)
    return [requested, *controller.finish_failover(state, change.observed_at)]


def _end_delete_topic(state: ClusterState, znode: Znode, change: ZnodeChange) -> list[AnyEvent]:
    requested_at = state.control.deleting.get(znode.name)
    state.set_deleting(znode.name, None)
    due = controller.finish_failover(state, change.observed_at)
    if requested_at is None or not state.control.log.baseline:
        return due
    deleted = state.topic(znode.name).stat is None
    completed = TopicDeletionCompleted(
        **where(change), topic=znode.name, deleted=deleted, requested_at=requested_at
    )
    return [completed, *due]


def _set_preferred_election(
    state: ClusterState, _znode: Znode, change: ZnodeChange, payload: bytes
) -> list[AnyEvent]:
    partitions = decode_partitions(payload)
    if not state.control.log.baseline:
        return []
    asked_elections.take_znode(state.control, partitions)
    return [PreferredElectionRequested(**where(change), partitions=partitions)]


def _end_preferred_election(
    state: ClusterState, _znode: Znode, _change: ZnodeChange
) -> list[AnyEvent]:
    asked_elections.end_znode(state.control)
    return []


def _set_reassign_partitions(
    state: ClusterState, _znode: Znode, change: ZnodeChange, payload: bytes
) -> list[AnyEvent]:
    """Report what a legacy tool requests; the controller removes partitions from it when they are done."""
    asked = decode_reassign_partitions(payload)
    known = state.control.stats.get(change.path)
    rewritten = known is not None and known.czxid == change.czxid
    if rewritten or not state.control.log.baseline:
        return []
    return [ReassignmentRequested(**where(change), partitions=tuple(sorted(asked)))]


def _set_migration(
    state: ClusterState, _znode: Znode, _change: ZnodeChange, payload: bytes
) -> list[AnyEvent]:
    state.control.kraft_controller = decode_migration(payload).kraft_controller_id
    return []


def _end_migration(state: ClusterState, _znode: Znode, _change: ZnodeChange) -> list[AnyEvent]:
    state.control.kraft_controller = None
    return []


def _only_read(
    _state: ClusterState, znode: Znode, _change: ZnodeChange, payload: bytes
) -> list[AnyEvent]:
    """Decode a payload that changes nothing, so that damage is reported; see ONLY_REMEMBERED."""
    ONLY_REMEMBERED[znode.kind](payload)
    return []


ONLY_REMEMBERED: dict[ZnodeKind, Callable[[bytes], object]] = {
    # The data version in its stat is the number of generated ids.
    ZnodeKind.BROKER_SEQUENCE: decode_nothing,
    # The state znodes that it names are watched; the pending ones are counted.
    ZnodeKind.ISR_CHANGE: decode_partitions,
    # The configuration that it names is watched.
    ZnodeKind.CONFIG_CHANGE: decode_config_change,
    # No feature of a ZooKeeper cluster changes what its controller does.
    ZnodeKind.FEATURE: decode_feature,
}
"""The decoders of kinds whose payload changes no state, and why it does not; their stats are held."""

_SET: dict[ZnodeKind, SetHandler] = {
    ZnodeKind.CONTROLLER: controller.set_controller,
    ZnodeKind.CONTROLLER_EPOCH: controller.set_epoch,
    ZnodeKind.BROKER: brokers.set_broker,
    ZnodeKind.REASSIGN_PARTITIONS: _set_reassign_partitions,
    ZnodeKind.PREFERRED_ELECTION: _set_preferred_election,
    ZnodeKind.DELETE_TOPIC: _set_delete_topic,
    ZnodeKind.LOG_DIR_EVENT: brokers.set_log_dir_event,
    ZnodeKind.BROKER_CONFIG: configs.set_broker_config,
    ZnodeKind.CLUSTER_ID: _set_cluster_id,
    ZnodeKind.MIGRATION: _set_migration,
    **dict.fromkeys(ONLY_REMEMBERED, _only_read),
}
_SET_IN_TOPIC: dict[ZnodeKind, SetInTopicHandler] = {
    ZnodeKind.TOPIC: topics.set_topic,
    ZnodeKind.PARTITION_STATE: topics.set_partition_state,
    ZnodeKind.TOPIC_CONFIG: configs.set_topic_config,
}
"""A topic is one value that includes its stats: these handlers store the new stat with the new value."""

_DELETE: dict[ZnodeKind, DeleteHandler] = {
    ZnodeKind.CONTROLLER: controller.end_controller,
    ZnodeKind.BROKER: brokers.end_broker,
    ZnodeKind.TOPIC: topics.end_topic,
    ZnodeKind.PARTITION_STATE: topics.end_partition_state,
    ZnodeKind.PREFERRED_ELECTION: _end_preferred_election,
    ZnodeKind.DELETE_TOPIC: _end_delete_topic,
    ZnodeKind.TOPIC_CONFIG: configs.end_topic_config,
    ZnodeKind.BROKER_CONFIG: configs.end_broker_config,
    ZnodeKind.MIGRATION: _end_migration,
}
