"""ZooKeeper throttles its clients, in some seeds: requests are delayed, refused, or delayed for too long.

The rule: this module draws from its own random numbers, so that a seed without it stays the same. A
throttled answer is late or an error, and says nothing about any znode.
"""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

from tests.simulation.sockets import SESSION_MS
from tests.simulation.zookeeper import Server, Throttle

if TYPE_CHECKING:
    from tests.simulation.world import World

EVERY, AT = 20, (10, 18)
"""Two seeds out of so many; not the seeds that are pinned for a planted bug."""

ANSWER_TIMEOUT_MS = SESSION_MS * 2 // 3
"""After so long without a message a client closes its connection."""

_OFTEN = 0.03
"""The share of the cluster's acts at which throttling starts."""
_LAGS_MS = 12_000
_REFUSES_AT_MS = 700
_LASTS_MS = (2_000, 8_000, 20_000)
_WAITS_MS = ((20, 200), (300, 1_500), (1_000, 3_500), (ANSWER_TIMEOUT_MS, 2 * SESSION_MS))
"""Least and most time between two requests of a client: below its patience and above."""
_REFUSED_AFTER_MS = (10**9, 3_000, 500, 0)


def is_throttled(seed: int) -> bool:
    """Return whether ZooKeeper throttles its clients in a seed."""
    return seed % EVERY in AT


class Throttling:
    """Makes servers throttle, and ends it."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._rng = random.Random(f"{world.seed} throttles")  # noqa: S311  # a play, not a secret
        self._count = 0
        self._lasts = False
        self._lagging: Server | None = None

    def act(self) -> None:
        """Start to throttle now and then: on one server or on all, perhaps at a reconnection."""
        rng, world = self._rng, self._world
        if self._lasts or rng.random() >= _OFTEN:
            return
        edge, is_lagging = world.some_edge(), rng.random() < 0.5
        server = None if edge is None or edge.connection is None else edge.connection.server
        is_shown_live = self._world.exporter.is_shown_live
        if is_lagging and server is not None and not server.frozen and is_shown_live:
            self._lag(server)
            return
        self._begin(world.zk.servers if rng.random() < 0.6 else [rng.choice(world.zk.servers)])
        if edge is not None and rng.random() < 0.4:
            world.clock.after(rng.randint(0, 1_500), edge.cut)

    def _begin(self, servers: list[Server]) -> None:
        rng = self._rng
        throttle = Throttle(
            rng, rng.choice(_WAITS_MS), rng.choice(_REFUSED_AFTER_MS), ANSWER_TIMEOUT_MS
        )
        for server in servers:
            server.throttle = throttle
        self._world.hit("reads throttled")
        self._end_after(rng.choice(_LASTS_MS))

    def _lag(self, server: Server) -> None:
        """Make a server fall behind, and refuse all requests after it has sent its client all that it knows."""
        server.frozen = True
        self._lagging = server
        count = self._end_after(_LAGS_MS)

        def refuse() -> None:
            if count == self._count:
                server.throttle = Throttle(self._rng, _WAITS_MS[0], 0, ANSWER_TIMEOUT_MS)

        self._world.clock.after(_REFUSES_AT_MS, refuse)
        self._world.hit("reads throttled by a server that lags")

    def _end_after(self, ms: int) -> int:
        self._lasts = True
        self._count += 1
        count = self._count

        def end() -> None:
            if count == self._count:
                self._end()

        self._world.clock.after(ms, end)
        return count

    def _end(self) -> None:
        for server in self._world.zk.servers:
            server.throttle = None
        if self._lagging is not None:
            self._lagging.frozen = False
            if self._lagging.up and not self._lagging.cut_off:
                self._lagging.catch_up()
        self._lagging, self._lasts = None, False
        self._count += 1

    def rest(self) -> None:
        """Answer all further requests at once."""
        self._end()
