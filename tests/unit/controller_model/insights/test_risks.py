"""What is wrong with an assignment before anything has failed."""

from __future__ import annotations

from controller_model.insights.risks import LeaderSkew, Risk, leader_skew, standing_risks
from tests.support.partition_facts import ALL, part, up


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
