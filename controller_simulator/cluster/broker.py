"""A broker of the simulator: its session, its replicas, and how it obeys the controller.

The rule: a broker knows what the controller's requests told it and no more. It leads and follows
under the leader epochs that it accepted, and asks for an ISR as Kafka's leaders do: a follower
joins when it fetches from this leader under this epoch, and goes when it has fallen behind.
Sources (Kafka 3.9): kafka.server.ReplicaManager, kafka.cluster.Partition (maybeExpandIsr,
maybeShrinkIsr), kafka.server.KafkaServer (startup).
"""

from __future__ import annotations

from dataclasses import dataclass, field

import msgspec

from controller_model.kafka.elections import RECOVERED, LeaderAndIsr
from controller_model.kafka.ids import TopicPartition
from controller_simulator.cluster.events import (
    AlterPartition,
    LeaderAndIsrResponse,
    StopReplicaResponse,
)
from controller_simulator.cluster.leadership import EventHandlers
from controller_simulator.controller.leader_and_isr_receiver import (
    Errors,
    ReplicaManager,
    Response,
    receive_leader_and_isr,
    receive_stop_replica,
    receive_update_metadata,
)
from controller_simulator.controller.lifecycle import Lifecycle
from controller_simulator.controller.requests import (
    LeaderAndIsrRequest,
    Request,
    StopReplicaRequest,
)

PERSISTENT_PATHS = (
    "/consumers",
    "/brokers/ids",
    "/brokers/topics",
    "/config/changes",
    "/admin/delete_topics",
    "/brokers/seqid",
    "/isr_change_notification",
    "/latest_producer_id_block",
    "/log_dir_event_notification",
    "/config/topics",
    "/config/clients",
    "/config/users",
    "/config/brokers",
    "/config/ips",
)
"""What every broker makes sure of when it starts, in this order (kafka.zk.ZkData.PersistentZkPaths)."""


class Hosted(msgspec.Struct):
    """A replica that serves: what its broker was last told of the partition, or was answered."""

    leader: int
    leader_epoch: int
    isr: tuple[int, ...]
    partition_epoch: int
    replicas: tuple[int, ...]
    controller_epoch: int


@dataclass(slots=True)
class SimulatedBroker:
    """One run of a broker's process, or what is left of it until its session ends."""

    id: int
    session: int
    life: Lifecycle
    manager: ReplicaManager
    running: bool = True
    stalled: bool = False
    stopping: bool = False
    """It shuts down: it leads on where nobody else can, and follows no more."""
    controller: EventHandlers | None = None
    """Its event handlers while it is the controller."""
    hosted: dict[TopicPartition, Hosted] = field(default_factory=dict)
    isr_changes: list[TopicPartition] = field(default_factory=list)
    """ISRs that it wrote itself and has not told the controller of (before 2.7)."""

    def receive(
        self, request: Request, *, deleting: frozenset[str]
    ) -> LeaderAndIsrResponse | StopReplicaResponse | None:
        """Obey a request; return the answer that the controller waits for, None for no matter.

        It waits for what became of replicas, and of deleted ones of topics that are `deleting`.
        """
        if isinstance(request, LeaderAndIsrRequest):
            self.manager, response = receive_leader_and_isr(self.manager, request)
            if response.error is not Errors.NONE:
                return None
            self._take_roles(request, response)
            offline = _failed(response, Errors.KAFKA_STORAGE_ERROR)
            online = tuple(tp for tp, error in response.errors.items() if error is Errors.NONE)
            return LeaderAndIsrResponse(self.id, online, offline)
        if isinstance(request, StopReplicaRequest):
            return self._stop(request, deleting)
        self.manager, _ = receive_update_metadata(self.manager, request)
        return None

    def _take_roles(self, request: LeaderAndIsrRequest, response: Response) -> None:
        for asked in request.partitions:
            tp = asked.partition
            have = self.manager.partitions.get(tp)
            if (
                response.errors[tp] is Errors.NONE
                and have is not None
                and have.leader == asked.leader
                and have.leader_epoch == asked.leader_epoch
            ):
                self.hosted[tp] = Hosted(
                    asked.leader,
                    asked.leader_epoch,
                    asked.isr,
                    asked.partition_epoch,
                    asked.replicas,
                    asked.controller_epoch,
                )

    def _stop(
        self, request: StopReplicaRequest, deleting: frozenset[str]
    ) -> StopReplicaResponse | None:
        self.manager, response = receive_stop_replica(self.manager, request)
        for asked in request.partitions:
            if response.errors.get(asked.partition) is Errors.NONE:
                self.hosted.pop(asked.partition, None)
        waited = tuple(
            asked.partition
            for asked in request.partitions
            if asked.delete and asked.partition.topic in deleting
        )
        if not waited:
            return None
        failed = tuple(
            tp
            for tp in waited
            if response.error is not Errors.NONE or response.errors[tp] is not Errors.NONE
        )
        return StopReplicaResponse(self.id, waited, failed)

    # --- as a leader ------------------------------------------------------------------------

    def leads(self, partition: TopicPartition) -> bool:
        """Tell whether it takes itself for the partition's leader."""
        hosted = self.hosted.get(partition)
        return hosted is not None and hosted.leader == self.id

    def fetches(self, partition: TopicPartition, leader: SimulatedBroker) -> bool:
        """Tell whether it follows this leader, under the leader's own epoch."""
        ours, theirs = self.hosted.get(partition), leader.hosted.get(partition)
        return (
            self.running
            and not self.stalled
            and not self.stopping
            and ours is not None
            and theirs is not None
            and ours.leader == leader.id
            and ours.leader_epoch == theirs.leader_epoch
        )

    def alter_partition(self, partition: TopicPartition, isr: tuple[int, ...]) -> AlterPartition:
        """Return the request for this ISR; who leads has recovered (Partition.makeLeader)."""
        hosted = self.hosted[partition]
        return AlterPartition(
            self.id,
            partition,
            LeaderAndIsr(self.id, isr, hosted.leader_epoch, RECOVERED),
            hosted.partition_epoch,
        )

    def altered(self, event: AlterPartition, *, partition_epoch: int) -> None:
        """Take note that the ISR was written."""
        hosted = self.hosted[event.partition]
        hosted.isr = event.leader_and_isr.isr
        hosted.partition_epoch = partition_epoch


def _failed(response: Response, error: Errors) -> tuple[TopicPartition, ...]:
    return tuple(tp for tp, answer in response.errors.items() if answer is error)
