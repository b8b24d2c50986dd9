"""The write timeout, and the controller's health by the pending writes."""

from __future__ import annotations

import pytest

from controller_model.records.pending_writes import (
    ControllerHealth,
    PendingWrites,
    controller_health,
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
            {"known_since": None, "counts": {"new_leader": 1}, "pending_since": 0},
            ControllerHealth.UNKNOWN,
        ),
        ({"counts": {}}, ControllerHealth.NOT_NEEDED),
        ({"counts": {"new_leader": 1}}, ControllerHealth.WORKING),
        ({"counts": {"new_leader": 1}, "pending_since": 900}, ControllerHealth.WORKING),
        ({"counts": {"new_leader": 1}, "pending_since": 899}, ControllerHealth.ZOMBIE),
        (
            {"counts": {"new_leader": 1}, "pending_since": 899, "last_write_at": 900},
            ControllerHealth.WORKING,
        ),
        (
            {"counts": {"new_leader": 1}, "pending_since": 899, "last_write_at": 899},
            ControllerHealth.ZOMBIE,
        ),
        (
            {"counts": {"new_leader": 1}, "pending_since": 950, "last_write_at": 2},
            ControllerHealth.WORKING,
        ),
        (
            {"counts": {"x": 1}, "pending_since": 899, "last_write_at": 990, "oldest_at": 899},
            ControllerHealth.SLOW,
        ),
        (
            {"counts": {"x": 1}, "pending_since": 899, "last_write_at": 990, "oldest_at": 900},
            ControllerHealth.WORKING,
        ),
        (
            {"counts": {"x": 1}, "pending_since": 950, "last_write_at": 949, "oldest_at": 2},
            ControllerHealth.WORKING,
        ),
        (
            {"counts": {"x": 1}, "pending_since": 950, "last_write_at": 950, "oldest_at": 2},
            ControllerHealth.SLOW,
        ),
        (
            {"counts": {"x": 1}, "pending_since": 950, "last_write_at": 950},
            ControllerHealth.WORKING,
        ),
        (
            {
                "counts": {"x": 1},
                "pending_since": 950,
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
    facts = {"known_since": 1, "write_timeout_ms": 100, **evidence}
    assert controller_health(PendingWrites(**facts), 1_000) is expected  # type: ignore[arg-type]  # a table of fields
