"""A cluster that is well until a test breaks it, and what its fold says of incidents.

The rule: heartbeats come as the watcher sends them, so that time passes as it does in the log.
"""

from __future__ import annotations

from controller_model.records.events import IncidentClosed
from controller_model.records.incidents import QUIET_MS, Incident
from tests.support.histories import Fold, History, only, small_cluster

BEAT_MS = 10_000
"""Between two heartbeats."""


def begun(**topics: dict[int, tuple[int, ...]]) -> tuple[History, Fold]:
    """Return a healthy cluster that has been looked at."""
    history, fold = small_cluster(**topics), Fold()
    history.heartbeat()
    fold.follow(history)
    return history, fold


def beat(history: History, fold: Fold, times: int) -> None:
    """Let heartbeats pass, each a batch of its own."""
    for _ in range(times):
        history.heartbeat()
        fold.follow(history)


def quiet(history: History, fold: Fold) -> None:
    """Let the quiet time pass."""
    beat(history, fold, QUIET_MS // BEAT_MS + 1)


def opened(fold: Fold) -> Incident:
    """Return the incident that is open."""
    incident = fold.state.control.incidents.open
    assert incident is not None
    return incident


def closed(fold: Fold) -> Incident:
    """Return the one incident that was closed."""
    return only(fold.accounts, IncidentClosed).incident
