"""A watcher that runs alone has a lease without an end."""

from __future__ import annotations

import threading

from pipeline.topic_probe import TopicProbe
from source_log.lease import LeaseStatus, SoleWatcher


def unasked() -> TopicProbe:
    """Fail: nobody else could do better, whatever the answer."""
    raise AssertionError("it needs no probe")


def test_a_watcher_that_runs_alone_always_leads() -> None:
    """Without an election there is nothing to wait for, to prove or to invalidate."""
    stop = threading.Event()
    lease = SoleWatcher().wait(stop, unasked)
    assert lease is not None
    lease.report_alive()
    lease.invalidate()
    lease.resign()
    lease.close()
    assert (lease.status, lease.term, lease.others) == (LeaseStatus.VALID, None, 0)
    stop.set()
    assert SoleWatcher().wait(stop, unasked) is None
