"""How long a failover's work may take, estimated from this cluster's last one.

The rule: a failover reads all topics and then writes a state for each partition whose leader is gone. How
much of the last one's time each of the two took is not known. So there are two bounds, for a failover that
only reads and for one that only writes, and no figure between them.
"""

from __future__ import annotations

import msgspec

from controller_model.records.events import AnyEvent, FailoverWork
from rehearsal.report import FailoverEstimate


class LastFailover(msgspec.Struct, frozen=True):
    """The last failover of a cluster in which leaders had to be written (events.FailoverWork)."""

    partitions: int
    took_ms: int

    @classmethod
    def of(cls, event: AnyEvent) -> LastFailover | None:
        """Return the failover that an event reports; None for another event, or if no leader had to be written."""
        if isinstance(event, FailoverWork) and event.partitions:
            return cls(event.partitions, event.took_ms)
        return None


def failover_work(partitions: int, writes: int, last: LastFailover | None) -> FailoverEstimate:
    """Return an estimate of a failover with so many partitions whose leader is gone.

    >>> work = failover_work(50, 100, LastFailover(partitions=100, took_ms=800))
    >>> work.at_least_ms, work.at_most_ms
    (400, 800)
    >>> failover_work(50, 100, None).at_least_ms is None
    True
    """
    bounds: tuple[int | None, int | None] = (None, None)
    if last is not None and last.partitions:
        scaled = last.took_ms * partitions // last.partitions
        bounds = min(scaled, last.took_ms), max(scaled, last.took_ms)
    return FailoverEstimate(
        partitions=partitions, zookeeper_writes=writes, at_least_ms=bounds[0], at_most_ms=bounds[1]
    )
