"""A cluster that is healthy until a test breaks it, and what its fold reports about incidents.

The rule: heartbeats come as the watcher sends them, so that time passes as in a real log.
"""

from __future__ import annotations

from controller_model.records.events import IncidentClosed
from controller_model.records.incidents import QUIET_MS, Incident
from tests.support.histories import Fold, History, only, small_cluster

BEAT_MS = 10_000
"""Time between two heartbeats."""


def begun(**topics: dict[int, tuple[int, ...]]) -> tuple[History, Fold]:
    """Return a healthy cluster that the fold has read."""
    history, fold = small_cluster(**topics), Fold()
    history.heartbeat()
    fold.follow(history)
    return history, fold


def beat(history: History, fold: Fold, times: int) -> None:
    """Let heartbeats pass, each in its own batch."""
    for _ in range(times):
        history.heartbeat()
        fold.follow(history)


def quiet(history: History, fold: Fold) -> None:
    """Let the quiet time pass."""
    beat(history, fold, QUIET_MS // BEAT_MS + 1)


def opened(fold: Fold) -> Incident:
    """Return the open incident."""
    incident = fold.state.control.incidents.open
    assert incident is not None
    return incident


def closed(fold: Fold) -> Incident:
    """Return the single incident that was closed."""
    return only(fold.accounts, IncidentClosed).incident
