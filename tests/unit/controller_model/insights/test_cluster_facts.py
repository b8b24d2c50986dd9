"""What operators are told: losses, safety, balance, risks, flapping; in words and in numbers."""

from __future__ import annotations

from typing import Any

import pytest

from controller_model.insights import loss
from controller_model.insights.cluster_facts import (
    ClusterFacts,
    PartitionFacts,
    cluster_facts,
    counted,
    has_preferred_leader,
    named,
    partitions_in,
)
from controller_model.insights.flapping import (
    Blame,
    controller_flapping,
    isr_flapping,
)
from controller_model.insights.loss import Loss, StopRisk, lose, lose_each, safety, settled
from controller_model.insights.rebalance import (
    AutoRebalance,
    Blocked,
    BrokerImbalance,
    blocked_by,
    next_check_at,
    next_rebalance,
    recommend,
)
from controller_model.insights.risks import LeaderSkew, Risk, leader_skew, standing_risks
from controller_model.insights.writes_due import DueWrite, due_writes, verdict_of
from controller_model.kafka.errors import ModelError
from controller_model.kafka.ids import Position, TopicPartition
from controller_model.records.completeness import Status
from controller_model.records.events import ControllerElected, IsrShrunk
from controller_model.records.predictions import Due, Verdict
from controller_model.records.views import BrokerView, ClusterView, TopicView
from tests.support.histories import Fold, small_cluster


def part(number: int = 0, **fields: Any) -> PartitionFacts:
    """Return a partition of t on brokers 1, 2, 3, led by 1, all in sync, but for these fields."""
    usual: dict[str, Any] = {"topic": "t", "replicas": (1, 2, 3), "leader": 1, "isr": (1, 2, 3)}
    return PartitionFacts(partition=number, **(usual | fields))


def up(*live: int, **fields: Any) -> ClusterFacts:
    """Return a cluster of these live brokers."""
    return ClusterFacts(live=frozenset(live), **fields)


T0, T1, T2 = (TopicPartition("t", number) for number in range(3))
ALL = up(1, 2, 3)


# --- facts --------------------------------------------------------------------------------------


def test_facts_are_read_from_views() -> None:
    """Brokers, racks, ends, configurations and partitions, as the views hold them."""
    history = small_cluster(t={0: (0, 1, 2), 1: (1, 2), 2: (2, 0)})
    history.broker(3, rack="r1")
    history.broker_gone(2)
    history.topic("t", {0: (0, 1, 2), 1: (1, 2), 2: (2, 0)}, adding={0: (0,)}, removing={1: (2,)})
    history.delete("/brokers/topics/t/partitions/2/state")
    history.state("t", 0, leader=0, isr=(0, 1), leader_epoch=7, controller_epoch=1)
    history.set("/config/brokers/1", {"version": 1, "config": {"min.insync.replicas": "2"}})
    unclean = "unclean.leader.election.enable"
    history.set(
        "/config/topics/t",
        {"version": 1, "config": {"min.insync.replicas": "3", unclean: "true"}},
    )
    history.set("/config/brokers/<default>", {"version": 1, "config": {unclean: "true"}})
    fold = Fold(min_isr=4)
    fold.follow(history)
    views = list(fold.views().values())
    (view,) = (view for view in views if isinstance(view, ClusterView))
    cluster = cluster_facts(view, (view for view in views if isinstance(view, BrokerView)))
    assert cluster.live == {0, 1, 3}
    assert (cluster.controller, cluster.controller_epoch) == (0, 1)
    assert cluster.racks == {0: None, 1: None, 2: None, 3: "r1"}
    assert list(cluster.gone_since) == [2]
    assert cluster.in_rack("r1") == {3}
    assert cluster.in_rack("r2") == frozenset()
    assert (cluster.broker_min_isr, cluster.min_isr_assumed) == ({"1": 2}, 4)
    assert cluster.broker_unclean == {"<default>": True}
    (topic,) = (view for view in views if isinstance(view, TopicView))
    assert list(partitions_in(topic)) == [
        PartitionFacts(
            topic="t", partition=0, replicas=(0, 1, 2), leader=0, isr=(0, 1), leader_epoch=7,
            controller_epoch=1, adding=(0,), min_isr=3, unclean=True,
        ),
        PartitionFacts(
            topic="t", partition=1, replicas=(1, 2), leader=1, isr=(1, 2), controller_epoch=1,
            removing=(2,), min_isr=3, unclean=True,
        ),
        PartitionFacts(topic="t", partition=2, replicas=(2, 0), min_isr=3, unclean=True),
    ]  # fmt: skip


def test_min_isr_comes_from_the_topic_then_the_leaders_broker_then_the_default() -> None:
    """Kafka's order of sources, and never more than there are replicas."""
    cluster = up(1, 2, broker_min_isr={"1": 2}, min_isr_assumed=3)
    assert cluster.min_isr_of(part(min_isr=1)) == 1
    assert cluster.min_isr_of(part()) == 2
    assert cluster.min_isr_of(part(), leader=2) == 3
    assert cluster.min_isr_of(part(replicas=(1, 2)), leader=2) == 2
    defaults = up(broker_min_isr={"<default>": 1}, min_isr_assumed=3)
    assert defaults.min_isr_of(part()) == 1


def test_unclean_comes_from_the_topic_then_the_controllers_broker_then_the_default() -> None:
    """It is the controller that elects: its own configuration counts, not the leader's."""
    assert not ALL.unclean_of(part())
    assert up(1, unclean_assumed=True).unclean_of(part())
    assert not up(1, unclean_assumed=True).unclean_of(part(unclean=False))
    brokers = {"1": True, "2": False, "<default>": True}
    assert up(1, controller=1, broker_unclean=brokers).unclean_of(part())
    assert not up(1, controller=2, broker_unclean=brokers).unclean_of(part())
    assert up(1, controller=3, broker_unclean=brokers).unclean_of(part())
    assert up(1, controller=2, broker_unclean=brokers).unclean_of(part(unclean=True))


def test_offline_and_under_min_isr_are_kafkas() -> None:
    """Without a state, or in a topic being deleted, a partition is neither."""
    cluster = up(1, min_isr_assumed=2)
    assert cluster.is_offline(part(leader=-1))
    assert cluster.is_offline(part(leader=2))
    assert not cluster.is_offline(part())
    assert not cluster.is_offline(part(leader=None))
    assert not cluster.is_offline(part(leader=-1, deleting=True))
    assert cluster.is_under_min_isr(part(isr=(1,)))
    assert not cluster.is_under_min_isr(part(isr=(1, 2)))
    assert not cluster.is_under_min_isr(part(isr=(1,), leader=2))
    assert not cluster.is_under_min_isr(part(isr=(1,), deleting=True))


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({}, True),
        ({"leader": 2}, False),
        ({"leader": -1}, False),
        ({"leader": 2, "adding": (1,), "isr": (2, 3)}, True),
        ({"leader": 1, "adding": (1,)}, False),
        ({"replicas": ()}, True),
    ],
)
def test_the_gauge_leaves_out_a_preferred_replica_that_is_still_added(
    fields: dict[str, Any], expected: bool
) -> None:
    """hasPreferredLeader: exempt until in the ISR, and then counted even if it leads."""
    assert has_preferred_leader(part(**fields)) is expected


def test_a_few_are_named_and_all_are_counted() -> None:
    """Three names, then dots."""
    assert named([T0, T1, T2]) == "t-0, t-1, t-2"
    assert named([T0, T1, T2, T0]) == "t-0, t-1, t-2, ..."
    assert (counted(0, "leader"), counted(1, "leader")) == ("0 leaders", "1 leader")


# --- losses and safety --------------------------------------------------------------------------


def test_a_lost_leader_goes_to_the_first_in_sync_replica() -> None:
    """In the order of the assignment; the dead leave the ISR, the others stay in its order."""
    assert settled(part(isr=(3, 1, 2)), ALL, {2, 3}) == (2, (3, 2), False)
    assert settled(part(isr=(1, 3)), ALL, {2, 3}) == (3, (3,), False)
    assert settled(part(isr=(1, 3)), ALL, {1, 2}) == (1, (1,), False)
    assert settled(part(isr=(1,)), ALL, {2, 3}) == (-1, (1,), False)
    assert settled(part(isr=(1,), unclean=True), ALL, {2, 3}) == (2, (2,), True)
    assert settled(part(leader=None, isr=()), ALL, {2, 3}) == (-1, (), False)


def test_what_a_loss_does_is_told_partition_by_partition() -> None:
    """One of each kind."""
    partitions = [
        part(0),
        part(1, isr=(1,)),
        part(2, isr=(1, 2), min_isr=2),
        part(3, leader=-1, isr=(1,)),
        part(4, isr=(1,), unclean=True),
        part(5, leader=2, isr=(2, 3)),
        part(6, deleting=True, isr=(1,)),
        part(7, leader=None, isr=()),
        part(8, leader=4, isr=(4, 1)),
        part(9, isr=(1, 2), min_isr=3),
        part(10, leader=-1, isr=(1, 5), unclean=False, replicas=(5, 1)),
        part(11, leader=-1, isr=(1, 5), replicas=(5,)),
    ]
    loss = lose(partitions, ALL, {1, 9})
    assert loss == Loss(
        brokers=(1,),
        offline=(T1,),
        stranded=tuple(TopicPartition("t", number) for number in (3, 8, 10)),
        under_min_isr=(T2,),
        unclean=(TopicPartition("t", 4),),
        moved={2: 4},
        leaders_after={2: 5},
    )
    assert lose_each(partitions, ALL)[1] == loss


def test_each_kind_of_partition_is_thought_about_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Names and epochs make no kind, all else does; beyond a number of kinds it begins anew."""
    seen: list[PartitionFacts] = []

    def think(partition: PartitionFacts) -> PartitionFacts:
        seen.append(partition)
        return partition

    alike = [part(0), part(1, leader_epoch=7, controller_epoch=9), part(2, topic="u")]
    others = [
        part(replicas=(2, 1, 3)),
        part(isr=(1, 2)),
        part(leader=2),
        part(adding=(3,)),
        part(removing=(3,)),
        part(min_isr=1),
        part(unclean=False),
        part(deleting=True),
    ]
    kinds = loss.ByKind(think)
    assert [kinds.of(each) for each in (*alike, *others)] == [*[alike[0]] * 3, *others]
    assert seen == [alike[0], *others]
    monkeypatch.setattr(loss, "KINDS_KEPT", 2)
    seen.clear()
    few = loss.ByKind(think)
    for each in (alike[0], others[0], others[0], others[1], alike[1]):
        few.of(each)
    assert seen == [alike[0], others[0], others[1], alike[1]]


def test_a_rack_and_a_pair_are_lost_together() -> None:
    """What two brokers cover for each other goes when both do."""
    racks = up(1, 2, 3, racks={1: "a", 2: "a", 3: "b"})
    partitions = [part(0, isr=(1, 2)), part(1, isr=(1, 3))]
    assert lose(partitions, racks, {1}).offline == ()
    both = lose(partitions, racks, racks.in_rack("a"))
    assert (both.brokers, both.offline, both.moved) == ((1, 2), (T0,), {3: 1})
    assert both.leaders_after == {3: 1}
    assert lose(partitions, racks, {1, 2}) == both


def test_a_broker_without_a_part_in_a_partition_is_not_blamed_for_it() -> None:
    """A member that died before leaves the ISR anyway: that is not the doing of another loss."""
    dying = part(replicas=(1, 9, 2), isr=(1, 9), min_isr=2)
    assert lose([dying], ALL, {3}) == Loss(brokers=(3,), leaders_after={1: 1})
    assert lose([dying], ALL, {2}) == Loss(brokers=(2,), leaders_after={1: 1})
    assert lose_each([dying], ALL)[2] == Loss(brokers=(2,), leaders_after={1: 1})


def test_a_replica_out_of_sync_matters_to_an_unclean_election_only() -> None:
    """It is the last that could lead; what is offline now loses no data and moves no leader."""
    offline = part(replicas=(9, 1), leader=-1, isr=(9,), unclean=True)
    assert lose([offline], ALL, {1}).stranded == (T0,)
    assert lose_each([offline], ALL)[1].stranded == (T0,)
    other_left = part(replicas=(9, 1, 2), leader=-1, isr=(9,), unclean=True)
    assert lose([other_left], ALL, {1}) == Loss(brokers=(1,))
    clean = part(replicas=(9, 1), leader=-1, isr=(9,))
    assert lose([clean], ALL, {1}) == Loss(brokers=(1,))


def test_the_new_leaders_own_min_isr_decides() -> None:
    """A partition may fall below min.insync.replicas because another broker asks for more."""
    cluster = up(1, 2, 3, broker_min_isr={"2": 3})
    assert lose([part()], cluster, {1}).under_min_isr == (T0,)
    assert lose([part()], cluster, {3}).under_min_isr == ()


def test_safe_to_stop_says_yes_with_what_will_happen() -> None:
    """No reason against it: yes; that it is the controller, and who leads then, are notes."""
    cluster = up(1, 2, 3, controller=1)
    verdict = safety(lose([part(), part(1)], cluster, {1}), cluster)
    assert (verdict.safe, verdict.reasons) == (True, ())
    assert verdict.notes == (
        "the controller is among them: another broker is elected",
        "2 leaders would move: 2 to broker 2",
    )
    assert safety(lose([part()], cluster, {3}), cluster).notes == ()


def test_safe_to_stop_says_no_and_why() -> None:
    """Every reason with its number and examples, the worst first."""
    partitions = [
        *(part(n, isr=(1,)) for n in range(5)),
        part(5, isr=(1, 2), min_isr=2),
        part(6, leader=-1, isr=(1,)),
        part(7, isr=(1,), unclean=True),
    ]
    verdict = safety(lose(partitions, ALL, {1}), ALL)
    assert verdict.safe is False
    assert [(reason.risk, reason.text) for reason in verdict.reasons] == [
        (
            StopRisk.OFFLINE,
            "5 partitions (t-0, t-1, t-2, ...) would go offline: no other replica is in sync",
        ),
        (
            StopRisk.STRANDED,
            "1 partition (t-6) offline now would lose the last replica that could lead again",
        ),
        (
            StopRisk.UNCLEAN,
            "1 partition (t-7) would get a leader that is not in sync: data is lost",
        ),
        (
            StopRisk.UNDER_MIN_ISR,
            (
                "1 partition (t-5) would fall below min.insync.replicas: producers with acks=all "
                "are refused"
            ),
        ),
    ]
    assert [len(reason.partitions) for reason in verdict.reasons] == [5, 1, 1, 1]


def test_a_broker_that_is_not_there_cannot_be_stopped() -> None:
    """Neither yes nor no."""
    verdict = safety(lose([part()], ALL, {9}), ALL)
    assert verdict.safe is None
    assert [reason.risk for reason in verdict.reasons] == [StopRisk.NOT_LIVE]


# --- balance ------------------------------------------------------------------------------------


def test_the_threshold_is_exceeded_strictly() -> None:
    """One of ten is 10 %: nothing happens; two of ten, and both are elected."""
    led_well = [part(number) for number in range(8)]
    one = [*led_well, part(8), part(9, leader=2)]
    two = [*led_well, part(8, leader=3), part(9, leader=-1)]
    at = next_rebalance(one, ALL)
    assert (at.exceeding, at.elect, at.blocked) == ((), (), {})
    assert at.brokers == (BrokerImbalance(broker=1, preferred=10, not_led=1),)
    above = next_rebalance(two, ALL)
    assert above.exceeding == (1,)
    assert above.elect == (TopicPartition("t", 8), TopicPartition("t", 9))
    assert above.assumed == AutoRebalance(
        auto_leader_rebalance_enable=True,
        leader_imbalance_per_broker_percentage=10,
        leader_imbalance_check_interval_seconds=300,
        reassignments_block=False,
    )


def test_what_is_blocked_is_told_with_its_reason() -> None:
    """Not live, not in sync, newer epoch, deleted; a reassignment blocks old controllers only."""
    partitions = [
        part(0, leader=2),
        part(1, leader=2, isr=(2, 3)),
        part(2, leader=2, controller_epoch=5),
        part(3, replicas=(9, 1), leader=1, isr=(1,)),
        part(4, leader=2, deleting=True),
        part(5, leader=3, adding=(3,)),
        part(6, leader=None, isr=()),
        part(7, deleting=True),
    ]
    cluster = up(1, 2, 3, controller_epoch=4)
    found = next_rebalance(partitions, cluster)
    assert found.elect == (T0, TopicPartition("t", 5))
    assert found.blocked == {
        Blocked.TOPIC_BEING_DELETED: (TopicPartition("t", 4),),
        Blocked.NOT_LIVE: (TopicPartition("t", 3),),
        Blocked.NOT_IN_ISR: (T1,),
        Blocked.NEWER_CONTROLLER_EPOCH: (T2,),
    }
    old = next_rebalance(partitions, cluster, AutoRebalance(reassignments_block=True))
    assert old.elect == ()
    assert len(old.blocked[Blocked.REASSIGNMENT]) == 5
    off = next_rebalance(partitions, cluster, AutoRebalance(auto_leader_rebalance_enable=False))
    assert (off.elect, off.exceeding) == ((), found.exceeding)
    assert blocked_by(part(0, leader=2, deleting=True), cluster) is Blocked.TOPIC_BEING_DELETED
    assert blocked_by(part(0, leader=2, controller_epoch=5), ALL) is None


def test_a_broker_without_preferred_partitions_is_balanced() -> None:
    """0 of 0 is no imbalance; partitions without replicas or state are nobody's."""
    assert BrokerImbalance(broker=1, preferred=0, not_led=0).ratio == 0.0
    found = next_rebalance([part(replicas=(), leader=-1), part(1, leader=None)], ALL)
    assert found.brokers == (BrokerImbalance(broker=1, preferred=1, not_led=0),)


@pytest.mark.parametrize(
    ("now", "expected"),
    [(0, 6_000), (6_000, 6_000), (6_001, 306_000), (306_000, 306_000), (306_001, 606_000)],
)
def test_the_next_check_comes_after_5_s_and_then_every_interval(now: int, expected: int) -> None:
    """Counted from the election; exactly at a check it is that one."""
    assert next_check_at(1_000, now) == expected


def test_no_check_comes_where_rebalancing_is_off() -> None:
    """auto.leader.rebalance.enable=false; and another interval is another interval."""
    assert next_check_at(0, 0, AutoRebalance(auto_leader_rebalance_enable=False)) is None
    every_10 = AutoRebalance(leader_imbalance_check_interval_seconds=10)
    assert next_check_at(0, 5_001, every_10) == 15_000


def test_a_recommendation_goes_worst_broker_first_in_chunks() -> None:
    """Broker 2 leads none of its own, broker 1 half: 2 comes first; the tool's JSON."""
    partitions = [
        part(0),
        part(1, leader=3),
        part(2, replicas=(2, 1), leader=1, isr=(1, 2)),
        part(3, replicas=(2, 1), leader=1, isr=(2, 1)),
        part(4, replicas=(3, 1), leader=1, isr=(1,)),
    ]
    wanted = recommend(partitions, ALL, partitions_per_chunk=2)
    assert [chunk.json for chunk in wanted.chunks] == [
        '{"partitions":[{"topic":"t","partition":2},{"topic":"t","partition":3}]}',
        '{"partitions":[{"topic":"t","partition":1}]}',
    ]
    assert [chunk.imbalance_after for chunk in wanted.chunks] == [2, 1]
    assert (wanted.imbalance_before, wanted.imbalance_after) == (4, 1)
    assert [(b.broker, b.not_led) for b in wanted.brokers_before] == [(2, 2), (3, 1), (1, 1)]
    assert [(b.broker, b.not_led) for b in wanted.brokers_after] == [(2, 0), (3, 1), (1, 0)]
    assert wanted.blocked == {Blocked.NOT_IN_ISR: (TopicPartition("t", 4),)}
    assert len(recommend(partitions, ALL).chunks) == 1


def test_nothing_is_recommended_for_a_balanced_cluster() -> None:
    """No chunk, and the imbalance stays 0."""
    wanted = recommend([part(), part(1, leader=None, isr=())], ALL)
    assert (wanted.chunks, wanted.imbalance_before, wanted.imbalance_after) == ((), 0, 0)
    with pytest.raises(ModelError, match="0 partitions"):
        recommend([], ALL, partitions_per_chunk=0)


def test_a_replica_that_is_still_added_stays_in_the_gauge_when_it_leads() -> None:
    """Kafka's quirk: electing it does not lower PreferredReplicaImbalanceCount."""
    wanted = recommend([part(leader=2, adding=(1,))], ALL)
    assert (wanted.imbalance_before, wanted.imbalance_after) == (1, 1)
    assert wanted.chunks[0].partitions == (T0,)


def test_skew_is_what_the_assignment_makes_uneven() -> None:
    """Three preferred on 1, one on 2, none on 3: shares of 4/3."""
    partitions = [
        *(part(number) for number in range(3)),
        part(3, replicas=(2, 1)),
        part(4, deleting=True),
        part(5, replicas=()),
    ]
    skews = leader_skew(partitions, ALL)
    assert [(skew.broker, skew.preferred) for skew in skews] == [(1, 3), (2, 1), (3, 0)]
    assert [round(skew.ratio, 3) for skew in skews] == [1.25, -0.25, -1.0]
    assert leader_skew(partitions, up()) == ()
    assert leader_skew([], up(1)) == (LeaderSkew(broker=1, preferred=0, fair_share=0.0),)
    assert leader_skew([], up(1))[0].ratio == 0.0
    assert [skew.preferred for skew in leader_skew(partitions, up(2))] == [1]


# --- standing risks -----------------------------------------------------------------------------


def test_standing_risks_are_told_in_words() -> None:
    """One of each, with partitions and brokers."""
    cluster = up(
        1,
        2,
        3,
        4,
        5,
        racks={1: "a", 2: "a", 3: "b", 4: None, 9: "b"},
        gone_since={8: 100, 9: 1_000},
    )
    partitions = [
        part(0, replicas=(3,), leader=3, isr=(3,)),
        part(1, replicas=(1, 3), min_isr=2),
        part(2, replicas=(1, 2)),
        part(3, replicas=(1, 8, 7)),
        part(4, replicas=(3, 9)),
        part(5, replicas=(3,), deleting=True),
        part(6, replicas=(), leader=None),
        part(7, replicas=(4, 1)),
        part(8, replicas=(3, 1), min_isr=1),
        part(9, replicas=(4, 5)),
    ]
    told = standing_risks(partitions, cluster, now=1_100, long_gone_ms=1_000)
    assert [(risk.risk, risk.text, risk.brokers) for risk in told] == [
        (
            Risk.REPLICATION_FACTOR_1,
            "1 partition (t-0) with a single replica: offline as soon as its broker is",
            (),
        ),
        (
            Risk.MIN_ISR_BLOCKS,
            (
                "1 partition (t-1) with min.insync.replicas not below the replication factor: no "
                "broker of theirs can stop without refusing acks=all"
            ),
            (),
        ),
        (
            Risk.REPLICAS_ON_GONE_BROKERS,
            "1 partition (t-3) with replicas on brokers that are long gone: 7, 8",
            (7, 8),
        ),
        (
            Risk.ONE_RACK,
            "2 partitions (t-2, t-4) with all replicas in one rack, though the cluster has others",
            (),
        ),
    ]
    one_rack = up(1, 2, racks={1: "a", 2: "a"})
    assert standing_risks([part(2, replicas=(1, 2))], one_rack, now=0) == ()


def test_a_broker_is_long_gone_after_a_day() -> None:
    """A restart is no standing risk; to the millisecond."""
    cluster = up(1, gone_since={9: 1_000})
    partitions = [part(replicas=(1, 9))]
    assert standing_risks(partitions, cluster, now=86_400_999) == ()
    assert len(standing_risks(partitions, cluster, now=86_401_000)) == 1


# --- writes that are due ------------------------------------------------------------------------


def due(*partitions: PartitionFacts, cluster: ClusterFacts = ALL) -> list[DueWrite]:
    """Return the writes that are due in these partitions."""
    return list(due_writes(partitions, cluster))


def test_each_due_write_says_what_would_be_written() -> None:
    """A new leader, none, a removal, a leader that is back, a first state."""
    cluster = up(1, 2, 3, gone_since={8: None, 9: 50, 7: 40})
    assert due(part(leader=9, isr=(9, 3, 2)), cluster=cluster) == [
        DueWrite(kind=Due.NEW_LEADER, partition=T0, since=50, leader=2, isr=(3, 2))
    ]
    assert due(part(leader=9, isr=(9,)), cluster=cluster) == [
        DueWrite(kind=Due.NEW_LEADER, partition=T0, since=50, leader=-1, isr=None)
    ]
    assert due(part(isr=(9, 1, 7, 8)), cluster=cluster) == [
        DueWrite(kind=Due.ISR_REMOVAL, partition=T0, since=40, isr=(1,))
    ]
    assert due(part(isr=(1, 8)), cluster=cluster)[0].since is None
    assert due(part(leader=-1, isr=(3,))) == [
        DueWrite(kind=Due.LEADER_BACK, partition=T0, leader=3, isr=(3,), sure=False)
    ]
    assert due(part(leader=-1, isr=(9,))) == []
    assert due(part(leader=None, isr=(), replicas=(9, 3, 2))) == [
        DueWrite(kind=Due.FIRST_STATE, partition=T0, leader=3, isr=(3, 2))
    ]
    assert due(part(leader=None, isr=(), replicas=(9,))) == []
    assert due(part()) == []


def test_broker_0_leads_like_any_other() -> None:
    """Its id is not "no leader": dead it is to be followed, in a deletion it is to be written off."""
    (write,) = due(part(replicas=(0, 1), leader=0, isr=(0, 1)))
    assert (write.kind, write.leader, write.sure) == (Due.NEW_LEADER, 1, True)
    (deletion,) = due(part(replicas=(0,), leader=0, isr=(0,), deleting=True), cluster=up(0))
    assert (deletion.kind, deletion.leader) == (Due.TOPIC_DELETION, -1)


def test_a_reassignment_is_due_when_its_target_is_in_sync() -> None:
    """Phase B: the leader stays if it is a target, else the first target leads."""
    moving = part(replicas=(2, 3, 1), adding=(2,), removing=(1,), leader=1, isr=(1, 3, 2))
    assert due(moving) == [DueWrite(kind=Due.REASSIGNMENT, partition=T0, leader=2, isr=(3, 2))]
    staying = part(replicas=(2, 3, 1), adding=(2,), removing=(1,), leader=3, isr=(3, 2))
    assert due(staying)[0].leader == 3
    assert due(part(replicas=(2, 3, 1), adding=(2,), removing=(1,), isr=(1, 3))) == []
    assert due(part(replicas=(1,), removing=(1,), isr=(1,))) == []


def test_a_deletion_is_due_unless_any_partition_halts_it() -> None:
    """One dead replica or reassignment makes the whole topic ineligible; others go on."""
    begun = part(1, deleting=True, leader=-1)
    other = part(0, topic="u", deleting=True)
    told = [
        DueWrite(kind=Due.TOPIC_DELETION, partition=other.id, leader=-1),
    ]
    assert due(part(deleting=True), begun, part(2, deleting=True, leader=None), other) == [
        DueWrite(kind=Due.TOPIC_DELETION, partition=T0, leader=-1),
        *told,
    ]
    assert due(part(deleting=True), part(1, deleting=True, replicas=(1, 9)), other) == told
    assert due(part(deleting=True), part(1, deleting=True, adding=(2,)), other) == told


def test_a_reader_of_old_figures_gives_no_verdict() -> None:
    """Unless the figures are live, what the controller is worth is unknown."""
    history = small_cluster()
    history.heartbeat()
    fold = Fold()
    fold.follow(history)
    view = fold.cluster_view()
    assert verdict_of(view, Status.LIVE) is Verdict.NOT_NEEDED
    assert all(
        verdict_of(view, status) is Verdict.UNKNOWN for status in Status if status != Status.LIVE
    )


# --- flapping -----------------------------------------------------------------------------------


def shrink(
    at: int, leader: int, *who: int, partition: int = 0, by_controller: bool = False
) -> IsrShrunk:
    """Return the event of an ISR that shrank."""
    return IsrShrunk(
        at=at,
        position=Position(1, at),
        who=who,
        leader=leader,
        by_controller=by_controller,
        partitions=(TopicPartition("t", partition),),
    )


def test_a_partition_flaps_from_the_third_shrink_in_the_window_on() -> None:
    """The window is open at its start and closed at its end."""
    events = [shrink(at, 1, 2) for at in (100, 101, 150, 200)] + [shrink(201, 1, 2)]
    found = isr_flapping(events, now=200, window_ms=100)
    assert (found.since, found.until, found.partitions) == (100, 200, {T0: 3})
    assert isr_flapping(events, now=200, window_ms=99).partitions == {}
    assert isr_flapping(events, now=200, window_ms=99, times=2).partitions == {T0: 2}
    assert isr_flapping(events, now=200, window_ms=99).blames == ()


def test_a_replica_that_leaves_under_many_leaders_is_to_blame() -> None:
    """Broker 3 leaves under 1 and 2, nobody else does."""
    events = [shrink(at, leader, 3, partition=leader) for at in (1, 2, 3) for leader in (1, 2)]
    found = isr_flapping(events, now=3, window_ms=10)
    assert found.partitions == {T1: 3, T2: 3}
    assert found.blames == (Blame(broker=3, as_replica=6),)
    assert found.blames[0].leaves == 6
    assert Blame(broker=3, as_replica=6, as_leader=1).leaves == 7


def test_a_leader_that_many_leave_is_to_blame() -> None:
    """2 and 3 leave under 1 and under nobody else."""
    events = [shrink(at, 1, 2, 3) for at in (1, 2, 3)]
    assert isr_flapping(events, now=3, window_ms=10).blames == (Blame(broker=1, as_leader=6),)


def test_one_follower_of_one_leader_is_the_slow_one() -> None:
    """The usual case: the replica is suspected."""
    events = [shrink(at, 1, 2) for at in (1, 2, 3)]
    assert isr_flapping(events, now=3, window_ms=10).blames == (Blame(broker=2, as_replica=3),)


def test_many_to_many_is_not_explained() -> None:
    """Everybody leaves everybody: a network, perhaps; nobody is blamed."""
    events = [
        shrink(at, leader, *({1, 2, 3} - {leader}), partition=leader)
        for at in (1, 2, 3)
        for leader in (1, 2, 3)
    ]
    found = isr_flapping(events, now=3, window_ms=10)
    assert (found.blames, found.unexplained) == ((), 18)


def test_what_the_controller_removed_was_dead() -> None:
    """A broker that dies again and again is to blame, whoever led; it tells nothing of leaders."""
    events = [shrink(at, 1, 2, 3, by_controller=True) for at in (1, 2, 3)]
    events += [shrink(at, 1, 4, partition=1) for at in (1, 2, 3)]
    found = isr_flapping(events, now=3, window_ms=10)
    assert found.blames == tuple(Blame(broker=broker, as_replica=3) for broker in (2, 3, 4))


def test_the_worst_comes_first() -> None:
    """Partitions by how often, then by name; suspects by leaves, then by id."""
    events = [shrink(at, 1, 2, partition=2) for at in (1, 2, 3)]
    events += [shrink(at, 3, 4, partition=0) for at in (1, 2, 3)]
    events += [shrink(at, 5, 6, partition=1) for at in (1, 2, 3, 4)]
    found = isr_flapping(events, now=4, window_ms=10)
    assert list(found.partitions) == [T1, T0, T2]
    assert [blame.broker for blame in found.blames] == [6, 2, 4]


def test_only_flapping_partitions_are_blamed_for_but_all_shrinks_tell() -> None:
    """Shrinks of quiet partitions show that a leader loses many, and count for nobody."""
    events = [shrink(at, 1, 2) for at in (1, 2, 3)] + [shrink(3, 1, 3, partition=1)]
    found = isr_flapping(events, now=3, window_ms=10)
    assert (found.partitions, found.blames) == ({T0: 3}, (Blame(broker=1, as_leader=3),))


def election(at: int, before: int, after: int, missed: int = 0) -> ControllerElected:
    """Return the event of a controller election."""
    return ControllerElected(
        at=at,
        position=Position(1, at),
        from_broker=before,
        to_broker=after,
        epoch=None,
        missed_elections=missed,
    )


def test_a_controller_flaps_from_the_third_election_in_the_window_on() -> None:
    """Missed ones count; a change of id counts only where both are known and differ."""
    events = [election(100, 0, 1), election(101, -1, 1), election(150, 1, 1), election(200, 1, 2)]
    found = controller_flapping(events, now=200, window_ms=100)
    assert (found.elections, found.id_changes, found.flapping) == (3, 1, True)
    assert (found.since, found.until) == (100, 200)
    fewer = controller_flapping(events, now=199, window_ms=99)
    assert (fewer.elections, fewer.flapping) == (2, False)
    missed = controller_flapping([election(5, 0, 1, missed=2)], now=5, window_ms=1)
    assert (missed.elections, missed.flapping) == (3, True)
