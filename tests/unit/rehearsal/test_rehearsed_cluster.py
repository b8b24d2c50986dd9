"""Changes of a cluster since the last look, by the definitions of the facts."""

from __future__ import annotations

from controller_model.kafka.cluster_facts import PartitionFacts
from controller_model.kafka.ids import TopicPartition
from controller_simulator.cluster.operations import (
    DeleteTopic,
    KillBroker,
    Operation,
    Reassign,
    StartBroker,
)
from rehearsal.build_cluster import build_cluster
from rehearsal.rehearsed_cluster import ClusterChanges, RehearsedCluster
from tests.support.partition_facts import T0, T1, T2, part, up
from tests.support.rehearsing import names, one


class Followed:
    """A cluster of brokers 1, 2, 3, the first being the controller, and the object that follows it."""

    def __init__(self, *partitions: PartitionFacts) -> None:
        facts = up(1, 2, 3, controller=1, controller_epoch=7)
        self.cluster = build_cluster(facts, partitions)
        self.watch = RehearsedCluster(facts, partitions, self.cluster)

    def after(self, *operations: Operation) -> ClusterChanges:
        """Return what these operations change together."""
        for operation in operations:
            assert self.cluster.perform(operation) is None
        return self.watch.observe_changes()


def test_a_look_returns_the_changes_since_the_last_one() -> None:
    """A second look returns nothing new."""
    followed = Followed(part(replicas=(3, 2), leader=3, isr=(3, 2)), part(1))
    seen = followed.after(KillBroker(3))
    assert [
        (each.partition, each.leader, each.isr, each.leader_epoch) for each in seen.changes
    ] == [
        (0, 2, (2,), 1),
        (1, 1, (1, 2), 1),
    ]
    assert seen.leaders_moved == {2: 1}
    assert followed.watch.partitions[T0].isr == (2,)
    assert followed.watch.facts.live == {1, 2}
    assert followed.watch.observe_changes().changes == ()


def test_a_partition_written_leaderless_before_its_election_is_reported() -> None:
    """A failover writes -1 first for partitions of the dead controller, not for others."""
    alone = part(2, replicas=(1,), isr=(1,))
    seen = Followed(part(), part(1, leader=2), alone).after(KillBroker(1))
    assert (seen.leaderless_meanwhile, seen.went_offline) == ((T0,), (T2,))
    assert seen.leaders_moved == {2: 1}


def test_the_controller_and_its_epoch_are_as_of_the_look() -> None:
    """Without a controller the epoch stays as last known."""
    followed = Followed(part())
    followed.after(KillBroker(1))
    facts = followed.watch.facts
    assert (facts.controller, facts.controller_epoch) == (2, 8)
    followed.after(KillBroker(2))
    followed.after(KillBroker(3))
    facts = followed.watch.facts
    assert (facts.controller, facts.controller_epoch, facts.live) == (-1, 9, frozenset())


def test_partitions_go_offline_and_online_without_a_write() -> None:
    """The last broker ends, so no controller can write; when it returns, no write is needed."""
    followed = Followed(part())
    followed.after(KillBroker(3), KillBroker(2))
    gone = followed.after(KillBroker(1))
    assert (gone.went_offline, gone.changes) == ((T0,), ())
    back = followed.after(StartBroker(1))
    assert (back.offline_ended, back.went_offline, back.changes) == ((T0,), (), ())


def test_crossing_min_isr_is_reported_once_each_way() -> None:
    """Falling below, and back; a partition that only shrinks above it is neither."""
    followed = Followed(part(min_isr=3), part(1, min_isr=2))
    down = followed.after(KillBroker(3))
    assert (down.went_under_min_isr, down.under_min_isr_ended) == ((T0,), ())
    assert down.min_isr_unknown == ()
    up_again = followed.after(StartBroker(3))
    assert (up_again.went_under_min_isr, up_again.under_min_isr_ended) == ((), (T0,))


def test_an_offline_partition_is_no_longer_under_min_isr() -> None:
    """Without a leader it counts as offline only; it is not reported as online again."""
    followed = Followed(part(replicas=(3, 2), leader=3, isr=(3,), min_isr=2))
    seen = followed.after(KillBroker(3))
    assert seen.went_offline == (T0,)
    assert (seen.under_min_isr_ended, seen.went_under_min_isr) == ((T0,), ())
    assert followed.watch.led(seen.under_min_isr_ended) == ()


def test_partitions_not_on_their_reassignment_target_are_named() -> None:
    """Missing, still moving, or with other replicas; the order counts, because the first is preferred."""
    watch = Followed(part(), part(1, adding=(3,)), part(2)).watch
    unknown = TopicPartition("u", 0)
    asked = Reassign(((T0, (1, 2, 3)), (T1, (1, 2, 3)), (T2, (2, 1, 3)), (unknown, (1,))))
    assert watch.not_on_target(asked) == (T1, T2, unknown)


def test_only_a_live_replica_could_be_an_unclean_leader() -> None:
    """Only if ZooKeeper does not hold unclean.leader.election.enable."""
    lone = part(isr=(1,))
    dead = part(1, replicas=(8, 9), leader=8, isr=(8,))
    forbidden = part(2, isr=(1,), unclean=False)
    watch = Followed(lone, dead, forbidden).watch
    assert watch.unclean_unknown((T0, T1, T2)) == (T0,)


def test_new_and_deleted_partitions_have_no_leader_epoch() -> None:
    """A new partition, and a deleted one."""
    new = part(replicas=(9,), leader=None, isr=())
    followed = Followed(new, part(topic="u"))
    seen = followed.after(DeleteTopic("t"), DeleteTopic("u"))
    assert [(each.deleted, each.leader, each.leader_epoch) for each in seen.changes] == [
        (False, None, None),
        (True, None, None),
    ]
    assert followed.watch.partitions.keys() == {T0}


def test_a_topic_deletion_marks_all_its_partitions_as_deleting() -> None:
    """A deletion that waits for a dead replica writes no state; then Kafka does not count an offline partition."""
    waits = part(replicas=(9,), leader=9, isr=(9,))
    followed = Followed(waits, part(1), part(topic="u"))
    followed.watch.observe_changes()
    seen = followed.after(DeleteTopic("t"))
    assert [each.partition for each in seen.changes] == [0, 1]
    assert [each.deleting for each in followed.watch.partitions.values()] == [True, True, False]
    assert seen.offline_ended == (T0,)
    assert followed.watch.led((T0, T1, TopicPartition("u", 0), TopicPartition("v", 0))) == (
        TopicPartition("u", 0),
    )


def test_topics_with_the_names_of_other_znodes_are_followed() -> None:
    """A topic may be named `state` or `partitions`, as znodes below a topic are."""
    for name in ("state", "partitions"):
        result = one(f"delete-topic:{name}", partitions=[part(topic=name)])
        assert [(change.topic, change.deleted) for change in result.changes.partitions] == [
            (name, True)
        ]


def test_an_unclean_election_is_reported_or_unknown() -> None:
    """The topic's value counts, then the brokers' in ZooKeeper; without either it is not known."""
    lone = part(isr=(1,))
    for may in (part(isr=(1,), unclean=True), lone):
        facts = up(1, 2, 3, controller=2, controller_epoch=7, broker_unclean={"2": True})
        result = one("kill-broker:1", partitions=[may], facts=facts)
        assert names(result.unclean) == (T0,)
        assert result.elections == {"unclean": 1}
    for setting in ({"2": False, "<default>": True}, {"<default>": False}):
        facts = up(1, 2, 3, controller=2, controller_epoch=7, broker_unclean=setting)
        result = one("kill-broker:1", partitions=[lone], facts=facts)
        assert (result.unclean.count, result.unclean_unknown.count) == (0, 0)
    assert names(one("kill-broker:1", partitions=[lone]).unclean_unknown) == (T0,)


def test_min_insync_replicas_may_not_be_known() -> None:
    """Then a partition that loses a member is named, and none is reported as fallen below it."""
    result = one("stop-broker:3", partitions=[part()], min_isr_assumed=None)
    assert (names(result.went_under_min_isr), names(result.min_isr_unknown)) == ((), (T0,))
