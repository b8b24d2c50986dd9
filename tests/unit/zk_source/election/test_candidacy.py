"""A lease is worth what its newest proof is worth."""

from __future__ import annotations

import threading
from types import SimpleNamespace
from typing import Any

import pytest
from kazoo.exceptions import ConnectionLoss
from kazoo.handlers.threading import KazooTimeoutError
from kazoo.protocol.states import KazooState

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


SESSION = 7


class Asked(Standing):
    """A candidacy that asks a played ensemble, by a clock that the test moves."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        super().__init__()
        self.now = 100.0
        self.takes_s = 0.0
        """How long the ensemble takes to answer."""
        self.answer: Any = SimpleNamespace(ephemeralOwner=SESSION, czxid=42)
        self.asked: list[str] = []
        self.changes = 0
        self.czxid = None
        self._down_since = self.now
        self._proof: Proof | None = None
        self._on_change = self._changed
        self.connection = SimpleNamespace(lease_s=4.0)
        self._client = SimpleNamespace(
            client_id=(SESSION, b""), sync_async=self.asked.append, exists_async=self._exists
        )
        monkeypatch.setattr(candidacy, "now_s", lambda: self.now)

    def _changed(self) -> None:
        self.changes += 1

    def _exists(self, node: str) -> Any:
        self.asked.append(node)
        return self

    def get(self, timeout: float) -> Any:
        """Answer in time, or not."""
        self.now += min(self.takes_s, timeout)
        if self.takes_s > timeout:
            raise KazooTimeoutError
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


def test_a_proof_counts_from_its_question(monkeypatch: pytest.MonkeyPatch) -> None:
    """While the answer was on its way another may have been elected."""
    asked = Asked(monkeypatch)
    asked.takes_s = 3.0
    assert asked._prove("/node")
    assert asked.asked == ["/election/prod", "/node"], "the server catches up before it answers"
    assert asked._proof == Proof(asked_at=100.0, lease_s=4.0)
    assert (asked.czxid, asked.changes) == (42, 1)
    assert asked.status is VALID
    asked.now = 104.0
    assert asked.status is UNPROVEN


@pytest.mark.parametrize(
    "answer", [None, SimpleNamespace(ephemeralOwner=SESSION + 1, czxid=42)], ids=["gone", "another"]
)
def test_a_node_that_is_not_ours_proves_that_we_do_not_lead(
    monkeypatch: pytest.MonkeyPatch, answer: Any
) -> None:
    """It was deleted by hand, or belongs to another session."""
    asked = Asked(monkeypatch)
    asked.answer = answer
    assert not asked._prove("/node")
    assert (asked._proof, asked.changes) == (None, 0)


def test_who_has_no_session_does_not_lead(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the node says."""
    asked = Asked(monkeypatch)
    asked._client.client_id = None
    assert not asked._prove("/node")


@pytest.mark.parametrize("trouble", ["late", "lost", "down"])
def test_without_an_answer_the_proof_grows_old(
    monkeypatch: pytest.MonkeyPatch, trouble: str
) -> None:
    """It is asked again, and nothing is proved meanwhile; without a connection nobody is asked."""
    asked = Asked(monkeypatch)
    asked._proof = before = Proof(asked_at=99.0, lease_s=4.0)
    match trouble:
        case "late":
            asked.takes_s = 5.0
        case "lost":
            asked.answer = ConnectionLoss()
        case _:
            asked._connected.clear()
    assert asked._prove("/node")
    assert (asked._proof, asked.changes) == (before, 0)
    assert asked.asked == [] if trouble == "down" else asked.asked


def test_an_answer_after_the_end_proves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """The session ended while it was on its way."""
    asked = Asked(monkeypatch)
    asked._ended.set()
    assert asked._prove("/node")
    assert asked._proof is None
    assert asked.status is LOST


def test_a_connection_that_breaks_invalidates_the_lease_until_it_is_proved_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Another may be elected at any time from then on; the end of the session ends the lease."""
    asked = Asked(monkeypatch)
    asked._prove("/node")
    asked.now = 101.0
    asked._on_state(KazooState.SUSPENDED)
    assert (asked.status, asked.silent_s) == (UNPROVEN, 0.0)
    asked.now = 103.0
    asked._on_state(KazooState.SUSPENDED)
    assert asked.silent_s == 2.0, "since the first time"
    asked._on_state(KazooState.CONNECTED)
    assert (asked.status, asked.silent_s) == (UNPROVEN, 0.0)
    assert asked._wake.is_set(), "it is proved at once"
    asked._prove("/node")
    assert asked.status is UNPROVEN, "asked in the moment of the invalidation"
    asked.now = 103.5
    asked._prove("/node")
    assert asked.status is VALID
    asked._on_state(KazooState.LOST)
    assert (asked.status, asked.ended) == (LOST, True)


def test_a_session_that_is_silent_for_too_long_is_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    """Even under a proof that still counts: kazoo waits for ever before an ensemble that was restored."""
    asked = Asked(monkeypatch)
    asked._on_state(KazooState.SUSPENDED)
    asked.now = 160.0
    asked._proof = Proof(asked_at=159.0, lease_s=4.0)
    assert (asked.status, asked.is_silent_for_too_long) == (VALID, False)
    asked.now = 160.5
    assert (asked.status, asked.is_silent_for_too_long) == (LOST, True)


def test_an_invalidation_holds_the_log_until_a_newer_proof(monkeypatch: pytest.MonkeyPatch) -> None:
    """And asks for it at once."""
    asked = Asked(monkeypatch)
    asked._prove("/node")
    assert asked.status is VALID
    asked.invalidate()
    assert asked.status is UNPROVEN
    assert asked._wake.is_set()
