"""One batch of records: the events that they make, and what the trackers make of those.

The rule: records are applied one after the other, and what they report is collected in that order. A
health sample is tracked right after the record at which it was taken, so that incidents and
recommendations are the same however the log is cut into batches.
"""

from collections.abc import Callable, Sequence
from typing import Any

from controller_model.fold.replay import count_error, replay
from controller_model.handlers.apply import apply_fact
from controller_model.records.election_requests import ElectionRequest
from controller_model.records.events import AnyEvent
from controller_model.state.cluster import ClusterState
from controller_model.state.completeness import count_anomaly
from controller_model.state.incident_state import HealthSample
from controller_model.tracking import asked_elections, incident_tracker, recommendation_tracker


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
        try:
            events, sample = replay(self.state, record)
        except self._fatal:
            raise
        except Exception as error:  # noqa: BLE001  # a bug of kcm must not stop the fold: it is reported
            self.errors += 1
            events, sample = count_error(self.state, record, _in_words(error)), None
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

    def add(self, events: Sequence[AnyEvent], sample: HealthSample | None = None) -> None:
        """Add reported events, and track them if a sample was taken."""
        self._events += events
        if sample is not None:
            self._track(sample)

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


def _in_words(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"
