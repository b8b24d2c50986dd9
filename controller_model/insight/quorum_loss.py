"""What the loss of controllers would do to a KRaft quorum now, and whether one may be stopped.

The rule: the quorum commits while a majority of its voters holds the log and fetches it (LeaderState.maybeUpdateHighWatermark),
and a leader that no majority fetches from resigns (LeaderState.timeUntilCheckQuorumExpires). So voters that would be
left count only if they are caught up. Who is caught up stands in no record: it is known from the leader's last
answer to DescribeQuorum alone. Without a current one nothing is guessed; that too few voters would be left is known even then.
"""

import enum
from collections.abc import Collection

import msgspec

from controller_model.insight.quorum import why_past
from controller_model.insight.wording import counted
from controller_model.records.metadata_log import QuorumReplica, QuorumSample
from controller_model.records.quorum import QuorumView

_MS = 1000


class QuorumGrade(enum.StrEnum):
    """What a loss does to the quorum, the best first."""

    NOTHING_BREAKS = "nothing_breaks"
    NO_WORSE = "no_worse"
    """The quorum has no majority, or not the margin that was asked for; but what is lost neither counts nor catches up."""
    UNDER_MARGIN = "under_margin"
    """A majority is left, and fewer voters beyond it than were asked for."""
    BREAKS = "breaks"
    """No majority would be left: nothing is committed."""


class QuorumVoter(msgspec.Struct, frozen=True, kw_only=True):
    """A voter, and how far it is by the leader's last answer; None: not known."""

    id: int
    is_caught_up: bool | None = None
    is_fetching: bool | None = None
    """Whether it runs, as far as the leader hears of it: if it is not caught up, it soon may be."""
    lag_records: int | None = None
    """How many records its log lacked."""
    behind_ms: int | None = None
    """For how long it had not held all of the leader's log."""


class QuorumState(msgspec.Struct, frozen=True, kw_only=True):
    """Who votes, and who of them counts now."""

    voters: tuple[QuorumVoter, ...]
    """Empty: not known."""
    standby: tuple[int, ...] = ()
    """Registered controllers that do not vote."""
    leader: int | None = None
    sampled_at: int | None = None
    """When the leader answered DescribeQuorum, by its clock; None: no current answer."""
    unknown: str | None = None
    """Why it is not known who is caught up; None: it is known."""

    @property
    def majority(self) -> int:
        """How many voters have to be caught up."""
        return len(self.voters) // 2 + 1

    @property
    def ids(self) -> frozenset[int]:
        """All controllers that are known."""
        return frozenset(each.id for each in self.voters).union(self.standby)


class QuorumLoss(msgspec.Struct, frozen=True, kw_only=True):
    """What the loss of these controllers would do to the quorum."""

    controllers: tuple[int, ...]
    grade: QuorumGrade | None
    """None: not known."""
    margin: int | None
    """How many voters more than a majority would be left and caught up; below 0: so many are missing. None: not known."""
    margin_now: int | None
    """The same before the loss."""
    text: str
    """The grade in words, with its reason."""
    notes: tuple[str, ...] = ()
    """What happens, or is to be known, whether it is safe or not."""

    @property
    def safe(self) -> bool | None:
        """Whether nothing breaks by it, nor comes below the margin asked for; None: not known."""
        if self.grade is None:
            return None
        return self.grade in {QuorumGrade.NOTHING_BREAKS, QuorumGrade.NO_WORSE}


def _why_unknown(quorum: QuorumView) -> str | None:
    """Return why it is not known how far each voter is; None: it is known."""
    sample = quorum.sample
    if (past := why_past(quorum)) is not None or sample is None:
        return past
    if quorum.voters and set(quorum.voters) != {each.replica_id for each in sample.voters}:
        return "the voters have changed since the last answer to DescribeQuorum"
    return None


def quorum_state(quorum: QuorumView) -> QuorumState:
    """Return who votes and who counts, by what a view holds."""
    sample, unknown = quorum.sample, _why_unknown(quorum)
    if sample is None or unknown is not None:
        ids = quorum.voters or tuple(each.replica_id for each in (sample.voters if sample else ()))
        voters = tuple(QuorumVoter(id=each) for each in sorted(set(ids)))
    else:
        ordered = sorted(sample.voters, key=lambda each: each.replica_id)
        voters = tuple(_voter(each, sample) for each in ordered)
    voting = {each.id for each in voters}
    return QuorumState(
        voters=voters,
        standby=tuple(sorted(quorum.controllers.keys() - voting)),
        leader=quorum.leader if sample is None or unknown else sample.leader,
        sampled_at=None if sample is None or unknown else sample.at,
        unknown=unknown,
    )


def _voter(replica: QuorumReplica, sample: QuorumSample) -> QuorumVoter:
    caught_up_at = replica.last_caught_up_at
    return QuorumVoter(
        id=replica.replica_id,
        is_caught_up=replica.replica_id in sample.caught_up,
        is_fetching=replica.replica_id in sample.fetching,
        lag_records=sample.lag_of(replica),
        behind_ms=None if caught_up_at is None else max(0, sample.at - caught_up_at),
    )


def lose_controllers(
    state: QuorumState, controllers: Collection[int], *, margin: int = 0
) -> QuorumLoss:
    """Return what the loss of all these controllers at once would do; `margin` more voters should be left than a majority."""
    lost = tuple(sorted(set(controllers)))
    voting = {each.id for each in state.voters}
    notes = tuple(_notes(state, lost))
    grade: QuorumGrade | None = None
    after = now = None
    if not state.voters:
        why = state.unknown or "the log has not named them yet"
        text = f"not known who votes in the quorum: {why}"
        return QuorumLoss(controllers=lost, grade=grade, margin=after, margin_now=now, text=text)
    most = len(voting.difference(lost)) - state.majority
    if state.unknown is not None:
        text = f"not known whether the voters that are left are caught up: {state.unknown}"
        if not voting.intersection(lost):
            grade = QuorumGrade.NO_WORSE
            text = "none of them votes in the quorum"
        elif most < 0:
            grade = QuorumGrade.BREAKS
            text = _breaks(max(0, most + state.majority), state)
    else:
        counting = {each.id for each in state.voters if each.is_caught_up}
        now = len(counting) - state.majority
        after = len(counting.difference(lost)) - state.majority
        alive = counting.union(each.id for each in state.voters if each.is_fetching)
        grade = _grade(after, margin, is_dead=alive.isdisjoint(lost))
        text = _text(grade, after, margin, state)
    return QuorumLoss(
        controllers=lost, grade=grade, margin=after, margin_now=now, text=text, notes=notes
    )


def safe_alone(quorum: QuorumView | None) -> dict[int, bool | None]:
    """Return whether each controller alone may be lost; None: not known. Empty: it is not a KRaft cluster."""
    if quorum is None:
        return {}
    state = quorum_state(quorum)
    return {each: lose_controllers(state, (each,)).safe for each in sorted(state.ids)}


def _grade(after: int, margin: int, *, is_dead: bool) -> QuorumGrade:
    if after >= max(0, margin):
        return QuorumGrade.NOTHING_BREAKS
    if is_dead:
        return QuorumGrade.NO_WORSE
    return QuorumGrade.BREAKS if after < 0 else QuorumGrade.UNDER_MARGIN


def _text(grade: QuorumGrade, after: int, margin: int, state: QuorumState) -> str:
    left = after + state.majority
    of_voters = f"{left} of {counted(len(state.voters), 'voter')}"
    if grade is QuorumGrade.BREAKS:
        return _breaks(left, state)
    if grade is QuorumGrade.UNDER_MARGIN:
        return (
            f"the quorum would keep its majority with {after} to spare, and {margin} were asked "
            f"for: {of_voters} would be caught up"
        )
    if grade is QuorumGrade.NO_WORSE:
        lack = "has no majority" if after < 0 else f"has {after} to spare, not {margin},"
        return f"no worse than now: the quorum {lack} with or without what is lost ({of_voters} caught up)"
    return (
        f"the quorum would keep its majority with {after} to spare: {of_voters} would be caught up"
    )


def _breaks(left: int, state: QuorumState) -> str:
    needed = state.majority
    return (
        f"the quorum would have no majority: {left} of {counted(len(state.voters), 'voter')} would be "
        f"left and caught up, and {needed} are needed; nothing is committed: no leader, ISR or topic changes"
    )


def _notes(state: QuorumState, lost: tuple[int, ...]) -> list[str]:
    notes = []
    if state.leader in lost:
        notes.append("the active controller is among them: another one is elected")
    notes += [f"controller {each} does not vote" for each in lost if each in state.standby]
    for each in state.voters:
        if each.is_caught_up is not False or each.id in lost:
            continue
        lag = "" if each.lag_records is None else f", {counted(each.lag_records, 'record')} behind"
        since = (
            "it has not been since the leader's election"
            if each.behind_ms is None
            else f"last {each.behind_ms / _MS:.0f} s before the leader's answer"
        )
        notes.append(f"controller {each.id} is not caught up and does not count: {since}{lag}")
    return notes
