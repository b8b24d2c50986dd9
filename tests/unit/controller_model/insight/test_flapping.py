"""ISRs and controllers that flap, and who is to blame."""

from __future__ import annotations

from controller_model.insight.flapping import (
    Blame,
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
    assert found.blames == (Blame(broker=3, as_replica=6),)
    assert found.blames[0].leaves == 6
    assert Blame(broker=3, as_replica=6, as_leader=1).leaves == 7


def test_a_leader_that_loses_many_followers_is_blamed() -> None:
    """Brokers 2 and 3 leave only under leader 1."""
    events = [shrink(at, 1, 2, 3) for at in (1, 2, 3)]
    assert isr_flapping(events, now=3, window_ms=10).blames == (Blame(broker=1, as_leader=6),)


def test_one_follower_of_one_leader_is_the_slow_one() -> None:
    """The usual case: the replica is suspected."""
    events = [shrink(at, 1, 2) for at in (1, 2, 3)]
    assert isr_flapping(events, now=3, window_ms=10).blames == (Blame(broker=2, as_replica=3),)


def test_shrinks_between_many_leaders_and_followers_stay_unexplained() -> None:
    """Every broker leaves the ISRs of all others: perhaps a network problem; none is blamed."""
    events = [
        shrink(at, leader, *({1, 2, 3} - {leader}), partition=leader)
        for at in (1, 2, 3)
        for leader in (1, 2, 3)
    ]
    found = isr_flapping(events, now=3, window_ms=10)
    assert (found.blames, found.unexplained) == ((), 18)
    assert [(isr.blames, isr.unexplained) for isr in found.partitions] == 3 * [((), 6)]


def test_replicas_removed_by_the_controller_are_blamed_as_dead() -> None:
    """A broker that dies again and again is blamed under any leader; its deaths blame no leader."""
    events = [shrink(at, 1, 2, 3, by_controller=True) for at in (1, 2, 3)]
    events += [shrink(at, 1, 4, partition=1) for at in (1, 2, 3)]
    found = isr_flapping(events, now=3, window_ms=10)
    assert found.blames == tuple(Blame(broker=broker, as_replica=3) for broker in (2, 3, 4))


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
    assert (shrinks(found), found.blames) == ({T0: 3}, (Blame(broker=1, as_leader=3),))


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
    """Missed elections count; a change of id counts only if both ids are known and differ."""
    events = [election(100, 0, 1), election(101, -1, 1), election(150, 1, 1), election(200, 1, 2)]
    found = controller_flapping(events, now=200, window_ms=100)
    assert (found.elections, found.id_changes, found.flapping) == (3, 1, True)
    fewer = controller_flapping(events, now=199, window_ms=99)
    assert (fewer.elections, fewer.flapping) == (2, False)
    missed = controller_flapping([election(5, 0, 1, missed=2)], now=5, window_ms=1)
    assert (missed.elections, missed.flapping) == (3, True)
