"""Simulates a broker: its session, its replicas, and how it obeys the controller.

A broker knows only what the controller's requests contained. It leads and follows under
the leader epochs that it accepted. It asks for an ISR as Kafka's leaders do: a follower joins when
it fetches from this leader under this epoch, and leaves when it has fallen behind. Sources (Kafka
3.9): kafka.server.ReplicaManager, kafka.cluster.Partition (maybeExpandIsr, maybeShrinkIsr),
kafka.server.KafkaServer (startup).
"""

from __future__ import annotations

from dataclasses import dataclass, field

from controller_model.kafka.elections import RECOVERED, LeaderAndIsr
from controller_model.kafka.ids import TopicPartition
from controller_simulator.cluster.active_controller import ActiveController
from controller_simulator.cluster.events import (
    AlterPartition,
    LeaderAndIsrResponse,
    StopReplicaResponse,
)
from controller_simulator.cluster.settings import Choices, SimulatorSettings
from controller_simulator.controller.leader_and_isr_receiver import Errors, ReplicaManager, Response
from controller_simulator.controller.lifecycle import Lifecycle
from controller_simulator.controller.requests import (
    LeaderAndIsrRequest,
    Request,
    StopReplicaRequest,
)
from controller_simulator.zookeeper.payload_writers import encode_broker, encode_cluster_id
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
"""The znodes that every broker creates if missing when it starts, in this order (kafka.zk.ZkData.PersistentZkPaths)."""

CLUSTER_ID_PATH = "/cluster/id"

FIRST_PORT = 9092
"""The port of broker 0; the others have the following ones."""


@dataclass(slots=True)
class SimulatedBroker:
    """One run of a broker's process, and what remains of it until its session ends."""

    id: int
    session: int
    life: Lifecycle
    manager: ReplicaManager
    running: bool = True
    stalled: bool = False
    hangs: bool = False
    """Its controller handles no event, not even one of an election (ControllerEventManager.ControllerEventThread);
    its replicas work."""
    stopping: bool = False
    """The broker is shutting down: it still leads where no other can, but it no longer follows."""
    controller: ActiveController | None = None
    """Its controller; None while another broker, or none, is the controller."""
    isr_changes: list[TopicPartition] = field(default_factory=list)
    """ISRs that it wrote itself and has not announced to the controller yet (before 2.7)."""

    def receive(
        self, request: Request, *, deleting: frozenset[str]
    ) -> LeaderAndIsrResponse | StopReplicaResponse | None:
        """Obey a request; return the answer that the controller waits for, None if it waits for none.

        It waits for the results for replicas, and of deletions only for topics that are `deleting`.
        """
        match request:
            case LeaderAndIsrRequest():
                response = self.manager.receive_leader_and_isr(request)
                if response.error is not Errors.NONE:
                    return None
                return LeaderAndIsrResponse(
                    self.id,
                    online=_answered(response, Errors.NONE),
                    offline=_answered(response, Errors.KAFKA_STORAGE_ERROR),
                )
            case StopReplicaRequest():
                return self._stop(request, deleting)
            case _:  # UpdateMetadataRequest
                self.manager.receive_update_metadata(request)
                return None

    def _stop(
        self, request: StopReplicaRequest, deleting: frozenset[str]
    ) -> StopReplicaResponse | None:
        response = self.manager.receive_stop_replica(request)
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
        """Return whether this broker believes that it leads the partition."""
        hosted = self.manager.partitions.get(partition)
        return hosted is not None and hosted.serves and hosted.leader == self.id

    def fetches(self, partition: TopicPartition, leader: SimulatedBroker) -> bool:
        """Return whether this broker follows this leader, under the leader's own epoch."""
        ours = self.manager.partitions.get(partition)
        return (
            self.running
            and not self.stalled
            and not self.stopping
            and ours is not None
            and ours.serves
            and ours.leader == leader.id
            and ours.leader_epoch == leader.manager.partitions[partition].leader_epoch
        )

    def alter_partition(self, partition: TopicPartition, isr: tuple[int, ...]) -> AlterPartition:
        """Return the request for this ISR; a leader that asks for one has recovered (Partition.makeLeader)."""
        hosted = self.manager.partitions[partition]
        return AlterPartition(
            self.id,
            partition,
            LeaderAndIsr(self.id, isr, hosted.leader_epoch, RECOVERED),
            hosted.partition_epoch,
        )

    def altered(self, event: AlterPartition, *, partition_epoch: int) -> None:
        """Note that the ISR was written."""
        hosted = self.manager.partitions[event.partition]
        hosted.isr = event.leader_and_isr.isr
        hosted.partition_epoch = partition_epoch


def create_recursive(tree: ZnodeTree, path: str, data: str = "", *, session: int) -> None:
    """Create a znode if it is missing, and the missing ones above it (KafkaZkClient.createRecursive).

    As there, try first and check later, so that refused creates take zxids.
    """
    answer = tree.attempt(CreateZnode(path, data), session=session)
    if answer is ZooKeeperCode.NO_NODE:
        create_recursive(tree, parent_of(path), session=session)
        tree.attempt(CreateZnode(path, data), session=session)


def start_znodes(tree: ZnodeTree, session: int, choices: Choices) -> None:
    """Create the containers and the cluster's id if missing, as every start does."""
    for path in PERSISTENT_PATHS:
        create_recursive(tree, path, session=session)
    if tree.find(CLUSTER_ID_PATH) is None:
        data = encode_cluster_id(choices.cluster_id()).decode()
        create_recursive(tree, CLUSTER_ID_PATH, data, session=session)


def register(tree: ZnodeTree, session: int, broker: int, settings: SimulatorSettings) -> int:
    """Register a broker in one transaction of create and set; return its epoch, the czxid."""
    path = f"/brokers/ids/{broker}"
    data = encode_broker(
        FIRST_PORT + broker, timestamp=tree.time_ms, has_features=settings.alter_partition
    )
    tree.write(
        Multi((CreateZnode(path, "", session), SetZnode(path, data.decode(), 0))), session=session
    )
    return tree.at(path).czxid


def _answered(response: Response, error: Errors) -> tuple[TopicPartition, ...]:
    return tuple(tp for tp, answer in response.errors.items() if answer is error)
