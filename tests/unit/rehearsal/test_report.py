"""A report is shortened without losing a count."""

from __future__ import annotations

from rehearsal.report import shortened
from tests.support.partition_facts import part
from tests.support.rehearsing import rehearsed


def test_a_report_can_be_shortened() -> None:
    """Lists of partitions are cut, the counts of all stay."""
    whole = rehearsed(
        "kill-broker:1", partitions=[part(n, replicas=(1,), isr=(1,)) for n in range(3)]
    )
    short = shortened(whole, 1)
    (step,) = short.steps
    assert (step.changes.count, len(step.changes.partitions)) == (3, 1)
    assert (step.went_offline.count, len(step.went_offline.partitions)) == (3, 1)
    assert (short.outages.count, len(short.outages.outages)) == (3, 1)
    assert shortened(whole, 3) == whole
