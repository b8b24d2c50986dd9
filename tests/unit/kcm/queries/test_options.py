"""What the commands that ask share: figures that are not live, waiting for the exporter, plain text."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import pytest

from kcm.queries.options import console, not_live_warning, poll
from pipeline.runtime import UnreachableError, UsageError

HOUR_MS = 3_600_000


def told(*safe: bool | None, status: str = "live") -> dict[str, Any]:
    """Return an answer to a what-if."""
    verdict = {"status": status, "since": None if status == "live" else 0, "stage": "watcher"}
    return {
        "name": "prod",
        "completeness": verdict,
        "losses": [{"safe": each} for each in safe],
    }


def test_figures_that_are_not_live_are_told_as_such() -> None:
    """With how long, and because of whom; live ones are not spoken of."""
    assert not_live_warning(told(True), 15 * HOUR_MS) is None
    line = not_live_warning(told(True, status="blind"), 15 * HOUR_MS)
    assert line is not None
    assert line.startswith("the figures of prod are blind for 15 h, by the watcher: ")


def test_an_exporter_that_goes_away_is_waited_for_and_told_once() -> None:
    """Each absence is told once, however often it is asked meanwhile."""
    answers: Iterator[int | Exception] = iter(
        [1, UnreachableError("away"), UsageError("no such cluster"), 2, UnreachableError("x"), 3]
    )
    heard: list[str] = []

    def ask() -> int:
        answer = next(answers)
        if isinstance(answer, Exception):
            raise answer
        return answer

    seen = poll(ask, every_s=0, on_unreachable=lambda error: heard.append(str(error)))
    assert list(itertools.islice(seen, 3)) == [1, 2, 3]
    assert heard == ["away", "x"]


def test_an_exporter_that_was_never_there_is_not_waited_for() -> None:
    """A mistyped address or cluster must be told at once."""

    def ask() -> int:
        raise UsageError("no cluster is called 'prdo'")

    with pytest.raises(UsageError):
        next(poll(ask, every_s=0))


def test_no_text_is_taken_for_markup(capsys: pytest.CaptureFixture[str]) -> None:
    """Names from a cluster and reasons that somebody typed are shown as they are."""
    console().print("[/b] [ops] kernel :smile:")
    assert capsys.readouterr().out == "[/b] [ops] kernel :smile:\n"
