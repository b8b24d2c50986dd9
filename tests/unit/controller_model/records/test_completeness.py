"""The status of figures names the worst truth, and the stage to blame."""

from __future__ import annotations

import pytest

from controller_model.records.changes import SessionState
from controller_model.records.completeness import (
    LATE_MS,
    ReaderProgress,
    Stage,
    Status,
    assess,
    behind_ms,
)
from tests.support.samples import T0, cluster_view, log_view

FRESH = ReaderProgress(read_at=T0)


@pytest.mark.parametrize(
    ("log", "progress", "now", "expected"),
    [
        ({}, FRESH, T0, (Status.LIVE, None, None)),
        ({}, FRESH, T0 - 5_000, (Status.LIVE, None, None)),
        ({"denied": ("/admin",)}, FRESH, T0, (Status.INCOMPLETE, None, Stage.WATCHER)),
        ({}, ReaderProgress(read_at=None), T0, (Status.BEHIND, None, Stage.EXPORTER)),
        ({}, FRESH, T0 + LATE_MS, (Status.LIVE, None, None)),
        ({}, FRESH, T0 + LATE_MS + 1, (Status.BEHIND, T0, Stage.EXPORTER)),
        (
            {},
            ReaderProgress(read_at=T0 + 60_000),
            T0 + 60_000,
            (Status.BEHIND, T0, Stage.WATCHER),
        ),
        (
            {},
            ReaderProgress(read_at=T0 + 60_000, log_ahead_ms=LATE_MS + 1),
            T0 + 60_000,
            (Status.BEHIND, T0, Stage.FOLD),
        ),
        (
            {"heartbeat_at": None, "last_change_at": None},
            FRESH,
            T0,
            (Status.BEHIND, None, Stage.WATCHER),
        ),
        (
            {"session": SessionState.SUSPENDED, "session_since": T0 - 9, "divergent_since": T0},
            FRESH,
            T0,
            (Status.BLIND, T0 - 9, Stage.WATCHER),
        ),
        (
            {"divergent_since": T0 - 2, "incomplete_since": T0 - 1},
            FRESH,
            T0,
            (Status.DIVERGENT, T0 - 2, Stage.FOLD),
        ),
        ({"incomplete_since": T0 - 1}, FRESH, T0, (Status.INCOMPLETE, T0 - 1, Stage.FOLD)),
        ({"verified_at": None}, FRESH, T0, (Status.INCOMPLETE, T0, Stage.FOLD)),
        ({"session": None}, FRESH, T0, (Status.LIVE, None, None)),
    ],
)
def test_the_status_names_the_worst_and_the_stage(
    log: dict[str, object],
    progress: ReaderProgress,
    now: int,
    expected: tuple[Status, int | None, Stage | None],
) -> None:
    """The stage nearest to the reader is blamed first, and since when it is so is said."""
    found = assess(cluster_view(log=log_view(**log)), progress, now)
    assert (found.status, found.since, found.stage) == expected
    assert found.up == (expected[0] not in {Status.BEHIND, Status.BLIND})


def test_ages_are_never_negative_and_unknown_ones_absent() -> None:
    """A clock that is ahead makes an age of 0; a stage that was never heard of has no age."""
    view = cluster_view(log=log_view(heartbeat_at=None, last_change_at=None))
    assert behind_ms(view, ReaderProgress(read_at=None), T0 - 1000) == {Stage.FOLD: 0}
