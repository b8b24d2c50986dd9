"""ISRs and controllers that flap, and who is to blame."""

from __future__ import annotations

import pytest

from controller_model.insight.flapping import (
    EVIDENCE_MS,
    Blame,
    BlamedBroker,
    IsrFlapping,
    controller_flapping,
    isr_flapping,
)
from controller_model.kafka.ids import Position, TopicPartition
from controller_model.records.events import ControllerElected, IsrShrunk
from tests.support.partition_facts import T0, T1, T2


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


def shrinks(found: IsrFlapping) -> dict[TopicPartition, int]:
    """Return how often each flapping partition's ISR shrank."""
    return {TopicPartition(isr.topic, isr.partition): isr.shrinks for isr in found.partitions}


def test_a_partition_flaps_from_the_third_shrink_in_the_window_on() -> None:
    """The window is open at its start and closed at its end."""
    events = [shrink(at, 1, 2) for at in (100, 101, 150, 200)] + [shrink(201, 1, 2)]
    found = isr_flapping(events, now=200, window_ms=100)
    assert shrinks(found) == {T0: 3}
    assert isr_flapping(events, now=200, window_ms=99).partitions == ()
    assert isr_flapping(events, now=200, window_ms=99).blames == ()


def test_a_replica_that_leaves_many_leaders_is_blamed() -> None:
    """Only broker 3 leaves, under the leaders 1 and 2."""
    events = [shrink(at, leader, 3, partition=leader) for at in (1, 2, 3) for leader in (1, 2)]
    found = isr_flapping(events, now=3, window_ms=10)
    assert shrinks(found) == {T1: 3, T2: 3}
    assert [isr.blames for isr in found.partitions] == 2 * [(Blame(broker=3, as_replica=3),)]
    assert found.blames == (BlamedBroker(broker=3, as_replica=6, partition_count=2),)
    assert found.blames[0].leaves == 6
    assert Blame(broker=3, as_replica=6, as_leader=1).leaves == 7


def test_a_leader_that_loses_many_followers_is_blamed() -> None:
    """Brokers 2 and 3 leave only under leader 1."""
    events = [shrink(at, 1, 2, 3) for at in (1, 2, 3)]
    assert isr_flapping(events, now=3, window_ms=10).blames == (
        BlamedBroker(broker=1, as_leader=6, partition_count=1),
    )


def test_one_follower_of_one_leader_is_the_slow_one() -> None:
    """The usual case: the replica is suspected."""
    events = [shrink(at, 1, 2) for at in (1, 2, 3)]
    assert isr_flapping(events, now=3, window_ms=10).blames == (
        BlamedBroker(broker=2, as_replica=3, partition_count=1),
    )


def test_shrinks_between_many_leaders_and_followers_stay_unexplained() -> None:
    """Every broker leaves the ISRs of all others: perhaps a network problem; none is blamed."""
    events = [
        shrink(at, leader, *({1, 2, 3} - {leader}), partition=leader)
        for at in (1, 2, 3)
        for leader in (1, 2, 3)
    ]
    found = isr_flapping(events, now=3, window_ms=10)
    assert (found.blames, found.unexplained) == ((), 18)
    assert found.unexplained_partition_count == 3
    assert [(isr.blames, isr.unexplained) for isr in found.partitions] == 3 * [((), 6)]


def test_replicas_removed_by_the_controller_are_blamed_as_dead() -> None:
    """A broker that dies again and again is blamed under any leader; its deaths blame no leader."""
    events = [shrink(at, 1, 2, 3, by_controller=True) for at in (1, 2, 3)]
    events += [shrink(at, 1, 4, partition=1) for at in (1, 2, 3)]
    found = isr_flapping(events, now=3, window_ms=10)
    assert found.blames == tuple(
        BlamedBroker(broker=broker, as_replica=3, partition_count=1) for broker in (2, 3, 4)
    )


def test_the_worst_partitions_and_brokers_are_first() -> None:
    """Partitions by how often, then by name; suspects by leaves, then by id."""
    events = [shrink(at, 1, 2, partition=2) for at in (1, 2, 3)]
    events += [shrink(at, 3, 4, partition=0) for at in (1, 2, 3)]
    events += [shrink(at, 5, 6, partition=1) for at in (1, 2, 3, 4)]
    found = isr_flapping(events, now=4, window_ms=10)
    assert [*shrinks(found)] == [T1, T0, T2]
    assert [blame.broker for blame in found.blames] == [6, 2, 4]


def test_blame_counts_flapping_partitions_and_uses_all_shrinks_as_evidence() -> None:
    """Shrinks of stable partitions show that a leader loses many followers, and are blamed on nobody."""
    events = [shrink(at, 1, 2) for at in (1, 2, 3)] + [shrink(3, 1, 3, partition=1)]
    found = isr_flapping(events, now=3, window_ms=10)
    assert (shrinks(found), found.blames) == (
        {T0: 3},
        (BlamedBroker(broker=1, as_leader=3, partition_count=1),),
    )


def test_what_is_told_apart_by_the_number_of_isrs_is_not_unexplained() -> None:
    """Broker 1 is killed and leaves leaders 0 and 2; broker 2 once lagged behind 0 in one partition as well."""
    events = [shrink(at, leader, 1, partition=leader) for at in (1, 2, 3) for leader in (0, 2)]
    events += [shrink(1, 0, 2, partition=0)]
    found = isr_flapping(events, now=3, window_ms=10)
    assert found.blames == (
        BlamedBroker(broker=1, as_replica=6, partition_count=2),
        BlamedBroker(broker=0, as_leader=1, partition_count=1),
    )
    assert (found.unexplained, found.unexplained_partition_count) == (0, 0)


@pytest.mark.parametrize("side", [-1, 1])
@pytest.mark.parametrize(
    ("apart_ms", "blamed"),
    [
        (EVIDENCE_MS, BlamedBroker(broker=0, as_leader=3, partition_count=1)),
        (EVIDENCE_MS + 1, BlamedBroker(broker=1, as_replica=3, partition_count=1)),
    ],
)
def test_what_happened_at_another_time_is_no_evidence(
    apart_ms: int, blamed: BlamedBroker, side: int
) -> None:
    """A leader that lost another follower earlier, or later, is not to blame for a slow one now."""
    events = [shrink(100_000, 0, 1)] * 3
    events += [shrink(100_000 + side * apart_ms, 0, 2, partition=1)]
    assert isr_flapping(events, now=200_000, window_ms=200_000).blames == (blamed,)


def election(at: int, before: int, after: int, elected_at: int | None = None) -> ControllerElected:
    """Return the event of a controller election."""
    return ControllerElected(
        at=at,
        position=Position(1, at),
        from_broker=before,
        to_broker=after,
        epoch=None,
        elected_at=elected_at,
    )


def test_a_controller_flaps_from_the_third_election_in_the_window_on() -> None:
    """All elections count, reported or not; a change of id counts only if both ids are known and differ."""
    elected = [election(100, 0, 1), election(101, -1, 1), election(150, 1, 1), election(200, 1, 2)]
    counted = ((100, 1), (101, 1), (150, 1), (200, 1))
    found = controller_flapping(counted, elected, now=200, window_ms=100)
    assert (found.elections, found.id_changes, found.flapping) == (3, 1, True)
    fewer = controller_flapping(counted, elected, now=201, window_ms=100)
    assert (fewer.elections, fewer.flapping) == (2, False)
    missed = controller_flapping(((5, 3),), [election(5, 0, 1)], now=5, window_ms=1)
    assert (missed.elections, missed.id_changes, missed.flapping) == (3, 1, True)


def test_an_election_that_was_found_late_counts_at_its_own_time() -> None:
    """It was 100 ms before it was found: outside a window of 50 ms in both counts."""
    found = controller_flapping(((100, 1),), [election(200, 0, 1, 100)], now=200, window_ms=50)
    assert (found.elections, found.id_changes) == (0, 0)
    found = controller_flapping(((100, 1),), [election(200, 0, 1, 100)], now=200, window_ms=101)
    assert (found.elections, found.id_changes) == (1, 1)
