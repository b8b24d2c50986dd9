"""The status of figures is the worst that applies, with the stage to blame."""

from __future__ import annotations

import pytest

from controller_model.records.changes import SessionState
from controller_model.records.completeness import (
    CLOCKS_DISAGREE_MS,
    LATE_BEATS_MS,
    LATE_MS,
    ReaderProgress,
    Stage,
    Status,
    assess,
    behind_ms,
)
from controller_model.records.views import Capability
from tests.support.samples import FRESH, T0, cluster_view, log_view

LATE = LATE_BEATS_MS + 1
SUSPENDED = SessionState.SUSPENDED


def read(**fields: object) -> ReaderProgress:
    """Return the progress of a reader that receives everything at once, except for these fields."""
    return ReaderProgress(**{"read_ms": 0, "watcher_ms": 0} | fields)  # type: ignore[arg-type]  # a table of fields


@pytest.mark.parametrize(
    ("log", "progress", "expected"),
    [
        ({}, FRESH, (Status.LIVE, None, None)),
        ({"heartbeat_at": T0 + 9**9}, FRESH, (Status.LIVE, None, None)),
        ({"heartbeat_at": None, "last_change_at": None}, FRESH, (Status.LIVE, None, None)),
        ({"hidden": (Capability.REQUESTS,)}, FRESH, (Status.INCOMPLETE, None, Stage.WATCHER)),
        ({}, read(read_ms=None), (Status.BEHIND, None, Stage.EXPORTER)),
        ({}, read(read_ms=LATE_BEATS_MS), (Status.LIVE, None, None)),
        ({}, read(read_ms=LATE, fold_ms=LATE), (Status.BEHIND, T0 - LATE, Stage.EXPORTER)),
        ({}, read(watcher_ms=None), (Status.BEHIND, None, Stage.WATCHER)),
        ({}, read(watcher_ms=LATE), (Status.BEHIND, T0 - LATE, Stage.WATCHER)),
        ({}, read(watcher_ms=LATE, late_ms=LATE_MS), (Status.LIVE, None, None)),
        (
            {},
            read(watcher_ms=LATE_MS + 1, late_ms=LATE_MS, log_ahead_ms=LATE_MS + 1),
            (Status.BEHIND, T0 - LATE_MS - 1, Stage.FOLD),
        ),
        ({}, read(fold_ms=None), (Status.BEHIND, None, Stage.FOLD)),
        ({}, read(fold_ms=LATE, watcher_ms=LATE + 9), (Status.BEHIND, T0 - LATE - 9, Stage.FOLD)),
        ({}, read(fold_ms=LATE + 9, watcher_ms=LATE), (Status.BEHIND, T0 - LATE - 9, Stage.FOLD)),
        ({}, read(fold_ms=None, watcher_ms=LATE), (Status.BEHIND, None, Stage.FOLD)),
        ({}, read(watcher_ms=LATE, zookeeper_ms=None), (Status.BEHIND, None, Stage.WATCHER)),
        (
            {"incomplete_since": T0 - 9_999},
            read(watcher_ms=LATE),
            (Status.BEHIND, T0 - 9_999, Stage.WATCHER),
        ),
        (
            {"divergent_since": T0 - 1, "verified_at": T0 - 9_999},
            read(watcher_ms=LATE),
            (Status.BEHIND, T0 - 9_999, Stage.WATCHER),
        ),
        ({}, read(zookeeper_ms=LATE), (Status.BLIND, T0 - LATE, Stage.WATCHER)),
        ({}, read(zookeeper_ms=None), (Status.BLIND, None, Stage.WATCHER)),
        ({}, read(zookeeper_ms=9, session=SUSPENDED), (Status.BLIND, T0 - 9, Stage.WATCHER)),
        (
            {"session": SUSPENDED, "session_since": T0 - 8},
            read(zookeeper_ms=9),
            (Status.BLIND, T0 - 9, Stage.WATCHER),
        ),
        (
            {"session": SUSPENDED, "session_since": T0 - 9},
            read(zookeeper_ms=None),
            (Status.BLIND, T0 - 9, Stage.WATCHER),
        ),
        (
            {"session_since": T0 - 99},
            read(session=SUSPENDED, zookeeper_ms=9),
            (Status.BLIND, T0 - 9, Stage.WATCHER),
        ),
        (
            {"session": SUSPENDED, "session_since": T0 - 9, "divergent_since": T0},
            FRESH,
            (Status.BLIND, T0 - 9, Stage.WATCHER),
        ),
        (
            {"divergent_since": T0 - 2, "incomplete_since": T0 - 1},
            FRESH,
            (Status.DIVERGENT, T0 - 2, Stage.FOLD),
        ),
        ({"incomplete_since": T0 - 1}, FRESH, (Status.INCOMPLETE, T0 - 1, Stage.FOLD)),
        ({"verified_at": None}, FRESH, (Status.INCOMPLETE, T0, Stage.FOLD)),
        ({"session": None}, FRESH, (Status.LIVE, None, None)),
    ],
)
def test_the_status_names_the_worst_and_the_stage(
    log: dict[str, object],
    progress: ReaderProgress,
    expected: tuple[Status, int | None, Stage | None],
) -> None:
    """The stage nearest to the reader is blamed first; until the time the figures followed, whatever else is late."""
    found = assess(cluster_view(log=log_view(**log)), progress, T0)
    assert (found.status, found.since, found.stage) == expected
    assert found.up == (expected[0] not in {Status.BEHIND, Status.BLIND})


def test_a_cluster_with_an_unreadable_controller_znode_is_never_live() -> None:
    """The figures show its last good value; another unreadable znode is reported where it is read."""
    view = cluster_view(unreadable=("/controller",), unreadable_controller=True)
    found = assess(view, FRESH, T0)
    assert (found.status, found.stage, found.up) == (Status.INCOMPLETE, Stage.FOLD, True)
    assert assess(cluster_view(unreadable=("/cluster/id",)), FRESH, T0).status is Status.LIVE


@pytest.mark.parametrize(
    ("watcher_ms", "fold_ms", "blamed"),
    [
        (CLOCKS_DISAGREE_MS, -CLOCKS_DISAGREE_MS, None),
        (3_600_000, 0, Stage.WATCHER),
        (-9_000, 60_000, Stage.FOLD),
        (-3_600_000, -3_600_500, Stage.EXPORTER),
    ],
)
def test_clocks_that_disagree_have_their_own_status(
    watcher_ms: int, fold_ms: int, blamed: Stage | None
) -> None:
    """The figures follow all the same; the odd clock is named, with how far each is ahead."""
    skew = {Stage.WATCHER: watcher_ms, Stage.FOLD: fold_ms}
    found = assess(cluster_view(), read(clock_skew_ms=skew), T0)
    assert (found.status, found.stage) == (
        (Status.LIVE, None) if blamed is None else (Status.CLOCKS_DISAGREE, blamed)
    )
    assert found.up
    assert found.clock_skew_ms == {
        stage: ms for stage, ms in skew.items() if abs(ms) > CLOCKS_DISAGREE_MS
    }
    behind = assess(cluster_view(), read(clock_skew_ms=skew, watcher_ms=LATE), T0)
    assert behind.status is Status.BEHIND


def test_a_stage_without_a_sign_of_life_is_late_since_the_reader_began() -> None:
    """So that its alert fires; before the reader has read everything it is absent, not zero."""
    rest = {Stage.FOLD: 0, Stage.EXPORTER: 7}
    assert behind_ms(read(watcher_ms=None, read_ms=7)) == rest
    began = read(watcher_ms=None, read_ms=7, began_ms=90_000)
    assert behind_ms(began) == {Stage.WATCHER: 90_000, **rest}
