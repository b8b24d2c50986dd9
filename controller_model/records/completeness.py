"""How far the figures of a cluster can be trusted now: their status, and the stage to blame.

Staleness is shown, never hidden. Figures are served whatever their status, and the status
says since when they may be wrong. Lateness is measured by ages on the reader's own monotonic clock;
wall clocks of other machines are compared only to report that they disagree.
"""

import enum
from collections.abc import Mapping

import msgspec

from controller_model.records.changes import SessionState
from controller_model.records.views import ClusterView

LATE_MS = 25_000
"""Where only heartbeats, one every 10 s, show that a stage lives: a stage without a sign of life for
this long is behind. Two heartbeats are missing and the third is due."""

OLDEST_LIVE_MS = 3_000
"""The promise where the watcher sends beats: a figure shown as `live` has been out of date for at most this long."""

LATE_BEATS_MS = OLDEST_LIVE_MS - 100
"""As `LATE_MS`, where the watcher sends beats, one a second: two are missing and the third is due.
Less than the promise by what an age does not include: the travel time of the fastest beat, and of an answer."""

CLOCKS_DISAGREE_MS = 5_000
"""More than the error that NTP leaves, and less than what misleads an operator who compares times."""


class Status(enum.StrEnum):
    """How far the figures can be trusted now."""

    LIVE = "live"
    """They follow ZooKeeper, and the last proof held."""
    CLOCKS_DISAGREE = "clocks_disagree"
    """They are live, but their times come from clocks that disagree with the exporter's."""
    BEHIND = "behind"
    """A stage has given no sign of life for too long: they show the cluster as it was then."""
    INCOMPLETE = "incomplete"
    """They may lack changes until a resync has ended, or they lack what the watcher or the fold cannot read."""
    DIVERGENT = "divergent"
    """A reconciliation proved that they are not what the cluster holds."""
    BLIND = "blind"
    """The watcher lives, but ZooKeeper does not answer it: changes there are not seen."""
    KRAFT = "kraft"
    """A KRaft controller runs the cluster, and ZooKeeper does not show all of it: brokers have left it, or it is no
    longer written."""


class Stage(enum.StrEnum):
    """A stage on the way from ZooKeeper, or the metadata log, to the reader."""

    ZOOKEEPER = "zookeeper"
    """Its clock is compared with others, and a cluster may have left it; the watcher reports whether it answers."""
    CONTROLLER = "controller"
    """A KRaft cluster's active controller: its clock is compared with others."""
    WATCHER = "watcher"
    FOLD = "fold"
    EXPORTER = "exporter"


class ReaderProgress(msgspec.Struct, frozen=True, kw_only=True):
    """How long ago each stage's sign of life last advanced, in milliseconds of a monotonic clock.

    None: it has not advanced since the reader began, so the figures prove nothing.
    """

    read_ms: int | None
    """Since the reader last knew that it had read everything there was."""
    watcher_ms: int | None
    """Since the watcher's last beat; if it sends none, since the view's position advanced."""
    fold_ms: int | None = 0
    """For how long the view has been behind the position that a beat reports; 0 while it is not."""
    zookeeper_ms: int | None = 0
    """Since ZooKeeper last answered the watcher, as its beats report."""
    session: SessionState | None = None
    """The watcher's session, as its newest beat reports it; None if it sends none."""
    began_ms: int | None = None
    """Since the reader first had read everything; None before that."""
    late_ms: int = LATE_BEATS_MS
    """The age above which the fold, the watcher or ZooKeeper is late."""
    log_ahead_ms: int | None = None
    """For how long the cluster's log partition has grown since the fold last showed any of it; None if it is not known."""
    clock_skew_ms: Mapping[Stage, int] = {}
    """By how much each stage's clock is ahead of the reader's; negative if it is behind."""


class Completeness(msgspec.Struct, frozen=True, kw_only=True):
    """How far one cluster's figures can be trusted at one moment. Times are milliseconds since 1970."""

    status: Status
    since: int | None
    """Since when the status holds; while behind or blind, up to when the figures were the cluster's, whatever else puts
    them in doubt; None while live, or if it is not known."""
    stage: Stage | None
    """The stage to blame; None while live."""
    verified_at: int | None
    """When a resync or a reconciliation last proved the figures equal to ZooKeeper; None: never yet."""
    clock_skew_ms: Mapping[Stage, int] = {}
    """The stages whose clocks disagree with the exporter's, and by how much they are ahead of it."""

    @property
    def up(self) -> bool:
        """Whether the figures follow ZooKeeper now, proven or not."""
        return self.status not in {Status.BEHIND, Status.BLIND, Status.KRAFT}


def behind_ms(progress: ReaderProgress) -> dict[Stage, int]:
    """Return how late each stage is, in ms; a stage without a sign yet, since the reader began."""
    ages = {
        Stage.WATCHER: progress.watcher_ms,
        Stage.FOLD: progress.fold_ms,
        Stage.EXPORTER: progress.read_ms,
    }
    known = {stage: progress.began_ms if age is None else age for stage, age in ages.items()}
    return {stage: age for stage, age in known.items() if age is not None}


def assess(view: ClusterView, progress: ReaderProgress, now: int) -> Completeness:
    """Return the worst status that applies, checked from the reader back to the watcher.

    `now` is the reader's wall clock. It only serves to give `since`; no decision depends on it.
    """
    skews = progress.clock_skew_ms.items()
    skew = {stage: ahead for stage, ahead in skews if abs(ahead) > CLOCKS_DISAGREE_MS}
    status, since, stage = (
        _late(view, progress, now) or _left(view) or _not_proven(view) or (Status.LIVE, None, None)
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
    """Return the status and stage of what is late or blind, and since when; None if nothing is.

    Of several the outermost is named, and the time is the earliest that is known, also of what else puts the figures in
    doubt: until then they were the cluster's.
    """
    found: list[_Found] = []
    fold_is_late = progress.log_ahead_ms is not None and progress.log_ahead_ms > LATE_MS
    for age_ms, most_ms, stage in (
        (progress.read_ms, LATE_BEATS_MS, Stage.EXPORTER),
        (progress.fold_ms, progress.late_ms, Stage.FOLD),
        (progress.watcher_ms, progress.late_ms, Stage.FOLD if fold_is_late else Stage.WATCHER),
    ):
        if _is_late(age_ms, most_ms):
            found.append((Status.BEHIND, _ago(now, age_ms), stage))
    lost_sessions = {view.log.session, progress.session} - {None, SessionState.CONNECTED}
    if lost_sessions or _is_late(progress.zookeeper_ms, progress.late_ms):
        lost_at = view.log.session_since if view.log.session in lost_sessions else None
        # The watcher notices a silence some seconds after it began.
        answered_at = _ago(now, progress.zookeeper_ms)
        known = [at for at in (lost_at, answered_at) if at is not None]
        found.append((Status.BLIND, min(known, default=None), Stage.WATCHER))
    if not found:
        return None
    (status, _, outermost), log = found[0], view.log
    times = [at for _, at, _ in found if at is not None]
    if len(times) < len(found):
        return status, None, outermost
    doubts = (log.incomplete_since, log.divergent_since and log.verified_at)
    times += [at for at in doubts if at is not None]
    return status, min(times), outermost


def _left(view: ClusterView) -> _Found | None:
    """Return since when the cluster has left ZooKeeper, wholly or in part; None if it has not."""
    since = view.log.left_since
    return None if since is None else (Status.KRAFT, since, Stage.ZOOKEEPER)


def _not_proven(view: ClusterView) -> _Found | None:
    """Return why figures that follow ZooKeeper may still be wrong, and since when; None if no reason is known."""
    log = view.log
    if log.divergent_since is not None:
        return Status.DIVERGENT, log.divergent_since, Stage.FOLD
    if log.incomplete_since is not None:
        return Status.INCOMPLETE, log.incomplete_since, Stage.FOLD
    if log.verified_at is None:
        return Status.INCOMPLETE, view.counters_since, Stage.FOLD
    if view.unreadable_controller:
        return Status.INCOMPLETE, None, Stage.FOLD
    if log.incomplete:
        return Status.INCOMPLETE, None, Stage.WATCHER
    return None


def _is_late(age_ms: int | None, late_ms: int) -> bool:
    return age_ms is None or age_ms > late_ms


def _ago(now: int, age_ms: int | None) -> int | None:
    return None if age_ms is None else now - age_ms


def _whose(progress: ReaderProgress, skew: Mapping[Stage, int]) -> Stage:
    """Return the stage whose clock is the odd one: the reader's own if all others agree."""
    others = progress.clock_skew_ms.values()
    is_ours = len(others) > 1 and max(others) - min(others) <= CLOCKS_DISAGREE_MS
    return Stage.EXPORTER if is_ours else max(skew, key=lambda stage: abs(skew[stage]))
