"""Measure Python's cost of a batch by the number of brokers: one heartbeat, one change, and a storm's batch.

The fold's own processor runs in one worker, over a state in memory. The transfer to the JVM and
back is not in the times, only in the bytes that are written.
"""

from __future__ import annotations

import random
import statistics
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple, cast

from pyspark.sql.streaming.stateful_processor import TimerValues

from bench import machine
from bench.figures import judged
from bench.load import LogLoad, messages
from bench.map_state import MemoryHandle
from controller_model.records.changes import ZnodeChange
from controller_model.state.control_plane import Assumed
from streaming.fixed_costs import relax_gc
from streaming.processor import FoldParameters, FoldProcessor

SUMMARY = "a batch by the number of brokers: milliseconds of Python, bytes of state and views"

BROKERS = (10, 30, 100, 300)
TOPICS = 2_000
PARTITIONS = 100
"""Partitions of each topic."""
ROUNDS = 31
STORM = 2_000
"""Changes in a batch of a storm."""


class _Row(NamedTuple):
    partition: int
    offset: int
    timestamp_ms: int
    value: bytes


class Line:
    """A cluster's log and the worker that folds it."""

    def __init__(self, brokers: int) -> None:
        self.load = LogLoad("bench", topics=TOPICS, partitions=PARTITIONS, brokers=brokers)
        self._handle = MemoryHandle()
        self._parameters = FoldParameters(f"{brokers}", "views", "events", 1, Assumed())
        self._offset = 0
        self._now_ms = 0

    def fold(self, changes: Iterable[ZnodeChange]) -> tuple[float, int, int]:
        """Fold one batch; return its processor seconds, and the bytes of state and of views written."""
        rows = list(self._rows(iter(changes)))
        before = self._handle.state.written_bytes
        views = 0
        began = time.process_time()
        processor = FoldProcessor(self._parameters)
        processor.init(self._handle)
        for row in processor.handleInputRows(("bench",), iter(rows), cast("TimerValues", None)):
            views += len(row.value or b"")
        return time.process_time() - began, self._handle.state.written_bytes - before, views

    def heartbeat(self) -> list[ZnodeChange]:
        """Return a heartbeat."""
        self._now_ms += 10_000_000
        return [self.load.heartbeat(self._now_ms)]

    def _rows(self, changes: Iterator[ZnodeChange]) -> Iterator[_Row]:
        for message in messages(changes):
            yield _Row(0, self._offset, 0, message)
            self._offset += 1


def measure() -> dict[str, Any]:
    """Fold a resync of 200,000 partitions for each number of brokers, then the batches."""
    relax_gc()
    by_brokers = {str(brokers): _measure(brokers) for brokers in BROKERS}
    one = by_brokers[str(BROKERS[-1])]["one change"]["ms"]
    return {
        "scenario": "brokers",
        "partitions": TOPICS * PARTITIONS,
        "brokers": by_brokers,
        "figures": judged(brokers_300=one),
        "machine": machine.describe(),
    }


def _measure(brokers: int) -> dict[str, Any]:
    line = Line(brokers)
    line.fold(line.load.resync())
    kinds: dict[str, Callable[[], list[ZnodeChange]]] = {
        "heartbeat": line.heartbeat,
        "one change": lambda: list(line.load.changes(1)),
        "storm": lambda: list(line.load.changes(STORM)),
    }
    found: dict[str, list[tuple[float, int, int]]] = {name: [] for name in kinds}
    names = list(kinds) * ROUNDS
    random.Random(1).shuffle(names)  # noqa: S311  # a load, no secret
    for name in names:
        found[name].append(line.fold(kinds[name]()))
    return {name: _summary(batches) for name, batches in found.items()}


def _summary(batches: list[tuple[float, int, int]]) -> dict[str, Any]:
    seconds, state, views = (statistics.median(column) for column in zip(*batches, strict=True))
    return {"ms": round(1000 * seconds, 2), "state_bytes": round(state), "view_bytes": round(views)}
