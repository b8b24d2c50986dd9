"""A lease is valid exactly as long as its newest proof."""

from __future__ import annotations

import threading
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from kazoo.exceptions import ConnectionLoss, NoAuthError
from kazoo.handlers.threading import KazooTimeoutError
from kazoo.protocol.connection import ConnectionHandler
from kazoo.protocol.states import KazooState
from kazoo.security import CREATOR_ALL_ACL, READ_ACL_UNSAFE

from pipeline.settings import load
from zk_source.config import WatchSettings
from zk_source.election import candidacy
from zk_source.election.candidacy import (
    MAX_RECONNECT_S,
    Candidacy,
    LeaseStatus,
    Proof,
    _Contender,
    lease_status,
    now_s,
)

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
        ),  # we were paused, or the server is silent
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
def test_a_lease_is_valid_while_its_newest_proof_is(
    proof: Proof | None, invalidated_at: float, now: float, status: LeaseStatus
) -> None:
    """A proof counts while it is younger than the lease time and was asked for after the last invalidation."""
    assert lease_status(proof, invalidated_at=invalidated_at, now=now) is status


class Overtaken(Candidacy):
    """A candidacy whose lease is invalidated just after its proof was read."""

    def __init__(self) -> None:
        self._most_silent_s = 60.0
        self._connected = threading.Event()
        self._connected.set()
        self._wake = threading.Event()
        self._invalidated_at = 0.0

    @property
    def _proof(self) -> Proof:  # type: ignore[override]  # it acts when it is read
        """Return a proof that was asked for a moment ago; the invalidation follows at once."""
        proof = Proof(asked_at=now_s(), lease_s=60.0)
        self.invalidate()
        return proof


def test_an_invalidation_during_the_lease_check_counts() -> None:
    """The proof is older than the invalidation, so it proves nothing any more."""
    assert Overtaken().status is UNPROVEN


def test_a_blocked_main_loop_loses_the_lease(monkeypatch: pytest.MonkeyPatch) -> None:
    """No proof is requested any more, even where it would succeed, and the session ends."""
    now = [100.0]
    monkeypatch.setattr(candidacy, "now_s", lambda: now[0])
    standing = ElectedCandidacy()
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


class ElectedCandidacy(Candidacy):
    """A candidacy that is elected as soon as it stands for election."""

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


class AskingCandidacy(ElectedCandidacy):
    """A candidacy that asks a simulated ensemble, by a clock that the test sets."""

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
        """Answer in time, or not at all."""
        self.now += min(self.takes_s, timeout)
        if self.takes_s > timeout:
            raise KazooTimeoutError
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


def test_a_proof_counts_from_the_time_of_its_request(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another watcher may have been elected while the answer was on its way."""
    asked = AskingCandidacy(monkeypatch)
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
def test_a_missing_or_foreign_election_znode_ends_the_lease(
    monkeypatch: pytest.MonkeyPatch, answer: Any
) -> None:
    """It was deleted by hand, or belongs to another session."""
    asked = AskingCandidacy(monkeypatch)
    asked.answer = answer
    assert not asked._prove("/node")
    assert (asked._proof, asked.changes) == (None, 0)


def test_a_candidate_without_a_session_does_not_lead(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the election znode contains."""
    asked = AskingCandidacy(monkeypatch)
    asked._client.client_id = None
    assert not asked._prove("/node")


@pytest.mark.parametrize("trouble", ["late", "lost", "down"])
def test_without_an_answer_the_last_proof_is_kept(
    monkeypatch: pytest.MonkeyPatch, trouble: str
) -> None:
    """The request is repeated; without a connection nothing is requested."""
    asked = AskingCandidacy(monkeypatch)
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


def test_an_answer_after_the_end_is_no_proof(monkeypatch: pytest.MonkeyPatch) -> None:
    """The session ended while the answer was on its way."""
    asked = AskingCandidacy(monkeypatch)
    asked._ended.set()
    assert asked._prove("/node")
    assert asked._proof is None
    assert asked.status is LOST


def test_a_connection_that_breaks_invalidates_the_lease_until_it_is_proved_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """From then on another watcher may be elected at any time; the end of the session ends the lease."""
    asked = AskingCandidacy(monkeypatch)
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
    """Even while a proof still counts: with an ensemble that was restored, kazoo waits for ever."""
    asked = AskingCandidacy(monkeypatch)
    asked._on_state(KazooState.SUSPENDED)
    asked.now = 160.0
    asked._proof = Proof(asked_at=159.0, lease_s=4.0)
    assert (asked.status, asked.is_silent_for_too_long) == (VALID, False)
    asked.now = 160.5
    assert (asked.status, asked.is_silent_for_too_long) == (LOST, True)


def test_an_invalidation_holds_the_log_until_a_newer_proof(monkeypatch: pytest.MonkeyPatch) -> None:
    """The proof is requested at once."""
    asked = AskingCandidacy(monkeypatch)
    asked._prove("/node")
    assert asked.status is VALID
    asked.invalidate()
    assert asked.status is UNPROVEN
    assert asked._wake.is_set()


def test_the_candidacy_clock_returns_seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lease times and timeouts are given in seconds."""
    monkeypatch.setattr(candidacy, "steady_ns", lambda: 2_500_000_000)
    assert now_s() == 2.5


class Waits(threading.Event):
    """An event without real waits: the actions of a wait happen at once."""

    def __init__(self, turn: Callable[[], None] = lambda: None) -> None:
        super().__init__()
        self.turn = turn
        self.waited_s: list[float | None] = []

    def wait(self, timeout: float | None = None) -> bool:
        """Note how long the wait is, and let what happens during it happen."""
        self.waited_s.append(timeout)
        self.turn()
        return self.is_set()


class Ensemble:
    """A fake of kazoo's client: one session, the election's znodes, and answers that get lost."""

    client_id = (SESSION, b"")

    def __init__(self, *there: str) -> None:
        self.there = set(there)
        self.made: dict[str, bytes] = {}
        self.lost = 0
        """How many of the next answers are lost."""
        self.owner = SESSION
        self.asked: list[str] = []
        self.steps: list[str] = []
        self.handler = SimpleNamespace(
            event_object=threading.Event, lock_object=threading.Lock, sleep_func=None
        )

    def exists(self, path: str) -> Any:
        """Return some value for a path that exists."""
        return object() if path in self.there else None

    def ensure_path(self, path: str) -> None:
        """Create the path, unless the answer is lost."""
        if self.lost:
            self.lost -= 1
            raise ConnectionLoss
        self.there.add(path)

    def create(self, path: str, data: bytes, *, ephemeral: bool, sequence: bool) -> str:
        """Make an election znode."""
        assert ephemeral
        assert sequence
        node = f"{path}{len(self.made):010}"
        self.made[node] = data
        return node

    def get_children(self, path: str) -> list[str]:
        """Return the election's znodes."""
        return [node.removeprefix(f"{path}/") for node in self.made]

    def delete(self, path: str) -> None:
        """Delete an election znode."""
        del self.made[path]

    def sync_async(self, path: str) -> None:
        """Note it."""
        self.asked.append(path)

    def exists_async(self, node: str) -> Any:
        """Return an answer, available at once, with the owner of the znode."""
        self.asked.append(node)
        stat = SimpleNamespace(ephemeralOwner=self.owner, czxid=42)
        return SimpleNamespace(get=lambda timeout: stat if timeout else None)

    def start_async(self) -> None:
        """Note it."""
        self.steps.append("start")

    def stop(self) -> None:
        """Note it."""
        self.steps.append("stop")

    def close(self) -> None:
        """Note it."""
        self.steps.append("close")


class Paused:
    """A fake of the module `time`, for code that pauses."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.slept_s: list[float] = []
        self.turn: Callable[[], None] = lambda: None
        monkeypatch.setattr(candidacy, "time", self)

    def sleep(self, seconds: float) -> None:
        """Note the pause, and let something happen."""
        self.slept_s.append(seconds)
        self.turn()


def test_a_contender_retries_for_ever_with_short_pauses(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """However many answers are lost, it stands for election soon after the first one that is not lost."""
    paused, ensemble = Paused(monkeypatch), Ensemble()
    ensemble.lost = losses = 20
    contender = _Contender(ensemble, "/election/prod", "host", threading.Event())
    assert contender.acquire()
    assert ensemble.lost == 0
    assert list(ensemble.made.values()) == [b"host"]
    assert list(ensemble.made) == [f"/election/prod/{contender.node}"]
    jitter = 1.4
    assert 0 < sum(paused.slept_s) < losses * MAX_RECONNECT_S * jitter


def test_a_contender_can_be_left_while_it_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    """A session that has ended is not tried again."""
    paused, ensemble, left = Paused(monkeypatch), Ensemble(), threading.Event()
    ensemble.lost = 100
    paused.turn = left.set
    assert not _Contender(ensemble, "/election/prod", "host", left).acquire()
    assert (ensemble.lost, ensemble.made) == (99, {})
    assert len(paused.slept_s) == 1


def test_a_lease_lasts_for_two_thirds_of_the_session(monkeypatch: pytest.MonkeyPatch) -> None:
    """By the timeout that the server has agreed to, as kazoo returns it."""
    asked: list[tuple[Any, ...]] = []

    def connect(_self: ConnectionHandler, *there: Any) -> tuple[int, int]:
        asked.append(there)
        return 6_667, 3_333

    monkeypatch.setattr(ConnectionHandler, "_connect", connect)
    connection = standing().connection
    assert connection.lease_s == 1.0
    assert connection._connect("zk1", "10.0.0.1", 2181) == (6_667, 3_333)
    assert asked == [("zk1", "10.0.0.1", 2181)]
    assert connection.lease_s == 6.667


def standing(on_change: Callable[[], None] = lambda: None, **settings: Any) -> Candidacy:
    """Return a candidacy that is not started, for a cluster below the chroot /kafka."""
    there = {"cluster": "prod", "zookeeper": "zk:2181/kafka", "election_path": "/election"}
    return Candidacy(load(WatchSettings, **there | settings), "host", on_change=on_change)


@pytest.mark.usefixtures("no_settings_of_the_machine")
def test_a_new_candidacy_has_no_lease_and_no_refusal(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It counts as silent from its start, and is given up when that lasts too long."""
    now = [100.0]
    monkeypatch.setattr(candidacy, "now_s", lambda: now[0])
    new = standing(session_timeout_s=20.0)
    assert (new.status, new.ended, new.czxid, new.refused) == (LOST, False, None, "")
    assert new.path == "/kafka/election/prod"
    now[0] = 100.0 + new._most_silent_s
    assert new.silent_s == new._most_silent_s
    assert (new.is_silent_for_too_long, new.ended) == (False, False)
    now[0] += 0.5
    assert new.is_silent_for_too_long
    assert new._thread.daemon, "a process that ends does not wait for it"


@pytest.mark.usefixtures("no_settings_of_the_machine")
def test_the_session_is_given_up_after_the_time_in_the_settings() -> None:
    """The settings give it in milliseconds."""
    settings = load(WatchSettings, cluster="prod", zookeeper="zk:2181", session_timeout_s=20.0)
    new = standing(session_timeout_s=20.0)
    assert new._most_silent_s * 1_000 == settings.most_silent_ms


@pytest.mark.usefixtures("no_settings_of_the_machine")
def test_only_watchers_may_delete_an_election_znode_where_they_log_in() -> None:
    """Everybody else may read it. Without credentials it is open to all, as there is no other choice."""
    assert standing()._client.default_acl is None
    acl = standing(zk_auth="digest:kcm:secret")._client.default_acl
    assert acl == CREATOR_ALL_ACL + READ_ACL_UNSAFE


@pytest.mark.usefixtures("no_settings_of_the_machine")
def test_a_session_that_is_lost_ends_its_candidacy() -> None:
    """Through a listener of kazoo; a thread that waits for a change is woken."""
    changes: list[bool] = []
    new = standing(lambda: changes.append(True))
    (listener,) = new._client.state_listeners
    listener(KazooState.CONNECTED)
    assert (new.silent_s, new.ended, changes) == (0.0, False, [])
    listener(KazooState.LOST)
    assert (new.ended, changes) == (True, [True])


@pytest.mark.usefixtures("no_settings_of_the_machine")
def test_closing_a_candidacy_closes_its_zookeeper_client() -> None:
    """Its session ends with it."""
    new, ensemble = standing(), Ensemble()
    new._client = ensemble
    new.close()
    assert (new.ended, ensemble.steps) == (True, ["stop", "close"])


@pytest.mark.usefixtures("no_settings_of_the_machine")
def test_an_elected_candidate_proves_its_lease_by_its_own_znode() -> None:
    """It proves that four times in the time of a lease, until another session owns the znode."""
    changes: list[int | None] = []
    new = standing(lambda: changes.append(new.czxid))
    ensemble = Ensemble("/kafka")
    new._client = ensemble
    new.connection.lease_s = 4.0
    new._connected.set()
    wake = Waits(lambda: setattr(ensemble, "owner", SESSION + 1))
    new._wake = wake
    new.start()
    new._thread.join(5.0)
    assert ensemble.steps == ["start"]
    ((node, data),) = ensemble.made.items()
    assert (node.startswith("/kafka/election/prod/"), data) == (True, b"host")
    assert ensemble.asked == ["/kafka/election/prod", node] * 2
    assert wake.waited_s == [1.0]
    assert changes == [42, 42]
    assert (new.czxid, new.ended, new.status) == (42, True, LOST)


@pytest.mark.usefixtures("no_settings_of_the_machine")
def test_a_candidacy_that_ended_before_the_election_does_not_lead(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Neither before it stands for election, nor while its answers are lost."""
    ended = standing()
    ended._client = untouched = Ensemble("/kafka")
    ended._ended.set()
    ended._stand()
    assert (untouched.made, untouched.asked) == ({}, [])
    cut_off = standing()
    cut_off._client = ensemble = Ensemble("/kafka")
    ensemble.lost = 100
    Paused(monkeypatch).turn = cut_off._ended.set
    cut_off._stand()
    assert (ensemble.made, ensemble.asked) == ({}, [])


class Waiting(ElectedCandidacy):
    """A candidacy that waits for a connection and its chroot, turn by turn."""

    def __init__(self) -> None:
        super().__init__()
        self._chroot = "/kafka"
        self.ensemble = self._client = Ensemble()
        self.stood: list[str] = []
        """What was refused when it stood."""
        self.turns: list[Callable[[], object]] = []
        """What happens in each pause; after the last one the candidacy ends."""
        self.connected, self.pauses = Waits(), Waits(self._turn)
        self._connected, self._ended = self.connected, self.pauses

    def _turn(self) -> None:
        self.turns.pop(0)()

    def _stand(self) -> None:
        """Note it."""
        self.stood.append(self.refused)


def test_a_candidate_waits_for_a_connection_and_the_chroot() -> None:
    """It checks twice a second, and reports what is missing."""
    waiting = Waiting()
    refused: list[str] = []
    waiting.turns = [
        waiting.connected.set,
        lambda: refused.append(waiting.refused),
        lambda: waiting.ensemble.there.add("/kafka"),
    ]
    waiting._run()
    assert refused == ["the chroot /kafka: it is not there"]
    assert waiting.stood == [""]
    assert waiting.pauses.waited_s == [0.5] * 3
    assert waiting.connected.waited_s == [0.5] * 4


def test_a_candidacy_that_ends_before_it_is_connected_stops_waiting() -> None:
    """Another candidacy takes its place."""
    waiting = Waiting()
    waiting.turns = [waiting.pauses.set]
    waiting._run()
    assert waiting.ended
    assert waiting.pauses.waited_s == [0.5]


@pytest.mark.parametrize(
    ("trouble", "refused"),
    [
        (
            NoAuthError(),
            "to let the watcher create and delete election znodes under /election/prod",
        ),
        (ConnectionLoss(), ""),
        (KazooTimeoutError(), ""),
    ],
    ids=["denied", "lost", "late"],
)
def test_only_a_denied_znode_ends_a_candidacy_with_a_message(
    monkeypatch: pytest.MonkeyPatch, trouble: Exception, refused: str
) -> None:
    """Only a user can correct that. After a lost session the next candidacy finds out why."""
    ending = ElectedCandidacy()

    def stand() -> None:
        raise trouble

    monkeypatch.setattr(ending, "_stand", stand)
    ending._run()
    assert (ending.ended, ending.refused) == (True, refused)
