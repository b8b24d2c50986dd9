"""A controller that hangs is a zombie until it writes: nothing that others do ends that, and everything it does ends it.

The histories are made by hand, because operators' hands and other brokers write what no controller would.
"""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controller_model.records.changes import SessionState
from controller_model.records.pending_writes import ControllerHealth
from controller_model.records.views import ClusterView
from tests.support.histories import Fold, History, state_path

TOPICS = ("a", "b", "c")
PARTITIONS = (0, 1)
LOST = 3
"""The broker whose end is never handled."""
CONTROLLER = 0
EPOCH = 7
BEATS_TO_ZOMBIE = 7
REQUEST = {"version": 1, "partitions": [{"topic": "a", "partition": 0}]}
ISR_CHANGE = "/isr_change_notification/isr_change_"

topics, partitions = st.sampled_from(TOPICS), st.sampled_from(PARTITIONS)
brokers = st.sampled_from((1, 2, LOST, 4))
Act = Callable[[History], None]


def registered(history: History, broker: int, version: int) -> None:
    """Register a broker in the format of an inter.broker.protocol.version (5: since 2.7)."""
    content = {
        "version": version,
        "host": f"b{broker}",
        "port": 9092,
        "endpoints": [f"PLAINTEXT://b{broker}:9092"],
        "jmx_port": -1,
        "timestamp": "1",
        "listener_security_protocol_map": {"PLAINTEXT": "PLAINTEXT"},
    }
    history.set(f"/brokers/ids/{broker}", content, ephemeral_owner=broker + 1)


def hung(version: int) -> tuple[History, Fold]:
    """Return a cluster whose controller has not handled the end of a broker for longer than the write timeout."""
    history = History()
    history.epoch = EPOCH - 1
    history.resync()
    for broker in (CONTROLLER, 1, 2, LOST):
        registered(history, broker, version)
    history.elect(CONTROLLER)
    for topic in TOPICS:
        history.topic(topic, {0: (LOST, 1, 2), 1: (1, 2, LOST)})
        history.state(topic, 0, leader=LOST, isr=(LOST, 1, 2))
        history.state(topic, 1, leader=1, isr=(1, 2, LOST))
    fold = Fold()
    for _ in range(2):
        history.heartbeat()
    history.broker_gone(LOST)
    for _ in range(BEATS_TO_ZOMBIE):
        history.heartbeat()
    fold.follow(history)
    assert health(fold) is ControllerHealth.ZOMBIE
    return history, fold


def health(fold: Fold) -> ControllerHealth:
    """Return the controller's health."""
    view: ClusterView = fold.cluster_view()
    return view.pending_writes.health


def held(history: History, topic: str, partition: int) -> dict[str, int] | None:
    """Return a partition's state as it is in ZooKeeper; None: there is none."""
    znode = history.znodes.get(state_path(topic, partition))
    return None if znode is None else json.loads(znode.data)


def by_hand(topic: str, partition: int, leader: int, how: str) -> Act:
    """Write a state as people do: not in the controller's form."""

    def write(history: History) -> None:
        now = held(history, topic, partition)
        if now is None:
            return
        epoch, controller_epoch, isr = now["leader_epoch"], EPOCH, [leader]
        match how:
            case "the same leader epoch":
                leader_moves = leader != now["leader"]
                isr = [leader] if leader_moves else [leader, 9]
                controller_epoch = EPOCH if leader_moves else EPOCH + 1
            case "a leader epoch far above":
                epoch += 10
            case "a leader epoch below":
                epoch -= 1
            case "another controller epoch":
                epoch, controller_epoch = epoch + 1, EPOCH + 12
            case "an older controller epoch":
                epoch, controller_epoch = epoch + 1, EPOCH - 1
            case "a leader out of the ISR":
                epoch, isr = epoch + 1, [9]
            case _:  # no leader, and the whole ISR
                epoch, leader_, isr = epoch + 1, -1, [1, 2, LOST, 4]
                history.state(topic, partition, leader=leader_, isr=isr, leader_epoch=epoch)
                return
        history.state(
            topic,
            partition,
            leader=leader,
            isr=isr,
            leader_epoch=epoch,
            controller_epoch=controller_epoch,
        )

    return write


HOW = (
    "the same leader epoch",
    "a leader epoch far above",
    "a leader epoch below",
    "another controller epoch",
    "an older controller epoch",
    "a leader out of the ISR",
    "no leader",
)


def removed(topic: str) -> Act:
    """Remove a topic by hand."""

    def remove(history: History) -> None:
        if f"/brokers/topics/{topic}" in history.znodes:
            history.topic_gone(topic)

    return remove


def removed_state(topic: str, partition: int) -> Act:
    """Remove a partition's state by hand."""

    def remove(history: History) -> None:
        if state_path(topic, partition) in history.znodes:
            history.delete(state_path(topic, partition))

    return remove


def toggled(path: str, content: object) -> Act:
    """Make a znode, or delete it if it is there."""

    def toggle(history: History) -> None:
        if path in history.znodes:
            history.delete(path)
        else:
            history.set(path, content)

    return toggle


def toggled_broker(broker: int, version: int) -> Act:
    """Let a broker return or go."""

    def toggle(history: History) -> None:
        if f"/brokers/ids/{broker}" in history.znodes:
            history.broker_gone(broker)
        else:
            registered(history, broker, version)

    return toggle


def altered(topic: str, isr: tuple[int, ...]) -> Act:
    """Let a leader write its ISR itself, as below inter.broker.protocol.version 2.7."""

    def alter(history: History) -> None:
        now = held(history, topic, 1)
        if now is not None and now["leader"] >= 0:
            members = (now["leader"], *(member for member in isr if member != now["leader"]))
            epoch = now["leader_epoch"]
            history.state(topic, 1, leader=now["leader"], isr=members, leader_epoch=epoch)

    return alter


def without_a_session(history: History) -> None:
    """Let the watcher lose its session, and read everything again."""
    history.heartbeat(session=SessionState.LOST)
    history.heartbeat()
    history.resync()


def new_topic(topic: str, replicas: tuple[int, ...]) -> Act:
    """Let a client create a topic, or add a partition."""
    return lambda history: history.topic(topic, {0: replicas, 1: replicas, 2: replicas})


ACTS = st.one_of(
    st.builds(by_hand, topics, partitions, brokers, st.sampled_from(HOW)),
    st.builds(removed, topics),
    st.builds(removed_state, topics, partitions),
    st.builds(toggled_broker, brokers, st.just(4)),
    st.builds(altered, topics, st.lists(brokers, unique=True, max_size=3).map(tuple)),
    st.builds(
        new_topic,
        st.sampled_from((*TOPICS, "n")),
        st.lists(brokers, unique=True, min_size=1, max_size=3).map(tuple),
    ),
    st.builds(toggled, st.just("/admin/preferred_replica_election"), st.just(REQUEST)),
    st.builds(toggled, topics.map("/admin/delete_topics/{}".format), st.just(b"")),
    st.builds(
        toggled,
        st.integers(1, 3).map(lambda number: f"{ISR_CHANGE}{number:010}"),
        st.just({"version": 1, "partitions": []}),
    ),
    st.builds(
        toggled,
        st.just("/config/topics/a"),
        st.just({"version": 1, "config": {"retention.ms": "1"}}),
    ),
    st.just(without_a_session),
    st.just(lambda history: history.resync()),
    st.just(lambda history: history.heartbeat(after_ms=60_000)),
)
"""What others do while the controller hangs."""


@pytest.mark.parametrize("how", HOW)
@pytest.mark.parametrize("partition", PARTITIONS)
def test_no_state_that_is_set_by_hand_ends_a_zombie(how: str, partition: int) -> None:
    """Each form that is not the controller's, of a partition without a live leader, and of one with one."""
    history, fold = hung(version=5)
    by_hand("a", partition, 1, how)(history)
    history.heartbeat()
    fold.follow(history)
    assert health(fold) is ControllerHealth.ZOMBIE


@given(st.lists(st.tuples(ACTS, st.integers(0, 2)), max_size=8))
@settings(max_examples=300)
def test_nothing_that_others_do_ends_a_zombie(acts: list[tuple[Act, int]]) -> None:
    """After each act and a heartbeat, the controller still is the zombie that it was."""
    history, fold = hung(version=4)
    for act, more in acts:
        act(history)
        for _ in range(1 + more):
            history.heartbeat()
        fold.follow(history)
        assert health(fold) is ControllerHealth.ZOMBIE


def elected(history: History) -> None:
    """Elect a leader (PartitionStateMachine.doElectLeaderForPartitions)."""
    now = held(history, "a", 0) or {}
    history.state("a", 0, leader=1, isr=(1, 2), leader_epoch=now["leader_epoch"] + 1)


def left_without_a_leader(history: History) -> None:
    """Leave the last member in the ISR (ReplicaStateMachine.doRemoveReplicasFromIsr)."""
    now = held(history, "a", 0) or {}
    history.state("a", 0, leader=-1, isr=(LOST,), leader_epoch=now["leader_epoch"] + 1)


def removed_from_the_isr(history: History) -> None:
    """Remove a follower (ReplicaStateMachine.doRemoveReplicasFromIsr)."""
    now = held(history, "a", 1) or {}
    history.state("a", 1, leader=1, isr=(1, 2), leader_epoch=now["leader_epoch"] + 1)


def created(history: History) -> None:
    """Give a new partition its state (PartitionStateMachine.initializeLeaderAndIsrForPartitions)."""
    history.topic("m", {0: (1, 2)})
    history.heartbeat()
    history.state("m", 0, leader=1, isr=(1, 2))


def altered_by_the_controller(history: History) -> None:
    """Write an ISR that its leader asked for (KafkaController.processAlterPartition)."""
    history.state("a", 1, leader=1, isr=(1, 2), leader_epoch=0)


def merged(history: History) -> None:
    """Write two states of a partition, of which the watcher reads the second alone."""
    history.state("a", 1, leader=1, isr=(1, 2), leader_epoch=1, seen=False)
    history.state("a", 1, leader=2, isr=(2, 1), leader_epoch=2)


def written_out_of_sight(history: History) -> None:
    """Write a state that only a resync shows."""
    history.state("a", 0, leader=1, isr=(1, 2), leader_epoch=1, seen=False)
    history.resync()


def deposed(history: History) -> None:
    """Let another broker be elected."""
    history.delete("/controller")
    history.elect(1)


@given(
    st.sampled_from(
        (
            elected,
            left_without_a_leader,
            removed_from_the_isr,
            created,
            altered_by_the_controller,
            merged,
            written_out_of_sight,
            deposed,
        )
    )
)
def test_everything_that_the_controller_does_ends_a_zombie(act: Act) -> None:
    """One write in the controller's form, or another controller: until the write timeout has passed once more."""
    history, fold = hung(version=5)
    act(history)
    history.heartbeat()
    fold.follow(history)
    assert health(fold) in {ControllerHealth.WORKING, ControllerHealth.SLOW}
    for _ in range(BEATS_TO_ZOMBIE):
        history.heartbeat()
    fold.follow(history)
    assert (
        health(fold) is ControllerHealth.ZOMBIE
    )  # it has stopped again, with the rest still pending
