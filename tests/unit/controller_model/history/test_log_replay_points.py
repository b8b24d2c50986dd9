"""Points in a log, by position and by time: what the snapshot there includes, and what it does not."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

import msgspec

from controller_model.fold.log_clock import LEAP_MS
from controller_model.history.log_replay import END, LogReplay, Point
from controller_model.history.snapshot import Snapshot
from controller_model.kafka.ids import Position
from controller_model.records.changes import ZnodeChange
from controller_model.records.loose_log import LooseChange, decode_line
from controller_model.state.cluster import ClusterState
from tests.support.histories import History, encode_changes, small_cluster


def loose(changes: Iterable[ZnodeChange]) -> tuple[LooseChange, ...]:
    """Return changes as the lines of a log give them."""
    return decode_line(encode_changes(tuple(changes))).changes


def of(*records: dict[str, Any]) -> tuple[LooseChange, ...]:
    """Return records in which any field may be missing."""
    return decode_line(json.dumps(records).encode()).changes


def points_of(history: History, *points: Point) -> list[Snapshot | None]:
    """Return the snapshots at several points, by one replay."""
    recording = LogReplay(points=points)
    for change in loose(history.changes):
        recording.apply_changes((change,))
    recording.finish()
    return [recording.snapshots[point] for point in points]


def seqs(snapshots: Iterable[Snapshot | None]) -> list[int | None]:
    """Return where snapshots were taken."""
    return [None if reported is None else reported.as_of.seq for reported in snapshots]


def test_a_position_is_inclusive() -> None:
    """The change at the position is in the snapshot, the next one is not."""
    history = small_cluster()
    wanted = [Point(until=Position(1, seq)) for seq in (1, 5, history.seq, history.seq + 9)]
    assert seqs(points_of(history, *wanted)) == [1, 5, history.seq, history.seq]
    assert seqs(points_of(history, Point(until=Position(1, 0)))) == [None]
    assert seqs(points_of(history, Point(until=Position(0, 99)))) == [None]


class _Moments:
    """Records at which times it could sample, and what was known then."""

    def __init__(self, every_ms: int, first_at: int) -> None:
        self.next_at = first_at
        self.taken: list[tuple[int, int]] = []
        self._every_ms = every_ms

    def sample_until(self, state: ClusterState, until: int) -> None:
        """Record each time with the position that is shown."""
        while self.next_at < until:
            self.taken.append((self.next_at, state.control.log.position.seq))
            self.next_at += self._every_ms


def test_a_sampler_samples_each_time_once_with_all_changes_up_to_it() -> None:
    """It sees no change from after the time, and gets the last times once the log has ended."""
    history = small_cluster()
    began = history.now + 1
    history.heartbeat()
    history.broker_gone(2)
    history.heartbeat(after_ms=35_000)
    sampler = _Moments(10_000, began + 5_000)
    recording = LogReplay(sampler=sampler)
    for change in loose(history.changes):
        recording.apply_changes((change,))
    recording.finish()
    assert [at - began for at, _ in sampler.taken] == [5_000, 15_000, 25_000, 35_000, 45_000]
    for at, seq in sampler.taken:
        known = [each.seq for each in history.changes if each.observed_at <= at]
        assert seq == known[-1]


def test_a_clock_that_steps_back_repeats_no_sample() -> None:
    """The times follow the log's time, which continues where a watcher's clock goes back."""
    history = small_cluster()
    began = history.now + 1
    history.heartbeat(after_ms=60_000)
    history.now -= 60_000
    for _ in range(3):
        history.heartbeat()
    sampler = _Moments(10_000, began)
    recording = LogReplay(sampler=sampler)
    recording.apply_changes(loose(history.changes))
    recording.finish()
    moments = [at for at, _ in sampler.taken]
    assert moments == sorted(set(moments))
    assert moments[-1] == recording.state.control.now // 10_000 * 10_000 + began % 10_000


def test_a_clock_leap_in_a_single_record_takes_no_sample() -> None:
    """The log's time follows once a second record confirms it, and no time is left out."""
    history = small_cluster()
    began = history.now + 1
    history.heartbeat(after_ms=2 * LEAP_MS)
    history.now -= 2 * LEAP_MS
    history.heartbeat(after_ms=20_000)
    sampler = _Moments(10_000, began + 1)
    recording = LogReplay(sampler=sampler)
    for change in loose(history.changes):
        recording.apply_changes((change,))
    recording.finish()
    assert [at - began for at, _ in sampler.taken] == [1, 10_001]


def test_a_sampler_stops_where_the_replay_does() -> None:
    """After the last requested point nothing is sampled, even if the log continues."""
    history = small_cluster()
    end = history.now + 25_000
    for _ in range(6):
        history.heartbeat()
    sampler = _Moments(10_000, history.changes[0].observed_at + 1)
    recording = LogReplay(points=(Point(at=end),), sampler=sampler)
    for change in loose(history.changes):
        recording.apply_changes((change,))
    recording.finish()
    assert [at for at, _ in sampler.taken if at <= end] == [at for at, _ in sampler.taken][:3]
    assert len(sampler.taken) == 3


def test_a_time_is_inclusive() -> None:
    """What was observed at that time is in the snapshot, what was observed later is not."""
    history = small_cluster()
    history.heartbeat()
    history.heartbeat()
    first, last = history.changes[-2], history.changes[-1]
    wanted = [Point(at=at) for at in (first.observed_at, last.observed_at - 1, last.observed_at)]
    assert seqs(points_of(history, *wanted)) == [first.seq, first.seq, last.seq]
    assert seqs(points_of(history, Point(at=history.changes[0].observed_at - 1))) == [None]


def test_a_clock_that_goes_back_does_not_bring_a_later_change_in() -> None:
    """The first change after the time ends it: all later changes are after it, with any clock."""
    history = small_cluster()
    history.heartbeat(after_ms=100)
    seq, now = history.seq, history.now
    history.heartbeat(after_ms=100)
    history.heartbeat(after_ms=-150)
    assert seqs(points_of(history, Point(at=now + 1))) == [seq]


def with_late_ones() -> tuple[History, list[LooseChange]]:
    """Return a history and its log, which also holds late writes of watchers whose clocks are ahead."""
    history = small_cluster()
    half = history.seq
    history.heartbeat()
    history.heartbeat()
    changes = loose(history.changes)
    late = 10**9
    deposed = msgspec.structs.replace(changes[0], generation=0, observed_at=late)
    foreign = msgspec.structs.replace(changes[0], watcher="w9", seq=100, observed_at=late)
    again = msgspec.structs.replace(changes[half - 1], observed_at=late)
    return history, [*changes[:half], deposed, foreign, again, *changes[half:]]


def test_dropped_changes_move_no_point() -> None:
    """A deposed watcher's late write, another watcher's, a duplicate: none moves a point of the log."""
    history, changes = with_late_ones()
    last = history.changes[-1]
    wanted = [Point(at=last.observed_at), Point(until=last.position), Point(until=Position(1, 99))]
    recording = LogReplay(points=wanted)
    recording.apply_changes(changes)
    recording.finish()
    assert seqs(recording.snapshots[point] for point in wanted) == [history.seq] * 3
    reported = recording.snapshots[wanted[0]]
    assert reported is not None
    assert (reported.at, reported.complete) == (last.observed_at, True)
    assert recording.state is not None
    assert recording.state.control.log.view.not_newer == 3


def test_a_point_within_unreadable_records_is_incomplete() -> None:
    """The damaged change may be from before the point; a point that was reached before is complete."""
    history = small_cluster()
    for _ in range(3):
        history.heartbeat()
    changes = loose(history.changes)
    damaged = history.seq - 1
    later = Point(at=changes[damaged - 2].observed_at)
    early = [Point(until=Position(1, seq)) for seq in (damaged - 2, damaged - 1)]
    wanted = [later, *(Point(until=Position(1, seq)) for seq in (damaged, history.seq))]
    recording = LogReplay(points=[*early, *wanted])
    for change in changes[: damaged - 1]:
        recording.apply_changes((change,))
    recording.count_unreadable(1, "damaged")
    recording.apply_changes(changes[damaged:])
    recording.finish()
    taken = [recording.snapshots[point] for point in (*early, *wanted)]
    assert seqs(taken) == [damaged - 2, *[damaged - 1] * 3, history.seq]
    facts = [reported and (reported.complete, reported.counts.unreadable) for reported in taken]
    assert facts == [*[(True, 0)] * 2, *[(False, 1)] * 3]


def test_a_point_compares_with_a_change_by_position_or_time() -> None:
    """A position compares with positions, a time with times, the end with nothing."""
    (change,) = of({"path": "/a", "generation": 3, "seq": 5, "observed_at": 70, "watcher": "w"})
    assert [Point(until=Position(3, seq)).is_before(change) for seq in (4, 5)] == [True, False]
    assert [Point(at=at).is_before(change) for at in (69, 70)] == [True, False]
    assert END.is_before(change) is False
