"""Writes one watcher's log for one term: what is read back, published and acknowledged, under its lease.

The rule: nothing is published without a valid lease, and a record of another watcher makes the lease
unproven before anything else is published. The source's main loop calls `check` before it decides,
`send` after it decided, and `beat` at the end.
"""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NamedTuple

from controller_model.records.views import ClusterView, WatcherBeat
from pipeline.clock import clock_ms
from pipeline.kafka_errors import ReadTrouble, TopicReadError
from pipeline.runtime import get_logger
from pipeline.topics import EnsuredTopics
from source_log.beats import Beats, CompleteBeat
from source_log.config import SourceSettings
from source_log.fold_lag import FoldLag
from source_log.lease import Lease, LeaseLostError, LeaseStatus
from source_log.log_completeness import LogCompleteness
from source_log.publisher import Publisher
from source_log.readback import DecodeRecords, History, ReadBack, Readback
from source_log.recorder import LogRecorder

CLOSE_TIMEOUT_S = 2.0
"""How long the end waits for Kafka to acknowledge the last changes."""


CUT_OFF_MS = 20_000
"""A leader that does not reach the log for this long resigns, if others stood for election all the time: they do.
Where the log is away for all, they withdraw before this (`terms.PROBE_INTERVAL_S`), and changes wait for its return."""

HURRY_MS = 1_000
"""Where the log is complete only as of longer ago, and could be as of a newer question, what waits for others is sent:
ZooKeeper is asked once a second, so readers see figures as old as without waits."""


class LogLostError(Exception):
    """The log accepts no more changes from this producer: topics gone, fenced, not authorized, or out of reach."""

    def __init__(self, reason: str, dropped: int) -> None:
        super().__init__(reason)
        self.dropped = dropped


class Dropped(NamedTuple):
    """Changes that did not fit into the buffer, and why they waited."""

    changes: int
    reason: str


class LogClients(NamedTuple):
    """What one watcher's log is written with, and read back."""

    publisher: Publisher
    beats: Beats
    readback: Readback


OpenClients = Callable[[SourceSettings, EnsuredTopics, str, DecodeRecords | None], LogClients]
"""Opens the clients of the watcher of this name."""


def kafka_clients(
    settings: SourceSettings, topics: EnsuredTopics, watcher: str, decode: DecodeRecords | None
) -> LogClients:
    """Return clients of the pipeline's Kafka. `decode`: see `Readback`."""
    return LogClients(
        Publisher(settings, topics),
        Beats(settings, topics, watcher),
        Readback(settings, topics, watcher, decode),
    )


class LogWriter:
    """The log of one cluster, as the leading watcher writes it."""

    def __init__(
        self,
        settings: SourceSettings,
        topics: EnsuredTopics,
        lease: Lease,
        recorder: LogRecorder,
        *,
        on_lead: Callable[[bool], None],
        on_sent: Callable[[int], None],
        decode: DecodeRecords | None = None,
        open_clients: OpenClients = kafka_clients,
    ) -> None:
        """Open the clients. `on_lead` is told whether this watcher may write; `decode`: see `Readback`.

        `on_sent` is told the delay of each change that is news (`Publisher.add`), in ms, when it is given to Kafka.
        """
        name = recorder.generations.name
        self._lease, self._recorder, self._on_lead = lease, recorder, on_lead
        self._on_sent = on_sent
        self._log = get_logger("watcher").bind(cluster=settings.cluster, watcher=name)
        self.publisher, self._beats, self._readback = open_clients(settings, topics, name, decode)
        self._fold_lag = FoldLag()
        self.completeness = LogCompleteness()
        self._unproven = False
        self._acknowledged = self.publisher.acknowledged
        self._useful_at: int | None = None
        """When the log could be reached, or nobody else would have done better; None before the first check."""
        self._contested_generation = 0

    def begin(self, stop: threading.Event, put: Callable[[ReadBack], None]) -> History | None:
        """Read what was written before the start, then pass what others write to `put`, in a thread.

        Return None when `stop` is set first. Raise LeaseLostError when another watcher leads.
        """
        with self._without_topics():
            history = self._readback.history(
                stop, while_=lambda: self._lease.status is not LeaseStatus.LOST
            )
        if stop.is_set():
            return None
        if history is None:
            raise LeaseLostError  # everything that follows needs the lead
        self._lease.report_alive()
        self._on_lead(True)
        self._recorder.generations.observe_generation(history.generation)
        self._readback.follow(put)
        return history

    def check(self, now_ms: int) -> None:
        """Serve the producer; raise LogLostError or the error that ended the reading of the topics."""
        failure = self.publisher.poll()
        if failure is not None:
            reason = f"the pipeline's Kafka refused changes: {failure.reason}"
            raise self._lost(reason, failure.changes)
        self._check_reach(now_ms)
        with self._without_topics():
            self._readback.check()
        self._recorder.clock_ahead_ms = clock_ms() - now_ms

    def _check_reach(self, now_ms: int) -> None:
        """Give up a log that this watcher does not reach, if others stand ready to write it."""
        before, self._acknowledged = self._acknowledged, self.publisher.acknowledged
        accepts = self.publisher.idle or before != self._acknowledged
        is_cut_off = not (accepts or self._unproven) and self._readback.is_away
        if self._useful_at is None or not is_cut_off or not self._lease.others:
            self._useful_at = now_ms
        elif now_ms - self._useful_at > CUT_OFF_MS:
            raise self._lost(
                f"the pipeline's Kafka was out of reach for {CUT_OFF_MS // 1000} s, and another watcher reaches it"
            )

    @property
    def is_flushed(self) -> bool:
        """Whether Kafka has acknowledged all changes, and the next ones may be published."""
        return self.publisher.idle and not self._unproven

    def has_room(self, now_ms: int) -> bool:
        """Return whether what is not news may be published now: the buffer has room and the fold follows."""
        return self.publisher.has_room and (
            not self._readback.is_shared
            or self._fold_lag.allows_walk(self._recorder.generations.position, now_ms)
        )

    def on_view(self, view: ClusterView, now_ms: int) -> None:
        """Note how far the fold is, and whom it follows."""
        self.observe_writer(view.log.watcher, view.as_of.generation)
        published = self._recorder.generations.position
        self._fold_lag.on_view(view.as_of.position, published, now_ms)

    def observe_writer(self, watcher: str, generation: int) -> None:
        """Invalidate the lease when another watcher writes: it may be the leader that succeeded us."""
        competes = self._recorder.generations.competes(watcher, generation)
        if competes and generation > self._contested_generation:
            self._contested_generation = generation
            self._lease.invalidate()

    def send(self, now_ms: int, *, may_drop: bool) -> Dropped | None:
        """Publish what waits, if the lease is valid; raise LeaseLostError when it has ended.

        With `may_drop`, drop and return what exceeds the buffer. It is checked after publishing:
        changes that the producer accepts at once do not wait, so a resync's replies alone do not
        exceed it.
        """
        if self._may_publish():
            for happened_ms in self.publisher.pump(now_ms):
                self._on_sent(clock_ms() - happened_ms)
        if not may_drop or not self.publisher.overflowing():
            return None
        reason = (
            "the lease could not be proved"
            if self._unproven
            else "the pipeline's Kafka did not accept changes"
        )
        return Dropped(self.publisher.drop_waiting(), f"{reason} in time")

    def _may_publish(self) -> bool:
        status = self._lease.status
        if status is LeaseStatus.LOST:
            raise LeaseLostError
        unproven = status is LeaseStatus.UNPROVEN
        if unproven is not self._unproven:
            self._unproven = unproven
            self._on_lead(not unproven)
            self._log.warning(
                "the lease is unproven: changes wait"
                if unproven
                else "the lease is proved again: changes are published"
            )
        return not unproven

    def beat(self, now_ms: int, *, oldest_round: int, complete: CompleteBeat) -> None:
        """Send a beat if one is due and the lease is valid. `oldest_round`: see `LogCompleteness`."""
        is_read = self.completeness.advance(
            oldest_round=oldest_round,
            published=self._recorder.generations.position,
            acknowledged=self.publisher.acknowledged,
        )
        complete_ms = self.completeness.complete_ms(now_ms)
        if is_read and (complete_ms is None or complete_ms > HURRY_MS):
            self.publisher.hurry()
        if self._unproven:
            return
        self._beats.beat(
            now_ms,
            generation=self._recorder.generations.generation,
            acknowledged=self.publisher.acknowledged,
            log_complete_ms=complete_ms,
            complete=complete,
        )
        refusal = self._beats.pop_refusal()
        if refusal is not None:
            self._log.warning("the pipeline's Kafka refuses the watcher's beats", reason=refusal)

    def observe_beat(self, beat: WatcherBeat) -> None:
        """Note a beat of another watcher of our generation, so that ours follow it."""
        self._beats.continue_from(beat)

    def close(self) -> None:
        """Publish what waits while the lease is valid, drop it otherwise, and leave Kafka."""
        self._readback.close()
        self._beats.close()
        if self._lease.status is not LeaseStatus.VALID:
            self.publisher.abandon()
        elif not self.publisher.close(CLOSE_TIMEOUT_S):
            self._log.warning(
                "the pipeline's Kafka did not acknowledge the last changes in time",
                bytes_held=self.publisher.bytes_held,
            )

    @contextmanager
    def _without_topics(self) -> Iterator[None]:
        """Report topics that were deleted as a lost log."""
        try:
            yield
        except TopicReadError as error:
            if error.trouble is not ReadTrouble.MISSING:
                raise
            raise self._lost(str(error)) from None

    def _lost(self, reason: str, changes: int = 0) -> LogLostError:
        """Return the error that the log is lost; count these changes and those that wait as dropped."""
        changes += self.publisher.drop_waiting()
        return LogLostError(reason, self._recorder.dropped + changes)
