"""How far the figures of a cluster can be trusted now: their status, and which stage is to blame.

The rule: staleness is shown, never hidden. The figures stay served whatever their status, which
says since when they may be wrong. What is late is known by ages on the reader's own clock, which
nobody sets: wall clocks of other machines are only compared to say that they disagree.
"""

import enum
from collections.abc import Mapping

import msgspec

from controller_model.records.changes import SessionState
from controller_model.records.views import ClusterView

LATE_MS = 25_000
"""A stage without a sign of life for this long is behind where only heartbeats show it, which come
every 10 s: two are missing and the third is due."""

OLDEST_LIVE_MS = 3_000
"""The promise where the watcher sends beats: a figure shown under `live` was replaced so long ago, at most."""

LATE_BEATS_MS = OLDEST_LIVE_MS - 100
"""The same as `LATE_MS` where the watcher sends beats, one a second: two are missing and the third is due.
Less than what is promised by what an age cannot hold: the way of the fastest beat, and that of an answer."""

CLOCKS_DISAGREE_MS = 5_000
"""More than NTP leaves, and less than what misleads an operator who compares times."""


class Status(enum.StrEnum):
    """What the figures are worth now."""

    LIVE = "live"
    """They follow ZooKeeper, and the last proof held."""
    CLOCKS_DISAGREE = "clocks_disagree"
    """They are live, but the times in them are of clocks that disagree with the exporter's."""
    BEHIND = "behind"
    """A stage gave no sign of life for too long: they are what was true then."""
    INCOMPLETE = "incomplete"
    """They may lack changes until a resync has ended, or what the watcher or the fold cannot read."""
    DIVERGENT = "divergent"
    """A reconciliation proved that they are not what ZooKeeper holds."""
    BLIND = "blind"
    """The watcher lives, but ZooKeeper does not answer it: nobody sees what happens there."""


class Stage(enum.StrEnum):
    """A part of the line from ZooKeeper to the reader."""

    ZOOKEEPER = "zookeeper"
    """Only its clock is held against the others: that it answers is the watcher's to say."""
    WATCHER = "watcher"
    FOLD = "fold"
    EXPORTER = "exporter"


class ReaderProgress(msgspec.Struct, frozen=True, kw_only=True):
    """How long ago each stage's sign of life last advanced, by a clock that nobody sets.

    None: it has not advanced since the reader began, so what is held proves nothing.
    """

    read_ms: int | None
    """Since the reader last knew that it had read everything there was."""
    watcher_ms: int | None
    """Since the watcher's last beat; where it sends none, since the view's position advanced."""
    fold_ms: int | None = 0
    """For how long the view has been behind what a beat says of the log; 0 while it is not."""
    zookeeper_ms: int | None = 0
    """Since ZooKeeper last answered the watcher, as its beats say it."""
    session: SessionState | None = None
    """Of the watcher, as its newest beat says it; None where it sends none."""
    began_ms: int | None = None
    """Since the reader had read everything for the first time; None before that."""
    late_ms: int = LATE_BEATS_MS
    """From which age on the watcher is late."""
    log_ahead_ms: int | None = None
    """By how much the newest record of the cluster's log partition is newer than the newest that
    the fold has shown of it; None when it is not known."""
    clock_skew_ms: Mapping[Stage, int] = {}
    """By how much a stage's clock is ahead of the reader's; below 0: behind it."""


class Completeness(msgspec.Struct, frozen=True, kw_only=True):
    """How far one cluster's figures can be trusted at one moment. Times are milliseconds since 1970."""

    status: Status
    since: int | None
    """Since when it is so; None while live, or when that is not known."""
    stage: Stage | None
    """The stage to blame; None while live."""
    verified_at: int | None
    """When a resync or a reconciliation last proved the figures equal to ZooKeeper; None: never yet."""
    clock_skew_ms: Mapping[Stage, int] = {}
    """By how much the clocks of stages are ahead of the exporter's, those that disagree with it."""

    @property
    def up(self) -> bool:
        """Whether the figures follow ZooKeeper now, proven or not."""
        return self.status not in {Status.BEHIND, Status.BLIND}


def sign_of_life(view: ClusterView) -> int | None:
    """Return the newest time that the watcher was heard of, by its clock; None if never."""
    return max(filter(None, (view.log.heartbeat_at, view.log.last_change_at)), default=None)


def behind_ms(progress: ReaderProgress) -> dict[Stage, int]:
    """Return how late each stage is: for as long as there is a reader where it gave no sign yet."""
    ages = {
        Stage.WATCHER: progress.watcher_ms,
        Stage.FOLD: progress.fold_ms,
        Stage.EXPORTER: progress.read_ms,
    }
    known = {stage: progress.began_ms if age is None else age for stage, age in ages.items()}
    return {stage: age for stage, age in known.items() if age is not None}


def assess(view: ClusterView, progress: ReaderProgress, now: int) -> Completeness:
    """Return the worst status that is true, looked for from the reader back to the watcher.

    `now` is the reader's wall clock, by which `since` is said; nothing is decided by it.
    """
    skew = _disagreeing(progress)
    status, since, stage = (
        _late(view, progress, now) or _not_proven(view) or (Status.LIVE, None, None)
    )
    if status is Status.LIVE and skew:
        status, stage = Status.CLOCKS_DISAGREE, _whose(progress, skew)
    return Completeness(
        status=status,
        since=since,
        stage=stage,
        verified_at=view.log.verified_at,
        clock_skew_ms=skew,
    )


_Found = tuple[Status, int | None, Stage | None]


def _late(view: ClusterView, progress: ReaderProgress, now: int) -> _Found | None:
    """Return which stage does not follow, and since when; None if all do."""
    late_ms = progress.late_ms
    if _is_late(progress.read_ms, LATE_BEATS_MS):
        return Status.BEHIND, _ago(now, progress.read_ms), Stage.EXPORTER
    if _is_late(progress.fold_ms, late_ms):
        return Status.BEHIND, _ago(now, progress.fold_ms), Stage.FOLD
    if _is_late(progress.watcher_ms, late_ms):
        fold_is_late = progress.log_ahead_ms is not None and progress.log_ahead_ms > LATE_MS
        stage = Stage.FOLD if fold_is_late else Stage.WATCHER
        return Status.BEHIND, _ago(now, progress.watcher_ms), stage
    if view.log.session not in {None, SessionState.CONNECTED}:
        return Status.BLIND, view.log.session_since, Stage.WATCHER
    if progress.session not in {None, SessionState.CONNECTED} or _is_late(
        progress.zookeeper_ms, late_ms
    ):
        return Status.BLIND, _ago(now, progress.zookeeper_ms), Stage.WATCHER
    return None


_OF_CONTROLLER = frozenset({"/controller", "/controller_epoch"})


def _not_proven(view: ClusterView) -> _Found | None:
    """Return why figures that follow may be wrong all the same, and since when; None if nothing is known."""
    log = view.log
    if log.divergent_since is not None:
        return Status.DIVERGENT, log.divergent_since, Stage.FOLD
    if log.incomplete_since is not None:
        return Status.INCOMPLETE, log.incomplete_since, Stage.FOLD
    if log.verified_at is None:
        return Status.INCOMPLETE, view.counters_since, Stage.FOLD
    if _OF_CONTROLLER.intersection(view.unreadable):
        return Status.INCOMPLETE, None, Stage.FOLD
    if log.incomplete:
        return Status.INCOMPLETE, None, Stage.WATCHER
    return None


def _is_late(age_ms: int | None, late_ms: int) -> bool:
    return age_ms is None or age_ms > late_ms


def _ago(now: int, age_ms: int | None) -> int | None:
    return None if age_ms is None else now - age_ms


def _disagreeing(progress: ReaderProgress) -> dict[Stage, int]:
    skews = progress.clock_skew_ms.items()
    return {stage: skew for stage, skew in skews if abs(skew) > CLOCKS_DISAGREE_MS}


def _whose(progress: ReaderProgress, skew: Mapping[Stage, int]) -> Stage:
    """Return whose clock is the odd one: the reader's own where all others agree."""
    others = progress.clock_skew_ms.values()
    is_ours = len(others) > 1 and max(others) - min(others) <= CLOCKS_DISAGREE_MS
    return Stage.EXPORTER if is_ours else max(skew, key=lambda stage: abs(skew[stage]))
