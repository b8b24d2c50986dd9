"""Kafka's znodes: where each one is, and what its payload says.

The rule: a decoder returns exactly what Kafka wrote or raises UnreadableZnodeError; it never
guesses and never reads a wrong number. Which znodes leave the watcher is decided here as well,
because credentials live beside what we need. Source: kafka.zk.ZkData (Kafka 3.9) and, for older
layouts, its predecessors down to 0.8.
"""

from __future__ import annotations

import enum
from typing import Annotated, Any, NamedTuple, TypeVar

import msgspec

from controller_model.errors import UnreadableZnodeError
from controller_model.ids import LEADER_DURING_DELETE

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

CONFIG_KEYS = frozenset({"min.insync.replicas", "unclean.leader.election.enable"})
"""The only configuration keys that leave the watcher; others may hold secrets."""

_INT32 = Annotated[int, msgspec.Meta(ge=-(2**31), le=2**31 - 1)]
_BROKER_ID = Annotated[int, msgspec.Meta(ge=0, le=2**31 - 1)]
_EPOCH = Annotated[int, msgspec.Meta(ge=0, le=2**31 - 1)]
_LEADER = Annotated[int, msgspec.Meta(ge=LEADER_DURING_DELETE, le=2**31 - 1)]
_VERSION_1 = Annotated[int, msgspec.Meta(ge=1, le=1)]

_PARTITION_STATE_PARTS = 7
_INT32_DIGITS = 10
"""Digits of the largest 32-bit number; longer texts are not even converted."""


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


class Znode(NamedTuple):
    """A classified path: `name` is the topic, broker or sequence part, "" where there is none."""

    kind: ZnodeKind
    name: str = ""
    partition: int = -1


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


def classify(path: str) -> Znode:
    """Return what a path is; OTHER for containers and for what Kafka does not make.

    >>> classify("/brokers/topics/t/partitions/3/state")[1:]
    ('t', 3)
    >>> classify("/brokers/ids").kind.name
    'OTHER'
    """
    exact = _EXACT.get(path)
    if exact is not None:
        return exact
    parent, _, name = path.rpartition("/")
    kind = _CHILDREN.get(parent)
    if kind is None and name == "state" and path.startswith("/brokers/topics/"):
        parts = path.split("/")
        if (
            len(parts) == _PARTITION_STATE_PARTS
            and parts[3]
            and parts[4] == "partitions"
            and _is_id(parts[5])
        ):
            return Znode(ZnodeKind.PARTITION_STATE, parts[3], int(parts[5]))
        return _OTHER
    if kind is None or not name or (kind is ZnodeKind.BROKER and not _is_id(name)):
        return _OTHER
    return Znode(kind, name)


def is_published(path: str) -> bool:
    """Tell whether the watcher publishes this znode: containers carry nothing of interest."""
    return classify(path).kind is not ZnodeKind.OTHER


def published_data(path: str, payload: bytes) -> bytes:
    """Return what of a payload may leave the watcher: of configurations only CONFIG_KEYS.

    An unreadable configuration leaves as `{}` with its version absent, so that replay tells an
    anomaly without anybody having seen the payload.
    """
    if classify(path).kind not in {ZnodeKind.TOPIC_CONFIG, ZnodeKind.BROKER_CONFIG}:
        return payload
    try:
        config = decode_config(payload)
    except UnreadableZnodeError:
        return b"{}"
    return msgspec.json.encode({"version": 1, "config": config}, order="sorted")


def _is_id(text: str) -> bool:
    if not (text.isascii() and text.isdecimal() and len(text) <= _INT32_DIGITS):
        return False
    return int(text) < 2**31 and str(int(text)) == text


# --- payloads -------------------------------------------------------------------------------


class ControllerZnode(msgspec.Struct, frozen=True):
    """/controller (kafka.zk.ControllerZNode): who holds it."""

    brokerid: _BROKER_ID
    version: Annotated[int, msgspec.Meta(ge=1, le=2)] = 1
    timestamp: str | int | None = None
    kraft_controller_epoch: _INT32 | None = msgspec.field(default=None, name="kraftControllerEpoch")


class BrokerZnode(msgspec.Struct, frozen=True):
    """/brokers/ids/N (kafka.zk.BrokerIdZNode), versions 1 to 5."""

    version: Annotated[int, msgspec.Meta(ge=1, le=5)]
    host: str | None = None
    port: _INT32 | None = None
    endpoints: tuple[str, ...] = ()
    rack: str | None = None


class TopicZnode(msgspec.Struct, frozen=True):
    """/brokers/topics/T (kafka.zk.TopicZNode), versions 1 to 3; partition ids as ints."""

    partitions: dict[int, tuple[int, ...]]
    adding: dict[int, tuple[int, ...]] = {}
    removing: dict[int, tuple[int, ...]] = {}
    topic_id: str | None = None


class PartitionStateZnode(msgspec.Struct, frozen=True):
    """A partition's leader and ISR (kafka.zk.TopicPartitionStateZNode), in the ISR's own order."""

    leader: _LEADER
    leader_epoch: _EPOCH
    isr: tuple[_BROKER_ID, ...]
    controller_epoch: _INT32
    version: _VERSION_1
    leader_recovery_state: Annotated[int, msgspec.Meta(ge=0, le=1)] = 0


class _TopicLayout(msgspec.Struct, frozen=True):
    version: Annotated[int, msgspec.Meta(ge=1, le=3)]
    partitions: dict[str, tuple[_BROKER_ID, ...]]
    adding_replicas: dict[str, tuple[_BROKER_ID, ...]] = {}
    removing_replicas: dict[str, tuple[_BROKER_ID, ...]] = {}
    topic_id: str | None = None


class _ConfigLayout(msgspec.Struct, frozen=True):
    version: _VERSION_1
    config: dict[str, Any]


class _ClusterIdLayout(msgspec.Struct, frozen=True):
    id: str


class _TopicPartitionLayout(msgspec.Struct, frozen=True):
    topic: str
    partition: Annotated[int, msgspec.Meta(ge=0, le=2**31 - 1)]


class _PartitionsLayout(msgspec.Struct, frozen=True):
    version: _VERSION_1
    partitions: tuple[_TopicPartitionLayout, ...]


_LayoutT = TypeVar("_LayoutT")
_controller = msgspec.json.Decoder(ControllerZnode)
_broker = msgspec.json.Decoder(BrokerZnode)
_topic = msgspec.json.Decoder(_TopicLayout)
_state = msgspec.json.Decoder(PartitionStateZnode)
_config = msgspec.json.Decoder(_ConfigLayout)
_partitions = msgspec.json.Decoder(_PartitionsLayout)
_cluster_id = msgspec.json.Decoder(_ClusterIdLayout)


def decode_controller(payload: bytes) -> ControllerZnode:
    """Return who holds /controller; 0.8.0 betas wrote a bare broker id.

    >>> decode_controller(b'7').brokerid
    7
    """
    if payload.isdigit() and _is_id(payload.decode()):
        return ControllerZnode(brokerid=int(payload))
    return _read(_controller, payload)


def decode_controller_epoch(payload: bytes) -> int:
    """Return the controller epoch: a bare decimal number (kafka.zk.ControllerEpochZNode)."""
    try:
        text = payload.decode("ascii")
    except UnicodeDecodeError:
        raise UnreadableZnodeError("not a decimal number") from None
    if not _is_id(text):
        raise UnreadableZnodeError(_shorten(f"not a decimal number: {text!r}"))
    return int(text)


def decode_broker(payload: bytes) -> BrokerZnode:
    """Return a broker's registration."""
    return _read(_broker, payload)


def decode_topic(payload: bytes) -> TopicZnode:
    """Return a topic's assignment; partition ids sorted, replicas in Kafka's order."""
    layout = _read(_topic, payload)
    return TopicZnode(
        partitions=_by_partition(layout.partitions),
        adding=_by_partition(layout.adding_replicas),
        removing=_by_partition(layout.removing_replicas),
        topic_id=layout.topic_id,
    )


def decode_partition_state(payload: bytes) -> PartitionStateZnode:
    """Return a partition's leader, ISR and epochs."""
    return _read(_state, payload)


def decode_config(payload: bytes) -> dict[str, str]:
    """Return the part of a topic's or broker's configuration that the model needs.

    An empty znode is no configuration (kafka.zk.ConfigEntityZNode).
    """
    if not payload:
        return {}
    config = _read(_config, payload).config
    wanted = {key: value for key, value in config.items() if key in CONFIG_KEYS}
    if not all(isinstance(value, str) for value in wanted.values()):
        raise UnreadableZnodeError("a configuration value is not text")
    return wanted


def decode_partitions(payload: bytes) -> tuple[tuple[str, int], ...]:
    """Return the partitions that a legacy tool asked for under /admin."""
    layout = _read(_partitions, payload)
    return tuple((entry.topic, entry.partition) for entry in layout.partitions)


def decode_cluster_id(payload: bytes) -> str:
    """Return the cluster id (kafka.zk.ClusterIdZNode)."""
    return _read(_cluster_id, payload).id


def _by_partition(replicas: dict[str, tuple[int, ...]]) -> dict[int, tuple[int, ...]]:
    bad = [key for key in replicas if not _is_id(key)]
    if bad:
        raise UnreadableZnodeError(_shorten(f"not a partition id: {bad[0]!r}"))
    return {partition: replicas[str(partition)] for partition in sorted(map(int, replicas))}


def _read(decoder: msgspec.json.Decoder[_LayoutT], payload: bytes) -> _LayoutT:
    try:
        return decoder.decode(payload)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise UnreadableZnodeError(_shorten(str(error))) from None
    except RecursionError:
        raise UnreadableZnodeError("nested too deeply") from None


def _shorten(text: str, most: int = 200) -> str:
    return text if len(text) <= most else text[: most - 3] + "..."
