"""Events as one line of text."""

from __future__ import annotations

from kcm.cli.event_text import event_text


def test_a_long_reason_is_printed_whole() -> None:
    """A path or a reason that was cut would be a different one."""
    reason = "the payload of /brokers/topics/orders/partitions/17/state is no JSON: " + "x" * 200
    assert reason in event_text({"kind": "Anomaly", "reason": reason})


def test_a_grade_names_the_origins_of_the_elections() -> None:
    """Where nobody has elected, there is nothing to name."""
    grade = {
        "number": 3,
        "outcome": "mended",
        "watched": 7,
        "regained": 7,
        "regained_after_ms": None,
        "lost_again": 0,
        "not_regained": 0,
        "gone": 0,
        "elected_by": {},
    }
    text = event_text({"kind": "RecommendationGraded", "grade": grade})
    assert text.endswith("0 lost it again, 0 did not")
    elected_by = {"kcm": 4, "rebalance": 2, "other": 1}
    text = event_text({"kind": "RecommendationGraded", "grade": grade | {"elected_by": elected_by}})
    assert text.endswith(
        "; elected: 4 by kcm elect, 1 by others, 2 by the controller's own rebalance (inferred)"
    )
