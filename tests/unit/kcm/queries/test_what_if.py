"""`kcm what-if`: what proves that a loss is safe."""

from __future__ import annotations

from typing import Any

import pytest

from kcm.queries.what_if import proves_safe


def told(*safe: bool | None, status: str = "live") -> dict[str, Any]:
    """Return an answer to a what-if."""
    verdict = {"status": status, "since": None if status == "live" else 0, "stage": "watcher"}
    return {
        "name": "prod",
        "completeness": verdict,
        "losses": [{"safe": each} for each in safe],
    }


@pytest.mark.parametrize(
    ("answer", "safe"),
    [
        (told(True), True),
        (told(True, True), True),
        (told(True, False), False),
        (told(None), False),
        (told(), False),
        (told(True, status="blind"), False),
        (told(True, status="incomplete"), False),
    ],
)
def test_safe_is_what_live_figures_prove(answer: dict[str, Any], safe: bool) -> None:
    """No broker, a verdict that is not known, and figures that are not live prove nothing."""
    assert proves_safe(answer) is safe
