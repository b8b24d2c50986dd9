"""The watcher's decisions, driven by an ensemble in memory."""

from __future__ import annotations

import pytest

from controller_model.records.changes import ChangeKind, SessionState
from tests.support.ensemble_in_memory import PUBLISHED, STATE, Play, fill, requests_in_flight
from zk_source.watcher.commands import GiveWay, ReplaceClient
from zk_source.watcher.subscriptions import Watches
from zk_source.wire.inbox import OtherWatcher

STARTED, FINISHED = ChangeKind.RESYNC_STARTED, ChangeKind.RESYNC_FINISHED


def test_containers_are_not_published(play: Play) -> None:
    """A partition's directory brings no change."""
    before = len(play.reader.changes)
    play.zk.put("/brokers/topics/t/partitions/1")
    play.settle()
    assert len(play.reader.changes) == before


def test_a_reconnect_resyncs_under_the_same_generation_with_a_new_id(play: Play) -> None:
    """What went by while the connection was down is caught up with by a resync."""
    play.disconnect()
    play.zk.put("/brokers/ids/7")
    play.zk.delete("/controller")
    play.connect()
    play.settle()
    started = play.reader.last[STARTED]
    assert (started.generation, started.resync) == (1, 2)
    assert play.reader.mzxids == play.expected((*PUBLISHED, "/brokers/ids/7"))


def test_a_disconnect_in_the_middle_of_a_resync_begins_a_new_one() -> None:
    """A resync that was cut off is never finished; the next one has a new id."""
    play = Play()
    fill(play.zk)
    play.connect()
    while STARTED not in play.kinds():
        assert play.deliver_one() or play.zk.answer_one()
    play.disconnect()
    play.connect()
    play.settle()
    assert play.kinds().count(STARTED) == 2
    assert play.kinds().count(FINISHED) == 1
    assert play.reader.last[FINISHED].resync == 2


def test_heartbeats_come_every_ten_seconds(play: Play) -> None:
    """A quiet minute holds six heartbeats."""
    before = len(play.reader.changes)
    for _ in range(60):
        play.pass_time(1_000)
        play.settle()
    assert [change.kind for change in play.reader.changes[before:]] == [ChangeKind.HEARTBEAT] * 6


def test_a_full_resync_comes_daily(play: Play) -> None:
    """A day after a resync the next one begins without being asked."""
    play.pass_time(86_400_000)
    play.settle()
    assert play.reader.last[STARTED].reason == "the daily one"


def test_dropped_changes_mute_the_watcher_until_kafka_is_back(play: Play) -> None:
    """After a drop nothing is published; when Kafka is back, a resync carries the count."""
    play.watcher.on_dropped(17, "Kafka was away", play.now_ms)
    play.zk.put(STATE, b"unseen")
    before = len(play.reader.changes)
    play.pass_time(30_000)
    while play.deliver_one() or play.zk.answer_one():
        pass
    assert len(play.reader.changes) == before
    play.watcher.on_pipeline_back(play.now_ms)
    play.settle()
    assert play.kinds().count(STARTED) == 2
    assert "17 changes dropped" in (play.reader.last[STARTED].reason or "")
    assert play.reader.last[ChangeKind.HEARTBEAT].dropped == 17
    assert play.reader.mzxids == play.expected(PUBLISHED)


def test_an_overflow_of_notifications_is_mended_by_a_resync(play: Play) -> None:
    """Lost events are made up for by reading everything again."""
    play.zk.put(STATE, b"unseen")
    play.zk.to_client.clear()
    play.watcher.on_overflow(1, play.now_ms)
    play.carry_out()
    assert play.watcher.overflows == 1
    # Before the resync begins: what is held may be of before, and readers know it.
    assert play.reader.last[ChangeKind.HEARTBEAT].session is SessionState.SUSPENDED
    play.settle()
    assert play.reader.last[ChangeKind.HEARTBEAT].session is SessionState.CONNECTED
    assert play.reader.last[STARTED].resync == 2
    assert play.reader.mzxids == play.expected(PUBLISHED)


@pytest.mark.parametrize("watches", [Watches.RECURSIVE, Watches.ONE_SHOT])
def test_what_is_missed_in_the_middle_of_a_resync_begins_a_new_one(watches: Watches) -> None:
    """The resync under way proves nothing any more: it is never finished, and publishes no value."""
    play = Play(watches=watches)
    fill(play.zk)
    play.connect()
    while STARTED not in play.kinds():
        assert play.deliver_one() or play.zk.answer_one()
    play.watcher.on_overflow(1, play.now_ms)
    published = len(play.kinds())
    while play.kinds().count(STARTED) == 1:
        assert len(play.kinds()) == published
        assert play.deliver_one() or play.zk.answer_one()
    play.settle()
    assert play.kinds().count(FINISHED) == 1
    assert play.reader.last[FINISHED].resync == 2
    assert play.reader.mzxids == play.expected(PUBLISHED)


def test_lost_views_are_asked_for_by_a_resync(play: Play) -> None:
    """Without a pause in what is published: nothing of ZooKeeper was missed."""
    play.watcher.on_views_cut(play.now_ms)
    play.settle()
    started = play.reader.last[STARTED]
    assert (started.resync, started.reason) == (2, "the pipeline's Kafka has lost views")
    states = {c.session for c in play.reader.changes if c.kind is ChangeKind.HEARTBEAT}
    assert states == {SessionState.CONNECTED}
    assert play.reader.mzxids == play.expected(PUBLISHED)


def test_views_that_are_lost_before_the_first_resync_need_no_other() -> None:
    """It touches all that there is."""
    fresh = Play()
    fill(fresh.zk)
    fresh.watcher.on_views_cut(fresh.now_ms)
    fresh.connect()
    fresh.settle()
    assert fresh.kinds().count(STARTED) == 1


def test_a_newcomer_gives_way_to_a_live_watcher(play: Play) -> None:
    """A record of a higher generation under another name ends a watcher that has just begun."""
    play.watcher.on_other_watcher(OtherWatcher("c", "bbbbbb", 2, play.now_ms), play.now_ms)
    play.carry_out()
    (command,) = play.other_commands
    assert isinstance(command, GiveWay)
    assert "bbbbbb" in command.message


def test_an_incumbent_answers_a_newcomer_by_a_new_generation(play: Play) -> None:
    """A watcher that has run for long takes the next generation, with a resync."""
    play.pass_time(60_000)
    play.settle()
    play.watcher.on_other_watcher(OtherWatcher("c", "bbbbbb", 2, play.now_ms), play.now_ms)
    play.settle()
    started = play.reader.last[STARTED]
    assert (started.generation, started.seq) == (3, 1)
    assert play.reader.mzxids == play.expected(PUBLISHED)


def test_reads_that_are_refused_are_tried_ever_more_rarely() -> None:
    """The tree of a server that is sick is not read each second; after a good minute it is again."""
    play = Play(watches=Watches.ONE_SHOT)
    fill(play.zk)
    play.zk.broken.add("/controller")
    play.connect()
    for _ in range(300):
        play.pass_time(1_000)
        while play.deliver_one() or play.zk.answer_one():
            pass
    # At 0, 1, 3, 7, 15, 31, 63, 123, 183, 243: each of these resyncs read the tree once.
    assert play.kinds().count(STARTED) == 10
    play.zk.broken.clear()
    for _ in range(130):
        play.pass_time(1_000)
        while play.deliver_one() or play.zk.answer_one():
            pass
    assert play.kinds()[-1] is FINISHED
    resyncs = play.watcher.resyncs
    play.zk.broken.add("/controller")
    play.zk.put("/controller", b"news")
    play.settle()
    play.zk.broken.clear()
    play.pass_time(1_000)
    play.settle()
    assert play.watcher.resyncs == resyncs + 1


def test_a_connection_without_an_answer_is_given_up_for_a_new_client(play: Play) -> None:
    """Readers learn at once that nothing is seen any more; requests of before are forgotten."""
    play.watcher.on_silence(15_000, play.now_ms)
    play.carry_out()
    assert play.other_commands[-1] == ReplaceClient("no answer for 15 s")
    assert play.reader.last[ChangeKind.HEARTBEAT].session is SessionState.LOST
    assert (requests_in_flight(play.watcher), play.watcher.armed) == (0, False)
    play.zk.put(STATE, b"unseen")
    play.connect()
    play.settle()
    assert play.reader.mzxids == play.expected(PUBLISHED)
