"""Imitated brokers on a real controller: what they cause stands in its log."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from controller_model.kafka.metadata_records import (
    BrokerRegistrationChange,
    MetadataRecord,
    Partition,
    PartitionChange,
)
from controller_model.records.metadata_log import MetadataSlice
from kcm.servers.kraft_cluster import KraftCluster
from kcm.servers.quorum import METADATA_FOLDER
from kcm.servers.supervisor import Supervisor
from kraft_source.folder import MetadataFolder
from kraft_source.slices import Made
from tests.support.imitated_brokers import ImitatedBrokers
from tests.support.release_jars import nodes_jars
from tests.support.releases import KAFKA_3_9, KAFKA_4_4, Release
from tests.support.waiting import wait_until


def records_of(cluster: KraftCluster) -> Iterator[MetadataRecord]:
    """Yield the records that the only controller has written so far."""
    (controller,) = cluster.controllers.values()
    folder = MetadataFolder(controller.log_dir / METADATA_FOLDER)
    for each in folder.records("c", folder.prove()):
        if isinstance(each, Made) and isinstance(each.record, MetadataSlice):
            for batch in each.record.batches:
                yield from batch.records


@pytest.mark.parametrize(
    "release",
    [pytest.param(KAFKA_3_9, marks=pytest.mark.full), KAFKA_4_4],
    ids=lambda each: each.name,
)
def test_changes_of_brokers_that_are_imitated_stand_in_the_controllers_log(
    supervisor: Supervisor, tmp_path: Path, release: Release
) -> None:
    """A topic of 600 partitions, 200 shrunk ISRs, and a broker without heartbeats that is fenced."""
    cluster = KraftCluster(
        supervisor,
        nodes_jars(release),
        tmp_path,
        controllers=(3001,),
        brokers=(),
        session_timeout_ms=9_000,  # one thread sends the heartbeats of all three, of whom one is fenced
        name=f"imitated-{release.name}",
    )
    cluster.start()
    with ImitatedBrokers(cluster, release) as imitated:
        for broker in (1, 2, 3):
            imitated.register(broker)
        wait_until(lambda: _unfenced(cluster), lambda seen: seen == {1, 2, 3})
        partitions = imitated.create_topic("t", [(1, 2, 3)] * 600)
        assert imitated.alter_isr(partitions[:200], [1, 2]) == 200
        imitated.brokers[3].is_alive = False
        wait_until(lambda: _unfenced(cluster), lambda seen: seen == {1, 2})
        found = list(records_of(cluster))
    assert sum(isinstance(each, Partition) for each in found) == 600
    shrunk = [each for each in found if isinstance(each, PartitionChange) and each.isr == (1, 2)]
    assert len(shrunk) == 600  # 200 by their leader, 400 when the broker was fenced
    cluster.kill()


def _unfenced(cluster: KraftCluster) -> set[int]:
    unfenced: set[int] = set()
    for each in records_of(cluster):
        if isinstance(each, BrokerRegistrationChange) and each.fenced is not None:
            (unfenced.discard if each.fenced else unfenced.add)(each.broker_id)
    return unfenced
