"""`kcm what-if`: which answers prove that a loss is safe."""

from __future__ import annotations

from typing import Any

import pytest

from kcm.queries.what_if import checked


def reported(
    *safe: bool | None, status: str = "live", unknown: int = 0, grade: str | None = ""
) -> dict[str, Any]:
    """Return an answer to a what-if; with a `grade`, each loss is of a controller."""
    verdict = {"status": status, "since": None if status == "live" else 0, "stage": "watcher"}
    return {
        "name": "prod",
        "completeness": verdict,
        "losses": [
            {
                "safe": each,
                "min_isr_unknown": unknown,
                "quorum": None if grade == "" else {"grade": grade},
            }
            for each in safe
        ],
    }


@pytest.mark.parametrize(
    ("answer", "code"),
    [
        (reported(True), 0),
        (reported(True, True), 0),
        (reported(True, False), 6),
        (reported(None), 6),
        (reported(), 6),
        (reported(True, status="blind"), 6),
        (reported(True, status="incomplete"), 6),
        (reported(True, None, unknown=1), 9),
        (reported(False, None, unknown=1), 6),
        (reported(None, unknown=1, status="blind"), 6),
        (reported(True, grade="no_worse"), 0),
        (reported(False, grade="under_margin"), 6),
        (reported(None, grade=None), 9),
        (reported(True, None, grade=None), 9),
        (reported(False, None, grade=None), 6),
        (reported(None, grade=None, status="behind"), 6),
    ],
)
def test_the_exit_code_is_0_only_for_a_safe_stop_by_live_figures(
    answer: dict[str, Any], code: int
) -> None:
    """No broker, an unknown verdict, and figures that are not live prove nothing.

    There is a separate code for when no harm is known, and only min.insync.replicas or how far controllers are is not.
    """
    assert checked(answer) == code
