"""Tests of the observer's decisions, one situation each; histories of a whole quorum are in tests/property."""

from __future__ import annotations

import pytest

from kraft_source.observer.observer import (
    FOLLOW_UP_MS,
    FOLLOW_UPS,
    MAX_TIMEOUT_S,
    MAX_WAIT_MS,
    MIN_TIMEOUT_S,
    NOTHING,
    OLD_EPOCH_S,
    PAUSE_S,
    REFUSED_RETRY_S,
    RETRY_S,
    Ask,
    Observer,
    ObserverStatus,
    Pause,
)
from kraft_source.observer.released import AnotherHistory, Committed, SnapshotComplete
from kraft_source.wire.errors import ErrorCode
from kraft_source.wire.messages import (
    Answer,
    ControllerEndpoint,
    EpochEnd,
    EpochLeader,
    Fetch,
    FetchAnswer,
    FetchSnapshot,
    SnapshotAnswer,
)
from tests.support.metadata_log import Written, record_batch
from tests.support.quorum_in_memory import snapshot_bytes

A, B, C = (ControllerEndpoint(f"c{number}", 9093) for number in (1, 2, 3))
NODES = {1: A, 2: B, 3: C}


def named(leader: int, epoch: int, error: int = ErrorCode.NOT_LEADER_OR_FOLLOWER) -> FetchAnswer:
    """Return the answer of a voter that does not lead: it names who does."""
    endpoints = {} if leader < 0 else {leader: NODES[leader]}
    return FetchAnswer(error, EpochLeader(leader, epoch), endpoints)


def batch(offset: int, epoch: int = 5) -> bytes:
    """Return a batch with one record."""
    return record_batch(offset, epoch, [Written("NoOpRecord")])


class Play:
    """An observer, and a clock that the test moves."""

    def __init__(self, start: EpochEnd = NOTHING) -> None:
        self.observer = Observer([A, B], start)
        self.now = 100.0

    def ask(self) -> Ask:
        """Return what is asked now."""
        step = self.observer.next_step(self.now)
        assert isinstance(step, Ask), step
        return step

    def fetch(self) -> Fetch:
        """Return the Fetch that is asked now."""
        request = self.ask().request
        assert isinstance(request, Fetch)
        return request

    def pause(self) -> float:
        """Return for how many seconds nothing is asked, and let them pass."""
        step = self.observer.next_step(self.now)
        assert isinstance(step, Pause), step
        seconds = step.until - self.now
        self.now = step.until
        return round(seconds, 6)

    def answer(self, answer: Answer, after_s: float = 0.01) -> list[object]:
        """Ask, answer, and return what is released."""
        ask = self.ask()
        self.now += after_s
        return list(self.observer.handle_answer(ask.endpoint, answer, self.now))

    def fail(self, **how: bool) -> ControllerEndpoint:
        """Ask, let it fail, and return who was asked."""
        ask = self.ask()
        self.observer.handle_failure(ask.endpoint, "it is gone", self.now, **how)
        return ask.endpoint


def following(start: EpochEnd = NOTHING) -> Play:
    """Return an observer that has found its leader, B of epoch 5, with nothing to release yet."""
    play = Play(start)
    play.answer(named(2, 5))
    play.answer(FetchAnswer(leader=EpochLeader(2, 5), high_watermark=start.end_offset))
    assert play.ask().endpoint == B
    return play


def test_any_voter_leads_to_the_leader() -> None:
    """The first that is asked names the leader, its epoch and its address; it is asked at once, and may wait."""
    play = Play(EpochEnd(40, 3))
    first = play.ask()
    assert (first.endpoint, first.request) == (A, Fetch(40, 3, 3, 0, -1))
    assert play.answer(named(3, 5)) == []
    then = play.ask()
    assert then.endpoint == C
    assert then.request == Fetch(40, 3, 5, MAX_WAIT_MS, -1)
    assert then.timeout_s == MIN_TIMEOUT_S + MAX_WAIT_MS / 1000
    assert play.observer.status.leader == (3, 5)


def test_a_controller_may_have_the_id_0() -> None:
    """It is an id like any other, and -1 is none."""
    play = Play()
    play.answer(FetchAnswer(ErrorCode.FENCED_LEADER_EPOCH, EpochLeader(0, 5), {0: C}))
    assert play.ask().endpoint == C
    assert play.observer.status.leader == (0, 5)


def test_the_bootstrap_address_of_the_leader_itself_is_enough() -> None:
    """Where the advertised address cannot be reached, the configured one of the leader serves as well."""
    play = Play()
    play.answer(named(3, 5))
    assert play.fail() == C
    asked = play.ask().endpoint
    assert asked == B
    play.observer.handle_answer(
        asked, FetchAnswer(leader=EpochLeader(3, 5), high_watermark=7), play.now
    )
    assert [play.ask().endpoint for _ in range(3)] == [B] * 3


def test_records_are_released_when_they_are_committed() -> None:
    """What a leader sends above its high watermark waits; no answer repeats anything."""
    play = following()
    assert play.answer(FetchAnswer(records=batch(0) + batch(1), high_watermark=0)) == []
    (committed,) = play.answer(FetchAnswer(high_watermark=1))
    assert isinstance(committed, Committed)
    assert [each.offset for each in committed.batches] == [0]
    assert committed.high_watermark == 1
    assert play.observer.end == (1, 5)
    assert play.fetch().offset == 2
    assert play.answer(FetchAnswer(high_watermark=-1)) == []
    assert play.observer.status.high_watermark == -1


def test_the_leader_names_itself() -> None:
    """A probe that meets the leader itself learns from its answer who that is."""
    play = Play()
    play.observer.handle_answer(A, FetchAnswer(leader=EpochLeader(1, 0)), play.now)
    assert play.observer.status.leader == (1, 0)


def test_an_older_kafka_is_asked_again_soon_and_not_for_ever() -> None:
    """Before version 18 a commit is told with the next answer only: short waits, a bounded number of them."""
    play = following()
    play.answer(FetchAnswer(records=batch(0), high_watermark=0))
    waits = []
    for _ in range(FOLLOW_UPS + 2):
        waits.append(play.fetch().max_wait_ms)
        play.observer.handle_answer(B, FetchAnswer(high_watermark=0), play.now + 1)
        play.now += 1
    assert waits == [FOLLOW_UP_MS] * FOLLOW_UPS + [MAX_WAIT_MS] * 2
    play.answer(FetchAnswer(high_watermark=1), after_s=1)
    play.answer(FetchAnswer(records=batch(1), high_watermark=1))
    assert play.fetch().max_wait_ms == FOLLOW_UP_MS


def test_under_load_each_commit_is_asked_for_soon() -> None:
    """As long as records are committed, those that follow them do not use up the short waits."""
    play = following()
    play.answer(FetchAnswer(records=batch(0), high_watermark=0))
    for number in range(1, 2 * FOLLOW_UPS):
        assert play.fetch().max_wait_ms == FOLLOW_UP_MS
        play.observer.handle_answer(
            B, FetchAnswer(records=batch(number), high_watermark=number), play.now
        )


def test_a_first_answer_may_hold_what_is_not_committed() -> None:
    """Also then an older Kafka is asked again soon."""
    play = Play()
    assert play.observer.status == ObserverStatus(None, None, None, None, None, -1, None, "")
    play.answer(named(2, 5))
    play.answer(FetchAnswer(leader=EpochLeader(2, 5), records=batch(0), high_watermark=0))
    assert play.fetch() == Fetch(1, 5, 5, FOLLOW_UP_MS, 0)


def test_a_newer_kafka_is_told_what_we_know_and_waits() -> None:
    """From version 18 on the leader answers when it commits more than the request names."""
    play = following()
    play.answer(FetchAnswer(records=batch(0), high_watermark=0, is_woken_by_commits=True))
    assert play.fetch() == Fetch(1, 5, 5, MAX_WAIT_MS, 0)


def test_a_leader_that_resigns_is_not_asked_without_a_pause() -> None:
    """It names itself until another one leads."""
    play = following()
    for _ in range(3):
        play.answer(named(2, 5))
        assert play.pause() == PAUSE_S
    assert play.observer.status.problem.endswith("answers 6 NOT_LEADER_OR_FOLLOWER")
    play.answer(named(1, 6, ErrorCode.FENCED_LEADER_EPOCH))
    assert (play.ask().endpoint, play.fetch().leader_epoch) == (A, 6)


def test_a_leader_that_stops_and_names_nobody_is_left() -> None:
    """Others know who follows it."""
    play = following()
    play.answer(FetchAnswer(ErrorCode.BROKER_NOT_AVAILABLE))
    assert play.pause() == PAUSE_S
    assert {play.ask().endpoint, play.ask().endpoint} == {A, B}


def test_a_leader_that_answers_at_once_without_news_is_not_asked_without_a_pause() -> None:
    """It was allowed to wait and did not: that costs a pause; one that waited is asked at once."""
    play = following()
    for nothing in (b"", batch(0)[:-1]):
        play.answer(FetchAnswer(high_watermark=0, records=nothing))
        assert play.pause() == PAUSE_S
    play.answer(FetchAnswer(high_watermark=0), after_s=0.5)
    play.ask()


def test_an_older_epoch_is_not_believed() -> None:
    """A voter that was cut off names the leader of an epoch that is over."""
    play = following()
    play.fail()
    play.answer(named(1, 4, ErrorCode.UNKNOWN_LEADER_EPOCH))
    play.pause()
    assert play.fetch().leader_epoch == 5
    assert play.observer.status.leader == (2, 5)


def test_leaders_of_older_epochs_are_another_history_after_a_while() -> None:
    """A cluster that was formatted again begins with epoch 1: what was released is told to be of another log."""
    play = following(EpochEnd(40, 3))
    play.fail()
    while (waited := play.now - 100.0) < OLD_EPOCH_S:
        assert play.answer(named(1, 1, ErrorCode.UNKNOWN_LEADER_EPOCH)) == [], waited
        play.pause()
        play.now += 5.0
    play.now += 1.0
    assert play.answer(named(1, 1, ErrorCode.UNKNOWN_LEADER_EPOCH)) == [
        AnotherHistory(EpochEnd(40, 3), EpochEnd(-1, 1))
    ]
    assert play.fetch() == Fetch(0, 0, 0, 0, 40)


def test_a_pause_proves_nothing_about_the_history() -> None:
    """We may have been stopped between two answers of one leader that is deposed and does not know it."""
    play = following(EpochEnd(40, 3))
    play.fail()
    for _ in range(4):
        assert play.answer(named(1, 1, ErrorCode.UNKNOWN_LEADER_EPOCH)) == []
        play.now += OLD_EPOCH_S


def test_one_voter_of_our_epoch_is_enough_against_those_of_older_ones() -> None:
    """A part of the quorum that was cut off cannot make the log another one."""
    play = following(EpochEnd(40, 3))
    play.fail()
    for number in range(20):
        epoch, leader = ((1, 1), (5, -1))[number % 2]
        assert play.answer(named(leader, epoch)) == []
        play.now += 4.0
    play.fail()
    for _ in range(20):
        assert (
            play.answer(named(-1, 1)) == []
        )  # without a leader it is not elected, whatever the epoch
        play.now += 5.0


def test_no_leader_is_what_a_voter_says_of_a_newer_epoch() -> None:
    """A voter that does not know the leader of our epoch says nothing new; one of a later epoch does."""
    play = following()
    play.fail()
    play.answer(named(-1, 5))
    assert play.observer.status.no_leader_since is None
    assert play.observer.status.leader == (2, 5)
    play.pause()
    play.answer(named(-1, 6, ErrorCode.FENCED_LEADER_EPOCH))
    began = play.now
    assert play.observer.status.no_leader_since == began
    assert play.observer.status.leader == (-1, 6)
    for epoch in (7, 8):
        play.pause()
        play.answer(named(-1, epoch, ErrorCode.FENCED_LEADER_EPOCH))
        assert play.observer.status.leader == (-1, epoch)
    assert play.observer.status.no_leader_since == began
    play.pause()
    play.answer(named(1, 9, ErrorCode.FENCED_LEADER_EPOCH))
    assert play.observer.status.no_leader_since is None
    assert play.observer.status.leader == (1, 9)
    assert (play.ask().endpoint, play.fetch().leader_epoch) == (A, 9)


def test_no_leader_is_known_before_any_was_seen() -> None:
    """At its start an observer knows the epoch of the record before it, which had a leader."""
    play = Play(EpochEnd(40, 3))
    play.answer(named(-1, 3))
    assert play.observer.status.no_leader_since is None
    play.pause()
    play.answer(named(-1, 4, ErrorCode.FENCED_LEADER_EPOCH))
    assert play.observer.status.no_leader_since == play.now


def test_who_cannot_be_reached_is_asked_once_in_a_while() -> None:
    """All that are known are tried, each once within RETRY_S; since when nobody answers is known."""
    play = following()
    began = play.now
    assert [play.fail() for _ in range(2)] == [B, A]
    assert play.observer.status.unreachable_since == began
    assert play.pause() == RETRY_S
    assert play.fail() in {A, B}
    assert play.observer.status.unreachable_since == began
    assert play.observer.status.problem == "it is gone"
    play.answer(named(2, 5))
    assert play.observer.status.unreachable_since is None


def survive(play: Play, answer: FetchAnswer) -> None:
    """Let the others answer so for two seconds in which B, the leader, is gone."""
    until = play.now + 2 * RETRY_S
    while play.now < until:
        step = play.observer.next_step(play.now)
        if isinstance(step, Pause):
            play.now = step.until
        elif step.endpoint == B:
            play.fail()
        else:
            play.answer(answer)


@pytest.mark.parametrize("end", [named(3, 6), named(-1, 6, ErrorCode.FENCED_LEADER_EPOCH), None])
def test_a_leader_that_others_name_and_that_does_not_answer_is_silent(
    end: FetchAnswer | None,
) -> None:
    """Until it answers, or a later epoch is named: voters that cannot be elected name it (ProspectiveState of Kafka 4.0)."""
    play = following()
    began = play.now
    survive(play, named(2, 5))
    assert play.observer.status.leader_silent_since == began
    assert play.observer.status.leader == (2, 5)
    if end is not None:
        survive(play, end)
    else:
        while isinstance(play.observer.next_step(play.now), Pause):
            play.pause()
        assert play.ask().endpoint == B
        play.answer(FetchAnswer(leader=EpochLeader(2, 5), high_watermark=0))
    assert play.observer.status.leader_silent_since is None


def test_a_leader_that_refuses_us_is_not_silent() -> None:
    """It answers: a right or a setting is missing, and waiting does not help."""
    play = following()
    play.fail(is_refusal=True)
    assert play.fail() == A
    assert play.observer.status.leader_silent_since is None


def test_who_does_not_answer_is_no_silent_leader_where_none_is_named() -> None:
    """Whoever answered with the log led, and may not have said in which epoch."""
    play = Play()
    play.answer(FetchAnswer(high_watermark=0))
    assert play.fail() == A
    assert play.observer.status.leader_silent_since is None


def test_a_silent_leader_is_forgotten_with_its_history() -> None:
    """All others name a leader of an older epoch: the cluster is another one."""
    play = following()
    survive(play, named(2, 5))
    assert play.observer.status.leader_silent_since is not None
    for _ in range(int(OLD_EPOCH_S)):
        survive(play, named(3, 2))
    assert play.observer.status.leader_silent_since is None


def test_an_answer_that_is_late_gets_more_time() -> None:
    """Over a slow line a large answer takes long: the time doubles up to a bound, and is short again after a success."""
    play = following()
    for factor in (2, 4, 8, 15, 15):
        play.fail(is_late=True)
        play.now += RETRY_S
        ask = play.ask()
        assert ask.timeout_s == min(factor * MIN_TIMEOUT_S, MAX_TIMEOUT_S)
    play.answer(FetchAnswer(leader=EpochLeader(2, 5), high_watermark=0))
    assert play.ask().timeout_s == MIN_TIMEOUT_S + MAX_WAIT_MS / 1000


@pytest.mark.parametrize(
    ("error", "says"),
    [
        (ErrorCode.CLUSTER_AUTHORIZATION_FAILED, "c1:9093 does not let us read the metadata log"),
        (ErrorCode.INCONSISTENT_CLUSTER_ID, "c1:9093 belongs to another cluster"),
        (ErrorCode.UNKNOWN_TOPIC_ID, "c1:9093 is a broker's listener"),
        (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "c1:9093 is a broker's listener"),
    ],
)
def test_a_refusal_is_told_and_not_repeated_soon(error: int, says: str) -> None:
    """Somebody has to change something first; others are asked meanwhile."""
    play = Play()
    play.answer(FetchAnswer(error))
    assert says in play.observer.status.problem
    assert play.fail(is_refusal=True) == B
    assert 0 < play.pause() <= REFUSED_RETRY_S
    assert play.observer.status.unreachable_since is None


def test_held_records_of_a_lost_leader_are_replaced() -> None:
    """The new leader's log ends earlier: what was held behind that is dropped, and never released."""
    play = following()
    play.answer(FetchAnswer(records=batch(0) + batch(1) + batch(2), high_watermark=1))
    play.answer(named(1, 6, ErrorCode.FENCED_LEADER_EPOCH))
    # Its high watermark is of its own log, where other records stand.
    assert play.answer(FetchAnswer(diverging=EpochEnd(1, 5), high_watermark=3)) == []
    assert (play.fetch().offset, play.fetch().last_epoch) == (1, 5)
    (committed,) = play.answer(FetchAnswer(records=batch(1, 6) + batch(2, 6), high_watermark=3))
    assert isinstance(committed, Committed)
    assert [(each.offset, each.epoch) for each in committed.batches] == [(1, 6), (2, 6)]


@pytest.mark.parametrize(
    "answer",
    [
        FetchAnswer(diverging=EpochEnd(39, 3), high_watermark=99),
        FetchAnswer(diverging=EpochEnd(40, 2), high_watermark=99),
        FetchAnswer(snapshot=EpochEnd(39, 3), high_watermark=99),
        FetchAnswer(snapshot=EpochEnd(99, 2), high_watermark=99),
    ],
)
def test_a_log_without_what_was_released_is_another_history(answer: FetchAnswer) -> None:
    """Kafka takes nothing committed back, so this log is another one: it is read from its beginning."""
    play = following(EpochEnd(40, 3))
    theirs = answer.diverging or answer.snapshot
    assert theirs is not None
    assert play.answer(answer) == [AnotherHistory(EpochEnd(40, 3), theirs)]
    assert play.fetch() == Fetch(0, 0, 0, 0, 40)
    play.answer(named(2, 5))
    (committed,) = play.answer(FetchAnswer(records=batch(0, 1), high_watermark=1))
    assert isinstance(committed, Committed)


def test_a_divergence_behind_our_end_is_not_obeyed_for_ever() -> None:
    """A leader that contradicts itself is asked again after a while, and named."""
    play = following(EpochEnd(40, 3))
    assert play.answer(FetchAnswer(diverging=EpochEnd(41, 3), high_watermark=99)) == []
    assert "c2:9093: its log diverges at 41, behind our end" in play.observer.status.problem
    assert play.ask().endpoint == A


def test_damaged_records_release_nothing() -> None:
    """The leader is named with what is wrong, and asked again later; a good answer ends the problem."""
    play = following()
    damaged = batch(0)[:-1] + b"\1"
    assert play.answer(FetchAnswer(records=damaged, high_watermark=1)) == []
    assert "c2:9093: the batch at offset 0 does not have its checksum" in (
        play.observer.status.problem
    )
    play.answer(named(2, 5))
    assert play.ask().endpoint != B
    play.now += RETRY_S
    assert len(play.answer(FetchAnswer(records=batch(0), high_watermark=1))) == 1
    assert play.observer.status.problem == ""


def reading() -> Play:
    """Return an observer that reads a snapshot of epoch 4 that ends at 30."""
    play = following()
    play.answer(FetchAnswer(snapshot=EpochEnd(30, 4), high_watermark=50))
    assert play.ask() == Ask(B, FetchSnapshot(EpochEnd(30, 4), 0, 5), MIN_TIMEOUT_S)
    return play


def test_a_damaged_part_of_a_snapshot_is_not_gone_on_from() -> None:
    """The next request is for the log again, whatever the leader answers to it then."""
    data, play = snapshot_bytes(EpochEnd(30, 4)), reading()
    assert play.answer(SnapshotAnswer(0, None, len(data), 0, b"\1" * 500)) == []
    play.observer.handle_answer(A, FetchAnswer(records=batch(0), high_watermark=0), play.now)
    assert play.fetch().offset == 1


def test_after_a_snapshot_the_log_goes_on_at_its_end() -> None:
    """It is read to its end, part by part, from the leader that named it."""
    data, play = snapshot_bytes(EpochEnd(30, 4)), reading()
    play.answer(SnapshotAnswer(0, None, len(data), 0, data[:500]))
    assert play.ask().request == FetchSnapshot(EpochEnd(30, 4), 500, 5)
    released = play.answer(SnapshotAnswer(0, None, len(data), 500, data[500:]))
    assert released[-1] == SnapshotComplete(EpochEnd(30, 4))
    assert play.observer.end == (30, 4)
    assert (play.fetch().offset, play.fetch().last_epoch) == (30, 4)


@pytest.mark.parametrize(
    "answer",
    [
        SnapshotAnswer(ErrorCode.SNAPSHOT_NOT_FOUND),
        SnapshotAnswer(ErrorCode.UNKNOWN_SERVER_ERROR),
        SnapshotAnswer(ErrorCode.POSITION_OUT_OF_RANGE),
    ],
)
def test_a_snapshot_that_is_gone_is_asked_for_anew(answer: SnapshotAnswer) -> None:
    """Kafka deletes old ones: Fetch names the next one, after a pause."""
    play = reading()
    assert play.answer(answer) == []
    assert play.pause() == PAUSE_S
    assert (play.ask().endpoint, play.fetch().offset) == (B, 0)


def test_a_snapshot_of_a_lost_leader_is_not_gone_on_with() -> None:
    """Another leader has snapshots of its own."""
    play = reading()
    play.answer(SnapshotAnswer(ErrorCode.FENCED_LEADER_EPOCH, EpochLeader(1, 6)))
    play.now += PAUSE_S
    assert (play.fetch().offset, play.fetch().leader_epoch) == (0, 6)
    play = reading()
    play.fail()
    play.answer(named(2, 5))
    play.now += RETRY_S
    assert play.fetch().offset == 0


def test_a_snapshot_is_not_taken_where_held_records_may_be_the_reason() -> None:
    """A leader without the epoch of what we hold may name a snapshot: what is not committed is dropped first."""
    play = following(EpochEnd(40, 3))
    play.answer(FetchAnswer(records=batch(40), high_watermark=40))
    assert play.answer(FetchAnswer(snapshot=EpochEnd(40, 3), high_watermark=40)) == []
    assert (play.fetch().offset, play.fetch().last_epoch) == (40, 3)


def test_how_long_the_high_watermark_stands_is_known() -> None:
    """It is what shows that no majority commits, although a leader answers."""
    play = following()
    play.answer(FetchAnswer(records=batch(0), high_watermark=1))
    since = play.now
    for _ in range(3):
        play.answer(FetchAnswer(high_watermark=1), after_s=1.0)
    assert play.observer.status.high_watermark_since == since
    assert play.observer.status.answered_at == play.now
    play.answer(FetchAnswer(high_watermark=2), after_s=1.0)
    assert play.observer.status.high_watermark_since == play.now
