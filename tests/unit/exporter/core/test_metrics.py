"""The exporter's metrics about itself, in both formats of /metrics."""

from __future__ import annotations

import pytest
from prometheus_client import CollectorRegistry

from exporter.core.metrics import ExporterMetrics
from exporter.core.render import Format


@pytest.mark.parametrize("format_", Format)
def test_the_exposition_has_no_end_mark(format_: Format) -> None:
    """The end mark is added where the answer is put together."""
    metrics = ExporterMetrics(CollectorRegistry())
    metrics.records.labels("kcm.views").inc(3)
    body = metrics.exposition(format_)
    assert b'\nkcm_exporter_records_total{topic="kcm.views"} 3.0\n' in body
    assert Format.OPENMETRICS.end not in body


def test_two_exporters_in_one_process_have_separate_counters() -> None:
    """Instruments are registered in the registry that is passed in."""
    one, other = (ExporterMetrics(CollectorRegistry()) for _ in range(2))
    one.commits.inc()
    assert b"\nkcm_exporter_batches_total 1.0\n" in one.exposition(Format.TEXT)
    assert b"\nkcm_exporter_batches_total 0.0\n" in other.exposition(Format.TEXT)
