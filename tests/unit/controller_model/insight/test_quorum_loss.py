"""What the loss of controllers is said to do to a quorum, in words; the property tests judge the grades."""

from __future__ import annotations

import pytest

from controller_model.insight.quorum_loss import (
    QuorumGrade,
    QuorumState,
    QuorumVoter,
    lose_controllers,
)

VOTERS = tuple(QuorumVoter(id=each, is_caught_up=True) for each in (1, 2, 3))


@pytest.mark.parametrize(
    ("lost", "margin", "grade", "text"),
    [
        (
            1,
            0,
            QuorumGrade.NOTHING_BREAKS,
            "the quorum would keep its majority with 0 to spare: 2 of 3 voters would be caught up",
        ),
        (
            1,
            1,
            QuorumGrade.UNDER_MARGIN,
            "the quorum would keep its majority with 0 to spare, and 1 were asked for: 2 of 3 voters would be caught up",
        ),
        (
            9,
            2,
            QuorumGrade.NO_WORSE,
            "no worse than now: the quorum has 1 to spare, not 2, with or without what is lost (3 of 3 voters caught up)",
        ),
    ],
)
def test_the_text_says_what_would_be_left_and_what_was_asked_for(
    lost: int, margin: int, grade: QuorumGrade, text: str
) -> None:
    """It never calls a margin kept that is not."""
    answer = lose_controllers(QuorumState(voters=VOTERS), {lost}, margin=margin)
    assert (answer.grade, answer.text) == (grade, text)


def test_what_does_not_vote_makes_nothing_worse_also_where_nobody_knows_who_is_caught_up() -> None:
    """The text gives the reason of the grade, not what is unknown."""
    state = QuorumState(voters=VOTERS, standby=(9,), unknown="no answer")
    answer = lose_controllers(state, {9})
    assert (answer.grade, answer.text) == (QuorumGrade.NO_WORSE, "none of them votes in the quorum")
    answer = lose_controllers(state, {1, 9})
    assert answer.grade is None
    assert answer.text.endswith("whether the voters that are left are caught up: no answer")
