"""Topic deletion: each case of Kafka's TopicDeletionManagerTest, with the writes and requests."""

from __future__ import annotations

from controller_model.kafka.ids import PartitionAndReplica
from controller_model.kafka.states import PartitionState, ReplicaState
from controller_simulator.zookeeper.transactions import DeleteZnode
from tests.support.controllers import Play, in_short, unfenced


def two_topics(**options: bool) -> Play:
    """Return Kafka's own test cluster: brokers 1, 2, 3; topics foo, bar; 2 partitions, 3 replicas."""
    controller = Play(1, 2, 3, **options)
    controller.created("foo", (1, 2, 3), (2, 3, 1))
    controller.created("bar", (3, 1, 2), (1, 2, 3))
    return controller


def in_state(controller: Play, state: ReplicaState) -> set[PartitionAndReplica]:
    """Return foo's replicas in a state."""
    context = controller.context
    return {r for r in context.replicas_of_topic("foo") if context.replica_states.get(r) is state}


def of_broker(controller: Play, *brokers: int) -> set[PartitionAndReplica]:
    """Return foo's replicas on these brokers."""
    return {r for r in controller.context.replicas_of_topic("foo") if r.replica in brokers}


def lists(controller: Play) -> tuple[list[str], list[str], list[str]]:
    """Return the topics that are queued, started and ineligible."""
    context = controller.context
    return (
        list(context.topics_to_be_deleted),
        sorted(context.topics_with_deletion_started),
        sorted(context.topics_ineligible_for_deletion),
    )


def kill(controller: Play, broker: int) -> None:
    """Let a broker die, and its replicas of foo go offline."""
    del controller.context.live_broker_epochs[broker]
    controller.replicas.handle_state_changes(of_broker(controller, broker), ReplicaState.OFFLINE)
    controller.take_transition()


def test_a_deletion_from_beginning_to_end() -> None:
    """Kafka's testBasicDeletion: started, successful, deleted; the queue's znode is deleted last."""
    controller = two_topics()
    controller.zookeeper.znodes["/admin/delete_topics/foo"] = ("", 0)
    partitions = controller.context.partitions_of("foo")
    everything = of_broker(controller, 1, 2, 3)
    controller.deletion.enqueue(["foo"])
    assert all(
        controller.context.partition_states[p] is PartitionState.NON_EXISTENT for p in partitions
    )
    assert in_state(controller, ReplicaState.DELETION_STARTED) == everything
    assert lists(controller) == (["foo"], ["foo"], [])
    started = controller.take_transition()
    assert in_short(started.requests)[:3] == [
        f"UpdateMetadata to {broker}: ['foo-0', 'foo-1']" for broker in (1, 2, 3)
    ]
    assert {p.leader for p in started.requests[0].partitions} == {-2}  # type: ignore[union-attr] # UpdateMetadata
    assert sorted(line for line in in_short(started.requests) if "delete" in line) == [
        f"StopReplica to {broker}: foo-{partition} epoch -2 delete"
        for broker in (1, 2, 3)
        for partition in (0, 1)
    ]

    controller.deletion.complete_replicas(everything)
    paths = [part.path for write in controller.take_transition().writes for part in unfenced(write)]
    root = "/brokers/topics/foo"
    assert paths[:-3] == [
        f"{root}/partitions/0/state",
        f"{root}/partitions/0",
        f"{root}/partitions/1/state",
        f"{root}/partitions/1",
        f"{root}/partitions",
    ]
    assert paths[-3:] == [root, "/config/topics/foo", "/admin/delete_topics/foo"]
    assert lists(controller) == ([], [], [])
    assert controller.context.partitions_of("foo") == ()
    assert [r for r in controller.context.replica_states if r.topic == "foo"] == []
    assert not any("foo" in path for path in controller.zookeeper.znodes)
    assert controller.context.partitions_of("bar") != ()


def test_a_dead_replica_halts_a_deletion() -> None:
    """Kafka's testDeletionWithBrokerOffline: live replicas are deleted, the topic waits for the dead one."""
    controller = two_topics()
    kill(controller, 2)
    alive, dead = of_broker(controller, 1, 3), of_broker(controller, 2)
    controller.deletion.enqueue(["foo"])
    assert in_state(controller, ReplicaState.DELETION_STARTED) == alive
    assert in_state(controller, ReplicaState.DELETION_INELIGIBLE) == dead
    assert lists(controller) == (["foo"], ["foo"], ["foo"])

    controller.deletion.complete_replicas(alive)
    assert in_state(controller, ReplicaState.DELETION_SUCCESSFUL) == alive
    assert in_state(controller, ReplicaState.OFFLINE) == dead
    assert lists(controller) == (["foo"], ["foo"], ["foo"])
    assert not any(
        isinstance(unfenced(w)[0], DeleteZnode) for w in controller.take_transition().writes
    )

    controller.context.live_broker_epochs[2] = 200
    controller.deletion.resume_for(["foo"])
    assert in_state(controller, ReplicaState.DELETION_SUCCESSFUL) == alive
    assert in_state(controller, ReplicaState.DELETION_STARTED) == dead
    assert lists(controller) == (["foo"], ["foo"], [])

    controller.deletion.complete_replicas(dead)
    assert lists(controller) == ([], [], [])
    controller.take_transition()
    assert not any("foo" in path for path in controller.zookeeper.znodes)


def test_a_broker_that_dies_during_a_deletion_halts_it() -> None:
    """Kafka's testBrokerFailureAfterDeletionStarted: tried again when the others are done."""
    controller = two_topics()
    controller.deletion.enqueue(["foo"])
    alive, dead = of_broker(controller, 1, 3), of_broker(controller, 2)
    del controller.context.live_broker_epochs[2]
    controller.deletion.fail_replicas(dead)
    assert lists(controller) == (["foo"], ["foo"], ["foo"])
    assert in_state(controller, ReplicaState.DELETION_INELIGIBLE) == dead
    assert in_state(controller, ReplicaState.DELETION_STARTED) == alive

    controller.context.live_broker_epochs[2] = 200
    controller.deletion.resume_for(["foo"])
    assert lists(controller) == (["foo"], ["foo"], [])
    assert in_state(controller, ReplicaState.DELETION_STARTED) == alive
    assert in_state(controller, ReplicaState.DELETION_INELIGIBLE) == dead

    controller.deletion.complete_replicas(alive)
    assert lists(controller) == (["foo"], ["foo"], [])
    assert in_state(controller, ReplicaState.DELETION_SUCCESSFUL) == alive
    assert in_state(controller, ReplicaState.DELETION_STARTED) == dead


def test_where_deletion_is_disabled_requests_are_deleted() -> None:
    """With delete.topic.enable off nothing is queued, and a new controller deletes the requests."""
    controller = two_topics(delete_topic_enable=False)
    controller.deletion.init(["foo", "bar"], ["foo"])
    assert [part.path for w in controller.take_transition().writes for part in unfenced(w)] == [
        "/admin/delete_topics/foo",
        "/admin/delete_topics/bar",
    ]
    deletion = controller.deletion
    deletion.try_topic_deletion()
    deletion.enqueue(["foo"])
    deletion.mark_ineligible(["foo"])
    deletion.resume_for(["foo"])
    deletion.fail_replicas(of_broker(controller, 1))
    done = controller.take_transition()
    assert (done.writes, done.requests, lists(controller)) == ([], [], ([], [], []))


def test_a_replica_without_a_state_breaks_the_deletion_off() -> None:
    """Kafka throws NoSuchElementException: nothing is begun, and the topic remains queued."""
    controller = two_topics()
    lost = PartitionAndReplica("foo", 1, 3)
    del controller.context.replica_states[lost]
    with controller.io.event():
        controller.deletion.enqueue(["foo"])
    done = controller.take_transition()
    assert (done.writes, done.requests) == ([], [])
    assert done.aborted == (
        "no state is known of replica PartitionAndReplica(topic='foo', partition=1, replica=3)"
    )
    assert lists(controller) == (["foo"], [], [])
