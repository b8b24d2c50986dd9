"""Pairs of brokers that break more together than each alone."""

from __future__ import annotations

from controller_model.insight.loss import StopRisk
from controller_model.insight.pairs import lose_pairs
from tests.support.partition_facts import ALL, T0, T1, part, up


def test_a_pair_counts_effects_that_neither_loss_has_alone() -> None:
    """Two replicas of one partition: each may be lost, both take it offline."""
    partitions = [part(0, replicas=(1, 2), isr=(1, 2)), part(1, replicas=(3,), leader=3, isr=(3,))]
    found = lose_pairs(lambda: partitions, ALL, most=5)
    assert found.count == 1
    (pair,) = found.worst
    assert (pair.loss.brokers, pair.loss.offline) == ((1, 2), (T0,))
    assert pair.beyond == {
        StopRisk.OFFLINE: 1,
        StopRisk.STRANDED: 0,
        StopRisk.UNCLEAN: 0,
        StopRisk.UNDER_MIN_ISR: 0,
    }


def test_the_worst_pairs_are_listed_and_all_are_counted() -> None:
    """Sorted by offline first, then the rest, then the smaller ids; the figures are those of any other loss."""
    cluster = up(1, 2, 3, 4, min_isr_assumed=2)
    partitions = [
        part(0, replicas=(3, 4), leader=3, isr=(3, 4), min_isr=1),
        part(1, replicas=(1, 2, 3), isr=(1, 2, 3)),
    ]
    found = lose_pairs(lambda: partitions, cluster, most=2)
    assert found.count == 4
    assert [pair.loss.brokers for pair in found.worst] == [(3, 4), (1, 2)]
    assert found.worst[0].loss.offline == (T0,)
    assert found.worst[1].loss.under_min_isr == (T1,)


def test_partitions_that_kafka_does_not_count_make_no_pair() -> None:
    """One without a state, and one of a topic that is being deleted."""
    partitions = [part(0, leader=None, isr=()), part(1, replicas=(1, 2), isr=(1, 2), deleting=True)]
    assert lose_pairs(lambda: partitions, ALL, most=3).count == 0
