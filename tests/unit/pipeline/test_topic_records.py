"""What there is to read of a partition."""

from __future__ import annotations

from pipeline.topic_records import Extent

PLACE = ("kcm.views", 3)


def test_a_tail_never_begins_before_the_partition() -> None:
    """Retention may have left fewer records than are asked for, or none."""
    assert Extent(PLACE, 90, 100).tail(20) == Extent(PLACE, 90, 100)
    assert Extent(PLACE, 0, 100).tail(20) == Extent(PLACE, 80, 100)
    assert Extent(PLACE, 7, 7).tail(20) == Extent(PLACE, 7, 7)
