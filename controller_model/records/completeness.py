"""How far the figures of a cluster can be trusted now: their status, and which stage is to blame.

The rule: staleness is shown, never hidden. The figures stay served whatever their status, which
says since when they may be wrong. Clocks come in as arguments, so that a reader of the views
anywhere (exporter, page, demo) reaches the same status from the same facts.
"""

from __future__ import annotations

import enum

import msgspec

from controller_model.records.changes import SessionState
from controller_model.records.views import ClusterView

LATE_MS = 25_000
"""A stage without a sign of life for this long is behind: heartbeats come every 10 s, so two are
missing and the third is due."""


class Status(enum.StrEnum):
    """What the figures are worth now."""

    LIVE = "live"
    """They follow ZooKeeper, and the last proof held."""
    BEHIND = "behind"
    """A stage gave no sign of life for too long: they are what was true then."""
    INCOMPLETE = "incomplete"
    """They may lack changes until a resync has ended, or what the watcher may not read."""
    DIVERGENT = "divergent"
    """A reconciliation proved that they are not what ZooKeeper holds."""
    BLIND = "blind"
    """The watcher lives but has no ZooKeeper session: nobody sees what happens there."""


class Stage(enum.StrEnum):
    """A part of the line from ZooKeeper to the reader."""

    WATCHER = "watcher"
    FOLD = "fold"
    EXPORTER = "exporter"


class ReaderProgress(msgspec.Struct, frozen=True, kw_only=True):
    """How far a reader of the views has read."""

    read_at: int | None
    """When it last knew that it had read everything there was; None before the first time."""
    log_ahead_ms: int | None = None
    """By how much the newest record of the cluster's log partition is newer than the newest that
    the fold has shown of it; None when it is not known."""


class Completeness(msgspec.Struct, frozen=True, kw_only=True):
    """How far one cluster's figures can be trusted at one moment. Times are milliseconds since 1970."""

    status: Status
    since: int | None
    """Since when it is so; None while live, or when that is not known."""
    stage: Stage | None
    """The stage to blame; None while live."""
    verified_at: int | None
    """When a resync or a reconciliation last proved the figures equal to ZooKeeper; None: never yet."""

    @property
    def up(self) -> bool:
        """Whether the figures follow ZooKeeper now, proven or not."""
        return self.status not in {Status.BEHIND, Status.BLIND}


def sign_of_life(view: ClusterView) -> int | None:
    """Return the newest time that the watcher was heard of, by its clock; None if never."""
    return max(filter(None, (view.log.heartbeat_at, view.log.last_change_at)), default=None)


def behind_ms(view: ClusterView, progress: ReaderProgress, now: int) -> dict[Stage, int]:
    """Return for each stage how long ago its newest sign of life was; a stage unheard of is absent.

    A negative age means that clocks disagree; it is returned as 0.
    """
    signs = {
        Stage.WATCHER: sign_of_life(view),
        Stage.FOLD: view.folded_at,
        Stage.EXPORTER: progress.read_at,
    }
    return {stage: max(0, now - sign) for stage, sign in signs.items() if sign is not None}


def assess(view: ClusterView, progress: ReaderProgress, now: int) -> Completeness:
    """Return the worst status that is true, looked for from the reader back to the watcher."""
    log = view.log
    ages = behind_ms(view, progress, now)
    found: tuple[Status, int | None, Stage | None]
    if ages.get(Stage.EXPORTER, LATE_MS + 1) > LATE_MS:
        found = (Status.BEHIND, progress.read_at, Stage.EXPORTER)
    elif ages.get(Stage.WATCHER, LATE_MS + 1) > LATE_MS:
        fold_is_late = progress.log_ahead_ms is not None and progress.log_ahead_ms > LATE_MS
        stage = Stage.FOLD if fold_is_late else Stage.WATCHER
        found = (Status.BEHIND, sign_of_life(view), stage)
    elif log.session not in {None, SessionState.CONNECTED}:
        found = (Status.BLIND, log.session_since, Stage.WATCHER)
    elif log.divergent_since is not None:
        found = (Status.DIVERGENT, log.divergent_since, Stage.FOLD)
    elif log.incomplete_since is not None:
        found = (Status.INCOMPLETE, log.incomplete_since, Stage.FOLD)
    elif log.verified_at is None:
        found = (Status.INCOMPLETE, view.counters_since, Stage.FOLD)
    elif log.incomplete:
        found = (Status.INCOMPLETE, None, Stage.WATCHER)
    else:
        found = (Status.LIVE, None, None)
    status, since, stage_to_blame = found
    return Completeness(
        status=status, since=since, stage=stage_to_blame, verified_at=log.verified_at
    )
