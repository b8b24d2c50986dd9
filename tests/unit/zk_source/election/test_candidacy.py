"""A lease is worth what its newest proof is worth."""

from __future__ import annotations

import threading
from types import SimpleNamespace
from typing import Any

import pytest

from zk_source.election import candidacy
from zk_source.election.candidacy import Candidacy, LeaseStatus, Proof, lease_status, now_s

VALID, UNPROVEN, LOST = LeaseStatus.VALID, LeaseStatus.UNPROVEN, LeaseStatus.LOST


@pytest.mark.parametrize(
    ("proof", "invalidated_at", "now", "status"),
    [
        (Proof(asked_at=10.0, lease_s=4.0), 0.0, 10.0, VALID),
        (Proof(asked_at=10.0, lease_s=4.0), 0.0, 13.99, VALID),
        (
            Proof(asked_at=10.0, lease_s=4.0),
            0.0,
            14.0,
            UNPROVEN,
        ),  # we were paused, or it is silent
        (Proof(asked_at=10.0, lease_s=4.0), 9.99, 11.0, VALID),  # asked after the invalidation
        (Proof(asked_at=10.0, lease_s=4.0), 10.0, 11.0, UNPROVEN),
        (
            Proof(asked_at=10.0, lease_s=4.0),
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


class Overtaken(Candidacy):
    """A candidacy whose lease is invalidated just when its proof has been read."""

    def __init__(self) -> None:
        self._most_silent_s = 60.0
        self._connected = threading.Event()
        self._connected.set()
        self._wake = threading.Event()
        self._invalidated_at = 0.0

    @property
    def _proof(self) -> Proof:  # type: ignore[override]  # it acts when it is read
        """Return a proof that was asked for a moment ago, and let the invalidation come."""
        proof = Proof(asked_at=now_s(), lease_s=60.0)
        self.invalidate()
        return proof


def test_an_invalidation_that_comes_while_the_lease_is_judged_counts() -> None:
    """The proof is older than it, so it proves nothing any more."""
    assert Overtaken().status is UNPROVEN


def test_a_main_loop_that_stands_still_leads_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    """What it could still prove is not proved any more, and the session ends."""
    now = [100.0]
    monkeypatch.setattr(candidacy, "now_s", lambda: now[0])
    standing = Standing()
    proofs = 0

    def prove(_node: str) -> bool:
        nonlocal proofs
        proofs += 1
        if proofs < 4:
            standing.keep()
        now[0] += 25.0
        return True

    monkeypatch.setattr(standing, "_prove", prove)
    standing._run()
    assert proofs == 5  # two after the last turn of the main loop: at 25 s and at 50 s
    assert standing.ended
    assert standing.status is LOST


class Standing(Candidacy):
    """A candidacy that is elected as soon as it stands."""

    def __init__(self) -> None:
        self.path = "/election/prod"
        self.refused = ""
        self._chroot = ""
        self._identifier = ""
        self._proof = Proof(asked_at=100.0, lease_s=1e9)
        self._on_change = lambda: None
        self._most_silent_s = 60.0
        self._invalidated_at = 0.0
        self._connected, self._ended, self._wake = (threading.Event() for _ in range(3))
        self._connected.set()
        self._mutex = threading.Lock()
        self._lock = None
        self._client: Any = None
        self.connection: Any = SimpleNamespace(lease_s=0.0)

    def _stand(self) -> None:
        """Win at once."""
        self._lead("/election/prod/node")
