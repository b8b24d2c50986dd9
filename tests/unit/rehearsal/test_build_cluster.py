"""A cluster's facts are placed as znodes as they are known, and nothing else is invented."""

from __future__ import annotations

from controller_model.kafka.cluster_facts import PartitionFacts
from controller_simulator.cluster.operations import DeleteController, StartBroker
from controller_simulator.cluster.simulator import FIRST_SESSION
from rehearsal.build_cluster import RehearsedChoices, build_cluster
from tests.support.partition_facts import T0, part, up
from tests.support.rehearsing import names, one, rehearsed


def test_the_rehearsed_tree_holds_the_znodes_of_the_facts() -> None:
    """Assignments and states in every field, and the configurations on which elections depend."""
    facts = up(
        2, 3, controller=2, controller_epoch=7, broker_unclean={"2": True, "<default>": False}
    )
    moving = part(replicas=(2, 3, 4), leader=2, isr=(2, 3), adding=(4,), removing=(3,))
    going = part(topic="u", leader=3, isr=(3,), leader_epoch=5, controller_epoch=4, unclean=False)
    tree = build_cluster(facts, [moving, going]).tree
    assert tree.children("/brokers/ids") == ("2", "3")
    assert [tree.at(f"/brokers/ids/{broker}").owner for broker in (2, 3)] == [
        FIRST_SESSION - 3,
        FIRST_SESSION - 4,
    ]
    assert tree.at("/controller").owner == FIRST_SESSION - 3
    assert '"brokerid":2' in tree.data("/controller")
    assert tree.data("/controller_epoch") == "7"
    assert tree.data("/brokers/topics/t") == (
        '{"partitions":{"0":[2,3,4]},"adding_replicas":{"0":[4]},"removing_replicas":{"0":[3]},'
        '"version":3}'
    )
    assert tree.data("/brokers/topics/u/partitions/0/state") == (
        '{"controller_epoch":4,"leader":3,"version":1,"leader_epoch":5,"isr":[3]}'
    )
    configured = {
        path: tree.data(path)
        for path in ("/config/brokers/2", "/config/brokers/<default>", "/config/topics/u")
    }
    unclean = '{"version":1,"config":{"unclean.leader.election.enable":"%s"}}'
    assert configured == {
        "/config/brokers/2": unclean % "true",
        "/config/brokers/<default>": unclean % "false",
        "/config/topics/u": unclean % "false",
    }
    assert tree.find("/config/topics/t") is None
    assert tree.children("/admin/delete_topics") == ()


def test_a_starting_broker_writes_only_its_own_registration() -> None:
    """It writes its own registration, and not the znodes that a cluster has once."""
    cluster = build_cluster(up(1, controller=1, controller_epoch=1), [])
    assert cluster.perform(StartBroker(2)) is None
    paths = {write.path for commit in cluster.commits for write in commit.writes}
    assert paths == {"/brokers/ids/2"}


def test_an_epoch_that_is_not_known_is_the_newest_of_the_states() -> None:
    """Below it the controller's writes would be refused; 1 if no partition has one."""
    states = [part(controller_epoch=4), part(1, controller_epoch=9), part(2, controller_epoch=6)]
    assert build_cluster(up(1, controller=1), states).tree.data("/controller_epoch") == "9"
    assert build_cluster(up(1, controller=1), []).tree.data("/controller_epoch") == "1"


def test_only_followers_that_were_behind_a_leader_do_not_keep_up() -> None:
    """Dead replicas are not behind: they catch up when they return. So do those without a leader."""
    behind = part(replicas=(1, 2, 9), isr=(1,))
    leaderless = part(1, replicas=(9, 2), leader=9, isr=(9,))
    choices = build_cluster(up(1, 2, controller=1), [behind, leaderless]).choices
    assert isinstance(choices, RehearsedChoices)
    assert choices.lagging == {(T0, 2)}
    assert not choices.keeps_up(T0, 2)
    assert choices.keeps_up(T0, 9)
    assert choices.keeps_up(leaderless.id, 2)


def test_the_lowest_broker_wins_and_the_others_are_noted() -> None:
    """Each time that /controller is free."""
    cluster = build_cluster(up(1, 2, 3, controller=3, controller_epoch=1), [part()])
    assert isinstance(cluster.choices, RehearsedChoices)
    assert cluster.choices.raced == []
    assert cluster.perform(DeleteController()) is None
    assert cluster.controller is not None
    assert (cluster.controller.id, cluster.choices.raced) == (1, [(1, 2, 3)])
    assert cluster.choices.first((3, 2)) == 2


def test_lagging_followers_stay_out() -> None:
    """It is not known whether they can catch up: the rehearsal keeps them out, and reports that."""
    result = rehearsed("stop-broker:1", partitions=[part(isr=(1,))])
    assert names(result.steps[0].went_offline) == (T0,)
    assert result.pending_writes == 0
    assert "followers out of the ISR" in {each.what for each in result.unknown}


def test_due_leaders_are_elected_before_the_first_step() -> None:
    """A due leader is elected before the first step."""
    result = rehearsed(
        "delete-topic:u",
        partitions=[part(leader=9, isr=(9, 2))],
        facts=up(1, 2, controller=1, controller_epoch=1),
    )
    assert result.pending_writes == 1
    assert result.outages.count == 0


def test_topics_under_deletion_or_without_a_state_are_loaded_unchanged() -> None:
    """A deletion that waits for a dead broker still waits; a partition without a state has none."""
    result = one("start-broker:9", partitions=[part(replicas=(1, 9), deleting=True)])
    assert [change.deleted for change in result.changes.partitions] == [True]
    new = PartitionFacts(topic="t", partition=0, replicas=(9,))
    waits = one("delete-topic:t", partitions=[new])
    assert [(change.leader, change.deleted) for change in waits.changes.partitions] == [
        (None, False)
    ]
