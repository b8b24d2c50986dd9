"""Apply the log to a cluster: one record after the other, in batches whose events the trackers process.

The rule: `replay` never raises because of what the log holds. It compares each record by its position in
the log, and passes it to the cluster's source, which makes facts of it. A health sample is tracked right after
the record at which it was taken, so that incidents and recommendations are the same however the log is cut
into batches.
"""

from collections.abc import Callable, Sequence
from typing import Any

from controller_model.fold.log_clock import LEAP_MS, advance_clock
from controller_model.handlers.apply import apply_fact
from controller_model.kafka.ids import Position, new_tuple
from controller_model.records.election_requests import ElectionRequest
from controller_model.records.events import AnyEvent
from controller_model.state.cluster import ClusterState
from controller_model.state.completeness import count_anomaly, mark_incomplete, mark_unfollowed
from controller_model.state.incident_state import HealthSample
from controller_model.state.log_state import LogState
from controller_model.state.source import LogRecord
from controller_model.tracking import asked_elections, incident_tracker, recommendation_tracker

Reported = tuple[list[AnyEvent], HealthSample | None]
"""Events, and the health sample that was taken after them, if there was one."""


class EventBatch:
    """Applies records to a cluster and collects their events.

    Args:
        state: The cluster to which the records are applied.
        fatal: Exceptions of the topic store: they are raised. Any other exception is a bug of kcm; it
            is counted and reported, and must not stop the fold.
    """

    def __init__(self, state: ClusterState, *, fatal: tuple[type[BaseException], ...] = ()) -> None:
        self.state = state
        self.errors = 0
        """Records that raised an unexpected exception, which is a bug of kcm."""
        self._fatal = fatal
        self._events: list[AnyEvent] = []
        self._tracked = 0

    def apply(
        self, record: Any, edit: Callable[[list[AnyEvent]], list[AnyEvent]] | None = None
    ) -> None:
        """Apply one record of the cluster's source; `edit` may change what it reports."""
        for part in self.state.source.split(record):
            try:
                events, sample = replay(self.state, part)
            except self._fatal:
                raise
            except Exception as error:  # noqa: BLE001  # a bug of kcm must not stop the fold: it is reported
                self.errors += 1
                events, sample = count_error(self.state, part, _in_words(error)), None
            self._events += events if edit is None else edit(events)
            if sample is not None:
                self._track(sample)

    def store_request(self, request: ElectionRequest) -> None:
        """Store a request that `kcm elect` is about to make; it reports nothing, and moves neither position nor time."""
        asked_elections.store_request(self.state.control, request)

    def count_unreadable(self, records: int, *, at: int, reason: str) -> None:
        """Count records of the log that could not be read, and report them."""
        self.state.control.log.view.unreadable += records
        self.add([count_anomaly(self.state, at=at, path="", reason=reason)])

    def add(self, events: Sequence[AnyEvent]) -> None:
        """Add reported events."""
        self._events += events

    def take_events(self) -> list[AnyEvent]:
        """Return the events since the last call, including those of the trackers."""
        self._track(None)
        events, self._events = self._events, []
        self._tracked = 0
        return events

    def finish(self) -> list[AnyEvent]:
        """End the batch and return its events."""
        self.finish_failover()
        return self.take_events()

    def finish_failover(self) -> None:
        """Report what only the end of a batch shows: a failover whose work disappeared without a write.

        Everything else is reported by the record that shows it, so that no event depends on where a batch ends.
        """
        self._events += self.state.source.finish_batch(self.state, apply_fact)

    def _track(self, sample: HealthSample | None) -> None:
        news = self._events[self._tracked :]
        for track in (incident_tracker.track, recommendation_tracker.track):
            try:
                self._events += track(self.state, news, sample)
            except self._fatal:
                raise
            except Exception as error:  # noqa: BLE001  # a bug of kcm must not stop the fold: it is reported
                control = self.state.control
                control.log.view.errors += 1
                reason = f"an error of the monitor's own in its accounts: {_in_words(error)}"
                self._events.append(
                    count_anomaly(self.state, at=control.now, path="", reason=reason)
                )
        self._tracked = len(self._events)


def replay(state: ClusterState, record: Any) -> Reported:
    """Apply one record of the cluster's source to the state, and return what it reports."""
    control = state.control
    log = control.log
    if state.source.has_own_order:
        return _replay_admitted(state, record)
    generation, seq = record.generation, record.seq
    watcher = log.view.watcher
    hole = odd = None
    # As a whole: the fields of a NamedTuple are slow to read.
    follows = log.position == (generation, seq - 1)
    if follows and (record.watcher == watcher or not watcher):
        log.position = new_tuple(Position, (generation, seq))
    elif is_dropped(log, record):
        log.view.not_newer += 1
        return [], None
    else:
        follows = False
    at = record.observed_at
    if log.clock is None and 0 <= at - control.now <= LEAP_MS:
        control.now = at
    else:
        record, odd = advance_clock(state, record)
    if not follows:
        hole = _jump(state, record)
    return _applied(state, record, hole, odd)


def _replay_admitted(state: ClusterState, record: Any) -> Reported:
    """Apply one record of a source that orders its records itself."""
    admitted, found = state.source.admit(state, record)
    if admitted is None:
        return found, None
    admitted, odd = advance_clock(state, admitted)
    return _applied(state, admitted, found, odd)


def _applied(
    state: ClusterState, record: Any, before: list[AnyEvent] | None, odd: str | None
) -> Reported:
    """Apply a record in its place; its events follow those `before` it, and what is odd about its time."""
    source = state.source
    events, is_sampled = source.apply(state, record, apply_fact)
    sample = incident_tracker.take_sample(state) if is_sampled else None
    if before:
        events = before + events
    if odd is not None:
        _, place = source.name_of(record)
        events = [count_anomaly(state, at=state.control.now, path=place, reason=odd), *events]
    return events, sample


def count_error(state: ClusterState, record: LogRecord, error: str) -> list[AnyEvent]:
    """Count an unexpected exception (a bug of kcm) of a record: the figures are incomplete from here on."""
    state.control.log.view.errors += 1
    at, (kind, place) = record.observed_at, state.source.name_of(record)
    reason = f"an error of the monitor's own in {kind} {place}: {error}"
    return [
        count_anomaly(state, at=at, path=place, reason=reason),
        *mark_incomplete(state, at=at, reason="an error of the monitor's own", ask=True),
    ]


def is_dropped(log: LogState, record: LogRecord) -> bool:
    """Return whether `replay` drops a record: it is not after the last one, or is another watcher's."""
    if record.position <= log.position:
        return True
    # One watcher per generation: the first to write it owns it.
    watcher = log.view.watcher
    is_same_generation = record.generation == log.position.generation
    return is_same_generation and bool(watcher) and record.watcher != watcher


def _jump(state: ClusterState, record: LogRecord) -> list[AnyEvent]:
    """Move the log's position to a record that does not follow the last one, and report the hole."""
    log = state.control.log
    before = log.position
    log.position = record.position
    begins = state.source.begins_reading(record)
    is_new_generation = record.generation != before.generation
    state.source.interrupt(state.control, new_generation=is_new_generation)
    if is_new_generation:
        if record.watcher != log.view.watcher:
            log.view.watcher = record.watcher
            log.dropped_base += log.dropped
            log.dropped = 0
        if begins and record.seq == 1:
            return []
        hole = f"the beginning of generation {record.generation} is missing"
    else:
        hole = f"changes {before.seq + 1} to {record.seq - 1} are missing"
    log.view.holes += 1
    reason = f"a hole in the log: {hole}"
    return mark_unfollowed(state, at=record.observed_at, reason=reason, ask=not begins)


def _in_words(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"
