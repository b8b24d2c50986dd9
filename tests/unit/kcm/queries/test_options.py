"""What the query commands share: warnings about figures that are not live, polling, plain text."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import pytest

from kcm.queries.options import console, poll, print_not_live_warning
from pipeline.clock import clock_ms
from pipeline.runtime import UnreachableError, UsageError

HOUR_MS = 3_600_000


def answered(*, status: str) -> dict[str, Any]:
    """Return an answer whose figures have had this status for 15 hours."""
    verdict = {"status": status, "since": clock_ms() - 15 * HOUR_MS, "stage": "watcher"}
    return {"name": "prod", "completeness": verdict}


def test_figures_that_are_not_live_are_announced_as_such(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The warning says how long and because of which part; with JSON on standard error; live figures give none."""
    print_not_live_warning(answered(status="live"), as_json=False)
    assert capsys.readouterr() == ("", "")
    line = "the figures of prod are blind for 15 h, by the watcher: "
    print_not_live_warning(answered(status="blind"), as_json=False)
    assert capsys.readouterr().out.startswith(line)
    print_not_live_warning(answered(status="blind"), as_json=True)
    captured = capsys.readouterr()
    assert (captured.out, captured.err.startswith(f"kcm: {line}")) == ("", True)


def test_an_exporter_that_goes_away_is_waited_for_and_reported_once() -> None:
    """Each outage is reported once, however often the exporter is polled."""
    answers: Iterator[int | Exception] = iter(
        [1, UnreachableError("away"), UsageError("no such cluster"), 2, UnreachableError("x"), 3]
    )
    errors: list[str] = []

    def ask() -> int:
        answer = next(answers)
        if isinstance(answer, Exception):
            raise answer
        return answer

    seen = poll(ask, every_s=0, on_unreachable=errors.append)
    assert list(itertools.islice(seen, 3)) == [1, 2, 3]
    assert errors == ["away; waiting for it", "x; waiting for it"]


def test_an_exporter_that_was_never_there_is_not_waited_for() -> None:
    """A mistyped address or cluster must be reported at once."""

    def ask() -> int:
        raise UsageError("no cluster is called 'prdo'")

    with pytest.raises(UsageError):
        next(poll(ask, every_s=0))


def test_no_text_is_taken_for_markup(capsys: pytest.CaptureFixture[str]) -> None:
    """Names from a cluster and typed reasons are shown literally."""
    console().print("[/b] [ops] kernel :smile:")
    assert capsys.readouterr().out == "[/b] [ops] kernel :smile:\n"
