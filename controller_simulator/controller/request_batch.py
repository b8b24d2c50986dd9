"""Builds the requests of one step of a state machine, broker by broker.

A batch holds at most one request of each kind for a broker, and only registered brokers
get one, whichever brokers are given. Source (Kafka 3.9):
kafka.controller.AbstractControllerBrokerRequestBatch.
"""

import itertools
from collections.abc import Iterable, Iterator, Mapping

from controller_model.kafka.ids import LEADER_DURING_DELETE, TopicPartition
from controller_model.kafka.replica_assignment import ReplicaAssignment
from controller_simulator.controller.context import ControllerContext, LeaderIsrAndControllerEpoch
from controller_simulator.controller.requests import (
    ZERO_UUID,
    LeaderAndIsrPartition,
    LeaderAndIsrRequest,
    Request,
    StopReplicaPartition,
    StopReplicaRequest,
    UpdateMetadataPartition,
    UpdateMetadataRequest,
)


class RequestBatch:
    """Requests that are being built, one of each kind for a broker."""

    def __init__(
        self, context: ControllerContext, *, leader_recovery_supported: bool = True
    ) -> None:
        self._context = context
        self._leader_recovery_supported = leader_recovery_supported
        self._leader_and_isr: dict[int, dict[TopicPartition, LeaderAndIsrPartition]] = {}
        self._stop_replica: dict[int, dict[TopicPartition, StopReplicaPartition]] = {}
        self._update_metadata_brokers: dict[int, None] = {}
        self._update_metadata: dict[TopicPartition, UpdateMetadataPartition] = {}
        self._sources: dict[
            TopicPartition, tuple[LeaderIsrAndControllerEpoch, ReplicaAssignment]
        ] = {}
        """What each partition's metadata were made of: they are added for each replica, and are the same."""

    def add_leader_and_isr(
        self, brokers: Iterable[int], partition: TopicPartition, *, is_new: bool = False
    ) -> None:
        """Add a partition for these brokers, as the controller now holds it, and its metadata for all.

        addLeaderAndIsrRequestForBrokers. A replica that was new once in a batch stays new in it.
        """
        context = self._context
        state, assignment = context.leadership[partition], context.assignment_of(partition)
        decided = state.leader_and_isr
        for broker in self._registered(brokers):
            states = self._leader_and_isr.setdefault(broker, {})
            before = states.get(partition)
            states[partition] = LeaderAndIsrPartition(
                partition=partition,
                controller_epoch=state.controller_epoch,
                leader=decided.leader,
                leader_epoch=decided.leader_epoch,
                isr=decided.isr,
                partition_epoch=state.partition_epoch,
                replicas=assignment.replicas,
                adding=assignment.adding,
                removing=assignment.removing,
                is_new=is_new or (before is not None and before.is_new),
                leader_recovery_state=(
                    decided.leader_recovery_state if self._leader_recovery_supported else 0
                ),
            )
        self.add_update_metadata(context.live_broker_epochs, (partition,))

    def add_stop_replica(
        self, brokers: Iterable[int], partition: TopicPartition, *, delete: bool
    ) -> None:
        """Add a replica to stop (addStopReplicaRequestForBrokers); if any request deletes it, the batch does."""
        leader_epoch = self._context.leader_epoch_for_stop(partition)
        for broker in self._registered(brokers):
            states = self._stop_replica.setdefault(broker, {})
            before = states.get(partition)
            states[partition] = StopReplicaPartition(
                partition, leader_epoch, delete or (before is not None and before.delete)
            )

    def add_update_metadata(
        self, brokers: Iterable[int], partitions: Iterable[TopicPartition]
    ) -> None:
        """Add metadata for these brokers (addUpdateMetadataRequestForBrokers).

        A batch has one set of partitions, which all of its brokers get. A partition whose topic is
        deleted is sent with leader -2; one that never had a leader is not sent at all.
        """
        if len(self._update_metadata_brokers) < len(self._context.live_broker_epochs):
            self._update_metadata_brokers.update(dict.fromkeys(self._registered(brokers)))
        for partition in partitions:
            metadata = self._metadata_of(partition)
            if metadata is not None:
                self._update_metadata[partition] = metadata

    def _metadata_of(self, partition: TopicPartition) -> UpdateMetadataPartition | None:
        context = self._context
        state = context.leadership.get(partition)
        if state is None:
            return None
        source = state, context.assignment_of(partition)
        made = self._sources.get(partition)
        if made is not None and made[0] is source[0] and made[1] is source[1]:
            return self._update_metadata[partition]
        self._sources[partition] = source
        decided = state.leader_and_isr
        leader, leader_epoch, partition_epoch = (
            (LEADER_DURING_DELETE, 0, 0)  # LeaderAndIsr.duringDelete: the initial epochs
            if context.is_queued_for_deletion(partition.topic)
            else (decided.leader, decided.leader_epoch, state.partition_epoch)
        )
        replicas = context.replicas_of(partition)
        return UpdateMetadataPartition(
            partition=partition,
            controller_epoch=state.controller_epoch,
            leader=leader,
            leader_epoch=leader_epoch,
            isr=decided.isr,
            partition_epoch=partition_epoch,
            replicas=replicas,
            offline_replicas=tuple(
                r for r in replicas if not context.is_replica_online(r, partition)
            ),
        )

    def _registered(self, brokers: Iterable[int]) -> Iterator[int]:
        return (broker for broker in brokers if broker in self._context.live_broker_epochs)

    def requests(self) -> tuple[Request, ...]:
        """Return the requests in the order in which they are sent (sendRequestsToBrokers)."""
        return (
            *itertools.starmap(self._leader_and_isr_request, self._leader_and_isr.items()),
            *self._update_metadata_requests(),
            *(
                StopReplicaRequest(*self._head(broker), tuple(states.values()))
                for broker, states in self._stop_replica.items()
            ),
        )

    def _head(self, broker: int) -> tuple[int, int, int, int]:
        """Return the fields of `ControllerRequest`."""
        context = self._context
        return broker, context.live_broker_epochs[broker], context.controller_id, context.epoch

    def _leader_and_isr_request(
        self, broker: int, states: Mapping[TopicPartition, LeaderAndIsrPartition]
    ) -> LeaderAndIsrRequest:
        context = self._context
        leaders = {state.leader for state in states.values()}
        return LeaderAndIsrRequest(
            *self._head(broker),
            partitions=tuple(states.values()),
            topic_ids={tp.topic: context.topic_ids.get(tp.topic, ZERO_UUID) for tp in states},
            live_leaders=tuple(b for b in context.live_broker_epochs if b in leaders),
        )

    def _update_metadata_requests(self) -> Iterator[UpdateMetadataRequest]:
        context = self._context
        partitions = tuple(self._update_metadata.values())
        topic_ids = {
            tp.topic: context.topic_ids[tp.topic]
            for tp in self._update_metadata
            if tp.topic in context.topic_ids
        }
        live = context.live_or_shutting_down_brokers
        for broker in self._update_metadata_brokers:
            yield UpdateMetadataRequest(*self._head(broker), partitions, topic_ids, live)
