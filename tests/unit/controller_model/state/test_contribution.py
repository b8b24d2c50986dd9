"""A topic's counts, written out by hand, and the totals that they move."""

from __future__ import annotations

import msgspec
import pytest

from controller_model.state.contribution import (
    NO_MIN_ISR,
    Contribution,
    CountedState,
    Member,
    Partition,
    Shape,
)

PARTITIONS: dict[int, Partition] = {
    0: ((1, 2, 3), 1, (1, 2)),
    1: ((1, 2, 3), 2, (2, 3, 1)),
    2: ((3, 2), -1, (3,)),
    3: ((2, 1), None, ()),
}
"""What `one` counts: led as preferred, led by another, without a leader, without a state."""
ADDING = {1: (3,)}
REMOVING = {3: (1,)}
ONE = Contribution(
    partitions=4,
    without_state=1,
    reassigning=2,
    preferred_imbalance=2,
    sizes={(3, 2): 2, (2, 2): 2},
    shapes={Shape(1, 3, 3, 2, 2): 1, Shape(2, 3, 2, 3, 2): 1, Shape(-1, 2, 2, 1, 2): 1},
    members={
        Member(1, 1, 3, 2, 2): 1,
        Member(2, 1, 3, 2, 2): 1,
        Member(2, 2, 3, 3, 2): 1,
        Member(3, 2, 3, 3, 2): 1,
        Member(1, 2, 3, 3, 2): 1,
        Member(3, -1, 2, 1, 2): 1,
    },
    replicas={1: 3, 2: 4, 3: 3},
    leaders={1: 1, 2: 1},
    preferred={1: 2, 3: 1, 2: 1},
    preferred_not_led={1: 1, 3: 1},
    preferred_not_led_in_isr={1: 1, 3: 1},
)
"""What `one` counts to."""


def one(*, deleting: bool = False, min_isr: int | None = 2) -> Contribution:
    """Count a topic."""
    return Contribution.of(
        PARTITIONS,
        adding=ADDING,
        removing=REMOVING,
        min_isr=min_isr,
        deleting=deleting,
    )


def test_a_topic_counts_as_written_out_by_hand() -> None:
    """Every table, to the last key."""
    assert one() == ONE


def test_a_topic_that_is_being_deleted_counts_by_its_size_and_leaders_alone() -> None:
    """It is neither offline nor out of balance, and no loss of a broker hurts it."""
    assert one(deleting=True) == Contribution(
        partitions=4,
        without_state=1,
        reassigning=2,
        sizes=ONE.sizes,
        replicas=ONE.replicas,
        leaders=ONE.leaders,
    )


def test_without_a_min_isr_of_its_own_a_topic_says_so_in_every_key() -> None:
    """The default is applied when totals are read."""
    topic = one(min_isr=None)
    assert {key[1] for key in topic.sizes} == {NO_MIN_ISR}
    assert {key.min_isr for key in topic.shapes} == {NO_MIN_ISR}
    assert {key.min_isr for key in topic.members} == {NO_MIN_ISR}


@pytest.mark.parametrize(
    ("leader", "isr", "adding", "imbalanced"),
    [
        (1, (1, 2), (), 0),
        (2, (1, 2), (), 1),
        (-1, (), (), 1),
        (2, (2,), (1,), 0),
        (2, (1, 2), (1,), 1),
        (1, (1, 2), (1,), 1),
    ],
)
def test_a_preferred_replica_that_is_being_added_is_exempt_until_it_is_in_sync(
    leader: int, isr: tuple[int, ...], adding: tuple[int, ...], imbalanced: int
) -> None:
    """And from then on counts even if it leads (ControllerContext.hasPreferredLeader)."""
    topic = Contribution.of(
        {0: ((1, 2), leader, isr)},
        adding={0: adding},
        removing={},
        min_isr=None,
        deleting=False,
    )
    assert topic.preferred_imbalance == imbalanced
    assert topic.reassigning == bool(adding)


def test_odd_states_count_without_harm() -> None:
    """No replicas, a leader of -2, an adding replica that is not assigned."""
    topic = Contribution.of(
        {0: ((), 4, (4,)), 1: ((1,), -2, ()), 2: ((1,), 1, (1,))},
        adding={2: (1, 1, 9)},
        removing={0: ()},
        min_isr=None,
        deleting=False,
    )
    assert topic.shapes == {
        Shape(4, 0, 0, 1, 0): 1,
        Shape(-1, 1, 1, 0, 0): 1,
        Shape(1, 1, 0, 1, 0): 1,
    }
    assert topic.leaders == {4: 1, 1: 1}
    assert topic.preferred == {1: 2}
    assert topic.preferred_not_led == {1: 1}
    assert topic.preferred_not_led_in_isr == {}
    assert topic.reassigning == 1


def test_partitions_alike_add_up() -> None:
    """Two without a state, two led by broker 0: an id that is false in Python is an id."""
    alike: Partition = ((0, 1), 0, (0, 1))
    stateless: Partition = ((0,), None, ())
    topic = Contribution.of(
        {0: alike, 1: alike, 2: stateless, 3: stateless},
        adding={},
        removing={},
        min_isr=1,
        deleting=False,
    )
    assert topic == Contribution(
        partitions=4,
        without_state=2,
        sizes={(2, 1): 2, (1, 1): 2},
        shapes={Shape(0, 2, 2, 2, 1): 2},
        members={Member(0, 0, 2, 2, 1): 2, Member(1, 0, 2, 2, 1): 2},
        replicas={0: 4, 1: 2},
        leaders={0: 2},
        preferred={0: 4},
    )


def test_totals_grow_by_what_is_added() -> None:
    """Twice the same topic counts twice."""
    totals = Contribution()
    totals.add(one())
    assert totals == ONE
    totals.add(one())
    doubled = {
        name: {key: 2 * count for key, count in value.items()}
        if isinstance(value, dict)
        else 2 * value
        for name, value in msgspec.structs.asdict(ONE).items()
    }
    assert msgspec.structs.asdict(totals) == doubled


@pytest.mark.parametrize("deleting", [False, True])
def test_what_is_counted_out_leaves_nothing_behind(*, deleting: bool) -> None:
    """Not even zeros; a state without a leader counts nowhere in a topic that is being deleted."""
    totals = one(deleting=deleting)
    for number, partition in PARTITIONS.items():
        state = CountedState(*partition, ADDING.get(number, ()), 2, deleting)
        totals.count_state(-1, state)
        leaderless = partition[1] == -1
        assert (totals == one(deleting=deleting)) == (deleting and leaderless)
        totals.count_state(1, state)
        assert totals == one(deleting=deleting)
    for number, partition in PARTITIONS.items():
        added, removed = ADDING.get(number, ()), REMOVING.get(number, ())
        totals.count_partition(
            -1, partition, added=added, removed=removed, min_isr=2, deleting=deleting
        )
    assert totals == Contribution()
