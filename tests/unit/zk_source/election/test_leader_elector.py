"""When a watcher that was elected may write the log."""

from __future__ import annotations

import threading

import pytest

from zk_source.election.candidacy import Proof
from zk_source.election.leader_elector import LeaseStatus, SoleWatcher, lease_status

VALID, UNPROVEN, LOST = LeaseStatus.VALID, LeaseStatus.UNPROVEN, LeaseStatus.LOST


@pytest.mark.parametrize(
    ("proof", "invalidated_at", "now", "status"),
    [
        (Proof(7, asked_at=10.0, lease_s=4.0), 0.0, 10.0, VALID),
        (Proof(7, asked_at=10.0, lease_s=4.0), 0.0, 13.99, VALID),
        (
            Proof(7, asked_at=10.0, lease_s=4.0),
            0.0,
            14.0,
            UNPROVEN,
        ),  # we were paused, or it is silent
        (Proof(7, asked_at=10.0, lease_s=4.0), 9.99, 11.0, VALID),  # asked after the invalidation
        (Proof(7, asked_at=10.0, lease_s=4.0), 10.0, 11.0, UNPROVEN),
        (
            Proof(7, asked_at=10.0, lease_s=4.0),
            10.5,
            11.0,
            UNPROVEN,
        ),  # another watcher, or no connection
        (None, 0.0, 0.0, LOST),
    ],
)
def test_a_lease_is_as_good_as_its_newest_proof(
    proof: Proof | None, invalidated_at: float, now: float, status: LeaseStatus
) -> None:
    """It counts while it is younger than the lease time and asked for after the last invalidation."""
    assert lease_status(proof, invalidated_at=invalidated_at, now=now) is status


def test_a_watcher_that_runs_alone_always_leads() -> None:
    """Without an election there is nothing to wait for, to prove or to invalidate."""
    stop = threading.Event()
    lease = SoleWatcher().wait(stop)
    assert lease is not None
    lease.invalidate()
    assert (lease.status, lease.czxid) == (VALID, None)
    stop.set()
    assert SoleWatcher().wait(stop) is None
