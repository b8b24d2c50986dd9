"""Requests to brokers, as in Kafka's ControllerChannelManagerTest: who gets what, and how it is merged."""

from __future__ import annotations

from controller_model.kafka.elections import RECOVERING, LeaderAndIsr
from controller_model.kafka.ids import TopicPartition
from controller_model.kafka.replica_assignment import ReplicaAssignment
from controller_simulator.controller.context import ControllerContext, LeaderIsrAndControllerEpoch
from controller_simulator.controller.request_batch import RequestBatch
from controller_simulator.controller.requests import (
    LeaderAndIsrPartition,
    LeaderAndIsrRequest,
    StopReplicaPartition,
    StopReplicaRequest,
    UpdateMetadataPartition,
    UpdateMetadataRequest,
)

FOO, BAR = TopicPartition("foo", 0), TopicPartition("bar", 1)
STATE = LeaderIsrAndControllerEpoch(LeaderAndIsr(1, (1, 2), 6, RECOVERING), 30, 8)
MOVING = ReplicaAssignment((3, 1, 2), (3,), (2,))


def context() -> ControllerContext:
    """Return brokers 1, 2 and 3 (shutting down), topics foo (with an id) and bar."""
    memory = ControllerContext(
        controller_id=1,
        epoch=37,
        live_broker_epochs={1: 101, 2: 102, 3: 103},
        shutting_down={3},
        topic_ids={"foo": "id-of-foo"},
        leadership={FOO: STATE},
    )
    memory.assign(FOO, MOVING)
    memory.assign(BAR, ReplicaAssignment((2,)))
    return memory


def foo_for_metadata() -> UpdateMetadataPartition:
    """Return the brokers' metadata of foo."""
    return UpdateMetadataPartition(FOO, 30, 1, 6, (1, 2), 8, (3, 1, 2), (3,))


def test_a_leader_and_isr_request_and_its_metadata() -> None:
    """All fields: to registered brokers only; metadata to all of them, including those that shut down."""
    batch = RequestBatch(context())
    batch.add_leader_and_isr([2, 4, -1], FOO, is_new=True)
    partition = LeaderAndIsrPartition(
        FOO, 30, 1, 6, (1, 2), 8, (3, 1, 2), (3,), (2,), True, RECOVERING
    )
    assert batch.requests() == (
        LeaderAndIsrRequest(2, 102, 1, 37, (partition,), {"foo": "id-of-foo"}, (1,), "UNKNOWN"),
        *(
            UpdateMetadataRequest(
                broker,
                100 + broker,
                1,
                37,
                (foo_for_metadata(),),
                {"foo": "id-of-foo"},
                (1, 2, 3),
            )
            for broker in (1, 2, 3)
        ),
    )


def test_stop_replica_requests_are_grouped_by_broker() -> None:
    """By broker in one request; if deletion was asked for once, it deletes. Unregistered brokers get nothing."""
    batch = RequestBatch(context())
    batch.add_stop_replica([2, 9, -1], FOO, delete=True)
    batch.add_stop_replica([2], FOO, delete=False)
    batch.add_stop_replica([2, 3], BAR, delete=False)
    assert batch.requests() == (
        StopReplicaRequest(
            2,
            102,
            1,
            37,
            (StopReplicaPartition(FOO, 6, True), StopReplicaPartition(BAR, -1, False)),
        ),
        StopReplicaRequest(3, 103, 1, 37, (StopReplicaPartition(BAR, -1, False),)),
    )


def test_requests_are_sent_in_kafkas_order() -> None:
    """LeaderAndIsr, then UpdateMetadata, then StopReplica, in any order of additions."""
    batch = RequestBatch(context())
    batch.add_stop_replica([2], FOO, delete=False)
    batch.add_leader_and_isr([2], FOO)
    assert [type(request).__name__ for request in batch.requests()] == [
        "LeaderAndIsrRequest",
        "UpdateMetadataRequest",
        "UpdateMetadataRequest",
        "UpdateMetadataRequest",
        "StopReplicaRequest",
    ]
