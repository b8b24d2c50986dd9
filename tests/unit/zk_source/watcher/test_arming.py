"""Recursive watches where a server accepts them, one-shot watches where it refuses them."""

from __future__ import annotations

import pytest

from controller_model.records.changes import ChangeKind, SessionState
from controller_model.sources.zookeeper.znode_kinds import WATCHED_SUBTREES
from tests.support.ensemble_in_memory import SERVER, Play
from zk_source.watcher.arming import FIRST_PAUSE_MS, OLD_PAUSE_MS
from zk_source.watcher.commands import GiveUp, Warn
from zk_source.watcher.subscriptions import Watches
from zk_source.watcher.watcher import Intervals
from zk_source.wire.operations import AddWatch, Err, MultiRead


def test_required_recursive_watches_that_are_refused_end_the_watcher() -> None:
    """Where only recursive watches are allowed, their refusal ends the watcher with a clear line."""
    play = Play(watches=Watches.RECURSIVE)
    play.zk.old = True
    play.connect()
    play.zk.answer_one()
    play.deliver_one()
    (command,) = play.other_commands
    assert isinstance(command, GiveUp)
    assert "zk:2181" in command.message
    assert "zk_watches" in command.message


def test_an_old_server_is_watched_by_one_shot_watches_and_logged_once() -> None:
    """Its answer ends the connection; later connections do not ask for recursive watches."""
    play = Play()
    play.zk.old = True
    play.zk.put("/brokers/ids/0")
    play.connect()
    play.deliver_all()
    play.disconnect()
    play.zk.put("/brokers/ids/1")
    play.connect()
    assert not any(isinstance(send.request, AddWatch | MultiRead) for send in play.zk.requests)
    play.deliver_all()
    assert play.reader.mzxids == play.expected(("/brokers/ids/0", "/brokers/ids/1"))
    (warning,) = [c for c in play.other_commands if isinstance(c, Warn)]
    why = "it is older than 3.6"
    assert warning.about == {"zookeeper": SERVER, "reason": why, "next_try_s": 86_400}


@pytest.mark.parametrize(
    ("refusal", "first_ms"), [(Err.MARSHALLING, FIRST_PAUSE_MS), (Err.UNIMPLEMENTED, OLD_PAUSE_MS)]
)
def test_recursive_watches_are_tried_again_after_a_refusal(refusal: Err, first_ms: int) -> None:
    """On the same connection, ever more rarely, until they are accepted; then they are kept."""
    play = Play(
        intervals=Intervals(resync_ms=10 * OLD_PAUSE_MS, reconciliation_ms=10 * OLD_PAUSE_MS)
    )
    play.zk.refusal = refusal
    play.zk.put("/brokers/ids/0")
    play.connect()
    play.deliver_all()
    asked = [each for each in play.other_commands if isinstance(each, Warn)]
    play.pass_time(first_ms - 1_000)
    play.deliver_all()
    assert [each for each in play.other_commands if isinstance(each, Warn)] == asked
    play.pass_time(1_000)
    play.deliver_all()
    refused = play.other_commands[-1]
    assert isinstance(refused, Warn)
    assert refused.about["next_try_s"] == min(2 * first_ms, OLD_PAUSE_MS) // 1000
    resync = play.reader.last[ChangeKind.RESYNC_STARTED]
    assert resync.reason == "recursive watches are tried again"
    play.zk.refusal = Err.OK
    play.pass_time(OLD_PAUSE_MS)
    play.deliver_all()
    play.zk.child_watches.clear()
    play.zk.data_watches.clear()
    play.zk.put("/brokers/ids/1")
    play.deliver_all()
    assert play.reader.mzxids == play.expected(("/brokers/ids/0", "/brokers/ids/1"))
    resyncs = play.watcher.resyncs
    play.pass_time(2 * OLD_PAUSE_MS)
    play.deliver_all()
    assert play.watcher.resyncs == resyncs
    play.zk.refusal = Err.MARSHALLING
    play.disconnect()
    play.connect()
    play.deliver_all()
    refused = play.other_commands[-1]
    assert isinstance(refused, Warn)
    assert refused.about["next_try_s"] == FIRST_PAUSE_MS // 1000, "the pauses are short again"


def test_no_resync_begins_before_the_watches_tried_again_are_set() -> None:
    """What changed in a subtree that is read but not yet watched would be missed."""
    play = Play()
    play.zk.refusal = Err.MARSHALLING
    play.zk.put("/brokers/ids/0")
    play.connect()
    play.deliver_all()
    play.zk.refusal = Err.OK
    play.pass_time(FIRST_PAUSE_MS)
    armed = 0
    while isinstance(play.zk.requests[0].request, AddWatch):
        assert len(play.zk.requests) == 1
        play.zk.answer_one()
        play.deliver_one()
        armed += 1
    assert armed == len(WATCHED_SUBTREES)


def test_a_server_that_closes_without_an_answer_is_asked_three_times() -> None:
    """An answer that is lost with its connection does not cause endless reconnects."""
    play = Play()
    play.zk.put("/brokers/ids/0")
    asked = 0
    for _ in range(5):
        play.connect()
        asked += sum(isinstance(send.request, AddWatch) for send in play.zk.requests)
        play.disconnect()
    assert asked == 3
    play.connect()
    play.deliver_all()
    assert play.reader.mzxids == play.expected(("/brokers/ids/0",))
    (refused,) = [each for each in play.other_commands if isinstance(each, Warn)]
    assert refused.about["reason"] == "it closes the connection at the request"


def test_a_server_that_times_out_is_not_taken_for_an_old_one() -> None:
    """Connections that end after a silence say nothing about watches."""
    play = Play()
    for _ in range(5):
        play.connect()
        play.pass_time(2_000)
        play.disconnect()
        play.disconnect(SessionState.LOST)
    play.connect()
    assert isinstance(play.zk.requests[0].request, AddWatch)


def test_connections_that_closed_before_an_answer_do_not_count() -> None:
    """A server that answers knows the request."""
    play = Play()
    for _ in range(2):
        play.connect()
        play.disconnect()
    play.connect()
    play.deliver_all()
    play.disconnect()
    play.connect()
    play.disconnect()
    play.connect()
    assert isinstance(play.zk.requests[0].request, AddWatch)
