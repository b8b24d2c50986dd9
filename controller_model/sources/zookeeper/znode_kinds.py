"""Kafka's znodes: where each one is, and which of them leave the watcher.

A path is exactly one kind of znode, or OTHER. What leaves the watcher is decided here
as well, because the same subtrees hold credentials. Source: kafka.zk.ZkData (Kafka 3.9).
"""

import enum
import re
from functools import lru_cache

import msgspec

from controller_model.kafka.errors import UnreadableZnodeError
from controller_model.kafka.ids import TopicPartition, new_tuple
from controller_model.sources.zookeeper import config_payloads
from controller_model.sources.zookeeper.payloads import is_int32

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
"""What the watcher watches. Never /config/users, /config/clients or tokens: they hold credentials."""


class ZnodeKind(enum.Enum):
    """The kind of a znode; the value is its path with the variable parts named."""

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
    """A container, or a znode that kcm does not know: watched, not published."""

    __hash__ = object.__hash__
    """Members are singletons. Enum's own hash is that of the name and costs a microsecond per change."""


class Znode(msgspec.Struct, frozen=True, gc=False):
    """A classified path: `name` is the topic, broker or sequence part, "" where there is none."""

    kind: ZnodeKind
    name: str = ""
    partition: int = -1
    partitions: tuple[TopicPartition, ...] = ()
    """The partition of a state znode, as events list it: made once here for all changes of it."""


_OTHER = Znode(ZnodeKind.OTHER)
_EXACT = {kind.value: Znode(kind) for kind in ZnodeKind if "<" not in kind.value}
_CHILDREN = {kind.value.rpartition("/")[0]: kind for kind in ZnodeKind if kind.value.endswith(">")}

PATHS_REMEMBERED = 16_384
"""A znode that changed changes again: for some megabytes, most changes need no parsing of the path."""

_PARTITION_STATE = re.compile(r"/brokers/topics/([^/]+)/partitions/([0-9]+)/state")


@lru_cache(maxsize=PATHS_REMEMBERED)
def classify(path: str) -> Znode:
    """Return the kind of a path; OTHER for containers and for paths that Kafka does not create.

    >>> state = classify("/brokers/topics/t/partitions/3/state")
    >>> state.name, state.partition
    ('t', 3)
    >>> classify("/brokers/ids").kind.name
    'OTHER'
    """
    exact = _EXACT.get(path)
    if exact is not None:
        return exact
    state = _PARTITION_STATE.fullmatch(path)
    if state is not None and is_int32(state[2]):
        named = new_tuple(TopicPartition, (state[1], int(state[2])))
        return Znode(ZnodeKind.PARTITION_STATE, named.topic, named.partition, (named,))
    parent, _, name = path.rpartition("/")
    kind = _CHILDREN.get(parent)
    if kind is None or not name or (kind is ZnodeKind.BROKER and not is_int32(name)):
        return _OTHER
    return Znode(kind, name)


def is_published(path: str) -> bool:
    """Return whether the watcher publishes this znode: containers carry nothing of interest."""
    return classify(path).kind is not ZnodeKind.OTHER


def published_data(path: str, payload: bytes) -> bytes:
    """Return the part of a payload that may leave the watcher.

    Of a configuration that is config_payloads.CONFIG_KEYS only; of a change notification, all but
    the names of users, clients and hosts. An unreadable payload of these kinds leaves as `{}`, so
    that replay reports an anomaly and nobody sees the payload.
    """
    kind = classify(path).kind
    if kind is ZnodeKind.CONFIG_CHANGE:
        return config_payloads.reduce_config_change(payload)
    if kind not in {ZnodeKind.TOPIC_CONFIG, ZnodeKind.BROKER_CONFIG}:
        return payload
    try:
        config = config_payloads.decode_config(payload)
    except UnreadableZnodeError:
        return b"{}"
    return msgspec.json.encode({"version": 1, "config": config}, order="sorted")
