"""Whether controllers may be stopped: every set of voters, lags and losses against a count made another way."""

from __future__ import annotations

import itertools
from collections.abc import Collection

from hypothesis import given
from hypothesis import strategies as st

from controller_model.insight.quorum_loss import (
    QuorumGrade,
    QuorumLoss,
    lose_controllers,
    quorum_state,
)
from controller_model.records.metadata_log import CAUGHT_UP_MS, QuorumReplica, QuorumSample
from controller_model.records.quorum import QuorumView, RegisteredController

NOW = 1_700_000_000_000
AGES = (None, 0, CAUGHT_UP_MS, CAUGHT_UP_MS + 1, 3_600_000)
"""Since when a voter has not been caught up, or not fetched: never under this leader, now, at the edges, long ago."""
VOTERS = st.lists(st.tuples(st.sampled_from(AGES), st.sampled_from(AGES)), min_size=1, max_size=7)


def quorum_of(voters: list[tuple[int | None, int | None]], standby: int = 0) -> QuorumView:
    """Return a quorum of which the first voter leads; of each other it is known since when it lags and is silent."""
    replicas = [QuorumReplica(0, 500, NOW, NOW)]
    for number, (lag, silence) in enumerate(voters[1:], start=1):
        fetched = None if silence is None else NOW - silence
        caught_up = None if lag is None else NOW - lag
        replicas.append(QuorumReplica(number, 400 if lag else 500, fetched, caught_up))
    controllers = {each: RegisteredController() for each in range(len(voters) + standby)}
    return QuorumView(
        epoch=4,
        leader=0,
        leader_epoch=4,
        voters=tuple(range(len(voters))),
        controllers=controllers,
        sample=QuorumSample(NOW, 0, 4, 500, tuple(replicas)),
        is_sampled=True,
    )


def alive(quorum: QuorumView, lost: Collection[int], *, lagging: bool) -> list[QuorumReplica]:
    """Return the voters that are left and hold the log, or (`lagging`) at least fetch it."""
    assert quorum.sample is not None
    return [
        each
        for each in quorum.sample.voters
        if each.replica_id not in lost
        for at in [each.last_caught_up_at, *([each.last_fetch_at] if lagging else [])]
        if at is not None and NOW - at <= CAUGHT_UP_MS
    ]


def spare(quorum: QuorumView, lost: Collection[int]) -> int:
    """Return how many of those that count may still fail: the largest number that leaves a majority, tried one by one."""
    counting = {each.replica_id for each in alive(quorum, lost, lagging=False)}
    for failing in range(len(counting), -1, -1):
        left = len(counting) - failing
        if 2 * left > len(quorum.voters):
            return failing
    missing = next(
        more for more in itertools.count(1) if 2 * (len(counting) + more) > len(quorum.voters)
    )
    return -missing


def judged(quorum: QuorumView, lost: Collection[int], margin: int = 0) -> QuorumLoss:
    """Return the product's answer."""
    return lose_controllers(quorum_state(quorum), lost, margin=margin)


@given(voters=VOTERS, standby=st.integers(0, 2), margin=st.integers(0, 4), data=st.data())
def test_each_loss_is_graded_as_a_count_one_by_one_says(
    voters: list[tuple[int | None, int | None]], standby: int, margin: int, data: st.DataObject
) -> None:
    """A majority that is caught up, with the margin: nothing breaks; what is dead makes nothing worse; else it breaks."""
    quorum = quorum_of(voters, standby)
    lost = data.draw(st.sets(st.integers(0, len(voters) + standby - 1), min_size=1))
    found = judged(quorum, lost, margin)
    after, now = spare(quorum, lost), spare(quorum, ())
    assert (found.margin, found.margin_now) == (after, now)
    was_running = {each.replica_id for each in alive(quorum, (), lagging=True)} & lost
    if after >= margin:
        expected = QuorumGrade.NOTHING_BREAKS
    elif not was_running:
        expected = QuorumGrade.NO_WORSE
    else:
        expected = QuorumGrade.UNDER_MARGIN if after >= 0 else QuorumGrade.BREAKS
    assert found.grade is expected
    assert found.safe is (expected in {QuorumGrade.NOTHING_BREAKS, QuorumGrade.NO_WORSE})


@given(voters=VOTERS, margin=st.integers(0, 3), data=st.data())
def test_a_larger_loss_is_never_safer(
    voters: list[tuple[int | None, int | None]], margin: int, data: st.DataObject
) -> None:
    """Nor is a larger margin easier to keep."""
    quorum = quorum_of(voters)
    ids = st.integers(0, len(voters) - 1)
    some, more = data.draw(st.sets(ids, min_size=1)), data.draw(st.sets(ids))
    order = list(QuorumGrade)

    def badness(lost: Collection[int], asked: int) -> int:
        grade = judged(quorum, lost, asked).grade
        assert grade is not None
        return order.index(grade)

    assert badness(some | more, margin) >= badness(some, margin)
    assert badness(some, margin + 1) >= badness(some, margin)


PAST = st.sampled_from(
    [
        {"sample": None},
        {"is_sampled": False},
        {"unreachable_since": NOW},
        {"leader": 1},
        {"leader": -1, "leader_epoch": 5},
        {"epoch": 5},
        {"voters": (0, 1, 77)},
    ]
)


@given(voters=VOTERS, past=PAST, data=st.data())
def test_without_a_current_answer_only_what_breaks_in_any_case_is_known(
    voters: list[tuple[int | None, int | None]], past: dict[str, object], data: st.DataObject
) -> None:
    """It is never said to be safe; too few voters that would be left are too few, however far they are."""
    quorum = quorum_of(voters)
    for name, value in past.items():
        setattr(quorum, name, value)
    lost = data.draw(st.sets(st.sampled_from(quorum.voters), min_size=1))
    found = judged(quorum, lost)
    assert (found.margin, found.margin_now) == (None, None)
    is_too_few = 2 * len(set(quorum.voters) - lost) <= len(quorum.voters)
    assert found.grade is (QuorumGrade.BREAKS if is_too_few else None)
    assert found.safe is (False if is_too_few else None)
    assert quorum_state(quorum).unknown
    assert all(each.is_caught_up is None for each in quorum_state(quorum).voters)
