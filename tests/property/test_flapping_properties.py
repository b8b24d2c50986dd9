"""Flapping is a count of the events in the window, and a planted flapping broker is found."""

from __future__ import annotations

import random
from collections import Counter

from hypothesis import assume, given
from hypothesis import strategies as st

from controller_model.insight.flapping import FLAPPING_TIMES, controller_flapping, isr_flapping
from controller_model.insight.rebalance import AutoRebalance, next_check_at
from controller_model.kafka.ids import Position, TopicPartition
from controller_model.records.events import ControllerElected, IsrShrunk

BROKERS = range(5)
_SHRINKS = st.lists(
    st.builds(
        lambda at, leader, who, partitions, by_controller: IsrShrunk(
            at=at,
            position=Position(1, at),
            who=tuple(sorted(who - {leader})),
            leader=leader,
            by_controller=by_controller,
            partitions=tuple(TopicPartition("t", p) for p in sorted(partitions)),
        ),
        at=st.integers(0, 60),
        leader=st.sampled_from(BROKERS),
        who=st.sets(st.sampled_from(BROKERS), min_size=1, max_size=3),
        partitions=st.sets(st.integers(0, 3), min_size=1, max_size=3),
        by_controller=st.booleans(),
    ),
    max_size=25,
)


@given(_SHRINKS, st.integers(0, 60), st.integers(0, 60))
def test_flapping_partitions_are_those_with_enough_shrinks(
    shrinks: list[IsrShrunk], now: int, window_ms: int
) -> None:
    """Every shrink counts once for each of its partitions, if it is in the window."""
    found = isr_flapping(shrinks, now=now, window_ms=window_ms)
    count: Counter[TopicPartition] = Counter()
    for event in shrinks:
        if now - window_ms < event.at <= now:
            count.update(event.partitions)
    flapping = {TopicPartition(isr.topic, isr.partition): isr.shrinks for isr in found.partitions}
    assert flapping == {tp: n for tp, n in count.items() if n >= FLAPPING_TIMES}
    assert list(flapping.values()) == sorted(flapping.values(), reverse=True)
    leaves = sum(
        len(event.who)
        for event in shrinks
        if now - window_ms < event.at <= now
        for tp in event.partitions
        if tp in flapping
    )
    assert sum(blame.leaves for blame in found.blames) + found.unexplained == leaves
    for blames in (found.blames, *(isr.blames for isr in found.partitions)):
        blamed = [blame.leaves for blame in blames]
        assert blamed == sorted(blamed, reverse=True)
        assert 0 not in blamed
    unexplained = [isr.unexplained for isr in found.partitions if isr.unexplained]
    assert sum(unexplained) == found.unexplained
    assert len(unexplained) == found.unexplained_partition_count
    for blame in found.blames:
        of_broker = [b for isr in found.partitions for b in isr.blames if b.broker == blame.broker]
        assert sum(each.as_replica for each in of_broker) == blame.as_replica
        assert sum(each.as_leader for each in of_broker) == blame.as_leader
        assert len(of_broker) == blame.partition_count


@given(st.randoms(use_true_random=False), st.sampled_from(BROKERS), st.booleans())
def test_a_planted_flapping_broker_is_found(
    draws: random.Random, culprit: int, leads: bool
) -> None:
    """One slow broker leaves under several leaders; one bad leader loses several followers."""
    others = draws.sample([b for b in BROKERS if b != culprit], draws.randint(2, 4))
    shrinks = [
        IsrShrunk(
            at=at,
            position=Position(1, at),
            who=(other if leads else culprit,),
            leader=culprit if leads else other,
            by_controller=False,
            partitions=(TopicPartition("t", other),),
        )
        for at in range(1, 4)
        for other in others
    ]
    draws.shuffle(shrinks)
    found = isr_flapping(shrinks, now=3, window_ms=10)
    (blame,) = found.blames
    assert blame.broker == culprit
    assert (blame.as_leader if leads else blame.as_replica) == 3 * len(others)
    assert found.unexplained == 0


@given(
    st.lists(
        st.tuples(st.integers(0, 60), st.integers(-1, 3), st.integers(0, 3), st.integers(0, 3)),
        max_size=20,
    ),
    st.integers(0, 60),
    st.integers(0, 60),
)
def test_the_controller_flaps_by_count(
    elections: list[tuple[int, int, int, int]], now: int, window_ms: int
) -> None:
    """Elections and missed ones in the window; a change of id needs two ids, and is an election."""
    events = [
        ControllerElected(
            at=at + late,
            position=Position(1, at),
            from_broker=before,
            to_broker=after,
            epoch=None,
            elected_at=at,
        )
        for at, before, after, late in elections
    ]
    counted = tuple((at, 1 + late) for at, _, _, late in elections)
    found = controller_flapping(counted, events, now=now, window_ms=window_ms)
    inside = [e for e in elections if now - window_ms < e[0]]
    assert found.elections == len(inside) + sum(missed for *_, missed in inside)
    assert found.id_changes == sum(b >= 0 and b != a for _, b, a, _ in inside)
    assert found.flapping is (found.elections >= FLAPPING_TIMES)


@given(st.integers(0, 10_000), st.integers(0, 100_000), st.integers(1, 20))
def test_the_next_rebalance_check_is_the_first_that_is_not_in_the_past(
    elected_at: int, now: int, interval_seconds: int
) -> None:
    """5 s after the election, then every interval: the first one that is not before now."""
    assume(now - elected_at < 1_000 * interval_seconds * 200)
    at = elected_at + 5_000
    while at < now:
        at += interval_seconds * 1_000
    assumed = AutoRebalance(leader_imbalance_check_interval_seconds=interval_seconds)
    assert next_check_at(elected_at, now, assumed) == at
