"""Elections of the last hours: each at its own time, none lost, and no more than fit into a view."""

from __future__ import annotations

import pytest

from controller_model.records.recent_elections import (
    MAX_KEPT,
    WINDOWS_MS,
    Elections,
    noted,
    within_windows,
)

LONGEST_MS = WINDOWS_MS["6h"]


def test_an_election_read_late_is_sorted_by_its_own_time() -> None:
    """Before later elections, and added to those of the same time."""
    elections = noted(noted(noted((), 9_000), 5_000, 3), 9_000)
    assert elections == ((5_000, 3), (9_000, 1), (9_000, 1))


def test_elections_older_than_the_longest_window_are_dropped() -> None:
    """Whether the newest or the old one is added last; at the window's edge it is out."""
    assert noted(((1, 1),), LONGEST_MS) == ((1, 1), (LONGEST_MS, 1))
    assert noted(((0, 1),), LONGEST_MS) == ((LONGEST_MS, 1),)
    assert noted(((LONGEST_MS, 1),), 0) == ((LONGEST_MS, 1),)


def test_beyond_the_limit_the_oldest_elections_are_merged() -> None:
    """The two oldest entries count at the older time: never too recent, and the newest stay separate."""
    elections: Elections = ()
    for at in range(MAX_KEPT + 3):
        elections = noted(elections, at, 2)
    assert len(elections) == MAX_KEPT
    assert elections[0] == (0, 8)
    assert elections[1:] == tuple((at, 2) for at in range(4, MAX_KEPT + 3))


@pytest.mark.parametrize(("window", "length_ms"), WINDOWS_MS.items())
def test_a_window_ends_now(window: str, length_ms: int) -> None:
    """What is as old as the window is outside it."""
    elections = ((1_000, 2), (1_001, 1))
    assert within_windows(elections, 1_000 + length_ms - 1)[window] == 3
    assert within_windows(elections, 1_000 + length_ms)[window] == 1
    assert within_windows(elections, 1_001 + length_ms)[window] == 0


def test_an_election_after_now_counts() -> None:
    """Clocks differ by some milliseconds: what has just happened must not be missing."""
    assert within_windows(((2_000, 1),), 1_000) == {"10m": 1, "6h": 1}


def test_the_windows_are_those_of_their_names() -> None:
    """Rules and the page compare by these names."""
    assert WINDOWS_MS == {"10m": 10 * 60_000, "6h": 6 * 60 * 60_000}
