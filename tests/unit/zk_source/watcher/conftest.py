"""What the tests of the watcher's decisions share."""

from __future__ import annotations

import pytest

from tests.support.ensemble_in_memory import Play, fill
from zk_source.watcher.subscriptions import Watches


@pytest.fixture(params=[Watches.RECURSIVE, Watches.ONE_SHOT])
def play(request: pytest.FixtureRequest) -> Play:
    """A watcher that has resynced on a small cluster, once for each way of watching."""
    play = Play(watches=request.param)
    fill(play.zk)
    play.connect()
    play.deliver_all()
    return play
