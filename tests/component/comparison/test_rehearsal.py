"""A real cluster is stopped, killed and reassigned, and does what was rehearsed, partition by partition."""

from __future__ import annotations

from pathlib import Path

import pytest

from controller_model.kafka.ids import TopicPartition
from controller_simulator.cluster.operations import (
    DeleteController,
    DeleteTopic,
    ElectPreferred,
    KillBroker,
    Reassign,
    StartBroker,
    StopBroker,
)
from kcm.servers.jars import Jars
from kcm.servers.supervisor import Supervisor
from tests.component.comparison.scripts import Play
from tests.support.rehearsed_histories import compare
from tests.support.scripted_operations import CreateTopic

SCRIPT = (
    StartBroker(0),
    StartBroker(1),
    StartBroker(2),
    CreateTopic(
        "a",
        ((0, 1, 2), (1, 2, 0), (2, 0, 1), (0, 2, 1), (1, 0, 2), (2, 1, 0)),
        {"min.insync.replicas": "2"},
    ),
    CreateTopic("lone", ((1,), (2,))),
    CreateTopic("gone", ((0, 1), (1, 2))),
    StopBroker(1),
    StartBroker(1),
    ElectPreferred(),
    KillBroker(0),
    StartBroker(0),
    Reassign(((TopicPartition("a", 0), (1, 2)), (TopicPartition("lone", 0), (0, 2)))),
    DeleteController(),
    KillBroker(2),
    StartBroker(2),
    DeleteTopic("gone"),
)


@pytest.mark.full
@pytest.mark.timeout(600)
def test_a_real_cluster_does_what_was_rehearsed(
    supervisor: Supervisor, jars: Jars, tmp_path: Path
) -> None:
    """Stops, kills of the controller and of others, restarts, moves, elections and a deletion."""
    found = compare(Play("rehearsed", SCRIPT).record(supervisor, jars, tmp_path))
    summary = f"{len(found.operations)} operations, {found.partitions} partitions, {found.changed} changed"
    print(summary)  # noqa: T201 - the share is to be seen with -s
    assert found.differences == []
    assert len(found.operations) >= 10
    assert found.changed > 20
