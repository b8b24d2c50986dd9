"""Kafka's znodes: where each one is, and which of them leave the watcher.

The rule: a path is one kind of znode or none that Kafka makes. What leaves the watcher is decided
here as well, because the same subtrees hold credentials. Source: kafka.zk.ZkData (Kafka 3.9).
What the payloads say is read in `znode_payloads`, whose names can be had from here as well.
"""

from __future__ import annotations

import enum
from collections.abc import Callable
from functools import lru_cache

import msgspec

from controller_model.kafka.errors import UnreadableZnodeError
from controller_model.kafka.ids import TopicPartition, new_tuple
from controller_model.znodes.config_payloads import (
    CONFIG_KEYS,
    decode_config,
    decode_config_change,
    reduce_config_change,
)
from controller_model.znodes.payloads import (
    BrokerZnode,
    ControllerZnode,
    FeatureZnode,
    LogDirEventZnode,
    MigrationZnode,
    PartitionStateZnode,
    TopicZnode,
    decode_broker,
    decode_cluster_id,
    decode_controller,
    decode_controller_epoch,
    decode_feature,
    decode_log_dir_event,
    decode_migration,
    decode_nothing,
    decode_partition_state,
    decode_partitions,
    decode_reassign_partitions,
    decode_topic,
    is_int32,
)

__all__ = [
    "CONFIG_KEYS",
    "DECODERS",
    "WATCHED_SUBTREES",
    "BrokerZnode",
    "ControllerZnode",
    "FeatureZnode",
    "LogDirEventZnode",
    "MigrationZnode",
    "PartitionStateZnode",
    "TopicZnode",
    "Znode",
    "ZnodeKind",
    "classify",
    "decode_broker",
    "decode_cluster_id",
    "decode_config",
    "decode_config_change",
    "decode_controller",
    "decode_controller_epoch",
    "decode_feature",
    "decode_log_dir_event",
    "decode_migration",
    "decode_nothing",
    "decode_partition_state",
    "decode_partitions",
    "decode_reassign_partitions",
    "decode_topic",
    "is_published",
    "published_data",
]

WATCHED_SUBTREES = (
    "/controller",
    "/controller_epoch",
    "/brokers",
    "/admin",
    "/isr_change_notification",
    "/log_dir_event_notification",
    "/cluster",
    "/feature",
    "/migration",
    "/config/topics",
    "/config/brokers",
    "/config/changes",
)
"""What the watcher watches. Never /config/users, /config/clients or tokens: credentials."""

_PARTITION_STATE_PARTS = 7


class ZnodeKind(enum.Enum):
    """What a path is; the value is the path with the parts that vary named."""

    CONTROLLER = "/controller"
    CONTROLLER_EPOCH = "/controller_epoch"
    BROKER = "/brokers/ids/<broker>"
    BROKER_SEQUENCE = "/brokers/seqid"
    TOPIC = "/brokers/topics/<topic>"
    PARTITION_STATE = "/brokers/topics/<topic>/partitions/<partition>/state"
    REASSIGN_PARTITIONS = "/admin/reassign_partitions"
    PREFERRED_ELECTION = "/admin/preferred_replica_election"
    DELETE_TOPIC = "/admin/delete_topics/<topic>"
    ISR_CHANGE = "/isr_change_notification/<sequence>"
    LOG_DIR_EVENT = "/log_dir_event_notification/<sequence>"
    TOPIC_CONFIG = "/config/topics/<topic>"
    BROKER_CONFIG = "/config/brokers/<broker>"
    CONFIG_CHANGE = "/config/changes/<sequence>"
    CLUSTER_ID = "/cluster/id"
    FEATURE = "/feature"
    MIGRATION = "/migration"
    OTHER = ""
    """A container, or nothing that we know: watched, not published."""

    __hash__ = object.__hash__
    """Members are single objects: Enum's own hash, of the name, costs each change a microsecond."""


DECODERS: dict[ZnodeKind, Callable[[bytes], object]] = {
    ZnodeKind.CONTROLLER: decode_controller,
    ZnodeKind.CONTROLLER_EPOCH: decode_controller_epoch,
    ZnodeKind.BROKER: decode_broker,
    ZnodeKind.BROKER_SEQUENCE: decode_nothing,
    ZnodeKind.TOPIC: decode_topic,
    ZnodeKind.PARTITION_STATE: decode_partition_state,
    ZnodeKind.REASSIGN_PARTITIONS: decode_reassign_partitions,
    ZnodeKind.PREFERRED_ELECTION: decode_partitions,
    ZnodeKind.DELETE_TOPIC: decode_nothing,
    ZnodeKind.ISR_CHANGE: decode_partitions,
    ZnodeKind.LOG_DIR_EVENT: decode_log_dir_event,
    ZnodeKind.TOPIC_CONFIG: decode_config,
    ZnodeKind.BROKER_CONFIG: decode_config,
    ZnodeKind.CONFIG_CHANGE: decode_config_change,
    ZnodeKind.CLUSTER_ID: decode_cluster_id,
    ZnodeKind.FEATURE: decode_feature,
    ZnodeKind.MIGRATION: decode_migration,
}
"""Each kind's decoder; it raises UnreadableZnodeError and nothing else, whatever it is given."""


class Znode(msgspec.Struct, frozen=True, gc=False):
    """A classified path: `name` is the topic, broker or sequence part, "" where there is none."""

    kind: ZnodeKind
    name: str = ""
    partition: int = -1
    partitions: tuple[TopicPartition, ...] = ()
    """The partition that a state is of, as events list it: made here once for all changes of it."""


_OTHER = Znode(ZnodeKind.OTHER)
_EXACT = {
    kind.value: Znode(kind)
    for kind in ZnodeKind
    if kind is not ZnodeKind.OTHER and "<" not in kind.value
}
_CHILDREN = {
    "/brokers/ids": ZnodeKind.BROKER,
    "/brokers/topics": ZnodeKind.TOPIC,
    "/admin/delete_topics": ZnodeKind.DELETE_TOPIC,
    "/isr_change_notification": ZnodeKind.ISR_CHANGE,
    "/log_dir_event_notification": ZnodeKind.LOG_DIR_EVENT,
    "/config/topics": ZnodeKind.TOPIC_CONFIG,
    "/config/brokers": ZnodeKind.BROKER_CONFIG,
    "/config/changes": ZnodeKind.CONFIG_CHANGE,
}

PATHS_REMEMBERED = 16_384
"""A znode that changes changes again: some megabytes spare most changes the parsing of their path."""

_TOPICS = "/brokers/topics/"
_STATE = "/state"
_PARTITION_STATE = ZnodeKind.PARTITION_STATE


@lru_cache(maxsize=PATHS_REMEMBERED)
def classify(path: str) -> Znode:
    """Return what a path is; OTHER for containers and for what Kafka does not make.

    >>> state = classify("/brokers/topics/t/partitions/3/state")
    >>> state.name, state.partition
    ('t', 3)
    >>> classify("/brokers/ids").kind.name
    'OTHER'
    """
    if path.endswith(_STATE) and path.startswith(_TOPICS):
        return _classify_state(path)
    exact = _EXACT.get(path)
    if exact is not None:
        return exact
    parent, _, name = path.rpartition("/")
    kind = _CHILDREN.get(parent)
    if kind is None or not name or (kind is ZnodeKind.BROKER and not is_int32(name)):
        return _OTHER
    return Znode(kind, name)


def _classify_state(path: str) -> Znode:
    parts = path.split("/")
    if len(parts) == _PARTITION_STATE_PARTS and parts[3] and parts[4] == "partitions":
        topic, partition = parts[3], parts[5]
        if is_int32(partition):
            number = int(partition)
            named = (new_tuple(TopicPartition, (topic, number)),)
            return Znode(_PARTITION_STATE, topic, number, named)
    # A topic may be called "state".
    name = path.removeprefix(_TOPICS)
    return Znode(ZnodeKind.TOPIC, name) if "/" not in name else _OTHER


def is_published(path: str) -> bool:
    """Return whether the watcher publishes this znode: containers carry nothing of interest."""
    return classify(path).kind is not ZnodeKind.OTHER


def published_data(path: str, payload: bytes) -> bytes:
    """Return what of a payload may leave the watcher.

    Of configurations only CONFIG_KEYS, of their change notifications no names of users, clients
    and hosts. What is unreadable leaves as `{}`, so that replay reports an anomaly without anybody
    having seen the payload.
    """
    kind = classify(path).kind
    if kind is ZnodeKind.CONFIG_CHANGE:
        return reduce_config_change(payload)
    if kind not in {ZnodeKind.TOPIC_CONFIG, ZnodeKind.BROKER_CONFIG}:
        return payload
    try:
        config = decode_config(payload)
    except UnreadableZnodeError:
        return b"{}"
    return msgspec.json.encode({"version": 1, "config": config}, order="sorted")
