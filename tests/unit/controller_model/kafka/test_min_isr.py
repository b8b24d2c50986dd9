"""min.insync.replicas by Kafka's order of sources, and where it blocks every stop."""

from __future__ import annotations

import pytest

from controller_model.kafka.cluster_facts import min_isr_blocks, min_isr_of

BROKERS = {"1": 4, "2": 0, "<default>": 3}


@pytest.mark.parametrize(
    ("topic", "leader", "brokers", "expected"),
    [
        (2, 1, BROKERS, 2),
        (None, 1, BROKERS, 4),
        (0, 1, BROKERS, 4),
        (None, 2, BROKERS, 0),
        (None, 5, BROKERS, 3),
        (None, -1, BROKERS, 3),
        (None, None, BROKERS, 3),
        (None, 5, {"1": 4}, 7),
        (None, None, {}, 7),
    ],
)
def test_the_nearest_value_counts(
    topic: int | None, leader: int | None, brokers: dict[str, int], expected: int
) -> None:
    """The topic's value, else the leader's broker's, else the brokers' default, else the assumed one."""
    assert min_isr_of(topic, leader, brokers, 7) == expected


@pytest.mark.parametrize(
    ("factor", "least", "blocks"),
    [(0, 1, False), (1, 1, False), (1, 2, False), (2, 1, False), (2, 2, True), (2, 3, True)],
)
def test_no_stop_is_possible_from_the_replication_factor_on(
    factor: int, least: int, blocks: bool
) -> None:
    """A single replica is a different risk."""
    assert min_isr_blocks(factor, least) is blocks
