"""Which writes a controller's watches see, and as which event."""

from __future__ import annotations

import pytest

from controller_model.kafka.ids import TopicPartition
from controller_simulator.cluster.events import (
    ControllerEvent,
    ControllerSignal,
    PartitionModifications,
    StateChange,
    event_of,
)
from controller_simulator.zookeeper.transactions import Changed, Committed, Created, Removed

STATE = "/brokers/topics/t/partitions/3/state"


@pytest.mark.parametrize(
    ("write", "event"),
    [
        (Created("/brokers/ids/1"), ControllerSignal.BROKER_CHANGE),
        (Removed("/brokers/ids/1"), ControllerSignal.BROKER_CHANGE),
        (Created("/brokers/topics/t"), ControllerSignal.TOPIC_CHANGE),
        (Removed("/brokers/topics/t"), ControllerSignal.TOPIC_CHANGE),
        (Changed("/brokers/topics/t"), PartitionModifications("t")),
        (Created("/admin/delete_topics/t"), ControllerSignal.TOPIC_DELETION),
        (Created("/isr_change_notification/n"), ControllerSignal.ISR_CHANGE_NOTIFICATION),
        (Created("/log_dir_event_notification/n"), ControllerSignal.LOG_DIR_EVENT),
        (Created("/admin/reassign_partitions"), ControllerSignal.ZK_REASSIGNMENT),
        (Created("/admin/preferred_replica_election"), ControllerSignal.ZK_PREFERRED_ELECTION),
        (Changed(STATE), StateChange(TopicPartition("t", 3))),
    ],
)
def test_watches_make_events_of_writes(write: Committed, event: ControllerEvent) -> None:
    """Each write that a watch is set for is one event in the controller's queue."""
    assert event_of(write) == event


@pytest.mark.parametrize(
    "write",
    [
        Created(STATE),
        Removed(STATE),
        Changed("/brokers/ids/1"),
        Changed("/admin/reassign_partitions"),
        Removed("/admin/preferred_replica_election"),
        Created("/brokers/topics/t/partitions"),
        Changed("/config/topics/state"),
    ],
)
def test_unwatched_writes_make_no_event(write: Committed) -> None:
    """The deletion of a request, the creation of a state, and writes that no controller watches."""
    assert event_of(write) is None
