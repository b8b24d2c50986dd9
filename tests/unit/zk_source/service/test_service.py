"""The metrics that the watcher serves, and the intervals that it derives from the settings."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from pipeline.settings import load
from zk_source.config import WatchSettings
from zk_source.service.metrics import GAUGES, TOTALS
from zk_source.service.service import figures, intervals
from zk_source.watcher.watcher import Intervals, Watcher

pytestmark = pytest.mark.usefixtures("no_settings_of_the_machine")


def test_every_figure_has_a_metric_and_every_metric_a_figure() -> None:
    """A name that only one of the two has would be served without a value, or end the watcher."""
    publisher: Any = SimpleNamespace(waiting=3, bytes_held=4, omitted=5, bytes_published=6)
    read = figures(Watcher("prod", "a", 0), publisher, queue_length=2)
    assert set(read) == {*GAUGES, *TOTALS}
    assert {name: value for name, value in read.items() if value} == {
        "queue_length": 2,
        "buffer_changes": 3,
        "buffer_bytes": 4,
        "omitted_data": 5,
        "published_bytes": 6,
    }


def test_the_settings_as_shipped_are_the_intervals_as_shipped() -> None:
    """Seconds become milliseconds, and simulations use the shipped values."""
    assert intervals(load(WatchSettings)) == Intervals()


def test_each_interval_follows_its_setting() -> None:
    """None of them is left as shipped where an operator has set it."""
    settings = load(
        WatchSettings,
        heartbeat_s=7,
        reconciliation_interval_s=8,
        full_resync_s=9,
        resync_reads_per_s=10,
        reconciliation_reads_per_s=11,
        session_timeout_s=30,
    )
    assert intervals(settings) == Intervals(
        heartbeat_ms=7_000,
        reconciliation_ms=8_000,
        resync_ms=9_000,
        resync_reads_per_s=10,
        reconciliation_reads_per_s=11,
        new_client_ms=settings.most_silent_ms,
    )
    assert settings.most_silent_ms != Intervals().new_client_ms
