"""A failover's time is an interval between two bounds, or not known."""

from __future__ import annotations

from typing import Any

import pytest

from controller_model.kafka.ids import Position
from controller_model.records.events import AnyEvent, FailoverWork, LogDirFailed
from rehearsal.failover import LastFailover, failover_work

HEAD: dict[str, Any] = {"at": 1000, "position": Position(1, 5)}


def _work(took_ms: int, partitions: int) -> FailoverWork:
    return FailoverWork(**HEAD, controller=1, epoch=7, took_ms=took_ms, partitions=partitions)


@pytest.mark.parametrize(
    ("event", "last"),
    [
        (_work(took_ms=800, partitions=100), LastFailover(100, 800)),
        (_work(took_ms=0, partitions=1), LastFailover(1, 0)),
        (_work(took_ms=800, partitions=0), None),
        (LogDirFailed(**HEAD, broker=3), None),
    ],
)
def test_only_a_failover_that_wrote_a_leader_is_used_as_a_measure(
    event: AnyEvent, last: LastFailover | None
) -> None:
    """If no leader write was due, nothing shows how long one takes."""
    assert LastFailover.of(event) == last


@pytest.mark.parametrize(
    ("partitions", "bounds"),
    [(0, (0, 800)), (50, (400, 800)), (100, (800, 800)), (250, (800, 2000))],
)
def test_failover_bounds_assume_all_time_for_reads_or_all_for_writes(
    partitions: int, bounds: tuple[int, int]
) -> None:
    """Reading takes as long as last time, writing a time for each leader; the smaller is the minimum."""
    work = failover_work(partitions, 7, LastFailover(partitions=100, took_ms=800))
    assert (work.at_least_ms, work.at_most_ms) == bounds
    assert (work.partitions, work.zookeeper_writes) == (partitions, 7)


@pytest.mark.parametrize("last", [None, LastFailover(partitions=0, took_ms=800)])
def test_without_a_last_failover_no_duration_is_estimated(last: LastFailover | None) -> None:
    """Also after a failover that wrote no leader; the work is known all the same."""
    work = failover_work(50, 100, last)
    assert (work.at_least_ms, work.at_most_ms) == (None, None)
    assert (work.partitions, work.zookeeper_writes) == (50, 100)
