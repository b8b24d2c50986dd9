"""Ids: they sort as the log does, and names are valid wherever they are used."""

from __future__ import annotations

import pytest

from controller_model.kafka.errors import ModelError
from controller_model.kafka.ids import (
    NOWHERE,
    AsOf,
    PartitionAndReplica,
    Position,
    TopicPartition,
    check_cluster_name,
    partition_of,
)


def test_positions_and_views_are_ordered_as_the_log_is() -> None:
    """A later generation is after all of an earlier one; a newer lineage is after all of both."""
    assert NOWHERE < Position(1, 1) < Position(1, 2) < Position(2, 1)
    assert AsOf("1", 9, 9) < AsOf("2", 1, 1) < AsOf("2", 1, 2) < AsOf("2", 2, 1)


def test_a_replica_names_its_partition() -> None:
    """A replica on a broker is of one partition."""
    assert PartitionAndReplica("t", 3, 1).topic_partition == TopicPartition("t", 3)


@pytest.mark.parametrize("name", ["a", "prod-eu.1", "A_b", "0", "x" * 64])
def test_a_valid_cluster_name_is_accepted(name: str) -> None:
    """Letters, digits and three more characters."""
    assert check_cluster_name(name) == name


@pytest.mark.parametrize("name", ["", ".a", "-a", "_a", "a b", "a/b", "a\n", "\u00fc", "x" * 65])
def test_an_invalid_cluster_name_is_refused(name: str) -> None:
    """The message says what may be used."""
    with pytest.raises(ModelError, match="use 1 to 64 of letters"):
        check_cluster_name(name)


def test_a_cluster_is_always_in_the_same_partition() -> None:
    """Every release used these CRC-32 partitions: the topics' records are stored by them."""
    assert [partition_of(name, 7) for name in ("prod", "test", "a")] == [4, 6, 4]
    assert {partition_of(str(number), 3) for number in range(50)} == {0, 1, 2}
