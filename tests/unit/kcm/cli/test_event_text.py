"""Events as a line of text."""

from __future__ import annotations

from kcm.cli.event_text import event_text


def test_a_reason_is_reported_whole() -> None:
    """A path or a reason that is cut says something else."""
    reason = "the payload of /brokers/topics/orders/partitions/17/state is no JSON: " + "x" * 200
    assert reason in event_text({"kind": "Anomaly", "reason": reason})
