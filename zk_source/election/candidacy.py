"""One watcher's place in the election of its cluster's leader: kazoo's lock in one session.

The rule: a win is proved again and again, while the main loop says that it works (`keep`). A proof is one round trip, sync and then exists, that
finds our election znode under our session; it counts from the moment at which it was asked for. So
a process that was paused has an old proof, and its next one fails. A lease is valid by its newest
proof.

A candidacy is one ZooKeeper session and ends with it; then a new one is made. kazoo's lock would go
on in its next session, where a znode that it failed to delete could stand before it for ever. The
lock is fair, so the next leader has a larger czxid.
"""

import enum
import threading
import time
from collections.abc import Callable
from typing import Any, NamedTuple

from kazoo.client import KazooClient
from kazoo.exceptions import ConnectionLoss, KazooException, NoAuthError
from kazoo.handlers.threading import KazooTimeoutError
from kazoo.protocol.states import KazooState
from kazoo.recipe.lock import Lock
from kazoo.retry import KazooRetry
from kazoo.security import CREATOR_ALL_ACL, READ_ACL_UNSAFE

from pipeline.clock import steady_ns
from pipeline.runtime import get_logger
from zk_source.config import WatchSettings
from zk_source.wire.kazoo_client import Authenticating, make_client, stop_client

MOST_RECONNECT_S = 1.0
"""Longest pause between two tries: a standby must not sleep through the end of its leader."""

PROOFS_PER_LEASE = 4
"""How often the lease is proved while one proof counts: one late answer does not hold the log."""

STANDSTILL_S = 60.0
"""A main loop that has done nothing for this long leads no more: another watcher may do better."""

_POLL_S = 0.5
_MS = 1000
_NS = 1_000_000_000


def now_s() -> float:
    """Return a clock that goes on while the process, or the whole machine, is asleep."""
    return steady_ns() / _NS


class Proof(NamedTuple):
    """An answer of ZooKeeper that shows that we lead."""

    asked_at: float
    lease_s: float
    """For how long after `asked_at` the session lives, whatever becomes of this process."""


class LeaseStatus(enum.Enum):
    """Whether the log may be written."""

    VALID = "valid"
    UNPROVEN = "unproven"
    """This watcher leads, but cannot prove it now: changes wait."""
    LOST = "lost"
    """Another watcher leads, or soon will."""


def lease_status(proof: Proof | None, *, invalidated_at: float, now: float) -> LeaseStatus:
    """Return what the newest proof of a lease allows; None is a lease that has ended.

    >>> lease_status(Proof(asked_at=10.0, lease_s=4.0), invalidated_at=0.0, now=13.9).value
    'valid'
    """
    if proof is None:
        return LeaseStatus.LOST
    counts = invalidated_at < proof.asked_at and now - proof.asked_at < proof.lease_s
    return LeaseStatus.VALID if counts else LeaseStatus.UNPROVEN


class _Connection(Authenticating):
    """kazoo's connection handler, which keeps the session's timeout."""

    lease_s = 1.0

    def _connect(self, host: str, hostip: str, port: int) -> Any:
        read_timeout_ms, connect_timeout_ms = super()._connect(host, hostip, port)
        # Two thirds of the timeout that was agreed on, as kazoo waits for a silent server. The
        # last third is for a follower: it reports only now and then to its leader that we are alive.
        self.lease_s = read_timeout_ms / _MS
        return read_timeout_ms, connect_timeout_ms


class _Contender(Lock):  # type: ignore[misc]  # kazoo ships no types
    """kazoo's lock, which can be left at any time and never sleeps for long.

    kazoo's own pause between retries doubles up to a minute, and one acquire lasts for weeks.
    """

    def __init__(
        self, client: KazooClient, path: str, identifier: str, left: threading.Event
    ) -> None:
        super().__init__(client, path, identifier)
        self._retry = KazooRetry(
            max_tries=-1, max_delay=MOST_RECONNECT_S, sleep_func=time.sleep, interrupt=left.is_set
        )


class Candidacy:
    """Stands for election in one session, and proves that it leads: the lease of that term."""

    def __init__(
        self, settings: WatchSettings, identifier: str, *, on_change: Callable[[], None]
    ) -> None:
        """Describe it; `on_change` is called, in any thread, when the proof or the session changed."""
        there = settings.for_election()
        self.path = f"{there.chroot}{settings.election_path}/{settings.cluster}"
        self._proof: Proof | None = None
        """The newest; None while we do not lead."""
        self.czxid: int | None = None
        """The election znode's: no generation of this term is below it. None before it is won."""
        self.refused = ""
        """What the ensemble lacks or does not allow; empty while there is no such problem."""
        self._chroot = there.chroot
        self._identifier = identifier
        self._on_change = on_change
        # kazoo stays SUSPENDED for ever before an ensemble that was restored from a backup.
        self._most_silent_s = settings.most_silent_ms / _MS
        self._invalidated_at = 0.0
        self._kept_at = now_s()
        self._down_since = now_s()
        self._connected = threading.Event()
        self._ended = threading.Event()
        self._wake = threading.Event()
        self._mutex = threading.Lock()
        self._client, self.connection = make_client(
            there, _Connection, most_reconnect_s=MOST_RECONNECT_S
        )
        if there.zk_auth is not None:
            # Who deletes a leader's znode deposes it: only the watchers may.
            self._client.default_acl = CREATOR_ALL_ACL + READ_ACL_UNSAFE
        self._client.add_listener(self._on_state)
        self._lock: Lock | None = None
        self._thread = threading.Thread(target=self._run, name="election", daemon=True)

    @property
    def status(self) -> LeaseStatus:
        """Whether the log may be written now."""
        if self.is_silent_for_too_long:
            return LeaseStatus.LOST
        # The proof is read first: an invalidation that comes after it must count.
        proof = self._proof
        return lease_status(proof, invalidated_at=self._invalidated_at, now=now_s())

    @property
    def ended(self) -> bool:
        """The session has ended: only a new candidacy helps."""
        return self._ended.is_set()

    @property
    def is_silent_for_too_long(self) -> bool:
        """The session is given up for a new one."""
        return self.silent_s > self._most_silent_s

    @property
    def silent_s(self) -> float:
        """For how long there has been no connection; 0 while there is one."""
        return 0.0 if self._connected.is_set() else now_s() - self._down_since

    def start(self) -> None:
        """Connect and stand for election."""
        self._client.start_async()
        self._thread.start()

    def keep(self) -> None:
        """Note that the main loop works: the lease is worth proving."""
        self._kept_at = now_s()

    def invalidate(self) -> None:
        """Hold the log until a newer proof than now: another watcher may lead."""
        self._invalidated_at = now_s()
        self._wake.set()

    def close(self) -> None:
        """End the session, and with it the lease; waits at most a few seconds."""
        self._end()
        stop_client(self._client)

    def _end(self) -> None:
        with self._mutex:
            self._ended.set()
            self._proof = None
        if self._lock is not None:
            self._lock.cancel()
        self._wake.set()
        self._on_change()

    def _on_state(self, state: str) -> None:
        """Take in a state of the session, on kazoo's thread."""
        if state == KazooState.CONNECTED:
            self._connected.set()
            self._wake.set()
            return
        if self._connected.is_set():
            self._down_since = now_s()
        self._connected.clear()
        self._invalidated_at = now_s()
        if state == KazooState.LOST:
            self._end()

    def _run(self) -> None:
        try:
            while not self._ended.is_set() and not self._may_stand():
                self._ended.wait(_POLL_S)
            self._stand()
        except NoAuthError:
            self.refused = f"to let the watcher create and delete election znodes under {self.path}"
        except (KazooException, KazooTimeoutError):
            pass  # the session is at its end, or close to it: a new candidacy finds out why
        finally:
            self._end()

    def _may_stand(self) -> bool:
        """Wait for a connection, and check that the chroot exists: it is not ours to make."""
        if not self._connected.wait(_POLL_S):
            return False
        if self._chroot and self._client.exists(self._chroot) is None:
            self.refused = f"the chroot {self._chroot}: it is not there"
            return False
        self.refused = ""
        return True

    def _stand(self) -> None:
        self._lock = _Contender(self._client, self.path, self._identifier, self._ended)
        if self._ended.is_set() or not self._lock.acquire():
            return
        self._lead(f"{self.path}/{self._lock.node}")

    def _lead(self, node: str) -> None:
        """Prove that we lead, until the session or the main loop's work ends."""
        self.keep()
        while not self._ended.is_set() and not self._stands_still() and self._prove(node):
            self._wake.wait(self.connection.lease_s / PROOFS_PER_LEASE)
            self._wake.clear()

    def _stands_still(self) -> bool:
        still = now_s() - self._kept_at > STANDSTILL_S
        if still:
            get_logger("election").error(
                "the watcher's main loop hangs: it gives up its lead", silent_s=STANDSTILL_S
            )
        return still

    def _prove(self, node: str) -> bool:
        """Ask whether we lead; False when we do not. Without an answer the proof grows old."""
        if not self._connected.is_set():
            return True
        asked_at = now_s()
        try:
            self._client.sync_async(self.path)
            stat = self._client.exists_async(node).get(timeout=self.connection.lease_s)
        except (ConnectionLoss, KazooTimeoutError):
            return True
        session = self._client.client_id
        if stat is None or session is None or stat.ephemeralOwner != session[0]:
            return False
        with self._mutex:
            if not self._ended.is_set():
                self.czxid = stat.czxid
                self._proof = Proof(asked_at, self.connection.lease_s)
        self._on_change()
        return True
