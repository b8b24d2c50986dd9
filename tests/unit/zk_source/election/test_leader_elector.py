"""When a watcher may write the log: at once without an election, else when it was elected."""

from __future__ import annotations

import threading

import pytest

from pipeline.settings import load
from zk_source.config import WatchSettings
from zk_source.election.candidacy import LeaseStatus
from zk_source.election.leader_elector import SoleWatcher, make_elector

pytestmark = pytest.mark.usefixtures("no_settings_of_the_machine")


def test_a_watcher_that_runs_alone_always_leads() -> None:
    """Without an election there is nothing to wait for, to prove or to invalidate."""
    stop = threading.Event()
    lease = SoleWatcher().wait(stop)
    assert lease is not None
    lease.invalidate()
    assert (lease.status, lease.czxid) == (LeaseStatus.VALID, None)
    stop.set()
    assert SoleWatcher().wait(stop) is None


def test_without_an_election_path_nobody_is_elected() -> None:
    """The watcher runs alone, and connects to no election."""
    assert isinstance(make_elector(load(WatchSettings)), SoleWatcher)
