"""Where the reading is: what /readyz, the completeness of clusters and our own metrics are based on.

The rule: one immutable value, replaced by the thread that reads; whoever asks decides with the
time of the question, so a thread that hangs cannot pass for a healthy one. The times are by a clock
that nobody sets: it began as the machine's.
"""

from collections.abc import Callable, Iterable, Mapping

import msgspec

from controller_model.records.completeness import (
    LATE_BEATS_MS,
    ReaderProgress,
    Status,
    assess,
    sign_of_life,
)
from controller_model.records.views import WatcherBeat
from exporter.core.life_signs import LifeSigns
from exporter.core.records import ClusterSnapshot
from pipeline.clock import clock_ms, steady_ms
from pipeline.supervised_thread import STANDSTILL_S


class ReadingStatus(msgspec.Struct, frozen=True, kw_only=True):
    """The reading of views and events. Times are milliseconds since 1970, by our clock as of the start."""

    stage: str = "waiting for the pipeline's Kafka and its topics"
    """What the reader does, for people."""
    bootstrap_servers: str | None = None
    """The pipeline's Kafka that is read: `kcm up` starts one on a port that nobody could know."""
    read_to_end_once: bool = False
    """Both topics were read to the ends that they had at the start."""
    records_left: int | None = None
    """Records between what was read and the ends known; None before the ends are known."""
    read_to_end_at: int | None = None
    """When that was so for the first time."""
    read_at: int | None = None
    """When everything that there was had been read; None before the first time."""
    kafka_answered_at: int | None = None
    kafka_failure: str | None = None
    """Why Kafka's last answer is missing; None if it is not."""
    topics_gone: tuple[str, ...] = ()
    """Topics that were there and are not any more."""
    log_written_at: Mapping[int, int] = {}
    """The timestamp of the newest record of the log, by partition."""


def reasons_not_ready(
    status: ReadingStatus, now: int, *, kafka_gone_ms: float, still_ms: int = 0
) -> list[str]:
    """Return why the figures should not be relied on, a line each; empty when ready.

    `still_ms`: for how long the thread that reads has stood still. Of that time nothing is known of Kafka.

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
    if still_ms > min(kafka_gone_ms, STANDSTILL_S * 1000):
        reasons.append(
            f"the exporter has read nothing for {still_ms // 1000} s: its reading thread stands still; "
            "see its log, and restart it"
        )
    if answered is not None and now - answered - still_ms > kafka_gone_ms:
        why = f": {status.kafka_failure}" if status.kafka_failure else ""
        waited_s = (now - answered) // 1000
        reasons.append(f"the pipeline's Kafka has not answered for {waited_s} s{why}")
    reasons += [f"topic {topic} is gone" for topic in status.topics_gone]
    return reasons


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

    def __init__(
        self,
        status: ReadingStatus,
        *,
        steady: Callable[[], int] = steady_ms,
        wall: Callable[[], int] = clock_ms,
    ) -> None:
        """Take two clocks: ages stand on `steady`; `wall` is held against the clocks of others."""
        self.status = status
        self.still_ms = 0
        """For how long the thread that reads has stood still: replaced by the one that watches it."""
        self.steady = steady
        self._wall = wall
        self.newest_signs: dict[int, int] = {}
        """The newest sign of life of any watcher, by partition of the topics."""
        self._signs: dict[str, LifeSigns] = {}

    def note_beat(self, beat: WatcherBeat, *, is_live: bool) -> None:
        """Take a watcher's beat in; not `is_live`: it was read before the end of its topic."""
        held = self._signs.get(beat.cluster, LifeSigns())
        self._signs[beat.cluster] = held.with_beat(
            beat, self.steady(), wall=self._wall(), is_live=is_live
        )

    def note_clusters(
        self, clusters: Mapping[str, ClusterSnapshot], changed: Iterable[str], *, is_live: bool
    ) -> None:
        """Take in what is shown now of the clusters that changed."""
        self.newest_signs = newest_signs(clusters.values())
        for name in changed:
            if name not in clusters:
                self._signs.pop(name, None)
                continue
            held = self._signs.get(name, LifeSigns())
            self._signs[name] = held.with_view(
                clusters[name].view, self.steady(), wall=self._wall(), is_live=is_live
            )

    def forget_signs(self) -> None:
        """Begin again: the topic was created again, and what was heard came from another one."""
        self._signs = {name: signs.without_topic() for name, signs in self._signs.items()}

    def of_cluster(self, snapshot: ClusterSnapshot) -> ReaderProgress:
        """Return how far the records of a cluster are read, for its completeness.

        The newest record of the log does not show which cluster it is about, so it is held against
        the newest sign of life of any cluster in the partition: if that is late, the fold is.
        """
        status = self.status
        written = status.log_written_at.get(snapshot.partition)
        sign = self.newest_signs.get(snapshot.partition)
        ahead_ms = None if written is None or sign is None else written - sign
        signs = self._signs.get(snapshot.name, LifeSigns())
        progress = signs.progress(self.steady(), read_at=status.read_at)
        began_at = status.read_to_end_at
        began_ms = None if began_at is None else self.steady() - began_at
        return msgspec.structs.replace(progress, log_ahead_ms=ahead_ms, began_ms=began_ms)

    def awaited(self, snapshots: Mapping[str, ClusterSnapshot]) -> list[str]:
        """Return the clusters whose signs have yet to advance; none once there was time for it."""
        began_at, now = self.status.read_to_end_at, self.steady()
        if began_at is None or now - began_at > LATE_BEATS_MS:
            return []
        late = {Status.BEHIND, Status.BLIND}
        return [
            n
            for n, s in snapshots.items()
            if assess(s.view, self.of_cluster(s), now).status in late
        ]
