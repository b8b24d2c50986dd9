"""Each kind of metadata record is urgent or may wait; a slice is urgent if anything in it is."""

from __future__ import annotations

from typing import Any, get_args

import pytest

from controller_model.kafka.metadata_records import (
    BrokerRegistrationChange,
    ClearElr,
    Config,
    FeatureLevel,
    FenceBroker,
    KRaftVersion,
    LeaderChange,
    MetadataRecord,
    Partition,
    PartitionChange,
    RegisterBroker,
    RegisterController,
    RemoveTopic,
    Topic,
    UnfenceBroker,
    UnregisterBroker,
    UnregisterController,
    Voters,
    ZkMigrationState,
)
from controller_model.records.metadata_log import (
    AnyMetadataRecord,
    MetadataBatch,
    MetadataHeartbeat,
    MetadataReconciled,
    MetadataSlice,
    SnapshotFinished,
    SnapshotPart,
    SnapshotStarted,
)
from kraft_source.service.urgency import may_wait

ID = "A" * 22

AT_ONCE: list[MetadataRecord] = [
    LeaderChange(1, 2),
    RegisterBroker(1, 1, ID),
    UnregisterBroker(1, 1),
    FenceBroker(1, 1),
    UnfenceBroker(1, 1),
    BrokerRegistrationChange(1, 1, fenced=True),
    Partition(0, ID, (1,), (1,), 1, 0, 0),
    RemoveTopic(ID),
    PartitionChange(0, ID, leader=2),
    PartitionChange(0, ID, isr=(1,), leader=-1),
    PartitionChange(0, ID, leader=0),
]
MAY_WAIT: list[MetadataRecord] = [
    PartitionChange(0, ID, isr=(1,)),
    PartitionChange(0, ID, replicas=(1, 2), adding_replicas=(2,)),
    Topic("t", ID),
    Config(2, "t", "min.insync.replicas", "2"),
    ClearElr("t"),
    FeatureLevel("metadata.version", 20),
    KRaftVersion(1),
    Voters(()),
    RegisterController(1, ID),
    UnregisterController(1),
    ZkMigrationState(0),
]
"""Written out by hand: a new kind of record needs a decision."""

FIELDS: dict[str, Any] = {
    "v": 1,
    "cluster": "prod",
    "generation": 1,
    "watcher": "w",
    "observed_at": 1,
    "cluster_id": None,
}


def sliced(*batches: tuple[MetadataRecord, ...]) -> MetadataSlice:
    """Return a slice of such batches."""
    return MetadataSlice(
        **FIELDS,
        first=0,
        last=9,
        after_epoch=1,
        epoch=1,
        batches=tuple(MetadataBatch(0, 1, each) for each in batches),
    )


def test_every_kind_of_record_is_decided_on() -> None:
    """A partition's change is in both tables."""
    of_tables = [{type(each) for each in table} for table in (AT_ONCE, MAY_WAIT)]
    assert of_tables[0] | of_tables[1] == set(get_args(MetadataRecord))
    assert of_tables[0] & of_tables[1] == {PartitionChange}


@pytest.mark.parametrize("record", AT_ONCE)
def test_what_is_urgent_never_waits(record: MetadataRecord) -> None:
    """Nor does a slice that holds it in any place."""
    waits = tuple(MAY_WAIT)
    assert not may_wait(sliced((record,)))
    assert not may_wait(sliced(waits, (*waits, record, *waits), waits))


@pytest.mark.parametrize("record", MAY_WAIT)
def test_what_is_not_urgent_may_wait(record: MetadataRecord) -> None:
    """Alone or with others of its kind."""
    assert may_wait(sliced((record,)))
    assert may_wait(sliced((record, *MAY_WAIT), tuple(MAY_WAIT)))


def test_a_slice_without_records_may_wait() -> None:
    """It only says that there were no-ops."""
    assert may_wait(sliced())


PLACE: dict[str, Any] = {**FIELDS, "end": 1, "epoch": 1}


@pytest.mark.parametrize(
    "record",
    [
        MetadataHeartbeat(**FIELDS, end=1, sent_at=1),
        MetadataReconciled(**PLACE, topics=0, partitions=0, brokers=0, digest=""),
        SnapshotStarted(**PLACE),
        SnapshotPart(**PLACE, number=1, records=()),
        SnapshotFinished(**PLACE, parts=1),
    ],
)
def test_what_readers_judge_the_log_by_is_urgent(record: AnyMetadataRecord) -> None:
    """Heartbeats, reconciliations and snapshots."""
    assert not may_wait(record)
