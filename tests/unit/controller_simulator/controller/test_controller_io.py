"""What a controller reads and asks to be written: fences, read-your-writes, and what is returned."""

from __future__ import annotations

import pytest

from controller_model.kafka.elections import LeaderAndIsr
from controller_model.kafka.ids import PartitionAndReplica, TopicPartition
from controller_model.kafka.replica_assignment import ReplicaAssignment
from controller_model.kafka.states import PartitionState
from controller_simulator.controller.controller_io import AbortedEventError, state_path
from controller_simulator.zookeeper.transactions import (
    ControllerMovedError,
    DeleteZnode,
    SetZnode,
)
from tests.support.controllers import Play, in_short, unfenced

PARTITION = TopicPartition("t", 0)


def test_take_returns_each_effect_once() -> None:
    """A Transition holds all since the last one; then nothing is left."""
    play = Play(1)
    play.io.write(DeleteZnode("/a"))
    play.io.send_update_metadata()
    play.io.fail(PARTITION, PartitionState.NEW, PartitionState.ONLINE, "E")
    with play.io.event():
        raise AbortedEventError("broken")
    done = play.io.take_transition()
    assert [len(done.writes), len(done.requests), len(done.failed)] == [1, 1, 1]
    assert (done.failed[0].error, done.aborted) == ("E", "broken")
    empty = play.io.take_transition()
    assert (empty.writes, empty.requests, empty.failed, empty.aborted) == ([], [], [], None)


def test_only_errors_that_kafka_does_not_handle_abort_an_event() -> None:
    """Any other error is raised: a controller that was replaced must resign."""
    play = Play(1)
    with pytest.raises(ControllerMovedError), play.io.event():
        raise ControllerMovedError("moved")
    assert play.io.take_transition().aborted is None


def test_a_written_state_is_read_back_until_take() -> None:
    """Within a step its own writes count; after that ZooKeeper does."""
    play = Play(1)
    state = play.io.create_state(PARTITION, LeaderAndIsr(1, (1,)))
    assert (state.controller_epoch, state.partition_epoch) == (50, 0)
    assert play.io.partition_state(PARTITION) == state
    again = play.io.update_state(PARTITION, LeaderAndIsr(1, (1,), 1), partition_epoch=0)
    assert again.partition_epoch == 1
    assert play.io.partition_state(PARTITION) == again
    play.io.take_transition()
    assert play.io.partition_state(PARTITION) is None


def test_a_fenced_write_is_neither_made_nor_remembered() -> None:
    """The fence is checked before each write, and a refused write leaves no trace."""
    play = Play(1)
    play.zookeeper.epoch_version = 48
    with pytest.raises(ControllerMovedError) as moved:
        play.io.create_state(PARTITION, LeaderAndIsr(1, (1,)))
    assert str(moved.value) == "controller epoch zkVersion check fails: expected 49, found 48"
    assert play.io.partition_state(PARTITION) is None
    assert play.io.take_transition().writes == []


def test_a_topics_assignment_as_it_is_written() -> None:
    """With the topic's id, and by partition the replicas that are being added or removed."""
    play = Play(1)
    play.topic("t", (1,))
    moving = {0: ReplicaAssignment((2, 1), (2,), (1,)), 1: ReplicaAssignment((1,))}
    play.io.set_topic_assignment("t", moving)
    (write,) = play.io.take_transition().writes
    assert unfenced(write) == (
        SetZnode(
            "/brokers/topics/t",
            '{"partitions":{"0":[2,1],"1":[1]},"topic_id":"id-of-t","adding_replicas":{"0":[2]},'
            '"removing_replicas":{"0":[1]},"version":3}',
        ),
    )


def test_delete_recursive_deletes_children_before_their_parent() -> None:
    """Children before their parent, each in a transaction of its own."""
    play = Play(1)
    for path in ("/t", "/t/a", "/t/b", "/t/a/x"):
        play.zookeeper.znodes[path] = ("", 0)
    play.io.delete_recursive("/t")
    assert [unfenced(w)[0].path for w in play.io.take_transition().writes] == [
        "/t/a/x",
        "/t/a",
        "/t/b",
        "/t",
    ]


def test_update_metadata_is_sent_once_for_each_registered_broker() -> None:
    """One request for each registered broker, in a batch of its own."""
    play = Play(1, 2)
    play.io.send_update_metadata([PARTITION], brokers=[2, 1, 9])
    assert in_short(play.io.take_transition().requests) == [
        "UpdateMetadata to 2: []",
        "UpdateMetadata to 1: []",
    ]


def test_state_path_and_topic_partition_of_a_replica() -> None:
    """A replica names its partition; a partition its state's path."""
    replica = PartitionAndReplica("t", 0, 4)
    assert replica.topic_partition == PARTITION
    assert state_path(PARTITION) == "/brokers/topics/t/partitions/0/state"
