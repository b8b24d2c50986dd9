"""A batch's progress in Spark's format."""

from __future__ import annotations

from typing import Any

import msgspec


class Progress:
    """A batch's progress as in Spark's JVM; it counts how often it was rendered."""

    def __init__(self, progress: dict[str, Any], at: str = "") -> None:
        self.rendered = 0
        self._progress = progress
        self._at = at

    def batchId(self) -> int:  # noqa: N802  # Spark's name
        """Return the batch's number."""
        return int(self._progress["batchId"])

    def timestamp(self) -> str:
        """Return when the batch began."""
        return self._at

    def json(self) -> str:
        """Render it."""
        self.rendered += 1
        return msgspec.json.encode(self._progress).decode()


PROGRESS: dict[str, Any] = {
    "batchId": 7,
    "numInputRows": 3,
    "durationMs": {
        "addBatch": 195,
        "commitOffsets": 39,
        "getBatch": 0,
        "latestOffset": 7,
        "queryPlanning": 30,
        "triggerExecution": 317,
        "walCommit": 46,
    },
    "stateOperators": [{"commitTimeMs": 37}],
    "sources": [{"endOffset": {"kcm.changes": {"0": 100, "1": 20}}}],
    "sink": {"numOutputRows": 2},
    "observedMetrics": {
        "fold": {"changes": 5, "unreadable": 1, "unattributed": 0, "errors": 0, "newest_ms": 60_000}
    },
}
