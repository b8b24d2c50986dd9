"""Parses what Spark reports about its batches.

Every figure may be absent, since Spark's JSON changes between releases and an idle query
reports less than a busy one.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec
from pyspark.sql.streaming.query import StreamingQuery

from streaming.schemas import BATCH_COUNTS, COUNTS

STAGES = ("latestOffset", "queryPlanning", "walCommit", "addBatch", "commitOffsets")
"""The stages of a batch that take its time, by Spark's names, in order."""


@dataclass(frozen=True)
class BatchReport:
    """One batch."""

    batch: int
    took_ms: int
    stage_ms: dict[str, int] = field(default_factory=dict)
    messages: int = 0
    changes: int = 0
    unreadable: int = 0
    unattributed: int = 0
    errors: int = 0
    newest_ms: int | None = None
    """When the log received the newest of the batch's messages, in ms."""
    records: int = 0
    """Records written to views and events."""
    end_offset: int = 0
    """The offset up to which the log is folded, summed over its partitions."""
    state_commit_ms: int = 0


class ProgressReader:
    """Reads what a query reports about its batches, each once.

    The JVM renders a report as JSON on request, so only new reports are requested. pyspark's own
    property renders all of them: this saves 14 % of the processor time of batches that follow one
    another (`python -m bench patches --only progress`). Spark also reports a turn without anything
    to fold, some seconds apart, under the number of the next batch.
    """

    def __init__(self) -> None:
        self._newest: tuple[int, str] | None = None

    def read(self, query: StreamingQuery) -> list[BatchReport]:
        """Return the batches that have ended since the last call, in order."""
        recent: Any = query._jsq.recentProgress()  # noqa: SLF001  # see above
        fresh: list[str] = []
        newest = self._newest
        for index in reversed(range(len(recent))):
            progress = recent[index]
            place = progress.batchId(), progress.timestamp()
            if place == self._newest:
                break
            newest = newest if fresh else place
            fresh.append(progress.json())
        self._newest = newest
        found = (msgspec.json.decode(text) for text in reversed(fresh))
        return [read_progress(each) for each in found if "addBatch" in (each["durationMs"] or {})]


def read_progress(progress: Mapping[str, Any]) -> BatchReport:
    """Return the report of one progress object."""
    durations = progress.get("durationMs") or {}
    observed = (progress.get("observedMetrics") or {}).get(BATCH_COUNTS) or {}
    sources = progress.get("sources") or []
    operators = progress.get("stateOperators") or []
    newest = observed.get("newest_ms")
    ends = (sources[0].get("endOffset") if sources else None) or {}
    return BatchReport(
        batch=int(progress.get("batchId", 0)),
        took_ms=int(durations.get("triggerExecution", 0)),
        stage_ms={name: int(durations[name]) for name in STAGES if name in durations},
        messages=int(progress.get("numInputRows", 0)),
        **{count: int(observed.get(count) or 0) for count in COUNTS},
        newest_ms=None if newest is None else int(newest),
        records=max(0, int((progress.get("sink") or {}).get("numOutputRows", 0))),
        end_offset=sum(int(end) for topic in ends.values() for end in topic.values()),
        state_commit_ms=sum(int(operator.get("commitTimeMs", 0)) for operator in operators),
    )
