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


def test_one_request_of_a_kind_for_a_broker() -> None:
    """Several partitions are sent together; the same one again replaces itself, and new stays new."""
    memory = context()
    memory.leadership[BAR] = LeaderIsrAndControllerEpoch(LeaderAndIsr(2, (2,), 1), 31, 2)
    batch = RequestBatch(memory)
    batch.add_leader_and_isr([2], FOO, is_new=True)
    batch.add_leader_and_isr([2], BAR)
    batch.add_leader_and_isr([2], FOO)
    (request,) = [r for r in batch.requests() if isinstance(r, LeaderAndIsrRequest)]
    assert [(p.partition, p.is_new) for p in request.partitions] == [(FOO, True), (BAR, False)]
    assert request.topic_ids == {"foo": "id-of-foo", "bar": "AAAAAAAAAAAAAAAAAAAAAA"}
    assert request.live_leaders == (1, 2)


def test_a_dead_leader_is_not_among_the_live_leaders() -> None:
    """Only registered brokers are named as leaders."""
    memory = context()
    memory.leadership[FOO] = LeaderIsrAndControllerEpoch(LeaderAndIsr(9, (9,)), 30)
    batch = RequestBatch(memory)
    batch.add_leader_and_isr([2], FOO)
    request = batch.requests()[0]
    assert isinstance(request, LeaderAndIsrRequest)
    assert request.live_leaders == ()


def test_recovery_is_reported_from_3_2_on() -> None:
    """Below inter.broker.protocol 3.2 the field does not exist: 0."""
    batch = RequestBatch(context(), leader_recovery_supported=False)
    batch.add_leader_and_isr([2], FOO)
    request = batch.requests()[0]
    assert isinstance(request, LeaderAndIsrRequest)
    assert request.partitions[0].leader_recovery_state == 0


def test_metadata_of_a_topic_that_is_deleted() -> None:
    """Kafka's testUpdateMetadataDoesNotIncludePartitionsWithoutLeaderAndIsr, ...DuringTopicDeletion.

    Leader -2 under the initial epochs, with the ISR as it was; partitions that never had a leader
    are left out.
    """
    memory = context()
    memory.topics_to_be_deleted["foo"] = None
    batch = RequestBatch(memory)
    batch.add_update_metadata([1, -1, 9], [FOO, BAR])
    (request,) = batch.requests()
    assert isinstance(request, UpdateMetadataRequest)
    assert (request.broker, request.partitions) == (
        1,
        (UpdateMetadataPartition(FOO, 30, -2, 0, (1, 2), 0, (3, 1, 2), (3,)),),
    )


def test_metadata_without_partitions_names_the_live_brokers() -> None:
    """A request without partitions is still sent; ids only of topics that have one."""
    batch = RequestBatch(context())
    batch.add_update_metadata([2], [])
    assert batch.requests() == (UpdateMetadataRequest(2, 102, 1, 37, (), {}, (1, 2, 3)),)


def test_a_topic_without_an_id_is_reported_without() -> None:
    """UpdateMetadata leaves the id out, where LeaderAndIsr has zeros."""
    memory = context()
    memory.leadership[BAR] = STATE
    batch = RequestBatch(memory)
    batch.add_update_metadata([2], [BAR])
    (request,) = batch.requests()
    assert isinstance(request, UpdateMetadataRequest)
    assert request.topic_ids == {}


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


def test_a_later_delete_turns_stop_replica_into_a_deletion() -> None:
    """First stop, then delete: delete."""
    batch = RequestBatch(context())
    batch.add_stop_replica([2], FOO, delete=False)
    batch.add_stop_replica([2], FOO, delete=True)
    (request,) = batch.requests()
    assert isinstance(request, StopReplicaRequest)
    assert request.partitions == (StopReplicaPartition(FOO, 6, True),)


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
