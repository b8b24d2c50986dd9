"""Payloads, compared byte for byte with what the classes of Kafka 3.9.1 printed (ZnodeOracle.java)."""

from __future__ import annotations

from pathlib import Path

import pytest

from controller_model.kafka.elections import LeaderAndIsr
from controller_model.kafka.ids import TopicPartition
from controller_model.kafka.replica_assignment import ReplicaAssignment
from controller_model.sources.zookeeper.znode_kinds import ZnodeKind
from controller_simulator.zookeeper import payload_writers as write
from tests.support.payloads import (
    DECODERS,
    encode_broker,
    encode_config_change,
    encode_feature,
    encode_log_dir_event,
    encode_migration,
)

ORACLE = Path(__file__).with_name("kafka_3_9_payloads.tsv")
PRINTED = dict(line.split("\t", 1) for line in ORACLE.read_text("utf-8").splitlines())
ENDPOINTS = [("PLAINTEXT", "PLAINTEXT", "h", 9092), ("CLIENT", "SSL", "i", 9093)]
TOPIC_ID = "RgP6b1NBT1-Zq5bEXzBgKg"
KEYS = (
    "min.insync.replicas", "unclean.leader.election.enable", "retention.ms", "cleanup.policy",
    "segment.bytes", "max.message.bytes", "compression.type", "a", "b", "c", "d", "e", "f", "g",
)  # fmt: skip
TWO = [TopicPartition("t", 0), TopicPartition("u", 12)]


def _topic(partitions: int) -> bytes:
    return write.encode_topic(
        {
            p: ReplicaAssignment(
                (p % 3, 1),
                adding=(5,) if p % 2 == 0 else (),
                removing=(6, 7) if p % 3 == 0 else (),
            )
            for p in range(partitions)
        },
        topic_id=TOPIC_ID,
    )


def _broker(version: int, rack: str | None) -> bytes:
    features = {"f": (1, 3)} if (version, rack) == (5, "r1") else None
    return encode_broker(ENDPOINTS, timestamp=17, rack=rack, version=version, features=features)


def _state(recovery: int) -> bytes:
    return write.encode_partition_state(LeaderAndIsr(2, (2, 0, 1), 5, recovery), 9)


WRITTEN = {
    "controller": write.encode_controller(3, timestamp=17),
    "epoch": write.encode_controller_epoch(41),
    "state-RECOVERED": _state(0),
    "state-RECOVERING": _state(1),
    "topic-noid": write.encode_topic({0: ReplicaAssignment((0,))}, topic_id=None),
    "broker-noplain": encode_broker(ENDPOINTS[1:], timestamp=17, jmx_port=9999),
    "config-change": encode_config_change("topics/t"),
    "isr-change": write.encode_partitions(TWO),
    "preferred": write.encode_partitions(TWO),
    "log-dir": encode_log_dir_event(2),
    "reassign": write.encode_reassign_partitions(dict(zip(TWO[:1], [(1, 2)], strict=True))
                                                 | {TopicPartition("u", 1): (3,)}),
    "cluster": write.encode_cluster_id("x-y"),
    "feature-2-0": encode_feature(enabled=True, features={}),
    "feature-1-1": encode_feature(enabled=False, features={"f": 3}, version=1),
    "feature-2-1": encode_feature(enabled=True, features={"f": 3}),
    "migration": encode_migration(
        kraft_controller_id=3000, kraft_controller_epoch=4, kraft_metadata_offset=100,
        kraft_metadata_epoch=5,
    ),
}  # fmt: skip
WRITTEN |= {f"topic-{n}": _topic(n) for n in (0, 1, 3, 5, 11, 12, 13, 23, 24, 30, 47, 48, 100, 400)}
WRITTEN |= {
    f"broker-{version}-{rack or 'null'}": _broker(version, rack)
    for version in range(1, 6)
    for rack in (None, "r1")
}
WRITTEN |= {
    f"config-{n}": write.encode_config(dict.fromkeys(KEYS[:n], 'v\u00e9"\\\x1f'))
    for n in range(len(KEYS) + 1)
}
KINDS = {
    "controller": ZnodeKind.CONTROLLER, "epoch": ZnodeKind.CONTROLLER_EPOCH,
    "state": ZnodeKind.PARTITION_STATE, "topic": ZnodeKind.TOPIC, "broker": ZnodeKind.BROKER,
    "config": ZnodeKind.TOPIC_CONFIG, "isr": ZnodeKind.ISR_CHANGE,
    "preferred": ZnodeKind.PREFERRED_ELECTION, "log": ZnodeKind.LOG_DIR_EVENT,
    "reassign": ZnodeKind.REASSIGN_PARTITIONS, "cluster": ZnodeKind.CLUSTER_ID,
    "feature": ZnodeKind.FEATURE, "migration": ZnodeKind.MIGRATION,
}  # fmt: skip


def test_every_payload_printed_by_kafka_has_a_writer() -> None:
    """Each line of the oracle has its writer here, and the other way round."""
    assert PRINTED.keys() == WRITTEN.keys()


@pytest.mark.parametrize("name", PRINTED)
def test_a_payload_is_kafkas_to_the_byte(name: str) -> None:
    """The bytes are those that Kafka's own class writes, with the keys in the order of its hash maps."""
    assert WRITTEN[name].decode() == PRINTED[name]


@pytest.mark.parametrize("name", PRINTED)
def test_every_written_payload_is_decoded(name: str) -> None:
    """Each decoder reads what Kafka writes there; a configuration change has its own kind."""
    kind = KINDS[name.partition("-")[0]]
    kind = ZnodeKind.CONFIG_CHANGE if name == "config-change" else kind
    DECODERS[kind](WRITTEN[name])


@pytest.mark.parametrize("version", [4, 5])
def test_a_simulated_broker_registers_as_kafkas_does(version: int) -> None:
    """It has one endpoint, without a rack and without features."""
    endpoint = ("PLAINTEXT", "PLAINTEXT", "127.0.0.1", 9093)
    assert write.encode_broker(9093, timestamp=17, has_features=version == 5) == encode_broker(
        [endpoint], timestamp=17, version=version
    )


@pytest.mark.parametrize("version", [1, 2])
def test_a_simulated_controller_writes_that_there_are_no_features(version: int) -> None:
    """Both layouts are the same without features."""
    assert write.encode_feature(enabled=True, version=version) == encode_feature(
        enabled=True, features={}, version=version
    )


def test_control_characters_are_escaped_as_jackson_does() -> None:
    """Hexadecimal digits are capitals; a backslash before a u is not an escape."""
    assert write.encode_cluster_id("\x0b\x1a") == b'{"version":"1","id":"\\u000B\\u001A"}'
    assert write.encode_cluster_id("\\u00ab") == b'{"version":"1","id":"\\\\u00ab"}'
