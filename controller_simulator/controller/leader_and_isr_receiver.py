"""The broker's side of the controller's requests: which are obeyed, which refused, and with which error.

The rule: a request is judged whole first (the broker epoch, then the controller epoch) and then
partition by partition; one partition's refusal changes nothing for the others. A partition is
taken only under a leader epoch above the one that the replica has. Source (Kafka 3.9):
kafka.server.KafkaApis (handleLeaderAndIsrRequest, handleStopReplicaRequest),
kafka.server.ZkBrokerEpochManager,
kafka.server.ReplicaManager (becomeLeaderOrFollower, makeLeaders, makeFollowers, stopReplicas,
maybeUpdateMetadataCache), kafka.cluster.Partition (makeLeader, makeFollower), and
kafka.server.RequestHandlerHelper.onLeadershipChange.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable

import msgspec

from controller_model.kafka.coordinators import COORDINATOR_OF, Coordinator
from controller_model.kafka.ids import TopicPartition
from controller_simulator.controller.requests import (
    ZERO_UUID,
    LeaderAndIsrPartition,
    LeaderAndIsrRequest,
    Request,
    StopReplicaPartition,
    StopReplicaRequest,
    UpdateMetadataRequest,
)

NO_EPOCH = -1
"""The leader epoch of a replica that never had one (LeaderAndIsr.NoEpoch)."""

EPOCH_DURING_DELETE = -2
"""The leader epoch of a StopReplica that ends a deleted topic (LeaderAndIsr.EpochDuringDelete)."""

UNKNOWN_BROKER_EPOCH = -1
"""Of controllers before Kafka 2.2 (AbstractControlRequest.UNKNOWN_BROKER_EPOCH): not checked."""


class Errors(enum.StrEnum):
    """The answers that a control request can get (org.apache.kafka.common.protocol.Errors)."""

    NONE = "NONE"
    STALE_BROKER_EPOCH = "STALE_BROKER_EPOCH"
    STALE_CONTROLLER_EPOCH = "STALE_CONTROLLER_EPOCH"
    FENCED_LEADER_EPOCH = "FENCED_LEADER_EPOCH"
    UNKNOWN_TOPIC_OR_PARTITION = "UNKNOWN_TOPIC_OR_PARTITION"
    INCONSISTENT_TOPIC_ID = "INCONSISTENT_TOPIC_ID"
    KAFKA_STORAGE_ERROR = "KAFKA_STORAGE_ERROR"


class HostedPartition(msgspec.Struct, frozen=True):
    """A partition that a broker knows (ReplicaManager.allPartitions)."""

    leader_epoch: int = NO_EPOCH
    partition_epoch: int = 0
    leader: int | None = None
    topic_id: str | None = None
    """The id in the replica's log; None before the first request that named one."""
    offline: bool = False
    """Its log directory failed (HostedPartition.Offline)."""


class ReplicaManager(msgspec.Struct, frozen=True):
    """What a broker remembers of the controller's requests."""

    broker: int
    broker_epoch: int
    """The czxid of its own registration."""
    controller_epoch: int = 0
    alive: frozenset[int] = frozenset()
    """Brokers that its metadata cache knows (hasAliveBroker)."""
    partitions: dict[TopicPartition, HostedPartition] = {}


class Response(msgspec.Struct, frozen=True):
    """What a broker answers, and what it does."""

    error: Errors = Errors.NONE
    """Of the whole request: nothing of it was done."""
    errors: dict[TopicPartition, Errors] = {}
    leaders: tuple[TopicPartition, ...] = ()
    """Partitions that it leads now and did not before."""
    followers: tuple[TopicPartition, ...] = ()
    """Partitions that it follows under a new leader epoch."""
    elected: tuple[tuple[Coordinator, int], ...] = ()
    """Coordinators that begin to load a partition (onElection)."""
    resigned: tuple[tuple[Coordinator, int], ...] = ()
    """Coordinators that unload a partition (onResignation)."""


def receive_leader_and_isr(
    broker: ReplicaManager, request: LeaderAndIsrRequest
) -> tuple[ReplicaManager, Response]:
    """Return the broker after a LeaderAndIsr request, and its answer."""
    refused = _judge(broker, request)
    if refused is not None:
        return broker, Response(error=refused)
    hosted = dict(broker.partitions)
    errors: dict[TopicPartition, Errors] = {}
    leaders: list[TopicPartition] = []
    followers: list[TopicPartition] = []
    for asked in request.partitions:
        tp = asked.partition
        have = hosted.setdefault(tp, HostedPartition())
        named = request.topic_ids.get(tp.topic, ZERO_UUID)
        topic_id = None if named == ZERO_UUID else named
        errors[tp] = _judge_partition(broker.broker, have, asked, topic_id)
        if errors[tp] is not Errors.NONE:
            continue
        hosted[tp] = _take(broker, have, asked, topic_id or have.topic_id)
        if hosted[tp].leader_epoch == have.leader_epoch:
            continue  # answered without an error, and not taken
        if asked.leader != broker.broker:
            followers.append(tp)
        elif have.leader != broker.broker:
            leaders.append(tp)
    response = Response(
        errors=errors,
        leaders=tuple(leaders),
        followers=tuple(followers),
        elected=_coordinators(leaders),
        resigned=_coordinators(followers),
    )
    return _remember(broker, request.controller_epoch, hosted), response


def receive_stop_replica(
    broker: ReplicaManager, request: StopReplicaRequest
) -> tuple[ReplicaManager, Response]:
    """Return the broker after a StopReplica request, and its answer (ReplicaManager.stopReplicas)."""
    refused = _judge(broker, request)
    if refused is not None:
        return broker, Response(error=refused)
    hosted = dict(broker.partitions)
    errors: dict[TopicPartition, Errors] = {}
    deleted: list[TopicPartition] = []
    for asked in request.partitions:
        have = hosted.get(asked.partition)
        errors[asked.partition] = _judge_stop(have, asked)
        if errors[asked.partition] is Errors.NONE and asked.delete:
            hosted.pop(asked.partition, None)
            deleted.append(asked.partition)
    response = Response(errors=errors, resigned=_coordinators(deleted))
    return _remember(broker, request.controller_epoch, hosted), response


def receive_update_metadata(
    broker: ReplicaManager, request: UpdateMetadataRequest
) -> tuple[ReplicaManager, Response]:
    """Return the broker after an UpdateMetadata request, and its answer."""
    refused = _judge(broker, request)
    if refused is not None:
        return broker, Response(error=refused)
    known = msgspec.structs.replace(broker, alive=frozenset(request.live_brokers))
    return _remember(known, request.controller_epoch, broker.partitions), Response()


def fail_log_dir(broker: ReplicaManager, partitions: Iterable[TopicPartition]) -> ReplicaManager:
    """Return the broker after the log directory of these replicas failed (handleLogDirFailure)."""
    offline = dict.fromkeys(partitions, HostedPartition(offline=True))
    return msgspec.structs.replace(broker, partitions={**broker.partitions, **offline})


def _judge(broker: ReplicaManager, request: Request) -> Errors | None:
    """Return why the whole request is refused; None when it is not."""
    # A larger one is right: the controller may hear of a registration before its broker does.
    if UNKNOWN_BROKER_EPOCH != request.broker_epoch < broker.broker_epoch:
        return Errors.STALE_BROKER_EPOCH
    if request.controller_epoch < broker.controller_epoch:
        return Errors.STALE_CONTROLLER_EPOCH
    return None


def _judge_partition(
    broker: int, have: HostedPartition, asked: LeaderAndIsrPartition, topic_id: str | None
) -> Errors:
    if have.offline:
        return Errors.KAFKA_STORAGE_ERROR
    if None not in {topic_id, have.topic_id} and topic_id != have.topic_id:
        return Errors.INCONSISTENT_TOPIC_ID
    if asked.leader_epoch > have.leader_epoch:
        return Errors.NONE if broker in asked.replicas else Errors.UNKNOWN_TOPIC_OR_PARTITION
    same = asked.leader_epoch == have.leader_epoch
    upgrade = topic_id is not None and have.topic_id is None
    downgrade = topic_id is None and have.topic_id is not None and asked.leader != broker
    return Errors.NONE if same and (upgrade or downgrade) else Errors.STALE_CONTROLLER_EPOCH


def _take(
    broker: ReplicaManager,
    have: HostedPartition,
    asked: LeaderAndIsrPartition,
    topic_id: str | None,
) -> HostedPartition:
    """Return a partition after a request that was not refused (makeLeader, makeFollower)."""
    has_no_leader = asked.leader != broker.broker and asked.leader not in broker.alive
    if asked.leader_epoch == have.leader_epoch or has_no_leader:
        # A topic id comes (or goes) without a new epoch; or only the log is made.
        return msgspec.structs.replace(have, topic_id=topic_id)
    if asked.partition_epoch < have.partition_epoch:
        return have
    return HostedPartition(
        leader_epoch=asked.leader_epoch,
        partition_epoch=asked.partition_epoch,
        leader=asked.leader,
        topic_id=topic_id,
    )


def _judge_stop(have: HostedPartition | None, asked: StopReplicaPartition) -> Errors:
    if have is None:
        return Errors.NONE  # a log that is left over is deleted all the same
    if have.offline:
        return Errors.KAFKA_STORAGE_ERROR
    unchecked = asked.leader_epoch in {NO_EPOCH, EPOCH_DURING_DELETE}
    if unchecked or asked.leader_epoch >= have.leader_epoch:
        return Errors.NONE
    return Errors.FENCED_LEADER_EPOCH


def _remember(
    broker: ReplicaManager, controller_epoch: int, hosted: dict[TopicPartition, HostedPartition]
) -> ReplicaManager:
    return msgspec.structs.replace(broker, controller_epoch=controller_epoch, partitions=hosted)


def _coordinators(partitions: Iterable[TopicPartition]) -> tuple[tuple[Coordinator, int], ...]:
    return tuple(
        (COORDINATOR_OF[tp.topic], tp.partition) for tp in partitions if tp.topic in COORDINATOR_OF
    )
