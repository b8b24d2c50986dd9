"""A manifest of a bundle, and a log whose incident begins after its second resync."""

from __future__ import annotations

from typing import Any

from controller_model.kafka.ids import Position
from controller_model.records.changes import ZnodeChange
from kcm.history.bundle_file import VERSION, Manifest, Versions
from tests.support.histories import History, small_cluster


def manifest(**fields: Any) -> Manifest:
    """Return a manifest."""
    return Manifest(
        **{
            "v": VERSION,
            "cluster": "prod",
            "from_ms": 1,
            "to_ms": 2,
            "log_first": Position(1, 1),
            "log_last": Position(1, 2),
            "at_from": None,
            "changes": 2,
            "events": 0,
            "topics": ("a", "b"),
            "versions": Versions(kcm="0.1.0"),
            "made_at": 3,
            **fields,
        }
    )


def two_resyncs() -> tuple[History, ZnodeChange, ZnodeChange]:
    """Return a history, and the first and last record of its second resync."""
    history = small_cluster()
    history.heartbeat()
    history.resync()
    started = next(c for c in reversed(history.changes) if c.kind == "resync_started")
    finished = history.changes[-1]
    history.heartbeat()
    history.broker_gone(0)
    history.elect(1)
    return history, started, finished
