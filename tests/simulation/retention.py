"""Retention by time, in some seeds: records of log and events vanish at the front, whoever has read them.

The rule: this module draws from its own random numbers, so that a seed without it stays the same.
Kafka deletes a segment when its newest record is older than `retention.ms`, also the last one. The
views are compacted and have none (`pipeline.topics`).
"""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.simulation.topic import Topic
    from tests.simulation.world import World

EVERY, AT, FROM = 17, (7, 13), 100
"""Two seeds out of so many, from the last one on; not the seeds that are pinned for a planted bug of another kind."""

_KEPT_MS = (2_000, 6_000, 15_000)
_SEGMENT_RECORDS = (1, 3, 20)
_CHECKED_MS = (500, 3_000)
_LAGS = 0.01
"""The share of the cluster's acts at which a reader begins to be behind for longer than records are kept."""

AT_REST_KEPT_MS = 30_000
"""Once all faults have ended, the log holds the last proof: one follows within 20 s."""


def has_retention(seed: int) -> bool:
    """Return whether records expire in a seed."""
    return seed >= FROM and seed % EVERY in AT


class Retention:
    """Deletes old segments of log and events, and lets readers be behind."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._rng = random.Random(f"{world.seed} retention")  # noqa: S311  # a play, not a secret
        self._kept_ms = self._rng.choice(_KEPT_MS)
        self._segment = self._rng.choice(_SEGMENT_RECORDS)
        self._least_ms = 0
        self._check()

    def act(self) -> None:
        """Stall the fold, or cut the exporter off, until what it has not read has expired."""
        rng, world = self._rng, self._world
        if self._least_ms or rng.random() >= _LAGS:
            return
        until = world.clock.now + self._kept_ms + rng.randint(1_000, 6_000)
        if rng.random() < 0.5:
            world.fold.stalled_until = max(world.fold.stalled_until, until)
            world.hit("the fold is behind for longer than the log is kept")
        else:
            world.exporter.cut_off_until = max(world.exporter.cut_off_until, until)
            world.clock.at(until, world.exporter.plan)
            world.hit("the exporter is behind for longer than events are kept")

    def rest(self) -> None:
        """Keep records for long enough to see what the parts do at rest."""
        self._least_ms = AT_REST_KEPT_MS

    def go_on(self) -> None:
        """Continue after a rest."""
        self._least_ms = 0

    def _check(self) -> None:
        world = self._world
        for topic in (world.log, world.events):
            for partition in (topic, topic.beside):
                if partition is not None and self._delete_segments(partition):
                    world.hit("records of a topic expired")
        world.clock.after(self._rng.randint(*_CHECKED_MS), self._check)

    def _delete_segments(self, topic: Topic) -> int:
        """Delete the segments at the front whose newest record has expired; return how many records they had."""
        oldest = self._world.clock.now - max(self._kept_ms, self._least_ms)
        end = topic.start
        while segment := topic.read(end, self._segment):
            if max(each.timestamp for each in segment) >= oldest:
                break
            end = segment[-1].offset + 1
        return topic.lose(0, end) if end > topic.start else 0
