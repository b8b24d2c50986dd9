"""What a batch has told, and the accounts that are kept over it.

The rule: everything that replay tells goes through here in the order in which it was told, and
each look is taken right after the change that it stands at: so incidents and recommendations are
the same however the log is cut into batches.
"""

from __future__ import annotations

from collections.abc import Sequence

from controller_model.records.events import Anomaly, AnyEvent
from controller_model.state.cluster import ClusterState
from controller_model.tracking import incident_tracker, recommendation_tracker


class EventBatch:
    """The events of one batch.

    Args:
        state: The cluster, which replay changes.
        fatal: Errors of whoever holds the topics: they are raised. Any other error in an account
            is a mistake of ours, which is counted and told, and must not stop the fold.
    """

    def __init__(self, state: ClusterState, *, fatal: tuple[type[BaseException], ...] = ()) -> None:
        self.state = state
        self._fatal = fatal
        self._told: list[AnyEvent] = []
        self._accounted = 0

    def add(self, events: Sequence[AnyEvent]) -> None:
        """Take what one change has told."""
        if events:
            self._told += events
        if self.state.look is not None:
            self._account()

    def take(self) -> list[AnyEvent]:
        """Return what was told since the last time, with what the accounts say of it."""
        self._account()
        told, self._told = self._told, []
        self._accounted = 0
        return told

    def _account(self) -> None:
        news = self._told[self._accounted :]
        for account in (incident_tracker.account, recommendation_tracker.account):
            try:
                self._told += account(self.state, news)
            except self._fatal:
                raise
            except Exception as error:  # noqa: BLE001  # a bug of ours must not stop the fold: it is told
                self._told.append(self._mistake(error))
        self.state.look = None
        self._accounted = len(self._told)

    def _mistake(self, error: Exception) -> Anomaly:
        log = self.state.control.log
        log.errors += 1
        log.anomalies += 1
        reason = f"an error of the monitor's own in its accounts: {type(error).__name__}: {error}"
        return Anomaly(at=self.state.control.now, position=log.position, path="", reason=reason)
