"""Signs of life: what proves that figures are live, and since when they are not."""

from __future__ import annotations

from typing import Self

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from controller_model.records.changes import SessionState
from controller_model.records.completeness import (
    LATE_BEATS_MS,
    Completeness,
    Stage,
    Status,
    assess,
)
from exporter.core.life_signs import LifeSigns
from tests.support.samples import T0, as_of, beat, cluster_view

HOUR_MS = 3_600_000
LATE = {Status.BEHIND, Status.BLIND}


class Line:
    """A pipeline: `now` is the reader's steady clock in ms, and each part has its own wall clock."""

    def __init__(self) -> None:
        self.signs = LifeSigns()
        self.now = 0
        self.watcher_clock_ms = self.fold_clock_ms = self.our_clock_ms = T0
        self.number = self.seq = self.folded = 1
        self.generation = self.folded_generation = 1
        self.is_live = True
        self.watcher = "a1b2c3"
        self.watcher_steady_ms = HOUR_MS
        """The watcher's steady clock when the reader's was 0."""
        self.source_ahead_ms: int | None = None
        self.cut_off_since: int | None = None
        """Since when the exporter has not reached Kafka; None: it reads."""

    @property
    def read_at(self) -> int:
        """When the exporter had last read everything."""
        return self.now if self.cut_off_since is None else self.cut_off_since

    def beat(
        self,
        *,
        answered_ms: int = 5,
        logged_ms: int = 0,
        session: SessionState | None = None,
        held_up_ms: int = 0,
    ) -> Self:
        """Receive the watcher's next beat, sent `held_up_ms` ago; the log was late by `logged_ms`."""
        self.number += 1
        sent = beat(
            self.number,
            seq=self.seq,
            generation=self.generation,
            source_answered_ms=answered_ms,
            log_complete_ms=max(answered_ms, logged_ms),
            session=session or SessionState.CONNECTED,
            source_ahead_ms=self.source_ahead_ms,
            sent_at=self.watcher_clock_ms + self.now - held_up_ms,
            watcher=self.watcher,
            sent_steady=self.watcher_steady_ms + self.now - held_up_ms,
        )
        self.signs = self.signs.with_beat(
            sent, self.now, is_live=self.is_live, read_at=self.read_at
        )
        return self

    def fold(self) -> Self:
        """Let the fold show everything in the log."""
        self.folded, self.folded_generation = self.seq, self.generation
        view = cluster_view(
            at=as_of(self.folded, generation=self.generation),
            folded_at=self.fold_clock_ms + self.now,
        )
        self.signs = self.signs.with_view(
            view, self.now, is_live=self.is_live, read_at=self.read_at
        )
        return self

    def wait(self, ms: int) -> Self:
        """Let time pass."""
        self.now += ms
        return self

    def run(self, seconds: int) -> Self:
        """Let all parts work for so many seconds."""
        for _ in range(seconds):
            self.wait(1000)
            self.seq += 1
            self.beat().fold()
        return self

    def found(self) -> Completeness:
        """Return the completeness of the figures now."""
        view = cluster_view(at=as_of(self.folded, generation=self.folded_generation))
        wall = self.our_clock_ms + self.now
        progress = self.signs.progress(self.now, wall=wall, read_at=self.read_at)
        return assess(view, progress, wall)

    def status(self) -> Status:
        """The status, without the rest."""
        return self.found().status


def test_after_a_start_figures_are_not_live_until_a_second_timely_beat() -> None:
    """After a start neither a view, nor old beats, nor a first beat that may have been delayed prove anything."""
    line = Line()
    line.is_live = False
    line.fold().beat().beat()
    line.is_live = True
    assert line.status() is Status.BEHIND
    line.wait(100).beat()
    assert line.status() is Status.BLIND
    line.wait(10).beat()
    assert line.status() is Status.BLIND, "two that come together may both have waited"
    line.wait(1000).beat()
    assert line.status() is Status.LIVE


def test_figures_are_behind_until_the_view_reaches_the_end_in_the_beats() -> None:
    """After a start, the fold's old view says nothing about what was written to the log since."""
    line = Line().fold()
    line.seq = 2
    line.wait(100).beat().wait(1000).beat()
    assert (line.status(), line.found().stage) == (Status.BEHIND, Stage.FOLD)
    assert line.fold().status() is Status.LIVE


@pytest.mark.parametrize("dead", [Stage.WATCHER, Stage.FOLD])
def test_a_stage_that_dies_is_reported_within_three_seconds(dead: Stage) -> None:
    """The watcher's death shows by its beats, the fold's by the log's end in the beats; both with since when."""
    line = Line().fold().run(10)
    assert line.status() is Status.LIVE
    died_at = line.now
    for _ in range(5):
        line.wait(1000)
        if dead is Stage.FOLD:
            line.seq += 1
            line.beat()
    found = line.found()
    assert (found.status, found.stage) == (Status.BEHIND, dead)
    assert found.since is not None
    answered_ms = 5  # before a beat is sent
    assert found.since - T0 == died_at - (answered_ms if dead is Stage.WATCHER else 0)


def test_a_fold_without_new_changes_is_not_late() -> None:
    """Nothing is missing from its view, however old it is."""
    line = Line().fold().run(3)
    for _ in range(60):
        line.wait(1000).beat()
    assert line.status() is Status.LIVE


def test_a_fold_that_goes_back_to_an_older_checkpoint_is_behind_at_once() -> None:
    """Its figures are older than those shown before, until it has reached the same place again."""
    line = Line().fold().run(5)
    newest, line.seq = line.seq, 3
    line.wait(100).fold()
    line.seq = newest
    assert (line.status(), line.found().stage) == (Status.BEHIND, Stage.FOLD)
    line.wait(100).beat()
    assert line.status() is Status.BEHIND
    assert line.fold().status() is Status.LIVE


def test_a_fold_that_goes_back_repeatedly_keeps_one_position_due() -> None:
    """Only the first place that it must reach again is kept."""
    line = Line().fold().run(30)
    newest = line.seq
    for line.seq in range(newest - 1, 3, -1):
        line.wait(10).fold()
    assert len(line.signs.due) == 1
    line.seq = newest - 1
    assert line.fold().status() is Status.BEHIND
    line.seq = newest
    assert line.fold().status() is Status.LIVE


def test_a_zookeeper_that_does_not_answer_is_reported_within_three_seconds() -> None:
    """The watcher's beats continue, and report how long it has had no answer, or that it has no session."""
    line = Line().fold().run(5)
    for second in range(1, 5):
        line.wait(1000).beat(answered_ms=1000 * second)
    assert (line.status(), line.found().stage) == (Status.BLIND, Stage.WATCHER)
    line = Line().fold().run(5)
    for second in range(1, 5):
        line.wait(1000).beat(session=SessionState.SUSPENDED, logged_ms=1000 * second)
        assert (line.status(), line.found().since) == (Status.BLIND, T0 + 5_000)


def test_a_log_that_is_late_is_reported_within_three_seconds() -> None:
    """ZooKeeper answers and the fold has shown everything in the log, but changes wait to be written to it."""
    line = Line().fold().run(5)
    for second in range(1, 5):
        line.wait(1000).beat(logged_ms=1000 * second)
    found = line.found()
    assert (found.status, found.stage) == (Status.BEHIND, Stage.WATCHER)
    assert found.since == T0 + 5_000


def test_the_first_beat_of_a_returning_watcher_does_not_make_figures_live() -> None:
    """What it missed must first be read, then be in the log, then be in the view."""
    line = Line().fold().run(5).wait(20_000).beat(answered_ms=20_000)
    assert line.status() is Status.BLIND
    line.wait(1000).beat()
    line.seq += 50
    line.wait(1000).beat()
    assert (line.status(), line.found().stage) == (Status.BEHIND, Stage.FOLD)
    assert line.fold().status() is Status.LIVE


def test_a_new_watcher_generation_is_behind_until_the_view_has_it() -> None:
    """They are stale since the former watcher's last sign: what the new one found is not in the view yet."""
    line = Line().fold().run(5).wait(2_000)
    line.generation, line.number, line.seq = 2, 0, 1
    line.beat().wait(1_100).beat()
    assert (line.status(), line.found().stage) == (Status.BEHIND, Stage.FOLD)
    assert line.fold().status() is Status.LIVE


def test_a_fold_that_never_reaches_the_end_of_the_log_stays_late() -> None:
    """However many positions it has yet to reach, its lateness is not forgotten."""
    line = Line().fold().run(3)
    for _ in range(100):
        line.seq += 1
        line.wait(1000).beat()
    held, line.seq = line.seq, line.seq - 5
    line.fold()
    assert line.status() is Status.BEHIND
    line.seq = held
    assert line.fold().status() is Status.LIVE


def test_the_delays_of_a_backlog_of_beats_are_recognized() -> None:
    """However many beats were delayed together, the earlier ones show how long each took."""
    line = Line().fold().run(20).wait(60_000)
    for second in range(59, 1, -1):
        line.wait(1).beat(held_up_ms=second * 1000)
    for second in (2, 1):
        line.wait(600).beat(held_up_ms=second * 1000)
    assert line.fold().status() is Status.LIVE
    line.wait(LATE_BEATS_MS - 1_000)
    assert line.wait(1).status() in LATE


def test_figures_are_live_again_after_the_watchers_machine_slept() -> None:
    """After its sleep all beats seem to be delayed, until no beat from before the sleep is kept."""
    line = Line().fold().run(20)
    line.watcher_steady_ms -= HOUR_MS
    line.run(10)
    assert line.status() in LATE
    assert line.run(10).status() is Status.LIVE


@pytest.mark.parametrize("ahead_ms", [HOUR_MS, -HOUR_MS])
def test_clock_skew_is_reported_with_the_stage_and_the_amount(ahead_ms: int) -> None:
    """The other clocks show whose clock is wrong; where all disagree with the exporter's, that one is."""
    line = Line().fold()
    line.watcher_clock_ms += ahead_ms
    found = line.run(10).found()
    assert (found.status, found.stage) == (Status.CLOCKS_DISAGREE, Stage.WATCHER)
    assert found.clock_skew_ms == {Stage.WATCHER: ahead_ms}
    line = Line().fold()
    line.our_clock_ms -= ahead_ms
    found = line.run(10).found()
    assert (found.status, found.stage) == (Status.CLOCKS_DISAGREE, Stage.EXPORTER)
    assert line.wait(LATE_BEATS_MS + 1).status() is Status.BEHIND


@pytest.mark.parametrize("ahead_ms", [HOUR_MS, -HOUR_MS])
def test_zookeeper_clock_skew_is_measured_through_the_watchers_clock(ahead_ms: int) -> None:
    """The watcher reports by how much ZooKeeper's clock is ahead of its own; the wrong clock shows as for other stages."""
    line = Line().fold()
    line.source_ahead_ms = ahead_ms
    found = line.run(10).found()
    assert (found.status, found.stage) == (Status.CLOCKS_DISAGREE, Stage.ZOOKEEPER)
    assert found.clock_skew_ms == {Stage.ZOOKEEPER: ahead_ms}
    line.source_ahead_ms, line.watcher_clock_ms = -ahead_ms, T0 + ahead_ms
    found = line.run(10).found()
    assert found.clock_skew_ms == {Stage.WATCHER: ahead_ms}, "ZooKeeper's is ours"
    line.source_ahead_ms, line.watcher_clock_ms, line.our_clock_ms = 0, T0, T0 - ahead_ms
    found = line.run(10).found()
    assert found.stage is Stage.EXPORTER
    assert set(found.clock_skew_ms) == {Stage.ZOOKEEPER, Stage.WATCHER, Stage.FOLD}


def test_the_skew_of_a_source_has_the_name_of_that_source() -> None:
    """A KRaft cluster has no ZooKeeper: the clock that beats compare is that of its active controller."""
    line = Line().fold()
    line.source_ahead_ms = HOUR_MS
    line.run(10)
    wall = line.our_clock_ms + line.now
    found = line.signs.progress(line.now, wall=wall, read_at=line.read_at, source=Stage.CONTROLLER)
    assert Stage.ZOOKEEPER not in found.clock_skew_ms
    assert found.clock_skew_ms[Stage.CONTROLLER] == HOUR_MS + found.clock_skew_ms[Stage.WATCHER]


def test_a_late_view_is_not_reported_as_clock_skew() -> None:
    """Of the fold, whose views do not say how long they took, only the fastest of several counts."""
    line = Line().fold().run(10)
    line.fold_clock_ms -= 60_000
    assert line.run(1).status() is Status.LIVE
    assert line.run(5).found().clock_skew_ms == {Stage.FOLD: -60_000}


def test_a_clock_that_is_set_is_reported_at_once() -> None:
    """A beat compares both clocks of its watcher, and our own is read with each question."""
    line = Line().fold().run(10)
    line.watcher_clock_ms -= 60_000
    assert line.run(1).found().clock_skew_ms == {Stage.WATCHER: -60_000}
    line.watcher_clock_ms += 60_000
    assert line.run(1).status() is Status.LIVE
    line.our_clock_ms += 60_000
    assert line.found().clock_skew_ms == {Stage.WATCHER: -60_000, Stage.FOLD: -60_000}


@pytest.mark.parametrize("is_new", [False, True], ids=["the same watcher", "a new watcher"])
def test_beats_and_views_that_waited_are_not_reported_as_clock_skew(*, is_new: bool) -> None:
    """An exporter that was cut off reads what waited, up to the last beat of a watcher that has died since."""
    line = Line().fold().run(10)
    line.cut_off_since = line.now
    line.wait(20_000)
    if is_new:
        line.watcher, line.watcher_steady_ms = "d4e5f6", -HOUR_MS
        line.generation, line.number = 2, 0
    line.fold_clock_ms -= 7_000
    for held_up_ms in range(19_000, 6_000, -1_000):
        line.seq += 1
        line.wait(600).beat(held_up_ms=held_up_ms).fold()
        assert not line.found().clock_skew_ms
    line.fold_clock_ms += 7_000
    line.cut_off_since = None
    assert not line.wait(600_000).found().clock_skew_ms


def test_the_clock_of_a_new_watcher_is_not_known_from_the_one_before() -> None:
    """Also where its first beat was read again after others, and so may be of any age."""
    line = Line().fold().run(10)
    line.watcher, line.watcher_steady_ms = "d4e5f6", 3 * HOUR_MS
    line.watcher_clock_ms += HOUR_MS
    line.generation, line.number, line.is_live = 2, 0, False
    line.wait(1_000).beat()
    line.is_live = True
    assert not line.run(2).found().clock_skew_ms
    assert line.run(1).found().clock_skew_ms == {Stage.WATCHER: HOUR_MS}


STEPS = st.tuples(
    st.sampled_from(["watcher_clock_ms", "fold_clock_ms", "our_clock_ms"]),
    st.integers(-HOUR_MS * 24, HOUR_MS * 24),
)
ACTS = st.lists(
    st.one_of(
        st.tuples(st.just("run"), st.integers(1, 8)),
        st.tuples(st.just("no watcher"), st.integers(1, 8)),
        st.tuples(st.just("no fold"), st.integers(1, 8)),
        st.tuples(st.just("no ZooKeeper"), st.integers(1, 8)),
        st.tuples(st.just("no log"), st.integers(1, 8)),
        st.tuples(st.just("no reader, then no watcher"), st.integers(1, 8)),
        STEPS,
    ),
    max_size=20,
)


@example([("no ZooKeeper", 2), ("no fold", 1), ("no fold", 2)])
@given(ACTS)
def test_figures_are_not_live_three_seconds_after_signs_of_life_stop(
    acts: list[tuple[str, int]],
) -> None:
    """For any steps of any clock and any silence, live figures are at most 3 s behind.

    Where one part falls silent right after another, it is one beat more.
    """
    silences = {act for act, _ in acts if act.startswith("no ")}
    most_ms = LATE_BEATS_MS + (1000 if len(silences) > 1 else 0)
    line = Line().fold().run(3)
    logged_at = followed_at = line.now  # up to when the log, and the view, hold all of ZooKeeper
    silent_ms = late_ms = 0
    for act, amount in acts:
        if act.endswith("_ms"):
            setattr(line, act, getattr(line, act) + amount)
            continue
        if act == "no reader, then no watcher":
            # The watcher sends one more beat and dies; the exporter is paused meanwhile and reads it late.
            line.seq += 1
            logged_at = line.now + 1000
            silent_ms = late_ms = 1000 * (amount - 1)
            line.wait(1000 * amount).beat(answered_ms=0, held_up_ms=1000 * (amount - 1)).fold()
            followed_at = logged_at
            is_live = line.status() in {Status.LIVE, Status.CLOCKS_DISAGREE}
            assert not (is_live and line.now - followed_at > most_ms)
            continue
        for _ in range(amount):
            line.wait(1000)
            silent_ms += 1000
            late_ms += 1000
            if act in {"run", "no fold"}:
                line.seq += 1
                logged_at, silent_ms, late_ms = line.now, 0, 0
            if act == "no log":
                silent_ms = 0
            if act != "no watcher":
                line.beat(answered_ms=silent_ms, logged_ms=late_ms)
            if act != "no fold":
                line.fold()
                followed_at = logged_at
            is_live = line.status() in {Status.LIVE, Status.CLOCKS_DISAGREE}
            assert not (is_live and line.now - followed_at > most_ms)
    line.run(10)
    assert line.status() in {Status.LIVE, Status.CLOCKS_DISAGREE}
