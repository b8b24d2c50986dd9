"""The fold's own figures, from a batch's report to samples."""

from __future__ import annotations

from dataclasses import replace

from prometheus_client import CollectorRegistry

from streaming.metrics import FoldMetrics
from streaming.progress import BatchReport

REPORT = BatchReport(
    batch=7,
    took_ms=317,
    stage_ms={"addBatch": 195},
    messages=3,
    changes=5,
    records=2,
    unreadable=1,
    newest_ms=60_000,
    end_offset=120,
    state_commit_ms=37,
)


def test_batches_add_up() -> None:
    """Counters grow by what each batch did."""
    registry = CollectorRegistry()
    metrics = FoldMetrics(registry, now_s=lambda: 100.0)
    metrics.observe(REPORT)
    metrics.observe(REPORT)
    totals = {"messages": 6, "changes": 10, "records": 4, "unreadable": 2}
    totals |= {"unattributed": 0, "errors": 0}
    for name, total in totals.items():
        assert registry.get_sample_value(f"kcm_fold_{name}_total") == total
    assert registry.get_sample_value("kcm_fold_state_commit_seconds_total") == 0.074
    assert registry.get_sample_value("kcm_fold_batch_seconds_count") == 2
    assert registry.get_sample_value("kcm_fold_last_batch_timestamp_seconds") == 100
    seconds = registry.get_sample_value("kcm_fold_stage_seconds_total", {"stage": "addBatch"})
    assert seconds == 0.39


def test_lag_is_absent_until_it_is_known() -> None:
    """Before the first batch it is unknown how far the log was folded."""
    registry = CollectorRegistry()
    metrics = FoldMetrics(registry, now_s=lambda: 100.0)
    metrics.measure_lag(120)
    assert registry.get_sample_value("kcm_fold_lag_records") is None


def test_lag_is_counted_where_no_time_could_be_read() -> None:
    """As where the first batch holds only what is unreadable."""
    registry = CollectorRegistry()
    metrics = FoldMetrics(registry, now_s=lambda: 100.0)
    metrics.observe(replace(REPORT, newest_ms=None))
    metrics.measure_lag(125)
    assert registry.get_sample_value("kcm_fold_lag_records") == 5
    assert registry.get_sample_value("kcm_fold_lag_seconds") is None


def test_lag_is_measured_against_the_logs_end() -> None:
    """Records not folded are counted, and their age is at most that of the newest folded one."""
    registry = CollectorRegistry()
    metrics = FoldMetrics(registry, now_s=lambda: 100.0)
    metrics.observe(REPORT)
    metrics.measure_lag(125)
    assert registry.get_sample_value("kcm_fold_lag_records") == 5
    assert registry.get_sample_value("kcm_fold_lag_seconds") == 40
    metrics.measure_lag(119)
    assert registry.get_sample_value("kcm_fold_lag_records") == 0
    assert registry.get_sample_value("kcm_fold_lag_seconds") == 0
    metrics.measure_lag(None)
    assert registry.get_sample_value("kcm_fold_lag_records") is None


def test_one_record_of_a_clock_that_is_ahead_hides_no_later_lag() -> None:
    """The next batch's times count again."""
    registry = CollectorRegistry()
    metrics = FoldMetrics(registry, now_s=lambda: 100.0)
    metrics.observe(replace(REPORT, newest_ms=3_600_000))
    metrics.observe(REPORT)
    metrics.measure_lag(125)
    assert registry.get_sample_value("kcm_fold_lag_seconds") == 40


def test_lag_grows_while_nothing_is_folded() -> None:
    """The age is as of the scrape: with each scrape, a fold that hangs is further behind."""
    registry = CollectorRegistry()
    clock = iter((100.0, 101.0, 102.0, 103.0))
    metrics = FoldMetrics(registry, now_s=lambda: next(clock))
    metrics.observe(REPORT)
    metrics.measure_lag(125)
    ages = [registry.get_sample_value("kcm_fold_lag_seconds") for _ in range(3)]
    assert ages == [41, 42, 43]
