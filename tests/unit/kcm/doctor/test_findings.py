"""Checks run in parallel, and none hides another."""

from __future__ import annotations

import threading
from collections.abc import Iterator

from kcm.doctor.findings import Finding, Level, ok, run_checks
from pipeline.runtime import UnreachableError
from tests.support.waiting import DEADLINE_S


def test_checks_run_side_by_side_and_are_reported_in_order() -> None:
    """Two checks that wait for each other both end; the output has the order of the table."""
    here, there = threading.Event(), threading.Event()

    def first() -> Iterator[Finding]:
        here.set()
        assert there.wait(DEADLINE_S)
        yield ok("first", "done")

    def second() -> Iterator[Finding]:
        there.set()
        assert here.wait(DEADLINE_S)
        yield ok("second", "done")

    found = run_checks({"a": first, "b": second}, DEADLINE_S)
    assert [finding.about for finding in found] == ["first", "second"]


def test_a_check_that_hangs_or_breaks_hides_no_other() -> None:
    """Its own line says so, after the findings that it had before."""
    end = threading.Event()

    def hangs() -> Iterator[Finding]:
        yield ok("early", "in time")
        end.wait(DEADLINE_S)
        yield ok("late", "too late")

    def breaks() -> Iterator[Finding]:
        yield ok("before", "found")
        raise UnreachableError("k:1 does not answer")

    try:
        found = run_checks({"hangs": hangs, "breaks": breaks, "well": lambda: [ok("w", "x")]}, 3)
    finally:
        end.set()
    assert [(each.level, each.about) for each in found] == [
        (Level.OK, "early"),
        (Level.FAIL, "hangs"),
        (Level.OK, "before"),
        (Level.FAIL, "breaks"),
        (Level.OK, "w"),
    ]
    assert found[3].text == "k:1 does not answer"
