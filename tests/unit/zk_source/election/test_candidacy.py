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
from pipeline.supervised_thread import STANDSTILL_S
from source_log.lease import LeaseStatus
from tests.support.waiting import DEADLINE_S
from zk_source.config import WatchSettings
from zk_source.election import candidacy
from zk_source.election.candidacy import (
    MAX_RECONNECT_S,
    Candidacy,
    Proof,
    _Contender,
    lease_status,
)

pytestmark = pytest.mark.usefixtures("no_settings_of_the_machine")

LOST = LeaseStatus.LOST


SESSION = 7


def standing(on_change: Callable[[], None] = lambda: None, **settings: Any) -> Candidacy:
    """Return a candidacy that is not started, for a cluster below the chroot /kafka."""
    there = {"cluster": "prod", "zookeeper": "zk:2181/kafka", "election_path": "/election"}
    return Candidacy(load(WatchSettings, **there | settings), "host", on_change=on_change)


class Waits(threading.Event):
    """An event without real waits: the actions of a wait happen at once."""

    def __init__(self, turn: Callable[[], object] = lambda: None) -> None:
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

    def get_children_async(self, path: str) -> Any:
        """Return an answer, available at once, with the election's znodes."""
        assert path.endswith("/election/prod"), "others stand at the same path"

        def get(timeout: float) -> list[str]:
            assert timeout
            return self.get_children(path)

        return SimpleNamespace(get=get)

    def exists_async(self, node: str) -> Any:
        """Return an answer, available at once, with the owner of the znode; without an owner there is none."""
        self.asked.append(node)
        stat = SimpleNamespace(ephemeralOwner=self.owner, czxid=42) if self.owner else None

        def get(timeout: float) -> Any:
            if self.lost:
                raise ConnectionLoss
            return stat if timeout else None

        return SimpleNamespace(get=get)

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


def test_a_proof_counts_after_an_invalidation_and_before_its_end() -> None:
    """A proof that was requested at the moment of an invalidation proves nothing; at its end it has expired."""
    proof = Proof(asked_at=10.0, lease_s=4.0)

    def status(invalidated_at: float, now: float) -> str:
        return lease_status(proof, invalidated_at=invalidated_at, now=now).value

    assert [status(9.9, 13.9), status(10.0, 13.9), status(9.9, 14.0)] == [
        "valid",
        "unproven",
        "unproven",
    ]


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


def test_a_new_candidacy_has_no_lease_and_no_refusal(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It counts as silent from its start, and is given up when that lasts too long."""
    now = [100.0]
    monkeypatch.setattr(candidacy, "now_s", lambda: now[0])
    new = standing(session_timeout_s=20.0)
    assert (new.status, new.ended, new.term, new.refused) == (LOST, False, None, "")
    assert new.path == "/kafka/election/prod"
    now[0] = 150.0
    assert (new.silent_s, new.is_silent_for_too_long, new.ended) == (50.0, False, False)
    now[0] += 0.5
    assert new.is_silent_for_too_long
    new._proof = Proof(asked_at=now[0], lease_s=4.0)
    assert new.status is LOST, "kazoo waits for ever for an ensemble that was restored"
    assert new._thread.daemon, "a process that ends does not wait for it"
    new._client = Ensemble()
    new.start()
    assert (new.silent_s, new.is_silent_for_too_long) == (0.0, False), "it asks from now on"
    new.close()


def test_only_watchers_may_delete_an_election_znode_where_they_log_in() -> None:
    """Everybody else may read it. Without credentials it is open to all, as there is no other choice."""
    assert standing()._client.default_acl is None
    acl = standing(zk_auth="digest:kcm:secret")._client.default_acl
    assert acl == CREATOR_ALL_ACL + READ_ACL_UNSAFE


def test_a_session_that_is_lost_ends_its_candidacy(monkeypatch: pytest.MonkeyPatch) -> None:
    """Through a listener of kazoo; a thread that waits for a change is woken. Silence counts from its start."""
    now, changes = [100.0], list[bool]()
    monkeypatch.setattr(candidacy, "now_s", lambda: now[0])
    new = standing(lambda: changes.append(True))
    (listener,) = new._client.state_listeners
    listener(KazooState.CONNECTED)
    assert (new.silent_s, new.ended, changes) == (0.0, False, [])
    for wake in (lambda: listener(KazooState.CONNECTED), new.invalidate):
        new._wake.clear()
        wake()
        assert new._wake.is_set(), "the lease is proved at once"
    for now[0] in (101.0, 103.0):
        listener(KazooState.SUSPENDED)
    assert (new.silent_s, new.ended) == (2.0, False)
    listener(KazooState.LOST)
    assert (new.ended, changes) == (True, [True])


def test_an_elected_candidate_proves_its_lease_by_its_own_znode() -> None:
    """It proves that four times in the time of a lease, until another session owns the znode."""
    changes: list[int | None] = []
    new = standing(lambda: changes.append(new.term))
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
    assert (new.term, new.ended, new.status) == (42, True, LOST)
    new.close()
    assert ensemble.steps == ["start", "stop", "close"]


def test_a_leader_that_is_closed_ends_its_thread_at_once() -> None:
    """It does not wait for the next proof, which is due after a quarter of a lease."""
    proved = threading.Event()
    leading = standing(proved.set)
    leading._client = Ensemble("/kafka")
    leading.connection.lease_s = 4 * 3_600.0
    leading._connected.set()
    leading.start()
    assert proved.wait(DEADLINE_S)
    leading.close()
    leading._thread.join(5.0)
    assert not leading._thread.is_alive()


def test_a_missing_answer_proves_nothing_and_a_missing_znode_ends_the_lead() -> None:
    """Until the connection is back the old proof counts, and expires."""
    leading = standing()
    leading._client = ensemble = Ensemble()
    assert leading._prove("/node")
    assert ensemble.asked == []
    leading._connected.set()
    ensemble.lost = 1
    assert leading._prove("/node")
    ensemble.lost = ensemble.owner = 0
    assert not leading._prove("/node")
    assert leading._proof is None


def test_a_lease_that_was_invalidated_is_valid_with_the_next_proof(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Another watcher wrote: nothing is published until ZooKeeper has said again who leads."""
    now = [100.0]
    monkeypatch.setattr(candidacy, "now_s", lambda: now[0])
    leading = standing()
    leading._client = Ensemble()
    leading._connected.set()
    leading.connection.lease_s = 4.0
    for invalidate in (leading.invalidate, lambda: leading._on_state(KazooState.SUSPENDED)):
        leading._connected.set()
        assert leading._prove("/node")
        before = leading.status
        now[0] += 1.0
        invalidate()
        assert (before, leading.status) == (LeaseStatus.VALID, LeaseStatus.UNPROVEN)
        now[0] += 1.0


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


def test_a_candidate_waits_for_a_connection_and_the_chroot(monkeypatch: pytest.MonkeyPatch) -> None:
    """It checks twice a second, and reports what is missing: nothing before it is connected."""
    waiting, ensemble, connected = standing(), Ensemble(), Waits()
    refused: list[str] = []
    assert not waiting.may_stand

    def note() -> None:
        refused.extend([waiting.refused] if not waiting.may_stand else [])

    def connect() -> None:
        note()
        connected.set()

    steps: list[Callable[[], object]] = [
        connect,
        note,
        lambda: ensemble.there.add("/kafka"),
    ]
    pauses = Waits(lambda: steps.pop(0)())  # noqa: PLW0108  # another step in each wait
    waiting._client, waiting._connected, waiting._ended = ensemble, connected, pauses
    monkeypatch.setattr(waiting, "_stand", lambda: refused.append(waiting.refused))
    waiting._run()
    assert refused == ["", "the chroot /kafka: it is not there", ""]
    assert waiting.may_stand
    assert (pauses.waited_s, connected.waited_s) == ([0.5] * 3, [0.5] * 4)
    assert waiting.ended


@pytest.mark.parametrize(
    ("lease_s", "turns", "limit_s"), [(4.0, True, 15.0), (40.0, True, 40.0), (4.0, False, 60.0)]
)
def test_a_main_loop_that_hangs_ends_the_session(
    monkeypatch: pytest.MonkeyPatch, lease_s: float, limit_s: float, *, turns: bool
) -> None:
    """At once after a lease, where proofs would still succeed; a loop that takes its lead has more time."""
    now = [100.0]
    monkeypatch.setattr(candidacy, "now_s", lambda: now[0])
    hanging, stopped = standing(), list[float]()
    monkeypatch.setattr(candidacy, "stop_client", lambda _client: stopped.append(now[0]))
    hanging.connection.lease_s = lease_s

    def wait() -> None:
        assert not wake.is_set(), "what woke it once does not wake it again"
        wake.set()
        now[0] += 1.0
        if turns and now[0] <= 110.0:
            hanging.report_alive()

    wake = Waits(wait)
    hanging._wake = wake
    monkeypatch.setattr(hanging, "_prove", lambda _node: True)
    hanging._lead("/node")
    hung_at = 110.0 if turns else 100.0
    assert stopped == [hung_at + limit_s + 2.0], "two rounds of a second each find it too old"
    assert (hanging.ended, hanging.status) == (True, LOST)
    assert set(wake.waited_s) == {lease_s / 4}
    hanging.close()
    assert len(stopped) == 1, "the main loop, if it turns again, finds it closed"


def test_a_proof_counts_the_others_who_stand() -> None:
    """A leader that is cut off from the log asks whether another would do better."""
    leading = standing()
    assert leading.others == 0, "nobody is known before the first proof"
    leading._client = ensemble = Ensemble()
    leading._connected.set()
    for others in (0, 2):
        ensemble.made = dict.fromkeys(map(str, range(1 + others)), b"")
        assert leading._prove("/node")
        assert (leading.others, leading.status) == (others, LeaseStatus.VALID)


def test_a_new_leader_has_its_time_from_its_election_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """However long it stood by: its main loop had nothing to report until then."""
    now = [100.0]
    monkeypatch.setattr(candidacy, "now_s", lambda: now[0])
    hanging, stopped = standing(), list[float]()
    monkeypatch.setattr(candidacy, "stop_client", lambda _client: stopped.append(now[0]))
    monkeypatch.setattr(hanging, "_prove", lambda _node: True)

    def wait() -> None:
        now[0] += 1.0

    hanging._wake = Waits(wait)
    now[0] = 9_000.0
    hanging._lead("/node")
    assert stopped == [9_000.0 + STANDSTILL_S + 2.0]


def test_a_pause_of_the_whole_process_does_not_look_like_a_loop_that_hangs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """After it the main loop has one round to turn, also right after the start, and then it leads on."""
    now = [100.0]
    monkeypatch.setattr(candidacy, "now_s", lambda: now[0])
    paused = standing()
    rounds = iter((3600.0, 0.0, 1.0, 3600.0, 0.0))

    def wait() -> None:
        passed_s = next(rounds, None)
        if passed_s is None:
            paused._ended.set()
            return
        now[0] += passed_s
        if passed_s < 2.0:
            paused.report_alive()

    paused._wake = Waits(wait)
    monkeypatch.setattr(paused, "_prove", lambda _node: True)
    monkeypatch.setattr(candidacy, "stop_client", lambda _client: pytest.fail("it was closed"))
    paused._lead("/node")


@pytest.mark.parametrize(
    ("trouble", "refused"),
    [
        (NoAuthError(), "to let the watcher create and delete election znodes under"),
        (ConnectionLoss(), ""),
        (KazooTimeoutError(), ""),
    ],
    ids=["denied", "lost", "late"],
)
def test_only_a_denied_znode_ends_a_candidacy_with_a_message(
    monkeypatch: pytest.MonkeyPatch, trouble: Exception, refused: str
) -> None:
    """Only a user can correct that. After a lost session the next candidacy finds out why."""
    ending = standing()
    ending._client = Ensemble("/kafka")
    ending._connected.set()

    def stand() -> None:
        raise trouble

    monkeypatch.setattr(ending, "_stand", stand)
    ending._run()
    assert ending.ended
    assert ending.refused == (f"{refused} /kafka/election/prod" if refused else "")
