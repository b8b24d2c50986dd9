"""What Spark's progress says about a batch, read from its JSON."""

from __future__ import annotations

from streaming.progress import BatchReport, read_progress
from tests.support.progress import PROGRESS


def test_a_progress_is_read() -> None:
    """Spark's JSON gives one report."""
    assert read_progress(PROGRESS, "fold") == BatchReport(
        batch=7,
        took_ms=317,
        stage_ms={
            "latestOffset": 7,
            "queryPlanning": 30,
            "walCommit": 46,
            "addBatch": 195,
            "commitOffsets": 39,
        },
        messages=3,
        changes=5,
        unreadable=1,
        newest_ms=60_000,
        records=2,
        end_offset=120,
        state_commit_ms=37,
    )


def test_an_empty_progress_is_read() -> None:
    """What Spark leaves out or sends as null is 0 or unknown."""
    nothing = {"observedMetrics": {"fold": {"changes": None, "newest_ms": None}}, "sources": [{}]}
    assert read_progress(nothing, "fold") == BatchReport(batch=0, took_ms=0)
    assert read_progress({"sink": {"numOutputRows": -1}}, "fold").records == 0
