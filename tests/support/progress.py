"""A batch's progress, as Spark writes it."""

from __future__ import annotations

from typing import Any

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
        "fold": {
            "changes": 5,
            "unreadable": 1,
            "unattributed": 0,
            "errors": 0,
            "newest_ms": 60_000,
        }
    },
}
