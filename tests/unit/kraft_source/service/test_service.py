"""What the beats of a KRaft watcher say of the controllers; the running service is in tests/component/kraft."""

from __future__ import annotations

import time
from collections import deque

from controller_model.records.changes import SessionState
from controller_model.records.views import WatcherBeat
from kraft_source.observer.observer import ObserverStatus
from kraft_source.service.service import _beat_of
from kraft_source.wire.messages import EpochLeader

HEADER = {
    "v": 1,
    "cluster": "prod",
    "watcher": "w1",
    "generation": 1,
    "seq": 1,
    "number": 1,
    "sent_at": 1,
    "sent_steady": 1,
}


def beat(commits_stand_still_s: float, *, unreachable_s: float | None = None) -> WatcherBeat:
    """Return a beat while the leader answers, and no commit has come for so long."""
    now = time.monotonic()
    status = ObserverStatus(
        leader=EpochLeader(3001, 1),
        no_leader_since=None,
        unreachable_since=None if unreachable_s is None else now - unreachable_s,
        answered_at=now,
        high_watermark=9,
        high_watermark_since=now - commits_stand_still_s,
        problem="",
    )
    return _beat_of(HEADER, status, deque([5]))


def test_an_answer_without_a_commit_proves_nothing() -> None:
    """A leader that has lost its majority answers, and its log is no proof that the log of kcm is complete."""
    answered_ms = beat(4.0).source_answered_ms
    assert answered_ms is not None
    assert 4_000 <= answered_ms < 5_000
    assert beat(4.0).session is SessionState.CONNECTED
    assert beat(4.0, unreachable_s=3.0).session is SessionState.SUSPENDED
    assert _beat_of(HEADER, None, deque()).source_answered_ms is None
