"""Where the reading is: what /readyz, the completeness of clusters and our own metrics are based on.

The rule: one immutable value, replaced by the thread that reads; whoever asks decides with the
time of the question, so a thread that hangs cannot pass for a healthy one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from controller_model.records.completeness import ReaderProgress, sign_of_life
from exporter.core.records import ClusterSnapshot


class ReadingStatus(msgspec.Struct, frozen=True, kw_only=True):
    """The reading of views and events. Times are milliseconds since 1970 on our clock."""

    stage: str = "waiting for the pipeline's Kafka and its topics"
    """What the reader does, for people."""
    bootstrap_servers: str | None = None
    """The pipeline's Kafka that is read: `kcm up` starts one on a port that nobody could know."""
    read_to_end_once: bool = False
    """Both topics were read to the ends that they had at the start."""
    records_left: int | None = None
    """Records between what was read and the ends known; None before the ends are known."""
    read_at: int | None = None
    """When everything that there was had been read; None before the first time."""
    kafka_answered_at: int | None = None
    kafka_failure: str | None = None
    """Why Kafka's last answer is missing; None if it is not."""
    topics_gone: tuple[str, ...] = ()
    """Topics that were there and are not any more."""
    log_written_at: Mapping[int, int] = {}
    """The timestamp of the newest record of the log, by partition."""


def reasons_not_ready(status: ReadingStatus, now: int, *, kafka_gone_ms: float) -> list[str]:
    """Return why the figures should not be relied on, a line each; empty when ready.

    >>> reasons_not_ready(
    ...     ReadingStatus(read_to_end_once=True, kafka_answered_at=0), 20_000, kafka_gone_ms=15_000
    ... )
    ["the pipeline's Kafka has not answered for 20 s"]
    """
    reasons = []
    if not status.read_to_end_once:
        left = f": {status.records_left} records left" if status.records_left else ""
        reasons.append(f"{status.stage}{left}")
    # Records are answers as well: a Kafka that went before the first question was answered is gone.
    answered = status.read_at if status.kafka_answered_at is None else status.kafka_answered_at
    if answered is not None and now - answered > kafka_gone_ms:
        why = f": {status.kafka_failure}" if status.kafka_failure else ""
        waited_s = (now - answered) // 1000
        reasons.append(f"the pipeline's Kafka has not answered for {waited_s} s{why}")
    reasons += [f"topic {topic} is gone" for topic in status.topics_gone]
    return reasons


def reading_of_cluster(
    status: ReadingStatus, partition: int, newest_sign_in_partition: int | None
) -> ReaderProgress:
    """Return what our reading says about a cluster whose records are in this partition.

    The newest record of the log does not show which cluster it is about, so it is held against the newest
    sign of life of any cluster in the partition: if that is late, the fold is.
    """
    written = status.log_written_at.get(partition)
    if written is None or newest_sign_in_partition is None:
        return ReaderProgress(read_at=status.read_at)
    return ReaderProgress(read_at=status.read_at, log_ahead_ms=written - newest_sign_in_partition)


def newest_signs(clusters: Iterable[ClusterSnapshot]) -> dict[int, int]:
    """Return the newest sign of life of any watcher, by partition of the topics."""
    newest: dict[int, int] = {}
    for snapshot in clusters:
        sign = sign_of_life(snapshot.view)
        if sign is not None:
            newest[snapshot.partition] = max(sign, newest.get(snapshot.partition, 0))
    return newest


class ReadingState:
    """Where the reading is now: replaced by the thread that reads, read by any thread."""

    def __init__(self, bootstrap_servers: str) -> None:
        self.status = ReadingStatus(bootstrap_servers=bootstrap_servers)
        self.newest_signs: dict[int, int] = {}
        """The newest sign of life of any watcher, by partition of the topics."""

    def of_cluster(self, snapshot: ClusterSnapshot) -> ReaderProgress:
        """Return how far the records of a cluster are read, for its completeness."""
        partition = snapshot.partition
        return reading_of_cluster(self.status, partition, self.newest_signs.get(partition))
