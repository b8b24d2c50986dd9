"""What happened recently counts at its own time: elections, none lost, and minutes of ISR leaves, each once."""

from __future__ import annotations

import pytest

from controller_model.records.recent import (
    ELECTION_WINDOWS_MS,
    ELECTIONS_KEPT_MS,
    LEAVES_WINDOW_MINUTES,
    MAX_KEPT,
    Elections,
    elections_within,
    leaves_within,
    note_election,
    note_leave,
)

MINUTE_MS = 60_000
LONGEST_MS = ELECTIONS_KEPT_MS


def test_an_election_read_late_is_sorted_by_its_own_time() -> None:
    """Before later elections, and added to those of the same time."""
    elections = note_election(note_election(note_election((), 9_000), 5_000, 3), 9_000)
    assert elections == ((5_000, 3), (9_000, 1), (9_000, 1))


def test_elections_older_than_the_longest_window_are_dropped() -> None:
    """Whether the newest or the old one is added last; at the window's edge it is out."""
    assert note_election(((1, 1),), LONGEST_MS) == ((1, 1), (LONGEST_MS, 1))
    assert note_election(((0, 1),), LONGEST_MS) == ((LONGEST_MS, 1),)
    assert note_election(((LONGEST_MS, 1),), 0) == ((LONGEST_MS, 1),)


def test_beyond_the_limit_the_oldest_elections_are_merged() -> None:
    """The two oldest entries count at the older time: never too recent, and the newest stay separate."""
    elections: Elections = ()
    for at in range(MAX_KEPT + 3):
        elections = note_election(elections, at, 2)
    assert len(elections) == MAX_KEPT
    assert elections[0] == (0, 8)
    assert elections[1:] == tuple((at, 2) for at in range(4, MAX_KEPT + 3))


@pytest.mark.parametrize(("window", "length_ms"), ELECTION_WINDOWS_MS.items())
def test_a_window_ends_now(window: str, length_ms: int) -> None:
    """What is as old as the window is outside it."""
    elections = ((1_000, 2), (1_001, 1))
    assert elections_within(elections, 1_000 + length_ms - 1)[window] == 3
    assert elections_within(elections, 1_000 + length_ms)[window] == 1
    assert elections_within(elections, 1_001 + length_ms)[window] == 0


def test_an_election_after_now_counts() -> None:
    """Clocks differ by some milliseconds: what has just happened must not be missing."""
    assert elections_within(((2_000, 1),), 1_000) == {"10m": 1, "1h": 1, "6h": 1}


def test_the_windows_are_those_of_their_names() -> None:
    """Rules and the page compare by these names."""
    hour_ms = 60 * 60_000
    assert {"10m": 10 * 60_000, "1h": hour_ms, "6h": 6 * hour_ms} == ELECTION_WINDOWS_MS
    assert max(ELECTION_WINDOWS_MS.values()) < ELECTIONS_KEPT_MS == 7 * 24 * hour_ms


def test_a_minute_counts_once_and_at_its_own_time() -> None:
    """Also if it is read late, after a later one."""
    minutes = note_leave(
        note_leave(note_leave((), 5 * MINUTE_MS), 5 * MINUTE_MS + 59_999), 4 * MINUTE_MS
    )
    assert minutes == (4, 5)


def test_leaves_older_than_the_window_are_dropped() -> None:
    """Whether it is added before or after the newest: no more than the window is ever held."""
    minutes: tuple[int, ...] = ()
    for minute in range(100):
        minutes = note_leave(minutes, minute * MINUTE_MS)
    assert minutes == tuple(range(100 - LEAVES_WINDOW_MINUTES, 100))
    assert note_leave(minutes, 3 * MINUTE_MS) == minutes


def test_the_window_ends_now() -> None:
    """The current minute counts; one that is as old as the window does not."""
    assert leaves_within((10,), (10 + LEAVES_WINDOW_MINUTES) * MINUTE_MS - 1) == 1
    assert leaves_within((10,), (10 + LEAVES_WINDOW_MINUTES) * MINUTE_MS) == 0
