"""The pipeline's Kafka starts, in some seeds: for a moment it does not know its topics.

The rule: this module draws from its own random numbers, so that a seed without it stays the same. A
broker that has just started reports every topic as missing until it has read the metadata. That is
no deletion: no watcher starts over, no query ends and no lineage begins because of it.
"""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

from pipeline.kafka_errors import MISSING_S

if TYPE_CHECKING:
    from tests.simulation.world import World

EVERY, AT = 37, (29, 34)
"""Two seeds out of so many; not the seeds that are pinned for a planted bug of another kind."""

SERVICED_EVERY, SERVICED_AT = 96, (57, 78)
"""The same of the seeds whose fold its service runs."""

_OFTEN = 0.05
"""The share of the cluster's acts at which it starts."""
_IGNORANT_MS = (50, 1_000, 4_000, int(MISSING_S * 1000) - 2_000)
_APART_MS = 60_000
"""Between two starts: a process that was stopped in between has asked again."""


def has_starts(seed: int) -> bool:
    """Return whether the pipeline's Kafka starts in a seed."""
    return seed % EVERY in AT or seed % SERVICED_EVERY in SERVICED_AT


class KafkaStarts:
    """Lets the pipeline's Kafka forget its topics, and know them again."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._rng = random.Random(f"{world.seed} starts Kafka")  # noqa: S311  # a play, not a secret
        self._until = 0
        self._next = 0

    @property
    def is_ignorant(self) -> bool:
        """Whether Kafka does not know its topics now."""
        return self._world.clock.now < self._until

    def act(self) -> None:
        """Start it now and then."""
        world = self._world
        if world.clock.now < self._next or self._rng.random() >= _OFTEN:
            return
        self._until = world.clock.now + self._rng.choice(_IGNORANT_MS)
        self._next = self._until + _APART_MS
        world.hit("Kafka does not know its topics")
        for edge in world.edges:
            if edge.alive and not edge.paused:
                edge.hear_of_missing_topics()
        world.clock.at(self._until + 1, self.rest)

    def rest(self) -> None:
        """Let it know its topics again."""
        if not self._until:
            return
        self._until = 0
        for edge in self._world.edges:
            edge.send_what_waits()
            edge.plan_reading_back()
        self._world.exporter.plan()
