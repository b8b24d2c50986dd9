"""Receives the controller's requests as a broker does: which are obeyed, which refused, with which error.

A request is first checked as a whole (the broker epoch, then the controller epoch) and
then partition by partition; the refusal of one partition changes nothing for the others. A
partition is accepted only under a leader epoch above the one that the replica has. Source (Kafka
3.9): kafka.server.KafkaApis (handleLeaderAndIsrRequest, handleStopReplicaRequest),
kafka.server.ZkBrokerEpochManager, kafka.server.ReplicaManager (becomeLeaderOrFollower, makeLeaders,
makeFollowers, stopReplicas, maybeUpdateMetadataCache) and kafka.cluster.Partition (makeLeader,
makeFollower).
"""

import enum
from dataclasses import dataclass, field

import msgspec

from controller_model.kafka.ids import TopicPartition
from controller_simulator.controller.requests import (
    EPOCH_DURING_DELETE,
    NO_EPOCH,
    ZERO_UUID,
    LeaderAndIsrPartition,
    LeaderAndIsrRequest,
    Request,
    StopReplicaPartition,
    StopReplicaRequest,
    UpdateMetadataRequest,
)

UNKNOWN_BROKER_EPOCH = -1
"""The broker epoch in requests of controllers before Kafka 2.2 (AbstractControlRequest.UNKNOWN_BROKER_EPOCH): not checked."""


class Errors(enum.StrEnum):
    """The answers that a control request can get (org.apache.kafka.common.protocol.Errors)."""

    NONE = "NONE"
    STALE_BROKER_EPOCH = "STALE_BROKER_EPOCH"
    STALE_CONTROLLER_EPOCH = "STALE_CONTROLLER_EPOCH"
    FENCED_LEADER_EPOCH = "FENCED_LEADER_EPOCH"
    UNKNOWN_TOPIC_OR_PARTITION = "UNKNOWN_TOPIC_OR_PARTITION"
    INCONSISTENT_TOPIC_ID = "INCONSISTENT_TOPIC_ID"
    KAFKA_STORAGE_ERROR = "KAFKA_STORAGE_ERROR"


class HostedPartition(msgspec.Struct, gc=False):
    """A partition that a broker knows (ReplicaManager.allPartitions), by the newest request or answer."""

    leader_epoch: int = NO_EPOCH
    partition_epoch: int = 0
    leader: int | None = None
    topic_id: str | None = None
    """The topic id in the replica's log; None before the first request that carried one."""
    isr: tuple[int, ...] = ()
    replicas: tuple[int, ...] = ()
    controller_epoch: int = 0
    serves: bool = False
    """Whether the replica leads or follows: not before it was asked to, and not after it was stopped."""
    offline: bool = False
    """Its log directory has failed (HostedPartition.Offline)."""


class Response(msgspec.Struct, frozen=True):
    """What a broker answers."""

    error: Errors = Errors.NONE
    """The error of the whole request: nothing of it was done."""
    errors: dict[TopicPartition, Errors] = {}


@dataclass(slots=True)
class ReplicaManager:
    """What a broker remembers of the controller's requests."""

    broker: int
    broker_epoch: int
    """The czxid of its own registration."""
    controller_epoch: int = 0
    alive: frozenset[int] = frozenset()
    """Brokers that its metadata cache knows (hasAliveBroker)."""
    partitions: dict[TopicPartition, HostedPartition] = field(default_factory=dict)
    _named_alive: tuple[int, ...] = ()
    """The same brokers as the last request named them, so that not each request makes a set of all brokers."""

    def receive_leader_and_isr(self, request: LeaderAndIsrRequest) -> Response:
        """Obey a LeaderAndIsr request; return the answer (becomeLeaderOrFollower)."""
        refused = self._refuse(request)
        if refused is not None:
            return refused
        errors = {}
        for asked in request.partitions:
            tp = asked.partition
            have = self.partitions.setdefault(tp, HostedPartition())
            named = request.topic_ids.get(tp.topic, ZERO_UUID)
            topic_id = None if named == ZERO_UUID else named
            errors[tp] = self._partition_error(have, asked, topic_id)
            if errors[tp] is Errors.NONE:
                self._apply_partition(have, asked, topic_id or have.topic_id)
        return Response(errors=errors)

    def receive_stop_replica(self, request: StopReplicaRequest) -> Response:
        """Obey a StopReplica request; return the answer (stopReplicas)."""
        refused = self._refuse(request)
        if refused is not None:
            return refused
        errors = {}
        for asked in request.partitions:
            have = self.partitions.get(asked.partition)
            errors[asked.partition] = _stop_error(have, asked)
            if have is not None and errors[asked.partition] is Errors.NONE:
                have.serves = False
                if asked.delete:
                    del self.partitions[asked.partition]
        return Response(errors=errors)

    def receive_update_metadata(self, request: UpdateMetadataRequest) -> Response:
        """Obey an UpdateMetadata request; return the answer."""
        refused = self._refuse(request)
        if refused is not None:
            return refused
        if request.live_brokers != self._named_alive:
            self._named_alive = request.live_brokers
            self.alive = frozenset(request.live_brokers)
        return Response()

    def _refuse(self, request: Request) -> Response | None:
        """Return the answer if the whole request is refused; otherwise note its epoch and return None."""
        # A larger one is fine: the controller may learn of a registration before its broker does.
        if UNKNOWN_BROKER_EPOCH != request.broker_epoch < self.broker_epoch:
            return Response(Errors.STALE_BROKER_EPOCH)
        if request.controller_epoch < self.controller_epoch:
            return Response(Errors.STALE_CONTROLLER_EPOCH)
        self.controller_epoch = request.controller_epoch
        return None

    def _partition_error(
        self, have: HostedPartition, asked: LeaderAndIsrPartition, topic_id: str | None
    ) -> Errors:
        if have.offline:
            return Errors.KAFKA_STORAGE_ERROR
        if None not in {topic_id, have.topic_id} and topic_id != have.topic_id:
            return Errors.INCONSISTENT_TOPIC_ID
        if asked.leader_epoch > have.leader_epoch:
            is_replica = self.broker in asked.replicas
            return Errors.NONE if is_replica else Errors.UNKNOWN_TOPIC_OR_PARTITION
        same = asked.leader_epoch == have.leader_epoch
        upgrade = topic_id is not None and have.topic_id is None
        downgrade = topic_id is None and have.topic_id is not None and asked.leader != self.broker
        return Errors.NONE if same and (upgrade or downgrade) else Errors.STALE_CONTROLLER_EPOCH

    def _apply_partition(
        self, have: HostedPartition, asked: LeaderAndIsrPartition, topic_id: str | None
    ) -> None:
        """Accept a partition of a request that was not refused (makeLeader, makeFollower)."""
        has_no_leader = asked.leader != self.broker and asked.leader not in self.alive
        if asked.leader_epoch == have.leader_epoch or has_no_leader:
            # A topic id may appear or disappear without a new epoch; or only the log is created.
            have.topic_id = topic_id
        elif asked.partition_epoch >= have.partition_epoch:
            self.partitions[asked.partition] = HostedPartition(
                leader_epoch=asked.leader_epoch,
                partition_epoch=asked.partition_epoch,
                leader=asked.leader,
                topic_id=topic_id,
                isr=asked.isr,
                replicas=asked.replicas,
                controller_epoch=asked.controller_epoch,
                serves=True,
            )


def _stop_error(have: HostedPartition | None, asked: StopReplicaPartition) -> Errors:
    if have is None:
        return Errors.NONE  # the log of an unknown partition is deleted, too
    if have.offline:
        return Errors.KAFKA_STORAGE_ERROR
    unchecked = asked.leader_epoch in {NO_EPOCH, EPOCH_DURING_DELETE}
    if unchecked or asked.leader_epoch >= have.leader_epoch:
        return Errors.NONE
    return Errors.FENCED_LEADER_EPOCH
