"""A broker of the simulator: its session, its replicas, and how it obeys the controller.

The rule: a broker knows what the controller's requests contained and no more. It leads and follows
under the leader epochs that it accepted, and asks for an ISR as Kafka's leaders do: a follower
joins when it fetches from this leader under this epoch, and goes when it has fallen behind.
Sources (Kafka 3.9): kafka.server.ReplicaManager, kafka.cluster.Partition (maybeExpandIsr,
maybeShrinkIsr), kafka.server.KafkaServer (startup).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

import msgspec

from controller_model.kafka.elections import RECOVERED, LeaderAndIsr
from controller_model.kafka.ids import TopicPartition
from controller_simulator.cluster.events import (
    AlterPartition,
    LeaderAndIsrResponse,
    StopReplicaResponse,
)
from controller_simulator.cluster.leadership import LOG_DIR_EVENTS_PATH, EventHandlers
from controller_simulator.cluster.settings import Choices, SimulatorSettings
from controller_simulator.controller.leader_and_isr_receiver import (
    Errors,
    ReplicaManager,
    Response,
    receive_leader_and_isr,
    receive_stop_replica,
    receive_update_metadata,
)
from controller_simulator.controller.leader_and_isr_receiver import fail_log_dir as lose_log_dir
from controller_simulator.controller.lifecycle import Lifecycle
from controller_simulator.controller.requests import (
    LeaderAndIsrRequest,
    Request,
    StopReplicaRequest,
)
from controller_simulator.zookeeper.payload_writers import (
    encode_broker,
    encode_cluster_id,
    encode_log_dir_event,
)
from controller_simulator.zookeeper.transactions import CreateZnode, Multi, SetZnode, ZooKeeperCode
from controller_simulator.zookeeper.tree import ZnodeTree, parent_of

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

CLUSTER_ID_PATH = "/cluster/id"


class Hosted(msgspec.Struct):
    """A replica that serves: the newest state of its partition, from a request or an answer."""

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
    """It shuts down: it leads on where no other can, and follows no more."""
    controller: EventHandlers | None = None
    """Its event handlers while it is the controller."""
    hosted: dict[TopicPartition, Hosted] = field(default_factory=dict)
    isr_changes: list[TopicPartition] = field(default_factory=list)
    """ISRs that it wrote itself and has not announced to the controller (before 2.7)."""

    def receive(
        self, request: Request, *, deleting: frozenset[str]
    ) -> LeaderAndIsrResponse | StopReplicaResponse | None:
        """Obey a request; return the answer that the controller waits for, None if it waits for none.

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
        """Return whether it believes that it leads the partition."""
        hosted = self.hosted.get(partition)
        return hosted is not None and hosted.leader == self.id

    def fetches(self, partition: TopicPartition, leader: SimulatedBroker) -> bool:
        """Return whether it follows this leader, under the leader's own epoch."""
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


def create_recursive(tree: ZnodeTree, path: str, data: str = "", *, session: int) -> bool:
    """Create a znode and what is missing above it; return whether it was not there.

    As KafkaZkClient.createRecursive it tries first and checks later, so refusals take zxids.
    """
    answer = tree.attempt(CreateZnode(path, data), session=session)
    if answer is ZooKeeperCode.NO_NODE:
        create_recursive(tree, parent_of(path), session=session)
        answer = tree.attempt(CreateZnode(path, data), session=session)
    return answer is not ZooKeeperCode.NODE_EXISTS


def start_znodes(tree: ZnodeTree, session: int, choices: Choices) -> None:
    """Make sure of the containers and of the cluster's id, as every start does."""
    for path in PERSISTENT_PATHS:
        create_recursive(tree, path, session=session)
    if tree.find(CLUSTER_ID_PATH) is None:
        data = encode_cluster_id(choices.cluster_id()).decode()
        create_recursive(tree, CLUSTER_ID_PATH, data, session=session)


def register(tree: ZnodeTree, session: int, broker: int, settings: SimulatorSettings) -> int:
    """Register a broker in one transaction of create and set; return its epoch, the czxid."""
    path = f"/brokers/ids/{broker}"
    port = settings.first_port + broker
    data = encode_broker(
        [("PLAINTEXT", "PLAINTEXT", "127.0.0.1", port)],
        timestamp=tree.time_ms,
        version=5 if settings.alter_partition else 4,
    )
    tree.write(
        Multi((CreateZnode(path, "", session), SetZnode(path, data.decode(), 0))), session=session
    )
    return tree.at(path).czxid


def fail_log_dir(
    tree: ZnodeTree, run: SimulatedBroker, partitions: Iterable[TopicPartition]
) -> None:
    """Let a broker lose a log directory with these replicas, and announce it to the controller."""
    lost = [partition for partition in partitions if partition in run.hosted]
    run.manager = lose_log_dir(run.manager, lost)
    for partition in lost:
        del run.hosted[partition]
    path = tree.next_in_sequence(f"{LOG_DIR_EVENTS_PATH}/log_dir_event_")
    tree.attempt(CreateZnode(path, encode_log_dir_event(run.id).decode()), session=run.session)


def _failed(response: Response, error: Errors) -> tuple[TopicPartition, ...]:
    return tuple(tp for tp, answer in response.errors.items() if answer is error)
