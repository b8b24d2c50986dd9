"""Who leads once the controller has fenced what is not active, by a table."""

import pytest

from controller_model.kafka.kraft_elections import EligibleLeaders, leader_after_fencing

ELR, LAST = EligibleLeaders((2, 3)), EligibleLeaders((), (1,))


@pytest.mark.parametrize(
    ("held", "active", "eligible", "rules", "found"),
    [
        ((1, (1, 2)), {1, 2, 3}, None, (False, False), (1, (1, 2), False)),
        ((1, (1, 2)), {1, 3}, None, (False, False), (1, (1,), False)),
        ((1, (1, 2)), {2, 3}, None, (False, False), (2, (2,), False)),
        ((1, (1,)), {2, 3}, None, (False, False), (-1, (1,), False)),  # the last member stays
        ((1, (1,)), {2, 3}, None, (False, True), (2, (2,), True)),
        (
            (1, (1,)),
            {2, 3},
            None,
            (True, False),
            (-1, (), False),
        ),  # it becomes eligible, and is gone
        ((1, (1,)), {3}, ELR, (True, False), (3, (3,), False)),
        ((1, (1,)), {2, 3}, ELR, (False, False), (2, (2,), False)),  # ELRs were switched off
        ((1, (1,)), {1}, ELR, (False, False), (1, (1,), False)),
        ((-1, ()), {1}, LAST, (False, False), (-1, (), False)),  # the last leader needs the feature
        ((1, (1, 3)), {2, 3}, ELR, (True, False), (3, (3,), False)),  # the ISR is not empty
        ((-1, ()), {1, 3}, LAST, (True, False), (1, (1,), True)),
        ((-1, ()), {2, 3}, LAST, (True, False), (-1, (), False)),
        ((-1, ()), {2, 3}, EligibleLeaders((), (1, 2)), (True, False), (-1, (), False)),
        ((-1, ()), {2, 3}, EligibleLeaders((2,), (2,)), (True, False), (2, (2,), False)),
        ((-1, (1,)), set(), None, (False, True), (-1, (1,), False)),
        ((-1, (1,)), {2}, None, (True, False), (-1, (1,), False)),  # ELRs came later
    ],
)
def test_a_leader_is_chosen_in_kafkas_order(
    held: tuple[int, tuple[int, ...]],
    active: set[int],
    eligible: EligibleLeaders | None,
    rules: tuple[bool, bool],
    found: tuple[int, tuple[int, ...], bool],
) -> None:
    """The leader, the ISR, eligible ones where that is empty, the last known one, then anybody.

    `held` is the leader and the ISR; `rules` whether there are ELRs, and whether unclean elections are allowed.
    """
    has_elr, unclean = rules
    chosen = leader_after_fencing(
        (1, 2, 3), *held, active, eligible=eligible, has_elr=has_elr, unclean=unclean
    )
    assert tuple(chosen) == found


@pytest.mark.parametrize(
    ("isr", "eligible", "unclean", "found"),
    [
        ((1,), EligibleLeaders((2, 3), (), ()), False, (2, (2,), False)),
        ((1,), EligibleLeaders((2, 3), (), (2,)), False, (3, (3,), False)),
        ((1,), EligibleLeaders((2,), (), (2,)), False, (-1, (), False)),
        ((1,), EligibleLeaders((2,), (), (2,)), True, (3, (3,), True)),
        ((1, 2, 3), EligibleLeaders((), (), (2,)), False, (3, (2, 3), False)),
        ((), EligibleLeaders((), (2,), ()), False, (2, (2,), True)),
        ((), EligibleLeaders((), (2,), (2,)), False, (-1, (), False)),
        ((), EligibleLeaders((), (2,), (2,)), True, (3, (3,), True)),
    ],
)
def test_a_replica_on_a_log_directory_that_is_offline_is_passed_over(
    isr: tuple[int, ...],
    eligible: EligibleLeaders,
    *,
    unclean: bool,
    found: tuple[int, tuple[int, ...], bool],
) -> None:
    """Whether it is in sync, eligible, the last known leader, or any replica."""
    leader = 1 if isr else -1
    chosen = leader_after_fencing(
        (1, 2, 3), leader, isr, {2, 3}, eligible=eligible, has_elr=True, unclean=unclean
    )
    assert tuple(chosen) == found


def test_a_leader_whose_log_directory_is_offline_is_replaced() -> None:
    """It is active, and in sync as long as the controller has not removed it."""
    held = EligibleLeaders((), (), (1,))
    after = leader_after_fencing((1, 2), 1, (1, 2), {1, 2}, eligible=held)
    assert after.leader == 2


def test_a_last_known_leader_waits_for_who_was_in_sync() -> None:
    """Those that were fenced while they were in sync are eligible, and lose nothing."""
    held = EligibleLeaders((), (2,))
    assert leader_after_fencing((1, 2), -1, (1,), {2}, eligible=held, has_elr=True).leader == -1


def test_the_last_member_of_an_isr_does_not_lead_from_a_directory_that_is_offline() -> None:
    """Without eligible leader replicas it stays the only member."""
    held = EligibleLeaders((), (), (1,))
    assert tuple(leader_after_fencing((1, 2), -1, (1,), {1, 2}, eligible=held)) == (-1, (1,), False)
    assert leader_after_fencing((1, 2), -1, (1,), {1, 2}, eligible=held, unclean=True).leader == 2
