"""Spark's JSON progress is parsed into a batch's report."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from streaming.progress import BatchReport, ProgressReader, read_progress
from tests.support.progress import PROGRESS, Progress


def test_a_progress_is_read() -> None:
    """Spark's JSON gives one report."""
    assert read_progress(PROGRESS) == BatchReport(
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
    assert read_progress(nothing) == BatchReport(batch=0, took_ms=0)
    assert read_progress({"sink": {"numOutputRows": -1}}).records == 0


def test_each_batch_is_rendered_and_read_once() -> None:
    """Spark keeps the newest reports; those that were read before are not requested again."""
    kept = [Progress(PROGRESS | {"batchId": number}, f"00:0{number}") for number in range(6)]
    held = kept[:3]
    query: Any = SimpleNamespace(_jsq=SimpleNamespace(recentProgress=lambda: held))
    reader = ProgressReader()
    assert [report.batch for report in reader.read(query)] == [0, 1, 2]
    assert reader.read(query) == []
    held = kept[2:5]
    assert [report.batch for report in reader.read(query)] == [3, 4]
    held = kept[5:]
    assert [report.batch for report in reader.read(query)] == [5]
    assert [progress.rendered for progress in kept] == [1] * 6


def test_an_idle_progress_does_not_hide_the_next_batch() -> None:
    """Both are reported under one number; the second report is the batch."""
    idle = PROGRESS | {"batchId": 8, "durationMs": {"latestOffset": 1, "triggerExecution": 1}}
    held = [Progress(PROGRESS, "00:07"), Progress(idle, "00:08")]
    query: Any = SimpleNamespace(_jsq=SimpleNamespace(recentProgress=lambda: held))
    reader = ProgressReader()
    assert [report.batch for report in reader.read(query)] == [7]
    held.append(Progress(PROGRESS | {"batchId": 8}, "00:09"))
    assert [report.batch for report in reader.read(query)] == [8]
    assert reader.read(query) == []
