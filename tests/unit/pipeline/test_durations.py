"""Durations are parsed as Prometheus writes them."""

from __future__ import annotations

import pytest

from pipeline.durations import duration_ms


@pytest.mark.parametrize(
    ("text", "expected_ms"),
    [
        ("1ms", 1),
        ("90s", 90_000),
        ("1h30m", 5_400_000),
        ("2d", 172_800_000),
        ("1w", 604_800_000),
        ("1y", 31_536_000_000),
        ("0", 0),
        ("", 0),
        ("soon", 0),
        ("5 m", 0),
        ("5x", 0),
        ("1.5m", 0),
    ],
)
def test_a_time_is_read_as_prometheus_reads_it(text: str, expected_ms: int) -> None:
    """All units and their sums are; any other text gives 0."""
    assert duration_ms(text) == expected_ms
