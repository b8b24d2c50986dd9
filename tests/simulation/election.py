"""The election of a cluster's watchers: its znodes and sessions, and real candidacies without threads.

The rule: the first in line leads until its session ends. A session lasts `SESSION_MS` after the
last sign of life of its process. The clock takes the part of a candidacy's threads: it calls the
real code for a proof, for a change of the session, and between two reads of a status.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from kazoo.exceptions import ConnectionLoss
from kazoo.protocol.states import KazooState

from tests.simulation.sockets import SESSION_MS
from zk_source.election.candidacy import PROOFS_PER_LEASE, Candidacy, Proof

if TYPE_CHECKING:
    from tests.simulation.edge import Edge
    from tests.simulation.world import World

LEASE_MS = SESSION_MS * 2 // 3
_BETWEEN = 0.01
"""How often the session's thread runs exactly between two reads of a status."""


class Election:
    """The election's ensemble: the candidates, in order."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.standing: list[SimulatedCandidacy] = []
        self._czxid = 1_000

    @property
    def leader(self) -> SimulatedCandidacy | None:
        """The leader; None while there is no candidate."""
        return self.standing[0] if self.standing else None

    def stand(self, candidacy: SimulatedCandidacy) -> int:
        """Create an election znode; return its czxid."""
        self._czxid += self.world.rng.randint(1, 50)
        self.standing.append(candidacy)
        self.world.clock.after(1, self._notify)
        return self._czxid

    def expire(self, candidacy: SimulatedCandidacy) -> None:
        """Delete the znode of an expired session."""
        if candidacy in self.standing:
            self.standing.remove(candidacy)
            self.world.clock.after(1, self._notify)

    def _notify(self) -> None:
        if self.leader is not None:
            self.leader.on_first()


class SimulatedCandidacy(Candidacy):
    """A candidacy with its own session, whose threads the clock runs."""

    def __init__(self, world: World, on_win: Callable[[SimulatedCandidacy], Edge]) -> None:
        self._world = world
        self._on_win = on_win
        self._reads = 0
        self._held_proof: Proof | None = None
        self._held_invalidated_at = 0.0
        self._asked_ms = 0
        self._cut_ms = 0
        self._expires = 0
        self.edge: Edge | None = None
        self.path = "/kcm/election/prod"
        self.others = 0
        self.refused = ""
        self._chroot = ""
        self._identifier = ""
        self._most_silent_s = 15.0
        self._on_change = lambda: None
        self._led_since = self._down_since = world.clock.now / 1000
        self._connected, self._ended = threading.Event(), threading.Event()
        self._connected.set()
        self._wake: Any = SimpleNamespace(set=self._prove_soon)
        self._turned_at, self._seemed_still = None, False
        self._mutex = threading.Lock()
        self._lock = None
        self.connection: Any = SimpleNamespace(lease_s=LEASE_MS / 1000)
        self._client: Any = SimpleNamespace(
            sync_async=lambda _path: None,
            exists_async=lambda _path: SimpleNamespace(get=self._answer),
            # The log is out of reach for all watchers or for none: nobody would do better.
            get_children_async=lambda _path: SimpleNamespace(get=lambda **_: [id(self)]),
            client_id=(id(self), b""),
        )
        self._node_czxid = world.election.stand(self)

    # --- what two threads read and write ----------------------------------------------------

    @property
    def _proof(self) -> Proof | None:  # the other thread may run before it is read
        self._run_other_thread()
        return self._held_proof

    @_proof.setter
    def _proof(self, proof: Proof | None) -> None:
        self._held_proof = proof

    @property
    def _invalidated_at(self) -> float:  # the same
        self._run_other_thread()
        return self._held_invalidated_at

    @_invalidated_at.setter
    def _invalidated_at(self, at: float) -> None:
        self._held_invalidated_at = at

    def _run_other_thread(self) -> None:
        """Sometimes lose the connection between two reads of a status."""
        self._reads += 1
        has_faults = self._world.has_faults
        if has_faults and self._reads % 2 == 0 and self._world.rng.random() < _BETWEEN:
            self.cut(self._world.rng.choice((100, 3_000)))

    @property
    def is_proved(self) -> bool:
        """Whether the newest proof is newer than the last event that invalidated it."""
        proof = self._held_proof
        return proof is not None and proof.asked_at > self._held_invalidated_at

    # --- the session ------------------------------------------------------------------------

    @property
    def is_stopped(self) -> bool:
        """Whether its process does not run now."""
        return self.edge is not None and (self.edge.paused or not self.edge.alive)

    def cut(self, ms: int) -> None:
        """Lose the connection for a while; a session that has ended by then is lost."""
        if not self._connected.is_set() or self.ended:
            return
        self._cut_ms = self._world.clock.now
        self._on_state(KazooState.SUSPENDED)
        self.fall_silent()
        self._world.clock.after(ms, self.reconnect)

    def reconnect(self) -> None:
        """Send signs of life again."""
        if self.is_stopped or self.ended:
            return
        self._expires += 1
        if self not in self._world.election.standing:
            self._on_state(KazooState.LOST)
        elif not self._connected.is_set():
            self._on_state(KazooState.CONNECTED)

    def fall_silent(self) -> None:
        """Send no sign of life until `reconnect`."""
        self._expires += 1
        number = self._expires

        def expire() -> None:
            if number == self._expires:
                self._world.election.expire(self)

        self._world.clock.after(SESSION_MS, expire)

    def close(self) -> None:
        """End the session, and with it the lease."""
        self._world.election.expire(self)
        self._ended.set()
        self._held_proof = None

    # --- the lead ---------------------------------------------------------------------------

    def on_first(self) -> None:
        """Note that no candidate is ahead of it."""
        if self.edge is None and not self.ended:
            self._led_since = self._world.clock.now / 1000
            self._prove_soon()

    def _prove_soon(self) -> None:
        if self._world.election.leader is self or self.edge is not None:
            self._asked_ms = self._world.clock.now
            asked_ms = self._asked_ms
            wait = self._world.rng.choice((1, 5, 40, 700))
            self._world.clock.after(wait, lambda: self._poll(asked_ms))

    def _poll(self, asked_ms: int) -> None:
        """Do one round of `_lead`, whose request was sent some time ago."""
        if asked_ms != self._asked_ms or self.ended or self.is_stopped:
            return
        stage = self._world.stage
        stage.behind_ms = self._world.clock.now - asked_ms
        hangs, goes_on = self._stands_still(self._led_since), self._prove(self.path)
        stage.behind_ms = 0
        if hangs:
            self._world.hit("a leader's main loop hangs: its session ends")
            self.close()
            return
        if not goes_on:
            self._end()
            return
        if self.edge is None and self._held_proof is not None:
            self.edge = self._on_win(self)
        self._world.clock.after(LEASE_MS // PROOFS_PER_LEASE, lambda: self._again(asked_ms))

    def _again(self, asked_ms: int) -> None:
        if asked_ms == self._asked_ms:
            self._prove_soon()

    def _answer(self, timeout: float) -> Any:
        assert timeout > 0
        self._world.stage.behind_ms = 0
        if self._cut_ms >= self._asked_ms:
            raise ConnectionLoss
        if self not in self._world.election.standing:
            return None
        return SimpleNamespace(czxid=self._node_czxid, ephemeralOwner=id(self))
