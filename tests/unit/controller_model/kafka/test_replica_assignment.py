"""Assignments and reassignments as sets of replicas."""

from __future__ import annotations

import pytest

from controller_model.kafka.cluster_facts import has_preferred_leader
from controller_model.kafka.replica_assignment import (
    EMPTY_ASSIGNMENT,
    ReplicaAssignment,
    diff,
)

A = ReplicaAssignment


def test_a_new_target_adds_and_removes() -> None:
    """Each target replaces the one before: the origin is the assignment before all of them."""
    first = A((1, 2, 3)).reassign_to((3, 5, 6))
    assert first == A((3, 5, 6, 1, 2), (5, 6), (1, 2))
    assert first.target_replicas == (3, 5, 6)
    assert first.origin_replicas == (3, 1, 2)
    second = first.reassign_to((4, 5, 6))
    assert second == A((4, 5, 6, 3, 1, 2), (4, 5, 6), (3, 1, 2))
    third = A((1, 2, 3)).reassign_to((1, 2, 3))
    assert (third, third.is_being_reassigned) == (A((1, 2, 3)), False)


@pytest.mark.parametrize(
    ("replicas", "target", "expected"),
    [
        ((1, 2), (2, 1), A((2, 1))),
        ((1, 2), (3,), A((3, 1, 2), (3,), (1, 2))),
        ((1, 2), (1,), A((1, 2), (), (2,))),
        ((1, 2), (3, 1, 2), A((3, 1, 2), (3,), ())),
        ((1, 2), (), A((1, 2), (), (1, 2))),
    ],
)
def test_reassign_to_puts_the_target_before_the_removing_replicas(
    replicas: tuple[int, ...], target: tuple[int, ...], expected: ReplicaAssignment
) -> None:
    """The target first, in its order, then the replicas that stay until it is reached."""
    assert A(replicas).reassign_to(target) == expected


def test_being_reassigned_is_adding_or_removing() -> None:
    """Either is enough."""
    moving = [A((1, 2), (2,)), A((1, 2), (), (2,)), A((1, 2)), EMPTY_ASSIGNMENT]
    assert [one.is_being_reassigned for one in moving] == [True, True, False, False]


def test_a_replica_is_removed_everywhere() -> None:
    """From the replicas, from those added and from those removed."""
    assert A((1, 2, 3), (1, 2), (2, 3)).remove_replica(2) == A((1, 3), (1,), (3,))
    assert A((1,)).remove_replica(9) == A((1,))


def test_diff_removes_one_occurrence_for_each_one_given() -> None:
    """As Scala's Seq.diff: for each one occurrence, the first."""
    assert diff((1, 2, 1, 1), (1, 1, 5)) == (2, 1)
    assert diff((1, 2), ()) == (1, 2)
    assert diff((), (1,)) == ()


def test_a_replica_that_is_named_twice_keeps_its_first_place() -> None:
    """As Scala's Seq.distinct."""
    assert ReplicaAssignment((1, 2)).reassign_to((3, 1, 3, 2, 1)).replicas == (3, 1, 2)


def test_a_preferred_replica_that_is_being_added_is_exempt_until_in_sync() -> None:
    """Balanced until it is in the ISR, and from then on imbalanced, even if it leads."""
    assert has_preferred_leader(3, (3,), 1, (1, 2))
    assert not has_preferred_leader(3, (3,), 1, (1, 2, 3))
    assert not has_preferred_leader(3, (3,), 3, (1, 2, 3))
    assert has_preferred_leader(3, (1,), 3, (3,))
    assert not has_preferred_leader(3, (1,), 1, (3,))
    assert not has_preferred_leader(3, (), None, ())
