"""What was read becomes changes: values, deletes, unreadable paths, and the machine's clock."""

from __future__ import annotations

import pytest

from controller_model.records.changes import (
    MAX_CHANGE_BYTES,
    ChangeKind,
    decode_message,
    join_changes,
)
from source_log.generation_fencing import Generations
from tests.support.ensemble_in_memory import START_MS, Play, digest_of, fill
from zk_source.watcher.recorder import Published, Recorder
from zk_source.watcher.watcher import Intervals
from zk_source.wire.operations import ZnodeData

STARTED, FINISHED = ChangeKind.RESYNC_STARTED, ChangeKind.RESYNC_FINISHED
SET, DELETED, RECONCILED = ChangeKind.SET, ChangeKind.DELETED, ChangeKind.RECONCILED


def test_a_delete_during_a_resync_is_published_for_unread_znodes_too() -> None:
    """Readers may know a path from before the resync, so its delete is published.

    (One-shot watches see no delete of what was not read: there the resync's end shows it.)
    """
    play = Play()
    fill(play.zk)
    play.connect()
    while STARTED not in play.kinds():
        assert play.deliver_one() or play.zk.answer_one()
    play.zk.requests.clear()  # the walk's first reads are lost in this test; the event is not
    play.zk.delete("/brokers/ids/0")
    while play.kinds()[-1] is not DELETED:
        assert play.deliver_one() or play.zk.answer_one()
    assert play.reader.changes[-1].path == "/brokers/ids/0"


HOUR_MS = 3_600_000


@pytest.mark.parametrize("set_by_ms", [-HOUR_MS, HOUR_MS])
def test_a_clock_adjustment_does_not_shift_heartbeats(set_by_ms: int) -> None:
    """The next heartbeat is sent when it is due. It carries the machine's clock, which readers compare with theirs."""
    play = Play(intervals=Intervals(heartbeat_ms=10_000))
    play.zk.put("/brokers/ids")
    play.connect()
    play.deliver_all()
    before = play.reader.last[ChangeKind.HEARTBEAT]
    play.watcher.recorder.clock_ahead_ms = set_by_ms
    play.pass_time(9_000)
    assert play.reader.last[ChangeKind.HEARTBEAT] is before
    play.pass_time(1_000)
    beat = play.reader.last[ChangeKind.HEARTBEAT]
    assert beat.observed_at == play.now_ms + set_by_ms
    assert beat.session_since == START_MS + set_by_ms


def test_the_digest_is_that_of_the_znodes_held() -> None:
    """It follows sets, newer values and deletes; a delete of an unknown path changes nothing."""
    published = Published()
    assert published.digest == digest_of({})
    published.add("/a", 1)
    published.add("/b", 2)
    published.add("/a", 3)
    assert published.digest == digest_of({"/a": 3, "/b": 2})
    published.remove("/unknown")
    published.remove("/b")
    assert published.digest == digest_of({"/a": 3})
    assert published.mzxids == {"/a": 3}


@pytest.mark.parametrize("byte", [b"a", b"\xff"])
def test_a_value_too_large_for_the_log_is_published_without_its_data(byte: bytes) -> None:
    """Readers learn that there is a value and what it lacks; each one is counted, and one that fits is whole."""
    recorder = Recorder("c", Generations("aaaaaa"))
    for number, size in ((1, 1), (2, MAX_CHANGE_BYTES), (3, MAX_CHANGE_BYTES)):
        znode = ZnodeData(byte * size, number, number, 1, number, 0, 0, 0)
        change = recorder.value("/controller", znode, number, START_MS)
        assert change is not None
        encoded = recorder.encode(change)
        assert len(encoded) <= MAX_CHANGE_BYTES
        (sent,) = decode_message(join_changes([encoded])).changes
        assert (sent.path, sent.mzxid, sent.position) == ("/controller", number, change.position)
        if size == 1:
            assert sent.payload() == byte
        else:
            assert (sent.data, sent.data_base64, sent.data_omitted) == (None, None, True)
    assert recorder.omitted == 2
