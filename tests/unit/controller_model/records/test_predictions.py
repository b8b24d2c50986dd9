"""The write timeout, and the controller's health by the writes that are due."""

from __future__ import annotations

import pytest

from controller_model.records.predictions import (
    ControllerHealth,
    WritesDue,
    controller_health,
    is_reassignment_due,
    write_timeout_ms,
)


def test_the_write_timeout_grows_by_a_millisecond_per_partition() -> None:
    """45 s for an empty cluster, 245 s for 200,000 partitions."""
    assert (write_timeout_ms(0), write_timeout_ms(1), write_timeout_ms(200_000)) == (
        45_000,
        45_001,
        245_000,
    )


@pytest.mark.parametrize(
    ("evidence", "expected"),
    [
        (
            {"known_since": None, "counts": {"new_leader": 1}, "owed_since": 0},
            ControllerHealth.UNKNOWN,
        ),
        ({"counts": {}}, ControllerHealth.NOT_NEEDED),
        ({"counts": {"new_leader": 1}}, ControllerHealth.WORKING),
        ({"counts": {"new_leader": 1}, "owed_since": 900}, ControllerHealth.WORKING),
        ({"counts": {"new_leader": 1}, "owed_since": 899}, ControllerHealth.GHOST),
        (
            {"counts": {"new_leader": 1}, "owed_since": 899, "last_write_at": 900},
            ControllerHealth.WORKING,
        ),
        (
            {"counts": {"new_leader": 1}, "owed_since": 899, "last_write_at": 899},
            ControllerHealth.GHOST,
        ),
        (
            {"counts": {"new_leader": 1}, "owed_since": 950, "last_write_at": 2},
            ControllerHealth.WORKING,
        ),
        (
            {"counts": {"x": 1}, "owed_since": 899, "last_write_at": 990, "oldest_at": 899},
            ControllerHealth.SLOW,
        ),
        (
            {"counts": {"x": 1}, "owed_since": 899, "last_write_at": 990, "oldest_at": 900},
            ControllerHealth.WORKING,
        ),
        (
            {"counts": {"x": 1}, "owed_since": 950, "last_write_at": 949, "oldest_at": 2},
            ControllerHealth.WORKING,
        ),
        (
            {"counts": {"x": 1}, "owed_since": 950, "last_write_at": 950, "oldest_at": 2},
            ControllerHealth.SLOW,
        ),
        ({"counts": {"x": 1}, "owed_since": 950, "last_write_at": 950}, ControllerHealth.WORKING),
        (
            {
                "counts": {"x": 1},
                "owed_since": 950,
                "last_write_at": 990,
                "oldest_at": 0,
                "known_since": 900,
            },
            ControllerHealth.WORKING,
        ),
    ],
)
def test_controller_health_follows_from_the_evidence(
    evidence: dict[str, object], expected: ControllerHealth
) -> None:
    """At the write timeout it is still working, a millisecond later it is not; a few writes make it slow."""
    facts = {"known_since": 1, "patience_ms": 100, **evidence}
    assert controller_health(WritesDue(**facts), 1_000) is expected  # type: ignore[arg-type]  # a table of fields


def test_a_reassignment_needs_a_target() -> None:
    """Nothing is due if every replica is to be removed, or if none moves."""
    halves = {"leader": 1, "isr": (1, 2), "live": {1, 2}, "leader_epoch": 1}
    assert not is_reassignment_due((1, 2), adding=(), removing=(1, 2), **halves)  # type: ignore[arg-type]  # three fields of a table
    assert not is_reassignment_due((1, 2), adding=(), removing=(), **halves)  # type: ignore[arg-type]  # three fields of a table
    assert is_reassignment_due((1, 2), adding=(2,), removing=(), **halves)  # type: ignore[arg-type]  # three fields of a table


def test_a_reassignment_under_the_first_leader_epoch_may_have_come_before_the_state() -> None:
    """Kafka does not look at it again until the state changes: it is not certain that anything is due."""
    ends = {"adding": (2,), "removing": (), "leader": 1, "isr": (1, 2), "live": {1, 2}}
    assert not is_reassignment_due((1, 2), leader_epoch=0, **ends)  # type: ignore[arg-type]  # fields of a table
    assert is_reassignment_due((1, 2), leader_epoch=1, **ends)  # type: ignore[arg-type]  # fields of a table
