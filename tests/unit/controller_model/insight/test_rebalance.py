"""The next automatic rebalance, and which elections to run by hand."""

from __future__ import annotations

import pytest

from controller_model.insight.rebalance import (
    AutoRebalance,
    Blocked,
    BrokerImbalance,
    blocked_by,
    next_check_at,
    next_rebalance,
    recommend,
)
from controller_model.kafka.ids import TopicPartition
from tests.support.partition_facts import ALL, T0, T1, T2, part, up


def test_the_threshold_is_exceeded_strictly() -> None:
    """One of ten is 10 %: nothing happens. With two of ten, both are elected."""
    led_well = [part(number) for number in range(8)]
    one = [*led_well, part(8), part(9, leader=2)]
    two = [*led_well, part(8, leader=3), part(9, leader=-1)]
    at = next_rebalance(one, ALL, AutoRebalance())
    assert (at.exceeding, at.elect, at.blocked) == ((), (), {})
    (broker,) = recommend(one, ALL).brokers
    assert (broker.broker, broker.preferred, broker.not_led_before) == (1, 10, 1)
    above = next_rebalance(two, ALL, AutoRebalance())
    assert above.exceeding == (1,)
    assert above.elect == (TopicPartition("t", 8), TopicPartition("t", 9))
    assert above.assumed == AutoRebalance(
        auto_leader_rebalance_enable=True,
        leader_imbalance_per_broker_percentage=10,
        leader_imbalance_check_interval_seconds=300,
        reassignments_block=False,
    )


def test_blocked_partitions_are_reported_with_their_reason() -> None:
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
    found = next_rebalance(partitions, cluster, AutoRebalance())
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
    shrinking = [part(0, leader=2), part(1, removing=(3,))]
    old = next_rebalance(shrinking, cluster, AutoRebalance(reassignments_block=True))
    assert (old.elect, old.blocked) == ((), {Blocked.REASSIGNMENT: (T0,)})
    off = next_rebalance(partitions, cluster, AutoRebalance(auto_leader_rebalance_enable=False))
    assert (off.elect, off.exceeding) == ((), found.exceeding)
    assert blocked_by(part(0, leader=2, deleting=True), cluster) is Blocked.TOPIC_BEING_DELETED
    assert blocked_by(part(0, leader=2, controller_epoch=5), ALL) is None


def test_a_broker_without_preferred_partitions_is_balanced() -> None:
    """0 of 0 is no imbalance; partitions without replicas or state are ignored."""
    assert BrokerImbalance(broker=1, preferred=0, not_led=0).ratio == 0.0
    (broker,) = recommend([part(replicas=(), leader=-1), part(1, leader=None)], ALL).brokers
    assert (broker.broker, broker.preferred, broker.not_led_before) == (1, 1, 0)


@pytest.mark.parametrize(
    ("now", "expected"),
    [(0, 6_000), (6_000, 6_000), (6_001, 306_000), (306_000, 306_000), (306_001, 606_000)],
)
def test_the_next_check_comes_after_5_s_and_then_every_interval(now: int, expected: int) -> None:
    """Counted from the election; at exactly the time of a check it is that check."""
    assert next_check_at(1_000, now) == expected


def test_no_check_comes_where_rebalancing_is_off() -> None:
    """auto.leader.rebalance.enable=false; and another interval is another interval."""
    assert next_check_at(0, 0, AutoRebalance(auto_leader_rebalance_enable=False)) is None
    every_10 = AutoRebalance(leader_imbalance_check_interval_seconds=10)
    assert next_check_at(0, 5_001, every_10) == 15_000


def test_a_recommendation_lists_the_worst_broker_first_in_chunks() -> None:
    """Broker 2 leads none of its partitions, broker 1 half: 2 is the first; the JSON is the tool's."""
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
    changes = [(b.broker, b.not_led_before, b.not_led_after) for b in wanted.brokers]
    assert changes == [(2, 2, 0), (3, 1, 1), (1, 1, 0)]
    assert [(b.preferred, b.ratio_before, b.ratio_after) for b in wanted.brokers] == [
        (2, 1.0, 0.0),
        (1, 1.0, 1.0),
        (2, 0.5, 0.0),
    ]
    assert wanted.blocked == {Blocked.NOT_IN_ISR: (TopicPartition("t", 4),)}
    assert len(recommend(partitions, ALL).chunks) == 1


def test_nothing_is_recommended_for_a_balanced_cluster() -> None:
    """No chunk, and the imbalance stays 0."""
    wanted = recommend([part(), part(1, leader=None, isr=())], ALL)
    assert (wanted.chunks, wanted.imbalance_before, wanted.imbalance_after) == ((), 0, 0)


def test_a_replica_that_is_still_added_stays_in_the_gauge_when_it_leads() -> None:
    """Kafka's quirk: electing it does not lower PreferredReplicaImbalanceCount."""
    wanted = recommend([part(leader=2, adding=(1,))], ALL)
    assert (wanted.imbalance_before, wanted.imbalance_after) == (1, 1)
    assert wanted.chunks[0].partitions == (T0,)
