"""What the payload of each of Kafka's znodes says, in every layout from Kafka 0.8 to 3.9.

The rule: a decoder returns exactly what Kafka wrote or raises UnreadableZnodeError. It never
guesses and never accepts a wrong type: a boolean is not an id, text is not a number, and anything
after the payload is damage. Where Kafka is lenient, so are the decoders: of a repeated key the last
value counts, and unknown keys are skipped. A missing version is accepted where Kafka's decoder does
not require one; a version that no Kafka wrote is an unknown layout, and unreadable. Source: kafka.zk.ZkData
(Kafka 3.9); older layouts: kafka.utils.ZkUtils, kafka.cluster.Broker and
kafka.server.DynamicConfigManager of Kafka 0.8 to 0.11.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Annotated, NamedTuple, TypeVar

import msgspec

from controller_model.kafka.errors import UnreadableZnodeError
from controller_model.kafka.ids import LEADER_DURING_DELETE, TopicPartition
from controller_model.records.decoding import DECODING_ERRORS

MAX_INT32 = 2**31 - 1
"""The largest id, epoch or version that Kafka can write: a Java int."""

_INT32 = Annotated[int, msgspec.Meta(ge=-(2**31), le=MAX_INT32)]
_INT64 = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]
_INT16 = Annotated[int, msgspec.Meta(ge=-(2**15), le=2**15 - 1)]
_BROKER_ID = Annotated[int, msgspec.Meta(ge=0, le=MAX_INT32)]
_EPOCH = Annotated[int, msgspec.Meta(ge=0, le=MAX_INT32)]
_LEADER = Annotated[int, msgspec.Meta(ge=LEADER_DURING_DELETE, le=MAX_INT32)]
_PORT = Annotated[int, msgspec.Meta(ge=-1, le=65535)]
_VERSION_1 = Annotated[int, msgspec.Meta(ge=1, le=1)]

_INT32_DIGITS = 10
"""Digits of the largest 32-bit number; a longer text is rejected without converting it."""

_ENDPOINT = re.compile(r"(.*)://\[?([0-9a-zA-Z\-%._:]*)\]?:(-?[0-9]{1,5})")
"""kafka.cluster.EndPoint and org.apache.kafka.network.SocketServerConfigs: URI_PARSE_REGEXP."""

_ENDPOINTS_SINCE, _FEATURE_MIN_UNTIL = 2, 1
"""The first version of registrations with endpoints; the last of /feature with min_version_level."""


class Endpoint(NamedTuple):
    """One address of a broker (kafka.cluster.EndPoint)."""

    listener: str
    host: str
    port: int


class ControllerZnode(msgspec.Struct, frozen=True):
    """/controller (kafka.zk.ControllerZNode): who holds it.

    ControllerZNode.decode and decodeController do not require a version.
    """

    brokerid: _BROKER_ID
    version: Annotated[int, msgspec.Meta(ge=1, le=2)] = 1
    timestamp: str | int | None = None
    kraft_controller_epoch: _INT32 | None = msgspec.field(default=None, name="kraftControllerEpoch")


class BrokerZnode(msgspec.Struct, frozen=True):
    """/brokers/ids/N (kafka.zk.BrokerIdZNode), versions 1 to 5.

    1: host and port (Kafka 0.8); 2: endpoints (0.9); 3: rack; 4: listener_security_protocol_map
    (0.10); 5: features (2.7). Without a plaintext listener host is None and port -1. Kafka does not read
    the timestamp that it writes (BrokerIdZNode.decode).
    """

    version: Annotated[int, msgspec.Meta(ge=1, le=5)]
    host: str | None = None
    port: _PORT | None = None
    endpoints: tuple[str, ...] = ()
    rack: str | None = None
    jmx_port: _INT32 | None = None
    listener_security_protocol_map: dict[str, str] | None = None
    """None: each listener is named like its security protocol, as in all older versions."""
    features: dict[str, dict[str, _INT16]] = {}

    def addresses(self) -> tuple[Endpoint, ...]:
        """Return the addresses on which the broker listens, in its own order (Broker.endPoints).

        A text that is not an endpoint is left out: the broker is registered all the same.
        """
        if self.version < _ENDPOINTS_SINCE:
            return (Endpoint("PLAINTEXT", self.host or "", self.port or 0),)
        return tuple(
            Endpoint(found[1].upper(), found[2], int(found[3]))
            for found in map(_ENDPOINT.fullmatch, self.endpoints)
            if found is not None
        )


class TopicZnode(msgspec.Struct, frozen=True):
    """/brokers/topics/T (kafka.zk.TopicZNode), versions 1 to 3; partition ids as ints."""

    partitions: dict[int, tuple[int, ...]]
    adding: dict[int, tuple[int, ...]] = {}
    removing: dict[int, tuple[int, ...]] = {}
    topic_id: str | None = None


class PartitionStateZnode(msgspec.Struct, frozen=True, gc=False):
    """A partition's leader and ISR (kafka.zk.TopicPartitionStateZNode), in the ISR's own order.

    leader_recovery_state exists since Kafka 3.2 and is written only while it is 1 (RECOVERING).
    TopicPartitionStateZNode.decode does not require a version.
    """

    leader: _LEADER
    leader_epoch: _EPOCH
    isr: tuple[_BROKER_ID, ...]
    controller_epoch: _INT32
    version: _VERSION_1 = 1
    leader_recovery_state: Annotated[int, msgspec.Meta(ge=0, le=1)] = 0


class LogDirEventZnode(msgspec.Struct, frozen=True):
    """/log_dir_event_notification/log_dir_event_N (LogDirEventNotificationSequenceZNode).

    Its decode requires only the broker.
    """

    broker: _BROKER_ID
    version: _VERSION_1 = 1
    event: _VERSION_1 = 1
    """1: a log directory of this broker failed. There is no other event."""


class FeatureZnode(msgspec.Struct, frozen=True):
    """/feature (kafka.zk.FeatureZNode), versions 1 (Kafka 2.7) and 2 (3.3)."""

    version: Annotated[int, msgspec.Meta(ge=1, le=2)]
    status: Annotated[int, msgspec.Meta(ge=0, le=1)]
    """1: features can be finalized (FeatureZNodeStatus.Enabled)."""
    features: dict[str, dict[str, _INT16]]
    """The levels of each finalized feature; empty in every cluster without KRaft."""


class MigrationZnode(msgspec.Struct, frozen=True):
    """/migration (kafka.zk.MigrationZNode): how far a migration to KRaft has come (Kafka 3.4)."""

    version: Annotated[int, msgspec.Meta(ge=0, le=0)]
    kraft_controller_id: _INT32
    kraft_controller_epoch: _INT32
    kraft_metadata_offset: _INT64
    kraft_metadata_epoch: _INT32


class _TopicLayout(msgspec.Struct, frozen=True):
    partitions: dict[str, tuple[_BROKER_ID, ...]]
    version: Annotated[int, msgspec.Meta(ge=1, le=3)] = 1
    adding_replicas: dict[str, tuple[_BROKER_ID, ...]] = {}
    removing_replicas: dict[str, tuple[_BROKER_ID, ...]] = {}
    topic_id: str | None = None


class _ClusterIdLayout(msgspec.Struct, frozen=True):
    id: str
    version: str | int | None = None


class _TopicPartitionLayout(msgspec.Struct, frozen=True):
    topic: str
    partition: Annotated[int, msgspec.Meta(ge=0, le=MAX_INT32)]


class _PartitionsLayout(msgspec.Struct, frozen=True):
    partitions: tuple[_TopicPartitionLayout, ...]
    version: _VERSION_1 = 1


class _ReassignmentLayout(_TopicPartitionLayout, frozen=True, forbid_unknown_fields=True):
    replicas: tuple[_BROKER_ID, ...]


class _ReassignmentsLayout(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    partitions: tuple[_ReassignmentLayout, ...]
    version: _VERSION_1 = 1


_LayoutT = TypeVar("_LayoutT")
_controller = msgspec.json.Decoder(ControllerZnode)
_broker = msgspec.json.Decoder(BrokerZnode)
_topic = msgspec.json.Decoder(_TopicLayout)
_state = msgspec.json.Decoder(PartitionStateZnode)
_partitions = msgspec.json.Decoder(_PartitionsLayout)
_reassignments = msgspec.json.Decoder(_ReassignmentsLayout)
_log_dir_event = msgspec.json.Decoder(LogDirEventZnode)
_cluster_id = msgspec.json.Decoder(_ClusterIdLayout)
_feature = msgspec.json.Decoder(FeatureZnode)
_migration = msgspec.json.Decoder(MigrationZnode)


def decode_controller(payload: bytes) -> ControllerZnode:
    """Return who holds /controller; 0.8.0 wrote a bare broker id.

    >>> decode_controller(b'7').brokerid
    7
    """
    if payload.isdigit() and is_int32(payload.decode()):
        return ControllerZnode(brokerid=int(payload))
    return read_layout(_controller, payload)


def decode_controller_epoch(payload: bytes) -> int:
    """Return the controller epoch: a bare decimal number (kafka.zk.ControllerEpochZNode)."""
    text = payload.decode("ascii", "replace")
    if not is_int32(text):
        raise UnreadableZnodeError(shorten(f"not a decimal number: {text!r}"))
    return int(text)


def decode_broker(payload: bytes) -> BrokerZnode:
    """Return a broker's registration.

    Whether a broker is registered decides over leaders, so a payload is read as long as its version
    is known and its values have the right types. Version 1 holds only host and port. Only the
    version shows the layout, so it is required, as BrokerIdZNode.decode requires it.
    """
    broker = read_layout(_broker, payload)
    if broker.version < _ENDPOINTS_SINCE and (broker.host is None or broker.port is None):
        raise UnreadableZnodeError("a registration of version 1 without host and port")
    return broker


def decode_topic(payload: bytes) -> TopicZnode:
    """Return a topic's assignment; partition ids sorted, replicas in Kafka's order.

    TopicZNode.decode does not require a version: it reads each key by itself.
    """
    layout = read_layout(_topic, payload)
    return TopicZnode(
        partitions=_by_partition(layout.partitions),
        adding=_by_partition(layout.adding_replicas),
        removing=_by_partition(layout.removing_replicas),
        topic_id=layout.topic_id,
    )


def decode_partition_state(payload: bytes) -> PartitionStateZnode:
    """Return a partition's leader, ISR and epochs."""
    return read_layout(_state, payload)


def decode_partitions(payload: bytes) -> tuple[TopicPartition, ...]:
    """Return the partitions of an ISR change notification or of a legacy preferred election.

    IsrChangeNotificationSequenceZNode.decode and PreferredReplicaElectionZNode.decode do not
    require a version.
    """
    layout = read_layout(_partitions, payload)
    return tuple(TopicPartition(entry.topic, entry.partition) for entry in layout.partitions)


def decode_reassign_partitions(payload: bytes) -> Mapping[TopicPartition, Sequence[int]]:
    """Return what legacy tools request in /admin/reassign_partitions; a partition's last entry counts.

    The bean into which ReassignPartitionsZNode.decode reads it has a version, but may lack it.
    """
    layout = read_layout(_reassignments, payload)
    return {
        TopicPartition(entry.topic, entry.partition): entry.replicas for entry in layout.partitions
    }


def decode_log_dir_event(payload: bytes) -> LogDirEventZnode:
    """Return which broker lost a log directory."""
    return read_layout(_log_dir_event, payload)


def decode_cluster_id(payload: bytes) -> str:
    """Return the cluster id (kafka.zk.ClusterIdZNode)."""
    return read_layout(_cluster_id, payload).id


def decode_feature(payload: bytes) -> FeatureZnode:
    """Return the finalized features, checked as FeatureZNode.decode does, the version included."""
    feature = read_layout(_feature, payload)
    for name, levels in feature.features.items():
        most = levels.get("max_version_level", 0)
        least = levels.get("min_version_level", 0) if feature.version <= _FEATURE_MIN_UNTIL else 1
        if not 1 <= least <= most:
            raise UnreadableZnodeError(shorten(f"not levels of a feature: {name!r}: {levels}"))
    return feature


def decode_migration(payload: bytes) -> MigrationZnode:
    """Return how far a migration to KRaft has come."""
    return read_layout(_migration, payload)


def is_int32(text: str) -> bool:
    """Return whether a text is a number from 0 to 2^31 - 1 as Java writes it.

    >>> [is_int32(text) for text in ("0", "2147483647", "2147483648", "01", "-1", "1.0")]
    [True, True, False, False, False, False]
    """
    if len(text) == 1:
        return "0" <= text <= "9"
    if not (text.isascii() and text.isdecimal() and len(text) <= _INT32_DIGITS):
        return False
    return int(text) <= MAX_INT32 and str(int(text)) == text


def shorten(text: str, most: int = 200) -> str:
    """Return a text cut to `most` characters; the default is for a reason that must fit into a line."""
    return text if len(text) <= most else text[: most - 3] + "..."


def _by_partition(replicas: dict[str, tuple[int, ...]]) -> dict[int, tuple[int, ...]]:
    bad = [key for key in replicas if not is_int32(key)]
    if bad:
        raise UnreadableZnodeError(shorten(f"not a partition id: {bad[0]!r}"))
    return {partition: replicas[str(partition)] for partition in sorted(map(int, replicas))}


def read_layout(decoder: msgspec.json.Decoder[_LayoutT], payload: bytes) -> _LayoutT:
    """Return a payload decoded in its layout; raise UnreadableZnodeError for any that is not valid."""
    try:
        if not payload.isascii():
            payload.decode()  # the decoder does not check the UTF-8 of keys that it skips
        return decoder.decode(payload)
    except DECODING_ERRORS as error:
        raise UnreadableZnodeError(shorten(str(error))) from None
