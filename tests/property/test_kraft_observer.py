"""Two and three observers of a quorum in memory under faults: what they release is the committed log, and nothing else.

Elections, epochs without a leader, deposed leaders that do not know it, uncommitted records that are replaced, snapshots,
transactions that are aborted, controllers killed, paused and cut off, answers that arrive late. A planted bug in
the observer is found by the same histories.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from random import Random

import pytest

from controller_model.kafka.metadata_records import Topic
from kraft_source.observer import held_log
from kraft_source.observer.held_log import HeldLog
from kraft_source.observer.observer import Ask, Observer, Pause
from kraft_source.observer.released import (
    AnotherHistory,
    Committed,
    CommittedBatch,
    Released,
    SnapshotChunk,
    SnapshotComplete,
    SnapshotOpened,
)
from kraft_source.wire.batches import split_batches
from kraft_source.wire.messages import Answer, EpochEnd, Fetch, FetchAnswer
from kraft_source.wire.records import Record, decode, transaction_marks
from tests.support.quorum_in_memory import Controller, Quorum

TICK_S = 0.02
FAULTY_S = 60.0
"""Simulated seconds with faults; then the quorum is calm."""
CALM_S = 30.0
MAX_ASKED_PER_S = 12
"""Requests of an observer in a simulated second at most, in the mean of a history with faults."""


class Follower:
    """Takes what one observer releases, as a reader does, and checks it against the truth when it arrives."""

    def __init__(self, quorum: Quorum) -> None:
        self._quorum = quorum
        self.next_offset = 0
        self.batches: dict[int, CommittedBatch] = {}
        self.snapshots = 0
        self._reading: list[Record] | None = None
        self._is_in_transaction = False
        self.expects_another = False
        """Whether the log has become another one, which has to be told before anything of it."""

    def format(self, quorum: Quorum) -> None:
        """Note that the cluster was formatted again."""
        self._quorum, self.expects_another = quorum, True

    def read(self, released: Released) -> None:
        """Check one thing that was released."""
        if isinstance(released, AnotherHistory) and self.expects_another:
            self.expects_another, self.next_offset = False, 0
            self.batches.clear()
        elif isinstance(released, Committed):
            assert not self.expects_another, "a mix of two logs"
            for batch in released.batches:
                self._read_batch(batch)
            assert released.batches
            assert not self._is_in_transaction, "a transaction is cut"
        elif isinstance(released, SnapshotOpened):
            self._reading = []
            assert released.at == released.snapshot.end_offset
        elif isinstance(released, SnapshotChunk):
            assert self._reading is not None
            self._reading += released.records
        else:
            assert isinstance(released, SnapshotComplete), f"no history was replaced: {released}"
            end = released.snapshot.end_offset
            assert self._reading is not None
            assert [each.name for each in self._reading if isinstance(each, Topic)] == [
                f"s{number}" for number in range(end)
            ], "a snapshot is not complete"
            assert self.next_offset <= end <= self._quorum.committed_end
            self.next_offset, self._reading = end, None
            self.snapshots += 1

    def _read_batch(self, batch: CommittedBatch) -> None:
        assert batch.offset == self.next_offset, "a hole, or a repetition"
        assert batch.last_offset < self._quorum.committed_end, "released before it was committed"
        self.next_offset = batch.last_offset + 1
        self.batches[batch.offset] = batch
        self._is_in_transaction = batch.is_in_transaction


class World:
    """A quorum, observers, and what is under way between them."""

    def __init__(self, seed: int, *, observers: int = 2) -> None:
        self.rng = Random(seed)  # noqa: S311  # a story, not a secret
        self.quorum = Quorum(self.rng, has_commit_wakes=bool(seed % 2))
        self.now = 1.0
        self.observers = [Observer(self.quorum.endpoints) for _ in range(observers)]
        self.followers = [Follower(self.quorum) for _ in range(observers)]
        self.asked = [0] * observers
        self._under_way: list[tuple[Ask, float] | None] = [None] * observers
        self._arriving: list[tuple[Ask, Answer, float] | None] = [None] * observers
        self._stalled_until = [0.0] * observers
        self._lateness = 0.0
        """How often an answer is late."""

    def play(self, seconds: float, *, with_faults: bool) -> None:
        """Let time pass."""
        self._lateness = 0.2 if with_faults else 0.0
        for _ in range(int(seconds / TICK_S)):
            self.now += TICK_S
            self.quorum.tick(int(TICK_S * 1000))
            if with_faults:
                self._act()
            for number in range(len(self.observers)):
                self._poll(number)

    def _act(self) -> None:
        """Let one thing happen to the quorum or to an observer."""
        one = self.rng.choice(self.quorum.controllers)
        (act,) = self.rng.choices([*ACTIONS], [*ACTIONS.values()])
        act(self, one)

    def append(self, _one: Controller) -> None:
        """Let all who believe that they lead append."""
        for leader in self.quorum.leaders():
            if not leader.is_paused:
                self.quorum.append_something(leader)

    def replicate(self, one: Controller) -> None:
        """Let a controller fetch from its leader."""
        self.quorum.replicate(one)

    def elect(self, one: Controller) -> None:
        """Let a controller stand for election, whoever leads."""
        self.quorum.elect(one)

    def elect_where_nobody_leads(self, one: Controller) -> None:
        """Let a controller stand for election if there is no leader at all."""
        if not any(each.leads for each in self.quorum.controllers):
            self.quorum.elect(one)

    def kill_or_start(self, one: Controller) -> None:
        """Kill a controller, or start it again."""
        one.is_alive = not one.is_alive

    def pause_or_resume(self, one: Controller) -> None:
        """Pause a controller, or let it go on."""
        one.is_paused = not one.is_paused

    def cut_off(self, one: Controller) -> None:
        """Put a controller on an island; observers reach all of them."""
        one.island = self.rng.randrange(2)

    def take_snapshot(self, one: Controller) -> None:
        """Let a controller write a snapshot, and perhaps clean its log."""
        self.quorum.take_snapshot(one, trims=self.rng.random() < 0.5)

    def stall(self, _one: Controller) -> None:
        """Pause an observer."""
        number = self.rng.randrange(len(self.observers))
        self._stalled_until[number] = self.now + self.rng.uniform(1, 20)

    def repair(self, _one: Controller) -> None:
        """Let all controllers run and reach each other."""
        for each in self.quorum.controllers:
            each.is_alive, each.is_paused, each.island = True, False, 0

    def _poll(self, number: int) -> None:
        """Let one observer ask, wait, or take what has arrived."""
        if self.now < self._stalled_until[number]:
            return
        observer = self.observers[number]
        if (arriving := self._arriving[number]) is not None:
            ask, answer, at = arriving
            if self.now >= at:
                self._arriving[number] = None
                for each in observer.handle_answer(ask.endpoint, answer, self.now):
                    self.followers[number].read(each)
            return
        under_way = self._under_way[number]
        if under_way is None:
            step = observer.next_step(self.now)
            if isinstance(step, Pause):
                assert step.until > self.now
                return
            self.asked[number] += 1
            self._under_way[number] = (step, self.now)
            return
        ask, since = under_way
        self._carry(number, observer, self.quorum.at(ask.endpoint), ask, since)

    def _carry(
        self, number: int, observer: Observer, controller: Controller, ask: Ask, since: float
    ) -> None:
        waited = self.now - since
        if not controller.is_alive:
            self._under_way[number] = None
            observer.handle_failure(ask.endpoint, "connection refused", self.now)
        elif controller.is_paused:
            if waited >= ask.timeout_s:
                self._under_way[number] = None
                observer.handle_failure(ask.endpoint, "no answer in time", self.now, is_late=True)
        else:
            answer = self.quorum.answer(controller, ask.request)
            if self._waits(ask, answer, waited):
                return
            self._under_way[number] = None
            delay = (
                self.rng.choice([0.05] * 4 + [2.0]) if self.rng.random() < self._lateness else 0.0
            )
            self._arriving[number] = (ask, answer, self.now + delay)

    @staticmethod
    def _waits(ask: Ask, answer: Answer, waited: float) -> bool:
        """Return whether a leader still waits for something to answer."""
        if not isinstance(ask.request, Fetch) or not isinstance(answer, FetchAnswer):
            return False
        has_place = answer.diverging is not None or answer.snapshot is not None
        is_committed = answer.is_woken_by_commits and (
            answer.high_watermark > ask.request.high_watermark
        )
        if answer.error or answer.records or has_place or is_committed:
            return False
        return waited * 1000 < ask.request.max_wait_ms


ACTIONS: dict[Callable[[World, Controller], None], float] = {
    World.append: 35,
    World.replicate: 50,
    World.elect: 2,
    World.elect_where_nobody_leads: 2,
    World.kill_or_start: 0.5,
    World.pause_or_resume: 0.5,
    World.cut_off: 1,
    World.take_snapshot: 1,
    World.stall: 0.2,
    World.repair: 0.8,
}
"""What may happen in a tick, and how often in proportion."""


def truth(quorum: Quorum) -> Iterator[tuple[int, int, list[tuple[int, Record]]]]:
    """Yield the committed log as it should arrive: decoded at once, by other code than the observer's."""
    begun: list[tuple[int, int, list[tuple[int, Record]]]] = []
    inside: list[tuple[int, Record]] | None = None
    for batch in quorum.committed:
        marks = dict(transaction_marks(batch))
        records = dict(decode(batch).records)
        kept: list[tuple[int, Record]] = []
        begun.append((batch.offset, batch.last_offset, kept))
        for offset in range(batch.offset, batch.last_offset + 1):
            if marks.get(offset) == 23:
                inside = []
            elif marks.get(offset) is not None:
                if marks[offset] == 25:
                    gone = {each for each, _ in inside or ()}
                    for _, _, held in begun:
                        held[:] = [each for each in held if each[0] not in gone]
                inside = None
            elif offset in records:
                kept.append((offset, records[offset]))
                if inside is not None and not batch.is_control:
                    inside.append((offset, records[offset]))
        if inside is None:
            yield from begun
            begun = []


def play(seed: int, *, observers: int = 2) -> World:
    """Play one history, and check all that must hold at its end."""
    world = World(seed, observers=observers)
    world.quorum.elect(world.quorum.controllers[0])
    world.play(FAULTY_S, with_faults=True)
    for asked in world.asked:
        assert asked <= MAX_ASKED_PER_S * FAULTY_S, "an observer asks without a pause"
    world.quorum.heal()
    before = list(world.asked)
    world.play(CALM_S, with_faults=False)
    expected = {offset: (last, records) for offset, last, records in truth(world.quorum)}
    for number, follower in enumerate(world.followers):
        assert follower.next_offset == world.quorum.committed_end, "not all is released"
        for offset, batch in follower.batches.items():
            assert expected[offset] == (batch.last_offset, batch.records), "of other content"
        assert world.asked[number] - before[number] < 600, "too many requests in a calm quorum"
    return world


@pytest.mark.parametrize(
    "seed", [*range(12), *(pytest.param(seed, marks=pytest.mark.full) for seed in range(12, 60))]
)
def test_what_is_released_is_the_committed_log(seed: int) -> None:
    """Each observer releases a prefix of the committed log, without a hole, and all of it once the quorum is calm."""
    play(seed, observers=2 + seed % 2)


@pytest.mark.parametrize("seed", range(4))
def test_a_cluster_that_is_formatted_again_is_another_history(seed: int) -> None:
    """Whether its epochs have come as far as the old ones or not: told once, then all of the new log, and nothing else."""
    world = World(seed)
    world.quorum.elect(world.quorum.controllers[0])
    world.play(20 * (seed % 2 + 1), with_faults=True)
    world.quorum.heal()
    world.play(CALM_S, with_faults=False)
    world.quorum = Quorum(world.rng, has_commit_wakes=bool(seed % 2))
    for each in world.followers:
        assert each.next_offset > 0
        each.format(world.quorum)
    for _ in range(100 if seed > 1 else 3):
        world.quorum.heal()
    world.play(2 * CALM_S, with_faults=False)
    for each in world.followers:
        assert not each.expects_another, "nothing tells of the new log"
        assert each.next_offset == world.quorum.committed_end


def test_the_histories_hold_what_they_are_for() -> None:
    """Replaced records, snapshots, aborted transactions and elections happen in them, or they would prove little."""
    worlds = [play(seed) for seed in range(4)]
    assert sum(follower.snapshots for world in worlds for follower in world.followers) > 4
    marks = [
        mark
        for world in worlds
        for batch in world.quorum.committed
        for _, mark in transaction_marks(batch)
    ]
    assert marks.count(25) > 4
    assert marks.count(24) > 4
    assert len({batch.epoch for world in worlds for batch in world.quorum.committed}) > 20


def _release_everything(self: HeldLog, high_watermark: int) -> list[CommittedBatch]:
    return _RELEASE(self, max(high_watermark, self.end.end_offset))


def _release_unknown(self: HeldLog, high_watermark: int) -> list[CommittedBatch]:
    """Forget that a transaction has begun."""
    self._is_in_transaction = False
    released = _RELEASE(self, high_watermark)
    while self._begun:
        self._is_in_transaction = False
        group, self._begun = self._begun, []
        released += self._committed(group)
        self.released = EpochEnd(group[-1].batch.last_offset + 1, group[-1].batch.epoch)
    return released


def _trust_each_watermark(self: Observer, answer: FetchAnswer, place: EpochEnd) -> list[Released]:
    """Use the high watermark of a log that is not ours."""
    batches = self._log.release(answer.high_watermark)
    return [Committed(batches, 0)] if batches else _REJOIN(self, answer, place)


def _see_no_marks(self: HeldLog, data: bytes, leader_epoch: int) -> None:
    """Append without a look at transactions, offsets and epochs."""
    del leader_epoch
    self._held.extend(
        held_log._Held(each, decode(each)._replace(marks=())) for each in split_batches(data)
    )


_RELEASE, _REJOIN = HeldLog.release, Observer._rejoin
PLANTED = {
    "no gate": (HeldLog, "release", _release_everything),
    "transactions are cut": (HeldLog, "release", _release_unknown),
    "transactions are not seen": (HeldLog, "append", _see_no_marks),
    "a diverging answer's high watermark counts": (Observer, "_rejoin", _trust_each_watermark),
}


@pytest.mark.parametrize("name", PLANTED)
def test_a_planted_bug_is_found(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of these bugs breaks a property within a few histories."""
    monkeypatch.setattr(*PLANTED[name])
    for seed in range(20):
        try:
            play(seed)
        except (AssertionError, ValueError, RecursionError):
            return
    pytest.fail(f"nothing notices: {name}")
