"""Waiting: until a condition holds, and never with a number of seconds that a busy machine may need."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.support.waiting import wait_until

TESTS = Path(__file__).parents[2]
TIMED = re.compile(
    r"assert .*(monotonic|perf_counter|took_s|took_ms|delays|durations).* <=? [\d.]+(?![\d.]| \*)"
)
"""An assertion that real time is less than a number."""


def test_the_error_says_what_was_last_seen() -> None:
    """The condition that does not hold in time is an AssertionError."""
    with pytest.raises(AssertionError, match="not true within 0 s; last seen: 7"):
        wait_until(lambda: 7, lambda seen: seen == 8, deadline_s=0)


def test_no_test_depends_on_how_fast_the_machine_is() -> None:
    """Speed is measured in bench/; a bound has a name, which says what would take longer."""
    timed = [
        f"{path.relative_to(TESTS)}: {line.strip()}"
        for path in TESTS.rglob("*.py")
        for line in path.read_text(encoding="utf-8").splitlines()
        if TIMED.search(line) and path != Path(__file__)
    ]
    assert timed == []
