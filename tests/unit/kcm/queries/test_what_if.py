"""`kcm what-if`: which answers prove that a loss is safe."""

from __future__ import annotations

from typing import Any

import pytest
from rich.console import Console, RenderableType

from kcm.queries.what_if import checked, loss_text, table
from tests.support.quorum_views import WHAT_IF, served


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


def printed(shown: RenderableType) -> list[str]:
    """Return the lines on a wide terminal."""
    console = Console(width=300)
    with console.capture() as capture:
        console.print(shown)
    return [" ".join(line.split()) for line in capture.get().splitlines()]


def test_a_kraft_cluster_has_a_row_for_each_node_with_what_it_does_to_the_quorum() -> None:
    """Unsafe ones first; a node that is broker and controller has one row."""
    exporter, _ = served(behind={3001: 60_000})
    answer = exporter.json(WHAT_IF, each="node")
    head, *rows = printed(table(answer, live=True))
    assert head.startswith("node safe to stop quorum offline")
    beginnings = [
        "broker and controller 1 NO no majority",
        "controller 3000 NO no majority",
        "broker 2 yes -",
        "broker 3 yes -",
        "controller 3001 yes 0 to spare",
    ]
    for row, beginning in zip(rows, beginnings, strict=True):
        assert row.startswith(f"{beginning} 0 ")
    unknown, _ = served(quorum=None)
    *rows, why = printed(table(unknown.json(WHAT_IF, each="node"), live=True))
    assert "controller 3000 not known not known 0" in " ".join(rows)
    assert why.startswith("how far the controllers are is not known: no answer to DescribeQuorum")
    assert "not known" in printed(table(answer, live=False))[-1], "it was so, and is not proved now"


def test_a_loss_says_what_the_quorum_would_have_left() -> None:
    """With who does not count now; what was lost before makes nothing worse."""
    exporter, _ = served(behind={3001: 60_000})

    def lines(**asked: Any) -> list[str]:
        (loss,) = exporter.json(WHAT_IF, **asked)["losses"]
        return printed(loss_text(loss, live=True))

    head, text, *notes = lines(lose_controller=3000)
    assert head == "controller 3000: NOT safe to stop"
    assert text.startswith("the quorum would have no majority: 1 of 3 voters would be left")
    assert notes == [
        "the active controller is among them: another one is elected",
        "controller 3001 is not caught up and does not count: last 60 s before the leader's answer, 1 record behind",
    ]
    dead = lines(lose_controller=3001, margin=1)
    assert dead[0] == "controller 3001: safe to stop, no worse than now"
    assert dead[1] == (
        "no worse than now: the quorum has 0 to spare, not 1, with or without what is lost (2 of 3 voters caught up)"
    )
    both = lines(lose_broker=[1, 2])
    assert both[0] == "broker 2 and broker and controller 1: NOT safe to stop"
