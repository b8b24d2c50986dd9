"""Changed paths are read at once and walks read the rest; the last value is always published."""

from __future__ import annotations

import pytest

from controller_model.records.changes import ChangeKind
from tests.support.ensemble_in_memory import PUBLISHED, STATE, Play, fill, requests_in_flight
from zk_source.watcher.subscriptions import RecursiveWatches
from zk_source.watcher.watcher import Intervals
from zk_source.wire.operations import EventType

STARTED, FINISHED = ChangeKind.RESYNC_STARTED, ChangeKind.RESYNC_FINISHED
SET, DELETED, RECONCILED = ChangeKind.SET, ChangeKind.DELETED, ChangeKind.RECONCILED


def test_a_burst_on_one_path_is_coalesced_and_its_last_value_published(play: Play) -> None:
    """Events that arrive while a path is being read cost one more read, and the last value is published."""
    play.zk.put(STATE, b"0")
    play.deliver_one()
    for value in (b"1", b"2", b"3"):
        play.zk.put(STATE, value)
        play.deliver_one()
    assert len(play.zk.requests) == 1
    play.deliver_all()
    assert [change.data for change in play.reader.changes[-1:]] == ["3"]


def test_a_burst_on_many_paths_keeps_to_the_requests_in_flight(
    monkeypatch: pytest.MonkeyPatch, play: Play
) -> None:
    """A server answers the reads of one connection in their order: a long queue there would delay all else."""
    monkeypatch.setattr(RecursiveWatches, "most_reads", 5)
    paths = [f"/brokers/ids/{number}" for number in range(300)]
    for data in (b"old", b"new"):
        for path in paths:
            play.zk.put(path, data)
        if data == b"old":
            play.deliver_all()
    play.zk.to_client.clear()  # they arrive here all at once
    for path in paths:
        play.watcher.on_event(EventType.DATA_CHANGED, path, play.now_ms)
    play.carry_out()
    assert requests_in_flight(play.watcher) == play.watcher._arming.subscription.live_window
    play.deliver_all()
    assert play.reader.mzxids == play.expected([*PUBLISHED, *paths])


def test_a_reconciliation_finds_changes_without_an_event(play: Play) -> None:
    """A changed, a new and a deleted znode without events are published before `reconciled`."""
    play.zk.put(STATE, b"unseen")
    play.zk.put("/brokers/ids/5")
    play.zk.delete("/controller")
    play.zk.delete("/brokers/ids/0")
    play.zk.to_client.clear()  # the events are lost
    play.pass_time(300_000)
    play.deliver_all()
    assert play.kinds()[-1] is RECONCILED
    assert play.reader.mzxids == play.expected((*PUBLISHED, "/brokers/ids/5"))
    assert play.watcher.reader.reconciliation_differences == 4


def test_a_reconciliation_reads_each_path_once(play: Play) -> None:
    """What it has met is not read again at its end: it reads no more than the resync before it."""
    resynced = play.watcher.reader.reads
    play.pass_time(300_000)
    play.deliver_all()
    assert play.kinds()[-1] is RECONCILED
    assert play.watcher.reader.reads == 2 * resynced


def test_the_walk_waits_while_the_publisher_has_no_room() -> None:
    """A resync sends no reads while its changes would only accumulate."""
    play = Play()
    fill(play.zk)
    play.watcher.reader.room = False
    play.connect()
    while play.deliver_one() or play.zk.answer_one():
        pass
    assert play.kinds() == [STARTED]
    play.watcher.reader.room = True
    play.deliver_all()
    assert play.kinds()[-1] is FINISHED


def test_a_walk_keeps_to_its_reads_per_second() -> None:
    """With 1,000 reads a second and a burst of 500, a walk of 1,500 reads takes a second."""
    play = Play(Intervals(resync_reads_per_s=1_000))
    fill(play.zk)
    for number in range(1_500):
        play.zk.put(f"/brokers/topics/x{number}")
    play.connect()
    play.deliver_all(most=100_000)
    assert 900 <= play.now_ms - play.reader.changes[0].observed_at <= 1_400


def test_reads_that_follow_from_a_read_belong_to_its_round(play: Play) -> None:
    """With one-shot watches names are read before values: until the values are read, the event is not done."""
    dirty = play.watcher.reader.dirty
    play.zk.put("/brokers/topics/new")
    while play.zk.to_client:
        play.deliver_one()
    dirty.round += 1
    while len(dirty):
        assert dirty.oldest_round == dirty.round - 1
        if not play.deliver_one():
            play.zk.answer_one()
    assert dirty.oldest_round == dirty.round
    assert play.reader.mzxids == play.expected([*PUBLISHED, "/brokers/topics/new"])
