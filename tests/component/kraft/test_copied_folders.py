"""Folders copied from a running cluster, again and again: what is proven of a copy is in every node's log for ever."""

from __future__ import annotations

import shutil
from contextlib import suppress
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient

from controller_model.records.metadata_log import MetadataSlice
from kcm.servers.kafka import QUIET_LIBRDKAFKA, Node
from kcm.servers.kraft_cluster import KraftCluster
from kcm.servers.quorum import METADATA_FOLDER, Leader
from kcm.servers.supervisor import Supervisor
from kraft_source.folder import MetadataFolder
from kraft_source.proof import CommitProof
from kraft_source.slices import Made
from tests.support.release_jars import nodes_jars
from tests.support.releases import KAFKA_3_9
from tests.support.topic_changes import create_topic
from tests.support.waiting import SESSION_MS, wait_until

ROUNDS = 3
Values = dict[int, object]


def copied(node: Node, into: Path) -> tuple[CommitProof, Values]:
    """Copy a node's folder while it runs; return the proof, and what is in the copy by offset."""
    (into / METADATA_FOLDER).mkdir()
    shutil.copy(node.log_dir / "meta.properties", into)
    for path in sorted((node.log_dir / METADATA_FOLDER).iterdir()):
        with suppress(FileNotFoundError):  # Kafka replaces files meanwhile
            shutil.copy(path, into / METADATA_FOLDER)
    folder = MetadataFolder(into)
    proof = folder.prove()
    return proof, {
        batch.offset_of(number): (each.epoch, record)
        for read in folder.records("c", proof)
        if isinstance(read, Made) and isinstance(each := read.record, MetadataSlice)
        for batch in each.batches
        for number, record in enumerate(batch.records)
    }


def await_proof(follower: Node) -> None:
    """Wait until all of a follower's log is proven; one that was started a moment ago may not have followed yet."""
    folder = follower.log_dir / METADATA_FOLDER
    wait_until(lambda: MetadataFolder(folder).prove(), lambda proof: proof.end == proof.log_end)


def next_leader(cluster: KraftCluster, last: Leader) -> Leader:
    """Wait for a leader of a larger epoch."""
    return cluster.await_leader(lambda leader: leader.epoch > last.epoch)


@pytest.mark.full
def test_what_is_proven_of_any_copy_is_in_the_log_of_every_node_at_the_end(
    supervisor: Supervisor, tmp_path: Path
) -> None:
    """Copies of leaders, followers and a broker, before and after leaders are killed; of followers all is proven."""
    cluster = KraftCluster(
        supervisor,
        nodes_jars(KAFKA_3_9),
        tmp_path / "cluster",
        brokers=(1,),
        session_timeout_ms=SESSION_MS,
        name="copied",
        properties={"metadata.log.max.record.bytes.between.snapshots": 20_000},
    )
    leader = cluster.start()
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers, **QUIET_LIBRDKAFKA})
    copies: dict[str, tuple[CommitProof, Values]] = {}

    def copy_all(when: str) -> None:
        for node in cluster.nodes:
            into = tmp_path / "copies" / f"{when}-{node.name}"
            into.mkdir(parents=True)
            copies[f"{when} {node.name}"] = copied(node, into)

    for number in range(ROUNDS):
        create_topic(admin, f"t{number}", 5)
        copy_all(f"{number} led by {leader.id}")
        led = cluster.controllers[leader.id]
        followers = [node for node in cluster.controllers.values() if node is not led]
        for node in followers:
            await_proof(node)
        led.kill()
        leader = next_leader(cluster, leader)
        copy_all(f"{number} then led by {leader.id}")
        led.start()
    create_topic(admin, "last")
    leader = cluster.await_leader()  # it has all that was ever committed
    cluster.kill()
    _, final = copied(cluster.controllers[leader.id], _new(tmp_path / "final"))
    for name, (proof, values) in copies.items():
        proven = {offset: value for offset, value in values.items() if offset < proof.end}
        assert proof.end > 0, name
        assert proven.items() <= final.items(), name


def _new(folder: Path) -> Path:
    folder.mkdir()
    return folder
