"""Enters one watcher in the election of its cluster's leader: kazoo's lock in one session.

The rule: a watcher that has won proves its lead again and again, as long as the main loop reports
that it works (`report_alive`). If that hangs, the session ends: another watcher leads at once, although
this process lives. A proof is one round trip, sync and then exists, that finds our election
znode under our session. A proof counts from the moment at which it was requested. So a process that
was paused holds an expired proof, and its next one fails. A lease is valid while its newest proof
is.

A candidacy is one ZooKeeper session and ends with it; then a new candidacy is made. kazoo's lock
would continue in its next session, where a znode that it failed to delete could stay in front of it
for ever. The lock is fair, so each leader has a larger czxid than the one before it.
"""

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
from pipeline.supervised_thread import STANDSTILL_S
from source_log.lease import LeaseStatus
from zk_source.config import WatchSettings
from zk_source.wire.kazoo_client import Authenticating, make_client, stop_client

MAX_RECONNECT_S = 1.0
"""Longest pause between two attempts to connect, so that a standby notices the end of its leader."""

PROOFS_PER_LEASE = 4
"""How many proofs are asked for in the time for which one counts, so that one late answer does not stop the log."""

LEAST_STANDSTILL_S = 15.0
"""A leader whose main loop has not turned for this long, or for a lease if that is longer, resigns. It reports with
each item that it handles, which takes milliseconds; but a client that ends may take 3 s, and the item that ends the walk
of a tree of 400,000 znodes 1.0 to 1.7 s on two busy cores: 8 s for one of 2,000,000 (1,000,000 partitions)."""

_POLL_S = 0.5
_MS = 1000
_NS = 1_000_000_000


def now_s() -> float:
    """Return seconds of a clock that also advances while the process, or the whole machine, is asleep."""
    return steady_ns() / _NS


class Proof(NamedTuple):
    """An answer of ZooKeeper that proves that this watcher leads."""

    asked_at: float
    lease_s: float
    """For how many seconds after `asked_at` ZooKeeper keeps the session, even if this process stops."""


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
        # Two thirds of the negotiated timeout, as long as kazoo waits for a silent server. The last
        # third is a margin for followers: a follower reports only now and then to its leader that
        # our session is alive.
        self.lease_s = read_timeout_ms / _MS
        return read_timeout_ms, connect_timeout_ms


class _Contender(Lock):  # type: ignore[misc]  # kazoo ships no types
    """kazoo's lock, which can be abandoned at any time and never sleeps for long.

    kazoo's own pause between retries doubles up to a minute, and one acquire can last for weeks.
    """

    def __init__(
        self, client: KazooClient, path: str, identifier: str, left: threading.Event
    ) -> None:
        super().__init__(client, path, identifier)
        self._retry = KazooRetry(
            max_tries=-1, max_delay=MAX_RECONNECT_S, sleep_func=time.sleep, interrupt=left.is_set
        )


class Candidacy:
    """Stands for election in one session; after it wins, proves its lead. That is the lease."""

    def __init__(
        self, settings: WatchSettings, identifier: str, *, on_change: Callable[[], None]
    ) -> None:
        """Set up the client without connecting. `on_change` is called, in any thread, when proof or session change."""
        there = settings.for_election()
        self.path = f"{there.chroot}{settings.election_path}/{settings.cluster}"
        self._proof: Proof | None = None
        """The newest proof; None while this watcher does not lead."""
        self.term: int | None = None
        """The czxid of the election znode; None before the election is won."""
        self.others = 0
        """How many other candidates stood for election at the newest proof."""
        self.may_stand = False
        """Whether it was found that the ensemble has what the election needs."""
        self.refused = ""
        """What the ensemble lacks or does not allow; empty while there is no such problem."""
        self._chroot = there.chroot
        self._identifier = identifier
        self._on_change = on_change
        # With an ensemble that was restored from a backup, kazoo stays SUSPENDED for ever.
        self._most_silent_s = settings.most_silent_ms / _MS
        self._invalidated_at = 0.0
        self._turned_at: float | None = None
        """When the main loop last turned; None before it has taken its lead."""
        self._seemed_still = False
        self._down_since = now_s()
        self._connected = threading.Event()
        self._ended = threading.Event()
        self._wake = threading.Event()
        self._mutex = threading.Lock()
        self._closing = threading.Lock()
        self._is_closed = False
        self._client, self.connection = make_client(
            there, _Connection, most_reconnect_s=MAX_RECONNECT_S
        )
        if there.zk_auth is not None:
            # Deleting a leader's znode deposes it, so only the watchers may delete it.
            self._client.default_acl = CREATOR_ALL_ACL + READ_ACL_UNSAFE
        self._client.add_listener(self._on_state)
        self._thread = threading.Thread(target=self._run, name="election", daemon=True)

    @property
    def status(self) -> LeaseStatus:
        """Whether the log may be written now."""
        if self.is_silent_for_too_long:
            return LeaseStatus.LOST
        # Read the proof first: an invalidation that happens after this must count.
        proof = self._proof
        return lease_status(proof, invalidated_at=self._invalidated_at, now=now_s())

    @property
    def ended(self) -> bool:
        """Whether the session has ended: only a new candidacy helps."""
        return self._ended.is_set()

    @property
    def is_silent_for_too_long(self) -> bool:
        """Whether there was no connection for so long that the session is given up for a new one."""
        return self.silent_s > self._most_silent_s

    @property
    def silent_s(self) -> float:
        """For how many seconds there has been no connection; 0 while there is one."""
        return 0.0 if self._connected.is_set() else now_s() - self._down_since

    def start(self) -> None:
        """Connect and stand for election. Silence counts from now on, not from when this was set up."""
        self._down_since = now_s()
        self._client.start_async()
        self._thread.start()

    def report_alive(self) -> None:
        """Note that the main loop works, so that the lease is proved again."""
        self._turned_at = now_s()

    def invalidate(self) -> None:
        """Stop publishing until there is a proof newer than now: another watcher may lead."""
        self._invalidated_at = now_s()
        self._wake.set()

    def close(self) -> None:
        """End the session, and the lease with it. Waits at most a few seconds."""
        self._end()
        with self._closing:
            if not self._is_closed:
                self._is_closed = True
                stop_client(self._client)

    def _end(self) -> None:
        with self._mutex:
            self._ended.set()
            self._proof = None
        self._wake.set()
        self._on_change()

    def _on_state(self, state: str) -> None:
        """Handle a state of the session, on kazoo's thread."""
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
            while not self._ended.is_set() and not self._check_chroot():
                self._ended.wait(_POLL_S)
            self._stand()
        except NoAuthError:
            self.refused = f"to let the watcher create and delete election znodes under {self.path}"
        except (KazooException, KazooTimeoutError):
            pass  # the session has ended or is about to: a new candidacy finds out why
        finally:
            self._end()

    def _check_chroot(self) -> bool:
        """Wait for a connection, and check that the chroot exists: kcm does not create it."""
        if not self._connected.wait(_POLL_S):
            return False
        if self._chroot and self._client.exists(self._chroot) is None:
            self.refused = f"the chroot {self._chroot}: it is not there"
            return False
        self.refused = ""
        self.may_stand = True
        return True

    def _stand(self) -> None:
        lock = _Contender(self._client, self.path, self._identifier, self._ended)
        if not self._ended.is_set() and lock.acquire():
            self._lead(f"{self.path}/{lock.node}")

    def _lead(self, node: str) -> None:
        """Prove that this watcher leads, until the session ends or the main loop stops working."""
        led_since = now_s()
        while not self._ended.is_set() and self._prove(node):
            self._wake.wait(self.connection.lease_s / PROOFS_PER_LEASE)
            self._wake.clear()
            if self._stands_still(led_since):
                # The main loop cannot do it, and a session that stays keeps all others from the lead.
                self.close()

    def _stands_still(self, led_since: float) -> bool:
        """Return whether the main loop has not turned for too long, in two rounds.

        After a pause of the whole process it has the time of one round to turn first.
        """
        limit_s = max(self.connection.lease_s, LEAST_STANDSTILL_S)
        alive_at = self._turned_at
        if alive_at is None:
            # It takes its lead: it reads the topics of a Kafka that may be slow.
            alive_at, limit_s = led_since, max(limit_s, STANDSTILL_S)
        silent_s = now_s() - alive_at
        seemed_still, self._seemed_still = self._seemed_still, silent_s > limit_s
        if not (seemed_still and self._seemed_still):
            return False
        get_logger("election").error(
            "the watcher's main loop hangs: it gives up its lead", silent_s=round(silent_s, 1)
        )
        return True

    def _prove(self, node: str) -> bool:
        """Ask ZooKeeper whether we lead; return False if we do not. Without an answer the old proof expires."""
        if not self._connected.is_set():
            return True
        asked_at = now_s()
        try:
            self._client.sync_async(self.path)
            standing = self._client.get_children_async(self.path)
            stat = self._client.exists_async(node).get(timeout=self.connection.lease_s)
            others = len(standing.get(timeout=self.connection.lease_s)) - 1
        except (ConnectionLoss, KazooTimeoutError):
            return True
        session = self._client.client_id
        if stat is None or session is None or stat.ephemeralOwner != session[0]:
            return False
        with self._mutex:
            if not self._ended.is_set():
                self.term, self.others = stat.czxid, others
                self._proof = Proof(asked_at, self.connection.lease_s)
        self._on_change()
        return True
