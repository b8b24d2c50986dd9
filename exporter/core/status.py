"""How far the topics are read: the basis of /readyz, of the completeness of clusters and of the exporter's own metrics.

One immutable value, replaced by the reading thread. Whoever asks judges it by the time of the
question, so a thread that hangs cannot pass for a healthy one. The times are by a steady clock, which
starts at the machine's time and which nobody sets.
"""

from collections.abc import Callable, Iterable, Mapping

import msgspec

from controller_model.records.completeness import (
    LATE_BEATS_MS,
    ReaderProgress,
    Stage,
    Status,
    assess,
)
from controller_model.records.views import WatcherBeat
from exporter.core.life_signs import LifeSigns
from exporter.core.records import ClusterSnapshot
from pipeline.clock import clock_ms, steady_ms
from pipeline.supervised_thread import STANDSTILL_S


class ReadingStatus(msgspec.Struct, frozen=True, kw_only=True):
    """How far views and events are read. Times are milliseconds since 1970, by the steady clock set at the start."""

    stage: str = "waiting for the pipeline's Kafka and its topics"
    """What the reader does now, in words for people."""
    bootstrap_servers: str | None = None
    """The pipeline's Kafka that is read: `kcm up` starts one on a port that is not known beforehand."""
    read_to_end_once: bool = False
    """Both topics were read to the ends that they had at the start."""
    records_left: int | None = None
    """Records between what was read and the known ends of the topics; None before the ends are known."""
    read_to_end_at: int | None = None
    """When `read_to_end_once` became true."""
    read_at: int | None = None
    """When everything in the topics had last been read; None before the first time."""
    kafka_answered_at: int | None = None
    kafka_failure: str | None = None
    """Why Kafka did not answer the last time; None if it did."""
    topics_gone: tuple[str, ...] = ()
    """Topics that existed and no longer do."""
    log_moved_at: Mapping[int, int] = {}
    """When the log was last seen to grow, by partition; absent: not since the start."""


def reasons_not_ready(
    status: ReadingStatus, now: int, *, kafka_gone_ms: float, still_ms: int = 0
) -> list[str]:
    """Return why the figures should not be relied on, a line for each reason; empty when ready.

    `still_ms`: for how long the reading thread has stood still. Nothing is known about Kafka for that time.

    >>> reasons_not_ready(
    ...     ReadingStatus(read_to_end_once=True, kafka_answered_at=0), 20_000, kafka_gone_ms=15_000
    ... )
    ["the pipeline's Kafka has not answered for 20 s"]
    """
    reasons = []
    if not status.read_to_end_once:
        left = f": {status.records_left} records left" if status.records_left else ""
        reasons.append(f"{status.stage}{left}")
    # Records are answers as well: a Kafka that fails before it answers the first question is gone.
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


class ReadingState:
    """How far the topics are read now: written by the reading thread, read by any thread."""

    def __init__(
        self,
        status: ReadingStatus,
        *,
        steady: Callable[[], int] = steady_ms,
        wall: Callable[[], int] = clock_ms,
    ) -> None:
        """Take two clocks: `steady` measures ages; `wall` is compared with the clocks of others."""
        self.status = status
        self.still_ms = 0
        """For how long the reading thread has stood still, in ms: written by the thread that watches it."""
        self.delays_ms: dict[str, int | None] = {}
        """How long the newest change of each cluster took from the watcher to the exporter.

        None: it is not known, because the watcher's clock is ahead.
        """
        self.steady = steady
        self._wall = wall
        self._shown_at: dict[int, int] = {}
        """When views of any cluster were last shown, by partition of the topics."""
        self._signs: dict[str, LifeSigns] = {}

    def note_beat(self, beat: WatcherBeat, *, is_live: bool) -> None:
        """Note a watcher's beat; not `is_live`: it was read before the end of its topic."""
        held = self._signs.get(beat.cluster, LifeSigns())
        self._signs[beat.cluster] = held.with_beat(
            beat, self.steady(), is_live=is_live, read_at=self.status.read_at
        )

    def note_clusters(
        self, clusters: Mapping[str, ClusterSnapshot], changed: Iterable[str], *, is_live: bool
    ) -> None:
        """Note the current views of the clusters that changed."""
        for name in changed:
            if name not in clusters:
                self._signs.pop(name, None)
                self.delays_ms.pop(name, None)
                continue
            self._shown_at[clusters[name].partition] = self.steady()
            held = self._signs.get(name, LifeSigns())
            self._signs[name] = held.with_view(
                clusters[name].view, self.steady(), is_live=is_live, read_at=self.status.read_at
            )

    def forget_signs(self) -> None:
        """Begin again after the topic was created again: the signs noted so far were of the old one."""
        self._signs = {}

    def of_cluster(self, snapshot: ClusterSnapshot) -> ReaderProgress:
        """Return how far the records of a cluster are read, for its completeness.

        The end of the log does not show which cluster its records are about. So its growth is compared with
        the newest views of any cluster in the partition: if they are late, so is the fold. Both times are by
        this process's steady clock, for a record has the time that its writer's clock had.
        """
        status = self.status
        moved_at = status.log_moved_at.get(snapshot.partition)
        shown_at = self._shown_at.get(snapshot.partition)
        ahead_ms = None if moved_at is None or shown_at is None else moved_at - shown_at
        signs = self._signs.get(snapshot.name, LifeSigns())
        progress = signs.progress(
            self.steady(),
            wall=self._wall(),
            read_at=status.read_at,
            source=Stage.ZOOKEEPER if snapshot.view.has_zookeeper else Stage.CONTROLLER,
        )
        began_at = status.read_to_end_at
        began_ms = None if began_at is None else self.steady() - began_at
        return msgspec.structs.replace(progress, log_ahead_ms=ahead_ms, began_ms=began_ms)

    def awaited(self, snapshots: Mapping[str, ClusterSnapshot]) -> list[str]:
        """Return the clusters whose signs have yet to advance; empty once they had `LATE_BEATS_MS` for it."""
        began_at, now = self.status.read_to_end_at, self.steady()
        if began_at is None or now - began_at > LATE_BEATS_MS:
            return []
        late = {Status.BEHIND, Status.BLIND}
        return [
            n
            for n, s in snapshots.items()
            if assess(s.view, self.of_cluster(s), now).status in late
        ]
