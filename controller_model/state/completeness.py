"""What is known to be missing from the figures: marked here by the fold and by sources, ended only by a proof.

The rule: only a proof makes the figures complete. Anything else that goes wrong makes them incomplete, and
requests another resync.
"""

from controller_model.records.events import Anomaly, AnyEvent, Incomplete, Verified
from controller_model.records.foreign_writes import ForeignWriteKind
from controller_model.records.views import ResyncWanted
from controller_model.state.cluster import ClusterState
from controller_model.state.log_state import LogState


def mark_incomplete(  # each by its name
    state: ClusterState,
    *,
    at: int,
    reason: str,
    ask: bool,
    since: int | None = None,
    offset: int | None = None,
) -> list[AnyEvent]:
    """Mark the figures as incomplete; with `ask`, request a resync unless one is requested already.

    `since`: since when changes may be missing, where that is before `at`, when it is noticed. `offset`: where the log
    is to go on, for a source that can write its records again.
    """
    log = state.control.log
    if ask:
        request_resync(log, reason.partition(":")[0], offset=offset)
    log.reason = reason
    if log.view.incomplete_since is not None:
        return []
    log.view.incomplete_since = at if since is None else since
    return [Incomplete(at=at, position=log.position, reason=reason)]


def mark_unfollowed(state: ClusterState, *, at: int, reason: str, ask: bool) -> list[AnyEvent]:
    """Mark the figures as incomplete since the log is known to have followed the source, where it is noticed `at` that it did not."""
    view = state.control.log.view
    until = view.sign_of_life if view.is_followed else view.session_since
    since = None if until is None else min(at, until)
    return mark_incomplete(state, at=at, since=since, reason=reason, ask=ask)


PROOF_MS = 300_000
"""How old a proof may be before one that costs the source nothing is stated anew."""


def is_proof_due(state: ClusterState, at: int) -> bool:
    """Return whether to state a proof that a source could state with each record: figures are in doubt, or the last is old."""
    view = state.control.log.view
    if view.incomplete_since is not None or view.verified_at is None:
        return True
    return at - view.verified_at >= PROOF_MS


def mark_verified(state: ClusterState, *, at: int, entries: int) -> list[AnyEvent]:
    """Mark the figures as equal to what the source holds; report that if they were in doubt before.

    It costs: after each proof the views of all brokers, of incidents and of recommendations are sent again, because a
    reader may have newer ones of a fold that was ahead. So it is for proofs that are rare, as the end of a reading, or due
    (`is_proof_due`).
    """
    log = state.control.log
    view = log.view
    was_in_doubt = (
        view.verified_at is None
        or view.incomplete_since is not None
        or view.divergent_since is not None
    )
    view.verified_at = at
    view.incomplete_since = None
    view.divergent_since = None
    log.reason = None
    log.wanted = None
    log.asked_times = 0
    return [Verified(at=at, position=log.position, znodes=entries)] if was_in_doubt else []


def request_resync(
    log: LogState, reason: str, *, again: bool = False, offset: int | None = None
) -> None:
    """Request a resync, under a new number; back off while the same reason repeats.

    An open request stays as it is, unless `again`: a resync or a reconciliation that failed shows that the
    watcher has not received the request, or that its answer was lost.
    """
    if log.wanted is not None and not again:
        return
    log.asked_times = log.asked_times + 1 if reason == log.asked_reason else 1
    log.asked_reason = reason
    if log.asked_times & (log.asked_times - 1):
        return  # requested the 1st, 2nd, 4th, 8th time in a row; the other times are only reported
    log.asked += 1
    log.wanted = ResyncWanted(number=log.asked, reason=reason, offset=offset)


def count_anomaly(
    state: ClusterState, *, at: int, path: str, reason: str, foreign: ForeignWriteKind | None = None
) -> Anomaly:
    """Count something odd in the log or in what the source holds, and return the event that reports it."""
    log = state.control.log
    log.view.anomalies += 1
    return Anomaly(at=at, position=log.position, path=path, reason=reason, foreign=foreign)
