"""`kcm what-if`: which answers prove that a loss is safe."""

from __future__ import annotations

from typing import Any

import pytest

from kcm.queries.what_if import checked


def reported(*safe: bool | None, status: str = "live", unknown: int = 0) -> dict[str, Any]:
    """Return an answer to a what-if."""
    verdict = {"status": status, "since": None if status == "live" else 0, "stage": "watcher"}
    return {
        "name": "prod",
        "completeness": verdict,
        "losses": [{"safe": each, "min_isr_unknown": unknown} for each in safe],
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
    ],
)
def test_the_exit_code_is_0_only_for_a_safe_stop_by_live_figures(
    answer: dict[str, Any], code: int
) -> None:
    """No broker, an unknown verdict, and figures that are not live prove nothing.

    There is a separate code for when only min.insync.replicas is not known.
    """
    assert checked(answer) == code
