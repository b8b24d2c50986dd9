"""The records of a KRaft cluster's metadata log, as far as kcm keeps them: one value for each, in Kafka's own terms.

The rule: only these records, and of each only these fields, ever leave the watcher. The log `__cluster_metadata` also
holds credentials, tokens, ACLs and quotas. What no record here names is skipped, and never published. Each record is
tagged with Kafka's api key; a control record with its type, negated, because the two kinds are numbered apart. A field
that Kafka leaves out (null, or its "no change" value) is None. Ids of topics and directories are text as Kafka prints
them (org.apache.kafka.common.Uuid.toString). Source: the JSON files in common/metadata and common/message of Kafka
3.9.1 and 4.1.1. What a record changes: controller_model.sources.kraft.
"""

from typing import Annotated, NamedTuple

import msgspec

Int16 = Annotated[int, msgspec.Meta(ge=-(2**15), le=2**15 - 1)]
Int32 = Annotated[int, msgspec.Meta(ge=-(2**31), le=2**31 - 1)]
Int64 = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]
Uuid = Annotated[str, msgspec.Meta(min_length=22, max_length=22)]
"""16 bytes in URL-safe base64 without padding."""
Text = Annotated[str, msgspec.Meta(max_length=32_767)]
"""Kafka's longest string."""
Replicas = tuple[Int32, ...]

METADATA_VERSION = "metadata.version"
ELR_VERSION = "eligible.leader.replicas.version"
KRAFT_VERSION = "kraft.version"

MIN_ISR = "min.insync.replicas"
UNCLEAN = "unclean.leader.election.enable"
CONFIG_KEYS = frozenset({MIN_ISR, UNCLEAN})
"""The only configuration keys whose values leave the watcher: others may be passwords."""

TOPIC_RESOURCE = 2
BROKER_RESOURCE = 4
"""Resource types of configurations (org.apache.kafka.common.config.ConfigResource.Type); others are not kept."""

MIGRATING_DIRECTORY, UNASSIGNED_DIRECTORY = "AAAAAAAAAAAAAAAAAAAAAA", "AAAAAAAAAAAAAAAAAAAAAQ"
"""The directory of a replica of which it is not known (DirectoryId.MIGRATING, UNASSIGNED): it counts as online."""
LOST_DIRECTORY = "AAAAAAAAAAAAAAAAAAAAAg"
"""The directory of a replica whose log directory is gone (org.apache.kafka.common.DirectoryId.LOST)."""


class EndPoint(NamedTuple):
    """A listener of a broker or a controller."""

    name: Text
    host: Text
    port: Int32
    security_protocol: Int16 | None = None
    """org.apache.kafka.common.security.auth.SecurityProtocol.id; None where the record has none (Voters)."""


class FeatureRange(NamedTuple):
    """The levels of a feature that a broker or a controller supports."""

    name: Text
    min_supported_version: Int16
    max_supported_version: Int16


class Voter(NamedTuple):
    """A voter of the quorum."""

    voter_id: Int32
    voter_directory_id: Uuid | None = None
    """None before its record's version 1."""


class VoterEndPoints(NamedTuple):
    """A voter of a dynamic quorum, where it listens, and the levels of kraft.version that it supports."""

    voter_id: Int32
    voter_directory_id: Uuid
    endpoints: tuple[EndPoint, ...] = ()
    min_supported_version: Int16 = 0
    max_supported_version: Int16 = 0


class RegisterBroker(msgspec.Struct, frozen=True, gc=False, array_like=True, tag=0):
    """A broker process registered; it replaces an earlier registration of the id (RegisterBrokerRecord)."""

    broker_id: Int32
    broker_epoch: Int64
    incarnation_id: Uuid
    end_points: tuple[EndPoint, ...] = ()
    features: tuple[FeatureRange, ...] = ()
    rack: Text | None = None
    fenced: bool = True
    in_controlled_shutdown: bool = False
    is_migrating_zk_broker: bool = False
    log_dirs: tuple[Uuid, ...] = ()
    """Empty before its record's version 3: not known."""


class UnregisterBroker(msgspec.Struct, frozen=True, gc=False, array_like=True, tag=1):
    """An operator removed a broker's registration (UnregisterBrokerRecord)."""

    broker_id: Int32
    broker_epoch: Int64


class Topic(msgspec.Struct, frozen=True, gc=False, array_like=True, tag=2):
    """A topic was created (TopicRecord)."""

    name: Text
    topic_id: Uuid


class Partition(msgspec.Struct, frozen=True, gc=False, array_like=True, tag=3):
    """All of a partition: it is new, or part of a snapshot (PartitionRecord)."""

    partition_id: Int32
    topic_id: Uuid
    replicas: Replicas
    isr: Replicas
    leader: Int32
    leader_epoch: Int32
    partition_epoch: Int32
    removing_replicas: Replicas = ()
    adding_replicas: Replicas = ()
    leader_recovery_state: Int16 = 0
    directories: tuple[Uuid, ...] = ()
    """In the order of `replicas`; empty before its record's version 1."""
    eligible_leader_replicas: Replicas = ()
    last_known_elr: Replicas = ()


class Config(msgspec.Struct, frozen=True, gc=False, array_like=True, tag=4):
    """A configuration key of a topic or a broker was set, or removed if `value` is None (ConfigRecord)."""

    resource_type: Int16
    resource_name: Text
    """Of brokers: the id as text; empty for all brokers."""
    name: Text
    value: Text | None = None


class PartitionChange(msgspec.Struct, frozen=True, gc=False, array_like=True, tag=5):
    """What changed of a partition; None: unchanged (PartitionChangeRecord).

    The partition epoch grows by one with each; the leader epoch only if `leader` is given, also if it is the same
    leader (PartitionRegistration.merge).
    """

    partition_id: Int32
    topic_id: Uuid
    isr: Replicas | None = None
    """Empty: nobody is in sync (with eligible leader replicas)."""
    leader: Int32 | None = None
    """-1: it has none."""
    replicas: Replicas | None = None
    removing_replicas: Replicas | None = None
    adding_replicas: Replicas | None = None
    leader_recovery_state: Int16 | None = None
    """1: the leader was elected uncleanly and recovers."""
    directories: tuple[Uuid, ...] | None = None
    eligible_leader_replicas: Replicas | None = None
    last_known_elr: Replicas | None = None


class FenceBroker(msgspec.Struct, frozen=True, gc=False, array_like=True, tag=7):
    """A broker was fenced, as written before metadata.version 3.3 (FenceBrokerRecord)."""

    id: Int32
    epoch: Int64


class UnfenceBroker(msgspec.Struct, frozen=True, gc=False, array_like=True, tag=8):
    """A broker was unfenced, as written before metadata.version 3.3 (UnfenceBrokerRecord)."""

    id: Int32
    epoch: Int64


class RemoveTopic(msgspec.Struct, frozen=True, gc=False, array_like=True, tag=9):
    """A topic is deleted, with its partitions and its configuration (RemoveTopicRecord)."""

    topic_id: Uuid


class FeatureLevel(msgspec.Struct, frozen=True, gc=False, array_like=True, tag=12):
    """The finalized level of a feature; 0: it is off (FeatureLevelRecord)."""

    name: Text
    feature_level: Int16


class BrokerRegistrationChange(msgspec.Struct, frozen=True, gc=False, array_like=True, tag=17):
    """What changed of a broker's registration (BrokerRegistrationChangeRecord)."""

    broker_id: Int32
    broker_epoch: Int64
    fenced: bool | None = None
    """None: no change."""
    in_controlled_shutdown: bool = False
    """Whether it shuts down now; False: no change. Only a new registration ends it."""
    log_dirs: tuple[Uuid, ...] | None = None
    """The log directories that are online still; None: no change."""


class NoOp(msgspec.Struct, frozen=True, gc=False, array_like=True, tag=20):
    """A sign of life of the active controller (NoOpRecord); the log of kcm keeps its time alone."""


class ZkMigrationState(msgspec.Struct, frozen=True, gc=False, array_like=True, tag=21):
    """How far a migration from ZooKeeper is (ZkMigrationStateRecord)."""

    zk_migration_state: Int16
    """0: none, 2: before it, 1: under way, 3: the brokers have left ZooKeeper (ZkMigrationState; 4 and later are not known)."""


class RegisterController(msgspec.Struct, frozen=True, gc=False, array_like=True, tag=27):
    """A controller process registered (RegisterControllerRecord)."""

    controller_id: Int32
    incarnation_id: Uuid
    zk_migration_ready: bool = False
    end_points: tuple[EndPoint, ...] = ()
    features: tuple[FeatureRange, ...] = ()


class ClearElr(msgspec.Struct, frozen=True, gc=False, array_like=True, tag=28):
    """The eligible leader replicas of a topic's partitions, or of all, were dropped (ClearElrRecord)."""

    topic_name: Text
    """Empty: of all topics."""


class UnregisterController(msgspec.Struct, frozen=True, gc=False, array_like=True, tag=29):
    """A controller's registration was removed (UnregisterControllerRecord of Kafka 4.4)."""

    controller_id: Int32


class LeaderChange(msgspec.Struct, frozen=True, gc=False, array_like=True, tag=-2):
    """A controller was elected: the first record of its epoch (LeaderChangeMessage)."""

    leader_id: Int32
    epoch: Int32
    """The epoch of its batch."""
    voters: tuple[Voter, ...] = ()
    granting_voters: tuple[Voter, ...] = ()


class SnapshotHeader(msgspec.Struct, frozen=True, gc=False, array_like=True, tag=-3):
    """The first record of a snapshot (SnapshotHeaderRecord)."""

    last_contained_log_timestamp: Int64
    """When the last record that the snapshot includes was appended, in ms since 1970."""


class KRaftVersion(msgspec.Struct, frozen=True, gc=False, array_like=True, tag=-5):
    """The finalized kraft.version: 1 and above are dynamic quorums (KRaftVersionRecord)."""

    kraft_version: Int16


class Voters(msgspec.Struct, frozen=True, gc=False, array_like=True, tag=-6):
    """The voters of a dynamic quorum (VotersRecord)."""

    voters: tuple[VoterEndPoints, ...]


MetadataRecord = (
    RegisterBroker
    | UnregisterBroker
    | Topic
    | Partition
    | Config
    | PartitionChange
    | FenceBroker
    | UnfenceBroker
    | RemoveTopic
    | FeatureLevel
    | BrokerRegistrationChange
    | ZkMigrationState
    | RegisterController
    | ClearElr
    | UnregisterController
    | LeaderChange
    | KRaftVersion
    | Voters
)
"""What the log of kcm holds of a metadata log; no-ops and headers of snapshots are there by their times alone."""
