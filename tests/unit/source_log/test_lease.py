"""A watcher that runs alone has a lease without an end."""

from __future__ import annotations

import threading

from source_log.lease import LeaseStatus, SoleWatcher


def test_a_watcher_that_runs_alone_always_leads() -> None:
    """Without an election there is nothing to wait for, to prove or to invalidate."""
    stop = threading.Event()
    lease = SoleWatcher().wait(stop)
    assert lease is not None
    lease.report_alive()
    lease.invalidate()
    lease.resign()
    lease.close()
    assert (lease.status, lease.term) == (LeaseStatus.VALID, None)
    stop.set()
    assert SoleWatcher().wait(stop) is None
