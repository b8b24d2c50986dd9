"""A machine's clock that is set forward or back."""

from __future__ import annotations

import pytest

from controller_model.records.changes import ChangeKind
from tests.support.ensemble import START_MS, Play
from zk_source.watcher.watcher import Intervals

HOUR_MS = 3_600_000


@pytest.mark.parametrize("set_by_ms", [-HOUR_MS, HOUR_MS])
def test_a_clock_that_is_set_moves_no_heartbeat(set_by_ms: int) -> None:
    """The next one comes when it is due; it tells the machine's clock, on which readers compare."""
    play = Play(intervals=Intervals(heartbeat_ms=10_000))
    play.zk.put("/brokers/ids")
    play.connect()
    play.settle()
    before = play.reader.last[ChangeKind.HEARTBEAT]
    play.watcher.recorder.clock_ahead_ms = set_by_ms
    play.pass_time(9_000)
    assert play.reader.last[ChangeKind.HEARTBEAT] is before
    play.pass_time(1_000)
    beat = play.reader.last[ChangeKind.HEARTBEAT]
    assert beat.observed_at == play.now_ms + set_by_ms
    assert beat.session_since == START_MS + set_by_ms
