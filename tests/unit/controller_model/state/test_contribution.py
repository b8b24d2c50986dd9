"""A topic's counts, written by hand, and the totals that they change."""

from __future__ import annotations

import pytest

from controller_model.state.contribution import (
    NO_MIN_ISR,
    Contribution,
    CountedState,
    Irregular,
    Membership,
    Shape,
)

LED = CountedState((1, 2, 3), 1, (1, 2), (), 2, deleting=False)
STATES = (
    LED,
    LED._replace(leader=2, isr=(2, 3, 1), added=(3,)),
    LED._replace(replicas=(3, 2), leader=-1, isr=(3,)),
    LED._replace(replicas=(2, 1), leader=None, isr=()),
)
"""What `one` counts: led as preferred, led by another, without a leader, without a state."""
REASSIGNED = (False, True, False, True)
ONE = Contribution(
    partitions=4,
    without_state=1,
    reassigning=2,
    preferred_imbalance=2,
    sizes={(3, 2): 2, (2, 2): 2},
    shapes={Shape(1, 3, 3, 2, 2): 1, Shape(2, 3, 2, 3, 2): 1, Shape(-1, 2, 2, 1, 2): 1},
    members={
        1: {Membership(1, 3, 2, 2): 1, Membership(2, 3, 3, 2): 1},
        2: {Membership(1, 3, 2, 2): 1, Membership(2, 3, 3, 2): 1},
        3: {Membership(2, 3, 3, 2): 1, Membership(-1, 2, 1, 2): 1},
    },
    replicas={1: 3, 2: 4, 3: 3},
    leaders={1: 1, 2: 1},
    preferred={1: 2, 3: 1, 2: 1},
    preferred_not_led={1: 1, 3: 1},
    preferred_not_led_in_isr={1: 1, 3: 1},
    new={(2, 1): 1},
    leaderless={(3,): 1},
)
"""The counts of `one`."""


def count(*states: CountedState) -> Contribution:
    """Count partitions; those with added replicas are reassigned."""
    totals = Contribution()
    for state in states:
        totals.count_partition(1, state, is_reassigned=bool(state.added))
    return totals


def one(*, deleting: bool = False, min_isr: int = 2) -> Contribution:
    """Count a topic."""
    totals = Contribution()
    for state, is_reassigned in zip(STATES, REASSIGNED, strict=True):
        counted = state._replace(deleting=deleting, min_isr=min_isr)
        totals.count_partition(1, counted, is_reassigned=is_reassigned)
    return totals


def test_a_topic_counts_as_written_out_by_hand() -> None:
    """Every table, to the last key."""
    assert one() == ONE


def test_a_topic_that_is_being_deleted_counts_by_its_size_and_leaders_alone() -> None:
    """It is neither offline nor imbalanced, and no loss of a broker affects it."""
    assert one(deleting=True) == Contribution(
        partitions=4,
        without_state=1,
        reassigning=2,
        sizes=ONE.sizes,
        replicas=ONE.replicas,
        leaders=ONE.leaders,
    )


def test_a_topic_without_min_isr_has_the_marker_in_every_key() -> None:
    """The default is applied when totals are read."""
    topic = one(min_isr=NO_MIN_ISR)
    assert {key[1] for key in topic.sizes} == {NO_MIN_ISR}
    assert {key.min_isr for key in topic.shapes} == {NO_MIN_ISR}
    keys = {key for of_broker in topic.members.values() for key in of_broker}
    assert {key.min_isr for key in keys} == {NO_MIN_ISR}


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
    topic = count(CountedState((1, 2), leader, isr, adding, NO_MIN_ISR, deleting=False))
    assert topic.preferred_imbalance == imbalanced
    assert topic.reassigning == bool(adding)


def test_odd_states_count_without_harm() -> None:
    """No replicas, a leader of -2, an adding replica that is not assigned."""
    plain = CountedState((1,), 1, (1,), (), NO_MIN_ISR, deleting=False)
    topic = count(
        plain._replace(replicas=(), leader=4, isr=(4,)),
        plain._replace(leader=-2, isr=()),
        plain._replace(added=(1, 1, 9)),
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


def test_equal_partitions_add_up() -> None:
    """Two without a state, two led by broker 0: an id that is false in Python is still an id."""
    alike = CountedState((0, 1), 0, (0, 1), (), 1, deleting=False)
    stateless = CountedState((0,), None, (), (), 1, deleting=False)
    assert count(alike, alike, stateless, stateless) == Contribution(
        partitions=4,
        without_state=2,
        sizes={(2, 1): 2, (1, 1): 2},
        shapes={Shape(0, 2, 2, 2, 1): 2},
        members={0: {Membership(0, 2, 2, 1): 2}, 1: {Membership(0, 2, 2, 1): 2}},
        replicas={0: 4, 1: 2},
        leaders={0: 2},
        preferred={0: 4},
        new={(0,): 2},
    )


@pytest.mark.parametrize("deleting", [False, True])
def test_subtracting_all_partitions_leaves_empty_totals(*, deleting: bool) -> None:
    """Not even zeros; a state without a leader counts nowhere in a topic that is being deleted."""
    totals = one(deleting=deleting)
    states = [state._replace(deleting=deleting) for state in STATES]
    for state in states:
        totals.count_state(-1, state)
        leaderless = state.leader == -1
        assert (totals == one(deleting=deleting)) == (deleting and leaderless)
        totals.count_state(1, state)
        assert totals == one(deleting=deleting)
    for state, is_reassigned in zip(states, REASSIGNED, strict=True):
        totals.count_partition(-1, state, is_reassigned=is_reassigned)
    assert totals == Contribution()


@pytest.mark.parametrize(
    ("isr", "is_whole"),
    [((1, 2), False), ((2, 1), False), ((1, 1), True), ((1, 4), True), ((2,), True), ((), True)],
)
def test_a_state_is_counted_whole_where_the_size_of_its_isr_does_not_tell_enough(
    isr: tuple[int, ...], *, is_whole: bool
) -> None:
    """A member twice, one that is no replica, a leader that is no member: Kafka's controller does not write these."""
    irregular = Irregular(1, LED.replicas, isr, 2, unclean=True, above=0)
    counted = count(LED._replace(isr=isr, unclean=True)).irregular
    assert counted == ({irregular: 1} if is_whole else {})
