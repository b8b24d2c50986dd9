"""For any payload of a znode: it is read as it was written, or its decoder raises its own error."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller_model.kafka.elections import LeaderAndIsr
from controller_model.kafka.errors import UnreadableZnodeError
from controller_model.kafka.ids import TopicPartition
from controller_model.kafka.replica_assignment import ReplicaAssignment
from controller_model.records.event_records import decode_event, encode_event, number
from controller_model.records.views import decode_view, encode_view
from controller_model.sources.zookeeper import config_payloads, payloads
from controller_model.sources.zookeeper.znode_kinds import ZnodeKind, published_data
from controller_simulator.zookeeper import payload_writers as write
from tests.support.histories import Fold, small_cluster
from tests.support.payloads import (
    DECODERS,
    encode_broker,
    encode_config_change,
    encode_feature,
    encode_log_dir_event,
    encode_migration,
)

INT32 = st.integers(0, 2**31 - 1)
IDS = st.lists(INT32, max_size=4, unique=True)
NAMES = st.from_regex(r"\A[a-zA-Z0-9._-]{1,12}\Z")
TEXT = st.text(st.characters(codec="utf-8", exclude_categories=["Cs"]), max_size=8)
REPLICAS = IDS.map(tuple)
ASSIGNMENTS = st.dictionaries(
    st.integers(0, 40) | INT32,
    st.builds(ReplicaAssignment, REPLICAS, REPLICAS, REPLICAS),
    max_size=5,
)
TPS = st.lists(st.builds(TopicPartition, NAMES, INT32), max_size=4)
STATES = st.builds(LeaderAndIsr, st.integers(-2, 2**31 - 1), REPLICAS, INT32, st.integers(0, 1))
ENDPOINTS = st.lists(
    st.tuples(
        st.sampled_from(["PLAINTEXT", "CLIENT"]),
        st.sampled_from(["PLAINTEXT", "SSL"]),
        st.just("h"),
        st.integers(0, 65535),
    ),
    max_size=3,
    unique_by=lambda end: end[0],
)
WRITTEN: dict[ZnodeKind, st.SearchStrategy[bytes]] = {
    ZnodeKind.CONTROLLER: st.builds(
        write.encode_controller, INT32, timestamp=INT32, kraft_controller_epoch=st.integers(-1, 9)
    ),
    ZnodeKind.CONTROLLER_EPOCH: INT32.map(write.encode_controller_epoch),
    ZnodeKind.BROKER: st.builds(
        encode_broker, ENDPOINTS, timestamp=INT32, rack=st.none() | TEXT,
        version=st.integers(2, 5),
    ),
    ZnodeKind.BROKER_SEQUENCE: st.just(b""),
    ZnodeKind.TOPIC: st.builds(
        write.encode_topic, ASSIGNMENTS, topic_id=st.none() | TEXT
    ),
    ZnodeKind.PARTITION_STATE: st.builds(write.encode_partition_state, STATES, INT32),
    ZnodeKind.REASSIGN_PARTITIONS: st.dictionaries(st.builds(TopicPartition, NAMES, INT32), IDS).map(
        write.encode_reassign_partitions
    ),
    ZnodeKind.PREFERRED_ELECTION: TPS.map(write.encode_partitions),
    ZnodeKind.DELETE_TOPIC: st.just(b""),
    ZnodeKind.ISR_CHANGE: TPS.map(write.encode_partitions),
    ZnodeKind.LOG_DIR_EVENT: INT32.map(encode_log_dir_event),
    ZnodeKind.TOPIC_CONFIG: st.dictionaries(
        st.sampled_from([*config_payloads.CONFIG_KEYS, "retention.ms"]), TEXT
    ).map(write.encode_config),
    ZnodeKind.BROKER_CONFIG: st.just(b""),
    ZnodeKind.CONFIG_CHANGE: NAMES.map(lambda name: encode_config_change(f"topics/{name}")),
    ZnodeKind.CLUSTER_ID: TEXT.map(write.encode_cluster_id),
    ZnodeKind.FEATURE: st.builds(
        encode_feature, enabled=st.booleans(), version=st.integers(1, 2),
        features=st.dictionaries(NAMES, st.integers(1, 2**15 - 1), max_size=2),
    ),
    ZnodeKind.MIGRATION: st.builds(
        encode_migration, kraft_controller_id=INT32, kraft_controller_epoch=INT32,
        kraft_metadata_offset=st.integers(-1, 2**63 - 1), kraft_metadata_epoch=INT32,
    ),
}  # fmt: skip
ODD = st.sampled_from(
    ["true", "false", "null", "NaN", "-Infinity", "1.0", "1e3", "-0", "-1", "01", '"0"', '"1"', "[]",
     "{}", "[[0]]", "2147483648", "-2147483649", "9" * 400, '"\\ud800"', '"\\u0000"', '{"0":[0]}',
     '{"00":[0]}', "[" * 3000, '{"a":' * 3000]
)  # fmt: skip
_VALUE = re.compile(rb'-?[0-9]+|"[^"\\]*"|true|null|\[\]|\{\}')


@st.composite
def damaged(draw: st.DrawFn, kind: ZnodeKind) -> bytes:
    """Return a payload of a kind after something happened to it; or as it was."""
    payload = draw(WRITTEN[kind])
    for _ in range(draw(st.integers(0, 2))):
        way = draw(st.sampled_from(["value", "cut", "insert", "around", "twice", "bytes"]))
        values = [found.span() for found in _VALUE.finditer(payload)]
        at = draw(st.integers(0, len(payload)))
        if way == "value" and values:
            start, end = draw(st.sampled_from(values))
            payload = payload[:start] + draw(ODD).encode() + payload[end:]
        elif way == "cut":
            payload = payload[:at] + payload[draw(st.integers(at, len(payload))) :]
        elif way == "insert":
            payload = payload[:at] + draw(st.binary(min_size=1, max_size=3)) + payload[at:]
        elif way == "around":
            payload = draw(st.sampled_from([b"\xef\xbb\xbf", b" ", b"["])) + payload + draw(
                st.sampled_from([b"", b"x", b"\0", b"{}", b"\n", b"]"]))  # fmt: skip
        elif way == "twice" and payload[:1] == b"{":
            payload = payload[:-1] + b"," + payload[1:]
        elif way == "bytes":
            payload = draw(st.binary(max_size=20))
    return payload


def _numbers(value: Any) -> Iterator[int]:
    if isinstance(value, Mapping):
        for key, inner in value.items():
            yield from _numbers(key)
            yield from _numbers(inner)
    elif isinstance(value, list | tuple):
        for inner in value:
            yield from _numbers(inner)
    elif isinstance(value, int) and not isinstance(value, bool):
        yield value


def _written_numbers(payload: bytes) -> set[int]:
    """Return every whole number of a payload, by Python's own reader: also keys that are some."""
    if payload.isdigit():
        return {int(payload)}
    numbers: set[int] = set()

    def keep(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        for key, value in pairs:
            numbers.update(_numbers([value]))
            if re.fullmatch(r"0|[1-9][0-9]{0,9}", key):
                numbers.add(int(key))
        return dict(pairs)

    json.loads(payload, object_pairs_hook=keep)
    return numbers


DEFAULTS = {
    ZnodeKind.CONTROLLER: {1},
    ZnodeKind.PARTITION_STATE: {0, 1},
    ZnodeKind.LOG_DIR_EVENT: {1},
}
"""Numbers at places that a layout does not define: the first version, a leader that recovered, and
the only event that there is."""


@pytest.mark.parametrize("kind", DECODERS)
@given(data=st.data())
def test_no_number_is_read_that_was_not_written(kind: ZnodeKind, data: st.DataObject) -> None:
    """A payload is unreadable for a short reason, or each number in it was a number before."""
    payload = data.draw(damaged(kind))
    reason: str | None = None
    try:
        read = DECODERS[kind](payload)
    except UnreadableZnodeError as error:
        reason = str(error)
    if reason is not None:
        assert 0 < len(reason) <= 200
        return
    content = msgspec.to_builtins(dict(read) if isinstance(read, Mapping) else read, str_keys=False)
    numbers = set(_numbers(content))
    if numbers:
        assert numbers <= _written_numbers(payload) | DEFAULTS.get(kind, set())
    json.dumps(msgspec.to_builtins(str(content))).encode()  # nothing that cannot be written again


@pytest.mark.parametrize("kind", WRITTEN)
@given(data=st.data())
def test_every_payload_that_kafka_writes_is_decoded(kind: ZnodeKind, data: st.DataObject) -> None:
    """No payload of Kafka's own is refused, with any numbers in it."""
    DECODERS[kind](data.draw(WRITTEN[kind]))


@given(STATES, INT32)
def test_states_round_trip(state: LeaderAndIsr, controller_epoch: int) -> None:
    """Leader, ISR in its order and epochs come back as they went in."""
    read = payloads.decode_partition_state(write.encode_partition_state(state, controller_epoch))
    again = LeaderAndIsr(read.leader, read.isr, read.leader_epoch, read.leader_recovery_state)
    assert (again, read.controller_epoch) == (state, controller_epoch)


@given(ASSIGNMENTS, st.none() | TEXT)
def test_topics_round_trip(assignments: dict[int, ReplicaAssignment], topic_id: str | None) -> None:
    """In any order of Kafka's hash map, partitions are returned sorted, replicas in their order."""
    read = payloads.decode_topic(write.encode_topic(assignments, topic_id=topic_id))
    assert [*read.partitions] == sorted(assignments)
    assert read.partitions == {p: each.replicas for p, each in assignments.items()}
    assert read.adding == {p: each.adding for p, each in assignments.items() if each.adding}
    assert read.removing == {p: each.removing for p, each in assignments.items() if each.removing}
    assert read.topic_id == topic_id


@given(st.sampled_from(["users", "clients", "ips"]), NAMES, st.data())
def test_user_names_do_not_leave_the_watcher(kind: str, name: str, data: st.DataObject) -> None:
    """For any damage of a notification, the user's name is not published."""
    secret = f"S3cret{name}"
    payload = encode_config_change(f"{kind}/{secret}")
    at = data.draw(st.integers(0, len(payload)))
    for sent in (payload, payload[:at], payload[:at] + b'"' + payload[at:]):
        reported = published_data("/config/changes/config_change_0000000000", sent)
        assert secret.encode() not in reported


PATHS = {
    kind: kind.value.replace("<topic>", "t").replace("<broker>", "1").replace("<partition>", "0")
    .replace("<sequence>", "change_0000000001")
    for kind in DECODERS
}  # fmt: skip


@st.composite
def znode_writes(draw: st.DrawFn) -> tuple[str, bytes | None]:
    """Return a path of some kind and what is written there, damaged or not; None deletes it."""
    kind = draw(st.sampled_from([*DECODERS]))
    return PATHS[kind], draw(st.none() | damaged(kind))


@given(st.lists(znode_writes(), max_size=12), st.booleans())
def test_no_payload_breaks_the_fold(written: list[tuple[str, bytes | None]], resync: bool) -> None:
    """Any payload is folded, reported, packed and shown, and the digest agrees."""
    history, fold = small_cluster(), Fold(packed=True)
    fold.follow(history)
    for path, payload in written:
        if payload is not None:
            history.set(path, payload)
        elif path in history.znodes:
            history.delete(path)
    if resync:
        history.resync()
    history.reconciled()
    reported = fold.follow(history)
    records = number("c", "l", reported)
    assert [decode_event(encode_event(record)) for record in records] == records
    fold.restart()
    assert all(decode_view(encode_view(view)) == view for view in fold.views().values())
    assert fold.state.control.log.view.divergent_since is None
    assert fold.state.control.log.view.errors == 0
