"""The fold's own figures, from Spark's progress to samples."""

from __future__ import annotations

from typing import Any

from prometheus_client import CollectorRegistry

from streaming.metrics import FoldMetrics
from streaming.progress import read_progress

PROGRESS: dict[str, Any] = {
    "batchId": 7,
    "numInputRows": 3,
    "durationMs": {
        "addBatch": 195,
        "commitOffsets": 39,
        "getBatch": 0,
        "latestOffset": 7,
        "queryPlanning": 30,
        "triggerExecution": 317,
        "walCommit": 46,
    },
    "stateOperators": [{"commitTimeMs": 37}],
    "sources": [{"endOffset": {"kcm.changes": {"0": 100, "1": 20}}}],
    "sink": {"numOutputRows": 2},
    "observedMetrics": {
        "fold": {
            "changes": 5,
            "unreadable": 1,
            "unattributed": 0,
            "errors": 0,
            "newest_ms": 60_000,
        }
    },
}


def test_batches_add_up() -> None:
    """Counters grow by what each batch did."""
    registry = CollectorRegistry()
    metrics = FoldMetrics(registry, now_s=lambda: 100.0)
    report = read_progress(PROGRESS, "fold")
    metrics.observe(report)
    metrics.observe(report)
    assert registry.get_sample_value("kcm_fold_changes_total") == 10
    assert registry.get_sample_value("kcm_fold_messages_total") == 6
    assert registry.get_sample_value("kcm_fold_batch_seconds_count") == 2
    assert registry.get_sample_value("kcm_fold_last_batch_timestamp_seconds") == 100
    seconds = registry.get_sample_value("kcm_fold_stage_seconds_total", {"stage": "addBatch"})
    assert seconds == 0.39


def test_lag_is_absent_until_it_is_known() -> None:
    """Before the first batch nobody knows how far the log was folded."""
    registry = CollectorRegistry()
    metrics = FoldMetrics(registry, now_s=lambda: 100.0)
    metrics.measure_lag(120)
    assert registry.get_sample_value("kcm_fold_lag_records") is None


def test_lag_is_measured_against_the_logs_end() -> None:
    """Records not folded are counted, and their age is at most that of the newest folded one."""
    registry = CollectorRegistry()
    metrics = FoldMetrics(registry, now_s=lambda: 100.0)
    metrics.observe(read_progress(PROGRESS, "fold"))
    metrics.measure_lag(125)
    assert registry.get_sample_value("kcm_fold_lag_records") == 5
    assert registry.get_sample_value("kcm_fold_lag_seconds") == 40
    metrics.measure_lag(119)
    assert registry.get_sample_value("kcm_fold_lag_records") == 0
    assert registry.get_sample_value("kcm_fold_lag_seconds") == 0
    metrics.measure_lag(None)
    assert registry.get_sample_value("kcm_fold_lag_records") is None


def test_lag_grows_while_nothing_is_folded() -> None:
    """The age is that of the scrape: a fold that hangs looks later with each."""
    registry = CollectorRegistry()
    clock = iter((100.0, 101.0, 102.0, 103.0))
    metrics = FoldMetrics(registry, now_s=lambda: next(clock))
    metrics.observe(read_progress(PROGRESS, "fold"))
    metrics.measure_lag(125)
    ages = [registry.get_sample_value("kcm_fold_lag_seconds") for _ in range(3)]
    assert ages == [41, 42, 43]
