"""What a rehearsal reports for each kind of step."""

from __future__ import annotations

import gc
from typing import Any

import msgspec
import pytest

from controller_model.kafka.ids import TopicPartition
from rehearsal import rehearse
from rehearsal.failover import LastFailover
from rehearsal.rehearse import CannotRehearseError
from rehearsal.report import ChangedPartition, Race
from tests.support.partition_facts import T0, part, up
from tests.support.rehearsing import moved, names, one, rehearsed


def test_a_stopped_broker_hands_its_partitions_over() -> None:
    """Its partitions get other leaders before it stops, in assignment order; the controller stays."""
    result = one("stop-broker:2", partitions=[part(leader=2), part(1)])
    assert result.refused is None
    assert (result.controller_before, result.controller, result.controller_epoch) == (1, 1, 7)
    assert result.controller_candidates == ()
    assert result.elections == {"controlled_shutdown": 1}
    assert moved(result) == {1: 1}
    assert result.changes.partitions == (
        ChangedPartition(
            topic="t", partition=0, leader_before=2, leader=1, isr_before=(1, 2, 3), isr=(1, 3),
            replicas_before=(1, 2, 3), replicas=(1, 2, 3), leader_epoch=1,
        ),
        ChangedPartition(
            topic="t", partition=1, leader_before=1, leader=1, isr_before=(1, 2, 3), isr=(1, 3),
            replicas_before=(1, 2, 3), replicas=(1, 2, 3), leader_epoch=1,
        ),
    )  # fmt: skip
    assert result.failover is None
    assert result.races == ()
    by_broker = {each.broker: each for each in result.requests}
    assert by_broker[1].leader_and_isr == 3  # a new leader; twice a follower that leaves
    assert by_broker[2].stop_replica == 2  # sent twice, as Kafka does
    assert by_broker[2].stop_replica_partitions == 2
    assert result.zookeeper_writes == 3  # two states, and its registration is deleted


def test_a_killed_controller_is_followed_by_a_race() -> None:
    """The winner is reported as a race; the work is scaled from the last failover, as an interval."""
    cluster = [part(), part(1, leader=2)]
    last = LastFailover(partitions=10, took_ms=500)
    result = one("kill-broker:1", partitions=cluster, last_failover=last)
    assert (result.controller_before, result.controller, result.controller_epoch) == (1, 2, 8)
    assert result.controller_candidates == (2, 3)
    assert result.elections == {"offline": 1}
    assert {note.race for note in result.races} == {Race.CONTROLLER, Race.SESSION_END}
    assert result.failover is not None
    assert result.failover.partitions == 1
    assert (result.failover.at_least_ms, result.failover.at_most_ms) == (50, 500)
    assert names(result.leaderless_meanwhile) == (T0,)
    unknown = one("kill-broker:1", partitions=cluster).failover
    assert unknown is not None
    assert (unknown.at_least_ms, unknown.at_most_ms) == (None, None)


def test_a_deleted_controller_znode_causes_a_failover_without_leader_moves() -> None:
    """Any live broker may win, including the previous controller."""
    result = one("delete-controller", partitions=[part()])
    assert result.controller_candidates == (1, 2, 3)
    assert one("delete-controller", "start-broker:4").controller_candidates == ()
    assert result.controller_epoch == 8
    assert result.failover is not None
    assert result.failover.partitions == 0
    assert result.elections == {}
    assert result.changes.count == 0


def test_a_rolling_restart_brings_everything_back() -> None:
    """A stop and a start for each broker, the controller last, and every replica in the ISR at the end."""
    result = rehearsed("rolling-restart", partitions=[part(), part(1, leader=2)])
    operations = [step.operation for step in result.steps]
    assert operations == [
        "stop-broker:2", "start-broker:2", "stop-broker:3", "start-broker:3", "stop-broker:1",
        "start-broker:1",
    ]  # fmt: skip
    last = {change.partition: change for step in result.steps for change in step.changes.partitions}
    assert {number: sorted(change.isr) for number, change in last.items()} == {
        0: [1, 2, 3],
        1: [1, 2, 3],
    }
    assert {note.race for note in result.steps[1].races} == {Race.CATCH_UP}
    assert result.steps[4].controller == 2
    assert result.outages.count == 0


def test_a_reassignment_is_completed() -> None:
    """The leader that is no longer a replica hands over; a move that is not possible is named."""
    result = one(
        'reassign:{"partitions":[{"topic":"t","partition":0,"replicas":[2,3]},'
        '{"topic":"t","partition":7,"replicas":[1]}]}',
        partitions=[part(replicas=(1, 2), isr=(1, 2)), part(1)],
    )
    assert [(c.leader, c.replicas, sorted(c.isr)) for c in result.changes.partitions] == [
        (2, (2, 3), [2, 3])
    ]
    assert result.elections == {"reassign": 1}
    assert names(result.not_reassigned) == (TopicPartition("t", 7),)
    assert result.refused == "UNKNOWN_TOPIC_OR_PARTITION"
    assert {note.race for note in result.races} == {Race.CATCH_UP}


@pytest.mark.parametrize(
    ("moved", "why"),
    [
        (
            '{"topic":"t","partition":1,"replicas":[9]}',
            "INVALID_REPLICA_ASSIGNMENT: unknown broker id 9",
        ),
        (
            '{"topic":"u","partition":0,"replicas":[1]}',
            "UNKNOWN_TOPIC_OR_PARTITION: topic u not found",
        ),
    ],
)
def test_a_plan_that_the_tool_refuses_moves_nothing(moved: str, why: str) -> None:
    """For one unknown broker or topic, kafka-reassign-partitions does not ask Kafka for any of it."""
    result = one(
        f'reassign:{{"partitions":[{{"topic":"t","partition":0,"replicas":[2,3]}},{moved}]}}',
        partitions=[part(replicas=(1, 2), isr=(1, 2)), part(1)],
    )
    assert result.refused == f"{why}; kafka-reassign-partitions refuses the whole plan"
    assert (result.changes.count, result.not_reassigned.count) == (0, 2)
    assert result.zookeeper_writes == 0


def test_a_refused_election_has_kafkas_name() -> None:
    """The step names it, and the other partitions of the file are elected."""
    result = one(
        'preferred-election:{"partitions":[{"topic":"t","partition":0},{"topic":"zz","partition":0}]}',
        partitions=[part(replicas=(1, 2), isr=(1, 2), leader=2)],
    )
    assert result.refused == "UNKNOWN_TOPIC_OR_PARTITION"
    assert result.elections == {"preferred": 1}


def test_a_deleted_topic_is_gone() -> None:
    """Then its partitions have no replicas; with a dead replica the deletion waits."""
    result = one("delete-topic:t", partitions=[part(), part(1)])
    assert [(c.partition, c.deleted, c.leader) for c in result.changes.partitions] == [
        (0, True, None),
        (1, True, None),
    ]
    waits = one("delete-topic:t", partitions=[part(replicas=(1, 9))])
    assert [change.deleted for change in waits.changes.partitions] == [False]
    assert one("delete-topic:u").refused == "UNKNOWN_TOPIC_OR_PARTITION"


def test_preferred_elections_give_leaders_back() -> None:
    """For all partitions, or for those that a file names."""
    cluster = [part(leader=2), part(1, leader=3), part(2)]
    everywhere = one("preferred-election", partitions=cluster)
    assert everywhere.elections == {"preferred": 2}
    assert moved(everywhere) == {1: 2}
    some = one(
        'preferred-election:{"partitions":[{"topic":"t","partition":1}]}', partitions=cluster
    )
    assert [change.partition for change in some.changes.partitions] == [1]


def test_a_step_that_stops_a_dead_broker_is_refused() -> None:
    """The step is refused, in words, and the next one continues."""
    result = rehearsed("stop-broker:9", "kill-broker:1", "start-broker:2", partitions=[part()])
    assert [step.refused for step in result.steps] == [
        "broker 9 does not run",
        None,
        "broker 2 runs",
    ]


def test_the_last_broker_leaves_no_controller() -> None:
    """Then there is no controller, and partitions keep their dead leader."""
    result = rehearsed(
        "kill-broker:1", partitions=[part(replicas=(1,), isr=(1,))], facts=up(1, controller=1)
    )
    step = result.steps[0]
    assert (step.controller, step.controller_epoch) == (None, 0)
    assert names(step.went_offline) == (T0,)


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({"controller": 4}, "no live broker is the controller now: rehearse again"),
        (
            {"hidden": frozenset({"deletions", "topic_configs", "broker_configs"})},
            "the figures lack topic configs, broker configs, deletions, which the watcher may not read",
        ),
        ({"refused_below": 8}, "brokers refuse a controller with an epoch below 8, .* went back"),
    ],
)
def test_a_rehearsal_without_a_controller_or_facts_to_go_by_is_refused(
    fields: dict[str, Any], why: str
) -> None:
    """The message says what is missing, or when to try again."""
    with pytest.raises(CannotRehearseError, match=why):
        rehearsed("kill-broker:2", **fields)


def test_a_leader_removes_the_dead_members_that_the_controller_leaves() -> None:
    """Of an ISR with a broker that is no replica, at once; where the controller may write nothing, as they die."""
    rehearsal = rehearsed(
        "kill-broker:3",
        "kill-broker:2",
        partitions=[
            part(isr=(1, 9, 3)),
            part(1, controller_epoch=9),
            part(2, controller_epoch=9, isr=(1, 9)),
            part(3, isr=(9,)),
            part(4, leader=3, isr=(3, 1), controller_epoch=9),
        ],
    )
    assert rehearsal.pending_writes == 1  # of the first partition
    assert [
        {each.partition: each.isr for each in step.changes.partitions} for step in rehearsal.steps
    ] == [{0: (1,), 1: (1, 2), 2: (1,)}, {1: (1,)}]


def test_an_epoch_that_cannot_grow_is_named() -> None:
    """A stranger's log may hold one; Kafka's would wrap, and its state could not be read."""
    led = part(replicas=(2, 1), isr=(1, 2), leader=2)
    largest = 2**31 - 1
    with pytest.raises(CannotRehearseError, match="an epoch is near 2147483647"):
        rehearsed("kill-broker:2", partitions=[part(leader=2, leader_epoch=largest)])
    with pytest.raises(CannotRehearseError, match="an epoch is near 2147483647"):
        rehearsed("delete-controller", "kill-broker:2", partitions=[led], controller_epoch=largest)


def test_a_zombie_writes_nothing_and_the_next_controller_makes_its_writes() -> None:
    """A leader that is gone, no leader with two live members, no state: deleting /controller is the cure."""
    cluster = [
        part(leader=4, isr=(4, 2, 3), replicas=(4, 2, 3)),
        part(1, leader=-1, isr=(2, 3), replicas=(2, 3, 4)),
        part(2, leader=None, isr=(), replicas=(3, 4)),
        part(3, leader=2, isr=(2, 3, 4), replicas=(2, 3, 4)),
    ]
    steps = ("preferred-election", "kill-broker:3", "start-broker:3", "delete-controller")
    rehearsal = rehearsed(*steps, partitions=cluster, is_zombie=True)
    assert (rehearsal.pending_writes, rehearsal.is_zombie) == (4, True)
    asked, *others = rehearsal.steps[:3]
    assert asked.refused == "REQUEST_TIMED_OUT"
    for step in (asked, *others):
        assert step.changes.partitions == ()
        assert (step.controller, step.controller_candidates) == (1, ())
    cure = rehearsal.steps[3]
    assert cure.controller_before == 1
    assert cure.controller == 2
    assert cure.controller_candidates == (2, 3)  # an event thread that hangs is never elected
    changed = {each.partition: (each.leader, each.isr) for each in cure.changes.partitions}
    assert changed == {0: (2, (2, 3)), 1: (2, (2, 3)), 2: (3, (3,)), 3: (2, (2, 3))}
    assert names(cure.came_online) == (T0, TopicPartition("t", 1))
    assert cure.elections == {"offline": 2}


def test_a_zombie_that_is_stopped_is_followed_by_another_controller() -> None:
    """Its broker's restart is the other cure; started again, the broker takes part in elections."""
    gone = part(leader=4, isr=(4, 2), replicas=(4, 2))
    steps = ("kill-broker:1", "start-broker:1", "delete-controller")
    stopped, started, deleted = rehearsed(*steps, partitions=[gone], is_zombie=True).steps
    assert (stopped.controller_before, stopped.controller) == (1, 2)
    assert [each.leader for each in stopped.changes.partitions] == [2]
    assert started.controller == 2
    assert deleted.controller_candidates == (1, 2, 3)


def test_a_zombie_that_is_the_only_broker_leaves_nobody_to_elect() -> None:
    """Its event thread handles no election, so /controller stays vacant."""
    step = one("delete-controller", facts=up(1, controller=1, controller_epoch=7), is_zombie=True)
    assert step.controller is None


def test_a_rehearsal_of_a_kraft_cluster_is_refused_in_one_line_that_names_what_if() -> None:
    """Its controller elects by other rules; what brokers' loss would break is counted by these."""
    with pytest.raises(CannotRehearseError, match=r"^a KRaft controller .* kcm what-if") as refused:
        rehearsed("kill-broker:2", facts=msgspec.structs.replace(up(1, 2), is_kraft=True))
    assert "\n" not in str(refused.value)


def test_a_rehearsal_suspends_full_garbage_collections() -> None:
    """They take a quarter of a large one, and pause the exporter; after it they are as before."""
    before = gc.get_threshold()
    gc.set_threshold(10, 1, 1)
    gc.freeze()  # a full collection comes when a quarter of all that is old would be new
    gc.collect()
    try:
        with rehearse._without_full_collections():
            full = gc.get_stats()[2]["collections"]
            assert len([[each] for each in range(10_000)]) == 10_000
            assert gc.get_stats()[2]["collections"] == full
        assert gc.get_threshold() == (10, 1, 1)
    finally:
        gc.unfreeze()
        gc.set_threshold(*before)
