"""Payloads of Kafka 0.8 to 3.9 as its sources write them, and payloads that are not valid."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from controller_model.kafka.errors import UnreadableZnodeError
from controller_model.kafka.ids import TopicPartition
from controller_model.sources.zookeeper import config_payloads, payloads
from controller_model.sources.zookeeper.payloads import (
    MAX_INT32,
    BrokerZnode,
    Endpoint,
    is_int32,
    shorten,
)
from controller_model.sources.zookeeper.znode_kinds import ZnodeKind
from tests.support.payloads import DECODERS, encoded, refuses


def test_each_kind_that_is_published_has_a_decoder() -> None:
    """The table is total: only kinds that are not Kafka's znodes have none."""
    assert set(DECODERS) == set(ZnodeKind) - {ZnodeKind.OTHER}


@pytest.mark.parametrize(
    ("payload", "addresses"),
    [
        ({"version": 1, "host": "h", "port": 9092, "jmx_port": -1},
         (Endpoint("PLAINTEXT", "h", 9092),)),
        ({"version": 1, "host": "", "port": 0}, (Endpoint("PLAINTEXT", "", 0),)),
        ({"version": 2, "endpoints": ["PLAINTEXT://h:1", "ssl://[::1]:2"]},
         (Endpoint("PLAINTEXT", "h", 1), Endpoint("SSL", "::1", 2))),
        ({"version": 4, "endpoints": ["CLIENT://:1"], "listener_security_protocol_map":
          {"CLIENT": "SASL_SSL"}}, (Endpoint("CLIENT", "", 1),)),
        ({"version": 4, "endpoints": ["CLIENT://h:1"], "listener_security_protocol_map": {}},
         (Endpoint("CLIENT", "h", 1),)),
        ({"version": 4, "endpoints": ["CLIENT://h:1"], "listener_security_protocol_map":
          {"CLIENT": "MAGIC"}}, (Endpoint("CLIENT", "h", 1),)),
        ({"version": 3, "endpoints": ["CLIENT://h:1"]}, (Endpoint("CLIENT", "h", 1),)),
        ({"version": 5, "endpoints": ["no endpoint", "SSL://h:-1", "SSL://h:123456"]},
         (Endpoint("SSL", "h", -1),)),
        ({"version": 5, "endpoints": []}, ()),
    ],
)  # fmt: skip
def test_addresses_of_each_layout(payload: dict[str, Any], addresses: tuple[Any, ...]) -> None:
    """The addresses of a broker are read as Kafka reads them; a text that is not an endpoint is left out."""
    assert payloads.decode_broker(encoded(payload)).addresses() == addresses


def test_a_registration_of_version_1_in_memory_has_an_address() -> None:
    """A value that no decoder made may lack both: then they are empty, and nothing is raised."""
    assert BrokerZnode(version=1).addresses() == (Endpoint("PLAINTEXT", "", 0),)


@pytest.mark.parametrize(
    "payload",
    [
        {"version": 1}, {"version": 1, "host": "h"}, {"version": 1, "port": 1},
        {"version": 1, "host": None, "port": 1}, {"version": 0, "host": "h", "port": 1},
        {"version": 6, "endpoints": []}, {"version": 2, "port": 65536}, {"version": 2, "port": -2},
        {"version": 2, "port": True}, {"version": 2, "endpoints": [1]}, {"version": 2, "rack": 7},
        {"version": 5, "features": {"f": {"max_version": 2**15}}},
        {"version": 5, "features": {"f": {"max_version": True}}},
    ],
)  # fmt: skip
def test_a_registration_that_kafka_does_not_write(payload: dict[str, Any]) -> None:
    """Unknown versions, ports that do not exist and wrong types are unreadable."""
    assert refuses(payloads.decode_broker, payload)


def test_features_and_ports_at_their_limits_are_read() -> None:
    """The largest and the smallest numbers that fit are numbers."""
    broker = payloads.decode_broker(
        encoded({"version": 5, "port": 65535, "features": {"f": {"max_version": 2**15 - 1}}})
    )
    assert (broker.port, broker.features) == (65535, {"f": {"max_version": 2**15 - 1}})
    assert payloads.decode_broker(encoded({"version": 2, "port": -1})).port == -1


def test_reassignments_are_read_and_the_last_one_of_a_partition_counts() -> None:
    """As in Kafka's map of them; the order of replicas is kept."""
    asked = payloads.decode_reassign_partitions(
        encoded({"version": 1, "partitions": [
            {"topic": "t", "partition": 0, "replicas": [1, 2]},
            {"topic": "t", "partition": 1, "replicas": []},
            {"topic": "t", "partition": 0, "replicas": [3, 1]},
        ]})
    )  # fmt: skip
    assert asked == {TopicPartition("t", 0): (3, 1), TopicPartition("t", 1): ()}


@pytest.mark.parametrize(
    "entry",
    [
        {"topic": "t", "partition": 0}, {"topic": "t", "partition": -1, "replicas": [1]},
        {"topic": "t", "partition": 0, "replicas": [-1]}, {"partition": 0, "replicas": [1]},
        {"topic": "t", "partition": 0, "replicas": [1], "log_dirs": ["any"]},
        {"topic": 1, "partition": 0, "replicas": [1]},
    ],
)  # fmt: skip
def test_a_reassignment_that_kafka_refuses(entry: dict[str, Any]) -> None:
    """Missing parts, wrong numbers, and keys that Kafka's bean does not know."""
    assert refuses(payloads.decode_reassign_partitions, {"version": 1, "partitions": [entry]})
    extra = {"version": 1, "partitions": [], "more": 1}
    assert refuses(payloads.decode_reassign_partitions, extra)


def test_partitions_of_notifications_are_read_in_their_order() -> None:
    """A repeated partition stays repeated: nothing is dropped."""
    entries = [{"topic": "u", "partition": 1}, {"topic": "t", "partition": 0}] * 2
    reported = payloads.decode_partitions(encoded({"version": 1, "partitions": entries}))
    assert reported == (TopicPartition("u", 1), TopicPartition("t", 0)) * 2
    assert refuses(payloads.decode_partitions, {"version": 1, "partitions": [{"topic": "t"}]})
    assert refuses(payloads.decode_partitions, {"version": 2, "partitions": []})


def test_a_failed_log_directory_names_its_broker() -> None:
    """There is one kind of event; another one, or another version, is unreadable."""
    event = {"version": 1, "broker": 0, "event": 1}
    assert payloads.decode_log_dir_event(encoded(event)).broker == 0
    for change in ({"event": 2}, {"event": 0}, {"version": 2}, {"broker": -1}, {"broker": "0"}):
        assert refuses(payloads.decode_log_dir_event, {**event, **change})


@pytest.mark.parametrize(
    ("version", "levels"),
    [
        (1, {"min_version_level": 1, "max_version_level": 1}),
        (1, {"min_version_level": 2, "max_version_level": 3}),
        (2, {"max_version_level": 1}),
        (2, {"max_version_level": 2, "min_version_level": -7}),
    ],
)
def test_features_of_both_layouts(version: int, levels: dict[str, int]) -> None:
    """Version 1 has a smallest level, 2 has none and skips it."""
    payload = {"version": version, "status": 1, "features": {"f": levels}}
    read = payloads.decode_feature(encoded(payload))
    assert (read.version, read.status, read.features) == (version, 1, {"f": levels})
    disabled = payloads.decode_feature(encoded({**payload, "status": 0, "features": {}}))
    assert (disabled.status, disabled.features) == (0, {})


@pytest.mark.parametrize(
    "payload",
    [
        {"version": 0, "status": 1, "features": {}}, {"version": 3, "status": 1, "features": {}},
        {"version": 2, "status": 2, "features": {}}, {"version": 2, "features": {}},
        {"version": 2, "status": 1}, {"version": 2, "status": 1, "features": {"f": {}}},
        {"version": 2, "status": 1, "features": {"f": {"max_version_level": 0}}},
        {"version": 1, "status": 1, "features": {"f": {"max_version_level": 1}}},
        {"version": 1, "status": 1,
         "features": {"f": {"min_version_level": 0, "max_version_level": 1}}},
        {"version": 1, "status": 1,
         "features": {"f": {"min_version_level": 2, "max_version_level": 1}}},
    ],
)  # fmt: skip
def test_features_that_kafka_refuses(payload: dict[str, Any]) -> None:
    """FeatureZNode.decode checks versions, status and levels, and so does the decoder."""
    assert refuses(payloads.decode_feature, payload)


def test_a_migration_is_read() -> None:
    """Offsets are 64 bits wide; before KRaft has taken over all of them are -1."""
    state = {"version": 0, "kraft_controller_id": -1, "kraft_controller_epoch": -1,
             "kraft_metadata_offset": 2**63 - 1, "kraft_metadata_epoch": -1}  # fmt: skip
    read = payloads.decode_migration(encoded(state))
    assert (read.kraft_controller_id, read.kraft_metadata_offset) == (-1, 2**63 - 1)
    assert refuses(payloads.decode_migration, {**state, "version": 1})
    assert refuses(payloads.decode_migration, {**state, "kraft_metadata_offset": 2**63})
    del state["kraft_metadata_epoch"]
    assert refuses(payloads.decode_migration, state)


@pytest.mark.parametrize("version", ["1", 1, None])
def test_a_cluster_id_is_text_with_any_version(version: Any) -> None:
    """Kafka writes the version as text and never reads it."""
    assert payloads.decode_cluster_id(encoded({"version": version, "id": "x"})) == "x"
    assert refuses(payloads.decode_cluster_id, {"version": version, "id": 1})


def test_numbers_end_where_java_ints_end() -> None:
    """The largest id is read, the next one is not; the same for epochs and names of partitions."""
    assert payloads.decode_controller(str(MAX_INT32).encode()).brokerid == MAX_INT32
    assert refuses(payloads.decode_controller, str(MAX_INT32 + 1).encode())
    assert payloads.decode_controller_epoch(str(MAX_INT32).encode()) == MAX_INT32
    assert refuses(payloads.decode_controller_epoch, str(MAX_INT32 + 1).encode())
    topic = payloads.decode_topic(encoded({"version": 1, "partitions": {str(MAX_INT32): [0]}}))
    assert [*topic.partitions] == [MAX_INT32]
    assert not is_int32("\u0661")  # a digit, but not one of 0 to 9


def test_the_last_of_duplicate_keys_counts_as_in_kafka() -> None:
    """The last value counts; both must be readable."""
    state = b'{"controller_epoch":1,"leader":1,"version":1,"leader_epoch":0,"isr":[0],"leader":%s}'
    assert payloads.decode_partition_state(state % b"2").leader == 2
    assert refuses(payloads.decode_partition_state, state % b"true")


def test_bytes_around_a_payload_are_damage() -> None:
    """A byte order mark, a second value, a NUL; surrounding blanks are allowed."""
    good = b'{"version":"1","id":"x"}'
    for bad in (b"\xef\xbb\xbf" + good, good + good, good + b"\0", good[:-1] + b",}", good[1:]):
        assert refuses(payloads.decode_cluster_id, bad)
    assert payloads.decode_cluster_id(b" \n" + good + b"\t") == "x"


def test_a_lone_surrogate_is_damage() -> None:
    """Lone surrogates, escaped or as bytes, could not be written again by a reader."""
    in_a_skipped_key = b'{"\x80":1,"id":"x"}'
    for bad in (
        b'{"id":"\\ud800"}',
        b'{"id":"\xed\xa0\x80"}',
        b'{"id":"\\ud800x"}',
        in_a_skipped_key,
    ):
        assert refuses(payloads.decode_cluster_id, bad)
    assert payloads.decode_cluster_id(b'{"id":"\\ud83d\\ude00"}') == "\U0001f600"


WITHOUT_A_VERSION: dict[ZnodeKind, Any] = {
    ZnodeKind.CONTROLLER: {"brokerid": 3},
    ZnodeKind.TOPIC: {"partitions": {"0": [1, 2]}},
    ZnodeKind.PARTITION_STATE: {"leader": 1, "leader_epoch": 2, "isr": [1], "controller_epoch": 3},
    ZnodeKind.REASSIGN_PARTITIONS: {
        "partitions": [{"topic": "t", "partition": 0, "replicas": [1]}]
    },
    ZnodeKind.PREFERRED_ELECTION: {"partitions": [{"topic": "t", "partition": 0}]},
    ZnodeKind.ISR_CHANGE: {"partitions": [{"topic": "t", "partition": 0}]},
    ZnodeKind.LOG_DIR_EVENT: {"broker": 1, "event": 1},
    ZnodeKind.TOPIC_CONFIG: {"config": {"min.insync.replicas": "2"}},
    ZnodeKind.BROKER_CONFIG: {"config": {}},
}
"""Payloads whose version Kafka's decoders do not require."""


@pytest.mark.parametrize("kind", WITHOUT_A_VERSION)
def test_a_payload_without_a_version_is_read_where_kafka_needs_none(kind: ZnodeKind) -> None:
    """It is read as with version 1; a version that no Kafka wrote is unreadable all the same."""
    decode, content = DECODERS[kind], WITHOUT_A_VERSION[kind]
    assert decode(encoded(content)) == decode(encoded({"version": 1, **content}))
    for version in (0, 99, -1, "1", None, True, 1.5):
        assert refuses(decode, {"version": version, **content})


def test_a_log_directory_event_needs_its_broker_only() -> None:
    """Kafka's decoder reads nothing else from it."""
    assert payloads.decode_log_dir_event(b'{"broker":7}') == payloads.LogDirEventZnode(broker=7)
    assert refuses(payloads.decode_log_dir_event, {"version": 1, "event": 1})


@pytest.mark.parametrize(
    ("kind", "content"),
    [
        (ZnodeKind.BROKER, {"host": "h", "port": 1, "endpoints": ["PLAINTEXT://h:1"]}),
        (ZnodeKind.CONFIG_CHANGE, {"entity_path": "topics/t"}),
        (ZnodeKind.FEATURE, {"status": 1, "features": {}}),
        (ZnodeKind.MIGRATION, {"kraft_controller_id": 1, "kraft_controller_epoch": 1,
                               "kraft_metadata_offset": 1, "kraft_metadata_epoch": 1}),
    ],
)  # fmt: skip
def test_a_payload_without_a_version_is_refused_where_kafka_needs_one(
    kind: ZnodeKind, content: Any
) -> None:
    """The version decides over the layout: without it nothing is read."""
    assert refuses(DECODERS[kind], content)


def test_a_reason_fits_into_a_line() -> None:
    """200 characters stay, 201 are cut to 200 with dots at the end."""
    assert shorten("x" * 200) == "x" * 200
    assert shorten("x" * 201) == "x" * 197 + "..."


def test_numbers_begin_where_java_ints_begin() -> None:
    """Epochs in layouts of other programs may be any int; a smaller number is not an int."""
    state = {"leader": 0, "leader_epoch": 0, "isr": [], "version": 1}
    read = payloads.decode_partition_state(encoded({**state, "controller_epoch": -(2**31)}))
    assert read.controller_epoch == -(2**31)
    assert refuses(payloads.decode_partition_state, {**state, "controller_epoch": -(2**31) - 1})


STATE = {"controller_epoch": 1, "leader": 0, "version": 1, "leader_epoch": 0, "isr": [0, 1]}


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
    znode = payloads.decode_controller(data)
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
        ({"version": 5, "host": None, "port": -1, "jmx_port": -1, "timestamp": {}, "endpoints": [],
          "features": {"f": {"min_version": 1, "first_active_version": 2, "max_version": 3}}},
         None, None),
    ],
)  # fmt: skip
def test_broker_layouts(content: dict[str, Any], host: str | None, rack: str | None) -> None:
    """Registrations of versions 1 to 5 are read, with and without a plaintext listener, whatever their timestamp is."""
    broker = payloads.decode_broker(json.dumps(content).encode())
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
    topic = payloads.decode_topic(json.dumps(content).encode())
    assert list(topic.partitions.items()) == [(2, (0, 1)), (10, (1,))]
    assert topic.topic_id == content.get("topic_id")


@pytest.mark.parametrize("recovery", [None, 0, 1])
@pytest.mark.parametrize("leader", [-2, -1, 0, 7])
def test_partition_state_layouts(leader: int, recovery: int | None) -> None:
    """States with and without the recovery state of 3.2 are read, the ISR in its own order."""
    content = {**STATE, "leader": leader, "isr": [2, 0, 1]}
    if recovery is not None:
        content["leader_recovery_state"] = recovery
    state = payloads.decode_partition_state(json.dumps(content).encode())
    assert (state.leader, state.isr) == (leader, (2, 0, 1))
    assert state.leader_recovery_state == (recovery or 0)


def test_small_payloads() -> None:
    """Epoch, cluster id, legacy elections and configurations are read."""
    assert payloads.decode_controller_epoch(b"41") == 41
    assert payloads.decode_cluster_id(b'{"version":"1","id":"x-y"}') == "x-y"
    assert payloads.decode_partitions(
        b'{"version":1,"partitions":[{"topic":"t","partition":0}]}'
    ) == (("t", 0),)
    assert config_payloads.decode_config(b"") == {}
    config = b'{"version":1,"config":{"min.insync.replicas":"2","retention.ms":"1"}}'
    assert config_payloads.decode_config(config) == {"min.insync.replicas": "2"}


DAMAGE = [
    b"", b"null", b"{", b"[]", b'"x"', b"NaN", b"\xff\xfe", b"true", b"1.5", b"-1", b"01", b" 1",
    b"9" * 5000, b"[" * 100_000, b'{"a":' * 100_000, b'{"version":99}', b'{"version":"1"}',
]  # fmt: skip


@pytest.mark.parametrize("data", DAMAGE, ids=lambda data: repr(data[:12]))
@pytest.mark.parametrize(
    "decode",
    [
        payloads.decode_controller, payloads.decode_controller_epoch, payloads.decode_broker,
        payloads.decode_topic, payloads.decode_partition_state, payloads.decode_partitions,
        payloads.decode_cluster_id,
    ],
)  # fmt: skip
def test_damage_is_unreadable(decode: Callable[[bytes], Any], data: bytes) -> None:
    """Every decoder rejects a damaged payload."""
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
    """A wrong number is never accepted: a boolean is not an id, text is not a number, -3 is not a leader."""
    with pytest.raises(UnreadableZnodeError):
        payloads.decode_partition_state(json.dumps({**STATE, **change}).encode())


@pytest.mark.parametrize("key", ["x", "-1", "01", "1.0", "", "9" * 5000])
def test_a_partition_id_is_a_plain_number(key: str) -> None:
    """A topic with a partition of any other name is unreadable as a whole."""
    content = {"version": 1, "partitions": {key: [0]}}
    with pytest.raises(UnreadableZnodeError):
        payloads.decode_topic(json.dumps(content).encode())


def test_a_negative_controller_is_unreadable() -> None:
    """In the figures -1 stands for no controller: no payload may contain it."""
    with pytest.raises(UnreadableZnodeError):
        payloads.decode_controller(b'{"version":1,"brokerid":-1}')
