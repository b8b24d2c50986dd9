"""Numbers, partitions and times in words."""

from __future__ import annotations

import pytest

from controller_model.insight.wording import counted, duration, named, time_text
from tests.support.partition_facts import T0, T1, T2


def test_a_few_are_named_and_all_are_counted() -> None:
    """Three names, then dots."""
    assert named([T0, T1, T2]) == "t-0, t-1, t-2"
    assert named([T0, T1, T2, T0]) == "t-0, t-1, t-2, ..."
    assert (counted(0, "leader"), counted(1, "leader")) == ("0 leaders", "1 leader")


@pytest.mark.parametrize(
    ("milliseconds", "text"),
    [
        (0, "0 ms"),
        (999, "999 ms"),
        (1_000, "1.0 s"),
        (59_999, "60.0 s"),
        (60_000, "1 min 0 s"),
        (3_599_999, "59 min 59 s"),
        (3_600_000, "1 h 0 min"),
        (90_000_000, "25 h 0 min"),
    ],
)
def test_a_duration_has_two_units_at_most(milliseconds: int, text: str) -> None:
    """Milliseconds, seconds, minutes, hours; never days."""
    assert duration(milliseconds) == text


def test_a_time_is_read_as_people_read_it() -> None:
    """To the second, in UTC; a time beyond the calendar stays a number."""
    assert time_text(0) == "1970-01-01T00:00:00Z"
    assert time_text(253_402_300_799_999) == "9999-12-31T23:59:59Z"
    assert time_text(253_402_300_800_000) == "253402300800000"
    assert time_text(-1) == "-1"
