"""A broker receives the controller's requests: refused as a whole, refused alone, or obeyed."""

from __future__ import annotations

import copy
from dataclasses import replace
from typing import Any

import msgspec
import pytest

from controller_model.kafka.ids import TopicPartition
from controller_simulator.controller.leader_and_isr_receiver import (
    UNKNOWN_BROKER_EPOCH,
    Errors,
    HostedPartition,
    ReplicaManager,
    Response,
)
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

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
THE_ID, OTHER_ID = "AAAAAAAAAAAAAAAAAAAAAQ", "AAAAAAAAAAAAAAAAAAAAAg"
BROKER = ReplicaManager(broker=1, broker_epoch=50, controller_epoch=5, alive=frozenset({1, 2}))


def asked(partition: TopicPartition = T0, **fields: Any) -> LeaderAndIsrPartition:
    """Return a partition that broker 1 is to lead under leader epoch 3, with these fields replaced."""
    defaults = {
        "controller_epoch": 5, "leader": 1, "leader_epoch": 3, "isr": (1, 2),
        "partition_epoch": 7, "replicas": (1, 2),
    }  # fmt: skip
    return LeaderAndIsrPartition(partition=partition, **{**defaults, **fields})


def request(*partitions: LeaderAndIsrPartition, **fields: Any) -> LeaderAndIsrRequest:
    """Return a request of controller 2 in epoch 5 to broker 1."""
    defaults: dict[str, Any] = {
        "broker": 1, "broker_epoch": 50, "controller_id": 2, "controller_epoch": 5,
        "topic_ids": {}, "live_leaders": (),
    }  # fmt: skip
    return LeaderAndIsrRequest(partitions=partitions, **{**defaults, **fields})


def stop(*partitions: StopReplicaPartition, **fields: Any) -> StopReplicaRequest:
    """Return a request to stop replicas."""
    defaults = {"broker": 1, "broker_epoch": 50, "controller_id": 2, "controller_epoch": 5}
    return StopReplicaRequest(partitions=partitions, **{**defaults, **fields})


def metadata(*live: int, **fields: Any) -> UpdateMetadataRequest:
    """Return a request that names the live brokers."""
    defaults: dict[str, Any] = {
        "broker": 1, "broker_epoch": 50, "controller_id": 2, "controller_epoch": 5,
        "partitions": (), "topic_ids": {},
    }  # fmt: skip
    return UpdateMetadataRequest(live_brokers=live, **{**defaults, **fields})


def receive(broker: ReplicaManager, request: Request) -> tuple[ReplicaManager, Response]:
    """Return the broker after a request, and its answer; the given one does not change."""
    after = copy.deepcopy(broker)
    match request:
        case LeaderAndIsrRequest():
            return after, after.receive_leader_and_isr(request)
        case StopReplicaRequest():
            return after, after.receive_stop_replica(request)
        case UpdateMetadataRequest():
            return after, after.receive_update_metadata(request)


def hosting(**fields: Any) -> ReplicaManager:
    """Return broker 1 with a replica of t-0 under leader epoch 3, a follower of 2."""
    defaults: dict[str, Any] = {
        "leader_epoch": 3, "partition_epoch": 7, "leader": 2, "isr": (1, 2), "replicas": (1, 2),
        "controller_epoch": 5, "serves": True,
    }  # fmt: skip
    return replace(BROKER, partitions={T0: HostedPartition(**{**defaults, **fields})})


def taken(asked: LeaderAndIsrPartition, topic_id: str | None = None) -> HostedPartition:
    """Return what a broker holds of a partition that it has accepted."""
    return HostedPartition(
        leader_epoch=asked.leader_epoch,
        partition_epoch=asked.partition_epoch,
        leader=asked.leader,
        topic_id=topic_id,
        isr=asked.isr,
        replicas=asked.replicas,
        controller_epoch=asked.controller_epoch,
        serves=True,
    )


def answer(broker: ReplicaManager, *partitions: LeaderAndIsrPartition, **fields: Any) -> Response:
    """Return the answer alone."""
    return receive(broker, request(*partitions, **fields))[1]


@pytest.mark.parametrize(
    ("fields", "error"),
    [
        ({"controller_epoch": 4}, Errors.STALE_CONTROLLER_EPOCH),
        ({"broker_epoch": 49}, Errors.STALE_BROKER_EPOCH),
        ({"broker_epoch": 49, "controller_epoch": 4}, Errors.STALE_BROKER_EPOCH),
        ({"controller_epoch": 5}, Errors.NONE),
        ({"controller_epoch": 6}, Errors.NONE),
        ({"broker_epoch": 51}, Errors.NONE),
        ({"broker_epoch": UNKNOWN_BROKER_EPOCH}, Errors.NONE),
    ],
)
def test_an_older_controller_or_broker_epoch_refuses_the_whole_request(
    fields: dict[str, Any], error: Errors
) -> None:
    """Under an older controller epoch, or meant for an earlier run of the broker, nothing is done."""
    replica = StopReplicaPartition(partition=T0, leader_epoch=3, delete=True)
    ways: list[tuple[ReplicaManager, Response]] = [
        receive(hosting(), request(asked(leader_epoch=4), **fields)),
        receive(hosting(), stop(replica, **fields)),
        receive(hosting(), metadata(1, **fields)),
    ]
    for after, response in ways:
        assert response.error is error
        assert (after == hosting()) == (error is not Errors.NONE)
        if error is not Errors.NONE:
            assert response == Response(error=error)


@pytest.mark.parametrize(
    ("leader_epoch", "error"),
    [(2, Errors.STALE_CONTROLLER_EPOCH), (3, Errors.STALE_CONTROLLER_EPOCH), (4, Errors.NONE)],
)
def test_an_older_or_equal_leader_epoch_is_refused_alone(leader_epoch: int, error: Errors) -> None:
    """The other partition of the request is accepted, and the newer controller epoch is remembered."""
    after, response = receive(
        hosting(), request(asked(leader_epoch=leader_epoch), asked(T1), controller_epoch=9)
    )
    assert response.errors == {T0: error, T1: Errors.NONE}
    assert after.partitions[T1] == taken(asked(T1))
    assert after.partitions[T0].leader_epoch == max(3, leader_epoch)
    assert after.controller_epoch == 9


@pytest.mark.parametrize(
    ("have", "named", "error"),
    [
        (THE_ID, OTHER_ID, Errors.INCONSISTENT_TOPIC_ID),
        (THE_ID, THE_ID, Errors.NONE),
        (None, THE_ID, Errors.NONE),
        (THE_ID, None, Errors.NONE),
        (THE_ID, ZERO_UUID, Errors.NONE),
        (None, None, Errors.NONE),
    ],
)
def test_a_topic_with_another_topic_id_is_refused(
    have: str | None, named: str | None, error: Errors
) -> None:
    """The topic was deleted and created again. Without an id on either side nothing is compared."""
    ids = {} if named is None else {"t": named}
    after, response = receive(hosting(topic_id=have), request(asked(leader_epoch=4), topic_ids=ids))
    assert response.errors == {T0: error}
    kept = have or (None if named == ZERO_UUID else named)
    assert after.partitions[T0].topic_id == kept
    assert answer(hosting(topic_id=have), asked(leader_epoch=2), topic_ids=ids).errors[T0] is (
        error if error is not Errors.NONE else Errors.STALE_CONTROLLER_EPOCH
    )


@pytest.mark.parametrize(
    ("have", "named", "leader", "error"),
    [
        (None, THE_ID, 1, Errors.NONE),
        (None, THE_ID, 2, Errors.NONE),
        (THE_ID, None, 2, Errors.NONE),
        (THE_ID, None, 1, Errors.STALE_CONTROLLER_EPOCH),
        (THE_ID, THE_ID, 2, Errors.STALE_CONTROLLER_EPOCH),
        (None, None, 2, Errors.STALE_CONTROLLER_EPOCH),
    ],
)
def test_topic_ids_come_and_go_without_a_new_leader_epoch(
    have: str | None, named: str | None, leader: int, error: Errors
) -> None:
    """An upgrade adds an id at an equal epoch, a downgrade removes a follower's; nothing else changes."""
    before = hosting(topic_id=have)
    ids = {} if named is None else {"t": named}
    after, response = receive(before, request(asked(leader=leader, replicas=()), topic_ids=ids))
    assert response.errors == {T0: error}
    assert after.partitions == {
        T0: msgspec.structs.replace(before.partitions[T0], topic_id=have or named)
    }


@pytest.mark.parametrize("leader", [1, 2])
@pytest.mark.parametrize(("partition_epoch", "is_taken"), [(6, False), (7, True), (8, True)])
def test_an_older_partition_epoch_is_skipped_without_an_error(
    partition_epoch: int, leader: int, is_taken: bool
) -> None:
    """Partition.makeLeader and makeFollower return without an error."""
    after, response = receive(
        hosting(), request(asked(leader_epoch=4, partition_epoch=partition_epoch, leader=leader))
    )
    assert response.errors == {T0: Errors.NONE}
    assert after.partitions[T0].leader_epoch == (4 if is_taken else 3)


@pytest.mark.parametrize(
    ("leader_epoch", "error"),
    [
        (2, Errors.FENCED_LEADER_EPOCH), (3, Errors.NONE), (4, Errors.NONE),
        (NO_EPOCH, Errors.NONE), (EPOCH_DURING_DELETE, Errors.NONE),
    ],
)  # fmt: skip
@pytest.mark.parametrize("delete", [True, False])
def test_a_replica_is_stopped_under_its_epoch_or_above(
    leader_epoch: int, error: Errors, delete: bool
) -> None:
    """The epochs of deleted topics and of old controllers are not compared."""
    replica = StopReplicaPartition(partition=T0, leader_epoch=leader_epoch, delete=delete)
    after, response = receive(hosting(), stop(replica, controller_epoch=8))
    assert response.errors == {T0: error}
    assert (T0 not in after.partitions) == (delete and error is Errors.NONE)
    assert after.controller_epoch == 8
    if T0 in after.partitions:
        assert after.partitions[T0].serves == (error is not Errors.NONE)


def test_sentinel_epochs_equal_kafkas() -> None:
    """LeaderAndIsr.NoEpoch, EpochDuringDelete, AbstractControlRequest.UNKNOWN_BROKER_EPOCH."""
    assert (NO_EPOCH, EPOCH_DURING_DELETE, UNKNOWN_BROKER_EPOCH) == (-1, -2, -1)
    assert HostedPartition().partition_epoch == 0  # LeaderAndIsr.InitialPartitionEpoch
    assert ReplicaManager(broker=1, broker_epoch=1).controller_epoch == 0
