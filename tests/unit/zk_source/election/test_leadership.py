"""When a watcher that was elected may write the log."""

from __future__ import annotations

import threading

import pytest

from zk_source.election.candidacy import Proof
from zk_source.election.leadership import Alone, Standing, judge

LEADING, HELD, LOST = Standing.LEADING, Standing.HELD, Standing.LOST


@pytest.mark.parametrize(
    ("proof", "doubted_at", "now", "standing"),
    [
        (Proof(7, asked_at=10.0, lease_s=4.0), 0.0, 10.0, LEADING),
        (Proof(7, asked_at=10.0, lease_s=4.0), 0.0, 13.99, LEADING),
        (Proof(7, asked_at=10.0, lease_s=4.0), 0.0, 14.0, HELD),  # we were paused, or it is silent
        (Proof(7, asked_at=10.0, lease_s=4.0), 9.99, 11.0, LEADING),  # asked after the doubt
        (Proof(7, asked_at=10.0, lease_s=4.0), 10.0, 11.0, HELD),
        (Proof(7, asked_at=10.0, lease_s=4.0), 10.5, 11.0, HELD),  # a rival, or no connection
        (None, 0.0, 0.0, LOST),
    ],
)
def test_a_lead_is_worth_its_newest_proof(
    proof: Proof | None, doubted_at: float, now: float, standing: Standing
) -> None:
    """It counts while it is younger than its lease and was asked for after the last doubt."""
    assert judge(proof, doubted_at=doubted_at, now=now) is standing


def test_a_watcher_that_runs_alone_always_leads() -> None:
    """Without an election there is nothing to wait for, to prove or to doubt."""
    stop = threading.Event()
    lead = Alone().wait(stop)
    assert lead is not None
    lead.doubt()
    assert (lead.standing, lead.czxid) == (LEADING, None)
    stop.set()
    assert Alone().wait(stop) is None
