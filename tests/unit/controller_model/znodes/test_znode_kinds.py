"""Payloads of Kafka 0.8 to 3.9 as its sources write them, and what is not one."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from controller_model.kafka.errors import UnreadableZnodeError
from controller_model.kafka.ids import TopicPartition
from controller_model.znodes import znode_kinds
from controller_model.znodes.znode_kinds import Znode, ZnodeKind, classify, published_data

STATE = {"controller_epoch": 1, "leader": 0, "version": 1, "leader_epoch": 0, "isr": [0, 1]}


@pytest.mark.parametrize(
    ("path", "znode"),
    [
        ("/controller", Znode(ZnodeKind.CONTROLLER)),
        ("/controller_epoch", Znode(ZnodeKind.CONTROLLER_EPOCH)),
        ("/brokers/ids/0", Znode(ZnodeKind.BROKER, "0")),
        ("/brokers/seqid", Znode(ZnodeKind.BROKER_SEQUENCE)),
        ("/brokers/topics/t", Znode(ZnodeKind.TOPIC, "t")),
        ("/brokers/topics/state", Znode(ZnodeKind.TOPIC, "state")),
        (
            "/brokers/topics/state/partitions/7/state",
            Znode(ZnodeKind.PARTITION_STATE, "state", 7, (TopicPartition("state", 7),)),
        ),
        ("/admin/reassign_partitions", Znode(ZnodeKind.REASSIGN_PARTITIONS)),
        ("/admin/preferred_replica_election", Znode(ZnodeKind.PREFERRED_ELECTION)),
        ("/admin/delete_topics/t", Znode(ZnodeKind.DELETE_TOPIC, "t")),
        ("/isr_change_notification/isr_change_1", Znode(ZnodeKind.ISR_CHANGE, "isr_change_1")),
        ("/log_dir_event_notification/log_dir_event_1",
         Znode(ZnodeKind.LOG_DIR_EVENT, "log_dir_event_1")),
        ("/config/topics/t", Znode(ZnodeKind.TOPIC_CONFIG, "t")),
        ("/config/brokers/<default>", Znode(ZnodeKind.BROKER_CONFIG, "<default>")),
        ("/config/changes/config_change_1", Znode(ZnodeKind.CONFIG_CHANGE, "config_change_1")),
        ("/cluster/id", Znode(ZnodeKind.CLUSTER_ID)),
        ("/feature", Znode(ZnodeKind.FEATURE)),
        ("/migration", Znode(ZnodeKind.MIGRATION)),
    ],
)  # fmt: skip
def test_every_kind_of_znode_is_known_by_its_path(path: str, znode: Znode) -> None:
    """Each path that Kafka writes is told apart, also for a topic that is named "state"."""
    assert classify(path) == znode


@pytest.mark.parametrize(
    "path",
    [
        "", "/", "/brokers", "/brokers/ids", "/brokers/ids/", "/brokers/ids/-1", "/brokers/ids/01",
        "/brokers/ids/x", "/brokers/ids/" + "9" * 5000, "/brokers/topics", "/brokers/topics/t/partitions",
        "/brokers/topics/t/partitions/0", "/brokers/topics/t/partitions/x/state",
        "/brokers/topics//partitions/0/state", "/brokers/topics/t/x/0/state", "/config/users/alice",
        "/config/clients/c", "/config/topics", "/admin", "/cluster", "/controller/x",
    ],
)  # fmt: skip
def test_containers_and_strange_paths_are_not_published(path: str) -> None:
    """What carries nothing, holds credentials, or is not Kafka's stays in the watcher."""
    assert not znode_kinds.is_published(path)


@pytest.mark.parametrize(
    ("data", "broker", "kraft_epoch"),
    [
        (b"0", 0, None),
        (b'{"version":1,"brokerid":3,"timestamp":1389888888}', 3, None),
        (b'{"version":1,"brokerid":0,"timestamp":"1795250695635"}', 0, None),
        (b'{"version":2,"brokerid":1,"timestamp":"1","kraftControllerEpoch":-1}', 1, -1),
        (b'{"version":2,"brokerid":3000,"timestamp":"1","kraftControllerEpoch":4}', 3000, 4),
    ],
)
def test_controller_layouts(data: bytes, broker: int, kraft_epoch: int | None) -> None:
    """A bare id (0.8 betas), version 1, and version 2 with KRaft's epoch are read."""
    znode = znode_kinds.decode_controller(data)
    assert (znode.brokerid, znode.kraft_controller_epoch) == (broker, kraft_epoch)


@pytest.mark.parametrize(
    ("content", "host", "rack"),
    [
        ({"version": 1, "host": "h", "port": 9092, "jmx_port": 9999, "timestamp": "2"}, "h", None),
        ({"version": 2, "host": "h", "port": 9092, "jmx_port": -1, "timestamp": "2",
          "endpoints": ["PLAINTEXT://h:9092"]}, "h", None),
        ({"version": 3, "host": None, "port": -1, "jmx_port": -1, "timestamp": "2",
          "endpoints": ["SSL://h:9093"], "rack": "dc1"}, None, "dc1"),
        ({"version": 4, "host": "h", "port": 1, "jmx_port": -1, "timestamp": "2", "rack": "r",
          "endpoints": ["CLIENT://h:1"], "listener_security_protocol_map": {"CLIENT": "SSL"}},
         "h", "r"),
        ({"version": 5, "host": None, "port": -1, "jmx_port": -1, "timestamp": "2", "endpoints": [],
          "features": {"f": {"min_version": 1, "first_active_version": 2, "max_version": 3}}},
         None, None),
    ],
)  # fmt: skip
def test_broker_layouts(content: dict[str, Any], host: str | None, rack: str | None) -> None:
    """Registrations of versions 1 to 5 are read, with and without a plaintext listener."""
    broker = znode_kinds.decode_broker(json.dumps(content).encode())
    assert (broker.host, broker.rack) == (host, rack)


@pytest.mark.parametrize(
    "content",
    [
        {"version": 1, "partitions": {"10": [1], "2": [0, 1]}},
        {"version": 2, "partitions": {"10": [1], "2": [0, 1]}, "adding_replicas": {},
         "removing_replicas": {}},
        {"version": 3, "partitions": {"2": [0, 1], "10": [1]}, "adding_replicas": {},
         "removing_replicas": {}, "topic_id": "AAAAAAAAAAAAAAAAAAAAAA"},
    ],
)  # fmt: skip
def test_topic_layouts(content: dict[str, Any]) -> None:
    """Assignments of versions 1 to 3 are read, partitions as numbers in their order."""
    topic = znode_kinds.decode_topic(json.dumps(content).encode())
    assert list(topic.partitions.items()) == [(2, (0, 1)), (10, (1,))]
    assert topic.topic_id == content.get("topic_id")


def test_reassignments_are_read() -> None:
    """Adding and removing replicas come by partition."""
    content = {
        "version": 2, "partitions": {"0": [3, 1, 2]}, "adding_replicas": {"0": [3]},
        "removing_replicas": {"0": [2]},
    }  # fmt: skip
    topic = znode_kinds.decode_topic(json.dumps(content).encode())
    assert (topic.adding, topic.removing) == ({0: (3,)}, {0: (2,)})


@pytest.mark.parametrize("recovery", [None, 0, 1])
@pytest.mark.parametrize("leader", [-2, -1, 0, 7])
def test_partition_state_layouts(leader: int, recovery: int | None) -> None:
    """States with and without the recovery state of 3.2 are read, the ISR in its own order."""
    content = {**STATE, "leader": leader, "isr": [2, 0, 1]}
    if recovery is not None:
        content["leader_recovery_state"] = recovery
    state = znode_kinds.decode_partition_state(json.dumps(content).encode())
    assert (state.leader, state.isr) == (leader, (2, 0, 1))
    assert state.leader_recovery_state == (recovery or 0)


def test_small_payloads() -> None:
    """Epoch, cluster id, legacy elections and configurations are read."""
    assert znode_kinds.decode_controller_epoch(b"41") == 41
    assert znode_kinds.decode_cluster_id(b'{"version":"1","id":"x-y"}') == "x-y"
    assert znode_kinds.decode_partitions(
        b'{"version":1,"partitions":[{"topic":"t","partition":0}]}'
    ) == (("t", 0),)
    assert znode_kinds.decode_config(b"") == {}
    config = b'{"version":1,"config":{"min.insync.replicas":"2","retention.ms":"1"}}'
    assert znode_kinds.decode_config(config) == {"min.insync.replicas": "2"}


DAMAGE = [
    b"", b"null", b"{", b"[]", b'"x"', b"NaN", b"\xff\xfe", b"true", b"1.5", b"-1", b"01", b" 1",
    b"9" * 5000, b"[" * 100_000, b'{"a":' * 100_000, b'{"version":99}', b'{"version":"1"}',
]  # fmt: skip


@pytest.mark.parametrize("data", DAMAGE, ids=lambda data: repr(data[:12]))
@pytest.mark.parametrize(
    "decode",
    [
        znode_kinds.decode_controller, znode_kinds.decode_controller_epoch, znode_kinds.decode_broker,
        znode_kinds.decode_topic, znode_kinds.decode_partition_state, znode_kinds.decode_partitions,
        znode_kinds.decode_cluster_id,
    ],
)  # fmt: skip
def test_damage_is_unreadable(decode: Callable[[bytes], Any], data: bytes) -> None:
    """No decoder makes anything of a damaged payload."""
    with pytest.raises(UnreadableZnodeError):
        decode(data)


@pytest.mark.parametrize(
    "change",
    [
        {"leader": True}, {"leader": "0"}, {"leader": 0.0}, {"leader": -3}, {"leader": 2**31},
        {"leader": None}, {"isr": None}, {"isr": [True]}, {"isr": ["0"]}, {"isr": [-1]},
        {"isr": "0,1"}, {"leader_epoch": -1}, {"leader_epoch": 10**30}, {"version": 2},
        {"controller_epoch": "1"}, {"leader_recovery_state": 2}, {"leader": float("nan")},
    ],
)  # fmt: skip
def test_a_wrong_type_or_number_makes_a_state_unreadable(change: dict[str, Any]) -> None:
    """Never a wrong number: a boolean is no id, text is no number, -3 is no leader."""
    with pytest.raises(UnreadableZnodeError):
        znode_kinds.decode_partition_state(json.dumps({**STATE, **change}).encode())


def test_text_after_a_payload_makes_it_unreadable() -> None:
    """A payload is one JSON value."""
    with pytest.raises(UnreadableZnodeError):
        znode_kinds.decode_partition_state(json.dumps(STATE).encode() + b"x")


@pytest.mark.parametrize("key", ["x", "-1", "01", "1.0", "", "9" * 5000])
def test_a_partition_id_is_a_plain_number(key: str) -> None:
    """A topic with a partition of another name is unreadable as a whole."""
    content = {"version": 1, "partitions": {key: [0]}}
    with pytest.raises(UnreadableZnodeError):
        znode_kinds.decode_topic(json.dumps(content).encode())


def test_a_negative_controller_is_unreadable() -> None:
    """-1 stands for no controller in the figures: no payload may claim it."""
    with pytest.raises(UnreadableZnodeError):
        znode_kinds.decode_controller(b'{"version":1,"brokerid":-1}')


def test_secrets_stay_in_the_watcher() -> None:
    """Of a configuration only the keys that the model needs leave; damage leaves as nothing."""
    config = {"version": 1, "config": {"ssl.key.password": "s3cret", "min.insync.replicas": "2"}}
    told = published_data("/config/brokers/1", json.dumps(config).encode())
    assert json.loads(told) == {"version": 1, "config": {"min.insync.replicas": "2"}}
    assert published_data("/config/topics/t", b"s3cret {") == b"{}"
    assert published_data("/controller", b"7") == b"7"
