"""A reply counts only while its request is in flight."""

from __future__ import annotations

from tests.support.ensemble_in_memory import STATE, Play
from zk_source.wire.operations import Err


def test_replies_of_an_earlier_connection_are_ignored(play: Play) -> None:
    """A reply that belongs to an earlier connection changes nothing."""
    play.zk.put(STATE, b"x")
    play.deliver_one()
    send = play.zk.requests[0]
    play.disconnect()
    before = len(play.reader.changes)
    results = (play.zk.nodes[STATE],)
    play.watcher.on_reply(send.token, play.zk.zxid, Err.OK, results, play.now_ms)
    play.carry_out()
    assert len(play.reader.changes) == before
