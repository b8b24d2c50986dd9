"""Requests of `kcm elect` in the log, in some seeds: valid, repeated and hostile ones.

The rule: this module draws from its own random numbers, so that a seed without it stays the same.
What is written here may change to whom an election is attributed, and nothing else: all other
invariants hold as they are.
"""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

from controller_model.kafka.ids import TopicPartition
from controller_model.records.election_requests import (
    ElectionOrigin,
    ElectionRequest,
    encode_request,
)
from controller_model.records.events import AnyEvent, LeadersElected
from tests.support.hostile import spoiled

if TYPE_CHECKING:
    from tests.simulation.world import World

EVERY = 15
"""One seed out of so many; not the seeds that are pinned for a planted bug."""

OFTEN = 0.15
"""The share of the cluster's acts that a request precedes."""

STRANGER = "stranger"
"""The name of a cluster without a watcher."""

_HARM_BYTES = 100_000


def is_asked(seed: int) -> bool:
    """Return whether a seed has requests for elections."""
    return seed % EVERY == EVERY - 1


class Asking:
    """Writes requests into the log."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._rng = random.Random(f"asking {world.seed}")  # noqa: S311  # a play, not a secret
        self._asked: set[TopicPartition] = set()

    def act(self) -> None:
        """Write a request, or nothing; then these elections follow, or others as well, or none.

        Partitions with odd numbers are never requested, so their elections have another origin.
        """
        rng, world = self._rng, self._world
        if rng.random() >= OFTEN:
            return
        states = world.kafka._states()
        mine = [each for each in states if each[1] % 2 == 0]
        partitions = rng.sample(mine, min(len(mine), rng.randint(0, 4)))
        message = encode_request(self._request("prod", partitions))
        harm = rng.choice(("none", "none", "none", "again", "elsewhere", "stranger", "hostile"))
        if harm == "elsewhere":
            message = encode_request(self._request("other", partitions))
        elif harm == "stranger":
            self._append(STRANGER, encode_request(self._request(STRANGER, partitions)))
            return
        elif harm == "hostile":
            bad = [each for each in spoiled(message[1:-1]).values() if len(each) < _HARM_BYTES]
            message = b"[" + rng.choice(bad) + b"]"
        self._asked.update(TopicPartition(*each) for each in partitions)
        self._append("prod", message)
        if harm == "again":
            wait = rng.choice((0, 20, 500, 40_000))
            world.clock.after(wait, lambda: self._append("prod", message))
        for topic, partition in rng.choice((partitions, states, ())):
            world.kafka.elect_preferred(topic, partition)

    def _request(self, cluster: str, partitions: list[tuple[str, int]]) -> ElectionRequest:
        rng = self._rng
        return ElectionRequest(
            v=1,
            cluster=cluster,
            kind="election_requested",
            partitions=(*partitions, ("nowhere", rng.randint(0, 2**31 - 1))),
            requested_at=rng.choice((0, self._world.clock.now, 2**62)),
            holds_ms=rng.choice((0, 2_000, 60_000, 2**62)),
        )

    def _append(self, cluster: str, message: bytes) -> None:
        self._world.hit(f"elections were requested ({cluster})")
        self._world.log.append(self._world.clock.now, cluster.encode(), message)

    def complaint(self, event: AnyEvent) -> str | None:
        """Return what is wrong with an event; None when nothing is."""
        if not isinstance(event, LeadersElected) or event.by is not ElectionOrigin.KCM:
            return None
        self._world.hit("an election was attributed to kcm elect")
        wrong = [each for each in event.partitions if each not in self._asked]
        return f"nobody asked for {wrong[0]}" if wrong else None
