"""Partitions with all replicas in one rack."""

from __future__ import annotations

import pytest

from controller_model.insight.racks import has_racks_to_spread_over, in_one_rack
from tests.support.partition_facts import up

RACKS = {1: "a", 2: "a", 3: "b", 4: None, 9: "b"}


@pytest.mark.parametrize(
    ("replicas", "expected"),
    [
        ((1, 2), True),
        ((3, 9), True),
        ((1, 3), False),
        ((4, 1), False),
        ((1, 4), False),
        ((4, 5), False),
        ((5, 6), False),
        ((1,), False),
        ((), False),
    ],
)
def test_two_or_more_replicas_in_a_rack_that_is_known(
    replicas: tuple[int, ...], expected: bool
) -> None:
    """A broker without a rack, or one never seen, may be anywhere; the rack of a gone one is known."""
    assert in_one_rack(replicas, RACKS) is expected


def test_racks_to_spread_over_need_live_brokers_in_two_racks() -> None:
    """A rack whose brokers are all gone does not count, nor does an unknown one."""
    assert has_racks_to_spread_over(up(1, 2, 3, racks=RACKS))
    assert not has_racks_to_spread_over(up(1, 2, racks=RACKS))
    assert not has_racks_to_spread_over(up(1, 2, 4, racks=RACKS))
    assert not has_racks_to_spread_over(up(4, 5, racks=RACKS))
