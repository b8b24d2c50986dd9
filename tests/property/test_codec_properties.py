"""Properties of encoders and decoders: records round-trip, decoders raise only their own error."""

from __future__ import annotations

import json
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller_model.kafka.errors import UnreadableRecordError, UnreadableZnodeError
from controller_model.kafka.ids import Position, TopicPartition
from controller_model.records.changes import (
    Batch,
    ChangeKind,
    SessionState,
    ZnodeChange,
    data_fields,
    decode_message,
    encode_change,
    join_changes,
)
from controller_model.records.event_records import (
    EventId,
    coalesce,
    decode_event,
    encode_event,
    number,
)
from controller_model.records.events import IsrShrunk, LeaderElectionKind, LeadersElected
from controller_model.records.views import decode_view, encode_view
from controller_model.sources.zookeeper import config_payloads, payloads, znode_kinds
from tests.support.histories import Fold, encode_changes, small_cluster

DECODERS = (
    payloads.decode_controller,
    payloads.decode_controller_epoch,
    payloads.decode_broker,
    payloads.decode_topic,
    payloads.decode_partition_state,
    config_payloads.decode_config,
    payloads.decode_partitions,
    payloads.decode_cluster_id,
)
INT64 = st.integers(-(2**63), 2**63 - 1)
TEXT = st.text(st.characters(codec="utf-8"), max_size=20)
SCALARS = (
    st.none() | st.booleans() | st.integers() | st.floats() | TEXT | st.sampled_from([-2, -1, 0, 1])
)
JSON = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=4)
)
FIELDS = [
    "version",
    "brokerid",
    "timestamp",
    "kraftControllerEpoch",
    "host",
    "port",
    "endpoints",
    "rack",
    "partitions",
    "adding_replicas",
    "removing_replicas",
    "topic_id",
    "leader",
    "leader_epoch",
    "isr",
    "controller_epoch",
    "leader_recovery_state",
    "config",
    "id",
    "topic",
    "partition",
]
ALMOST = st.dictionaries(st.sampled_from(FIELDS), JSON | st.just(1)).map(json.dumps)


@pytest.mark.parametrize("decode", DECODERS)
@given(st.binary(max_size=60) | (JSON.map(json.dumps) | ALMOST).map(str.encode))
def test_decoders_raise_nothing_but_their_own_error(
    decode: Callable[[bytes], Any], data: bytes
) -> None:
    """Any bytes are read, or raise UnreadableZnodeError with a short reason."""
    try:
        decode(data)
    except UnreadableZnodeError as error:
        reason = str(error)
    else:
        reason = "none"
    assert 0 < len(reason) <= 200


@given(st.text(max_size=40) | st.lists(st.sampled_from(["brokers", "ids", "topics", "state", "0"])))
def test_every_path_is_classified(path: str | list[str]) -> None:
    """Any text is some kind of znode, and only known kinds are published."""
    text = path if isinstance(path, str) else "/" + "/".join(path)
    kind = znode_kinds.classify(text).kind
    assert znode_kinds.is_published(text) == (kind is not znode_kinds.ZnodeKind.OTHER)


@given(st.binary(max_size=60) | ALMOST.map(str.encode))
def test_only_known_keys_of_a_configuration_leave_the_watcher(data: bytes) -> None:
    """For any content of a configuration the published data holds no other key."""
    published = json.loads(znode_kinds.published_data("/config/brokers/1", data))
    assert set(published) <= {"version", "config"}
    assert set(published.get("config", {})) <= config_payloads.CONFIG_KEYS


CHANGES = st.builds(
    ZnodeChange,
    v=st.just(1),
    cluster=TEXT,
    generation=INT64,
    watcher=TEXT,
    seq=INT64,
    kind=st.sampled_from(ChangeKind),
    observed_at=INT64,
    path=TEXT,
    data=st.none() | TEXT,
    mzxid=st.none() | INT64,
    denied=st.lists(TEXT, max_size=2).map(tuple),
    rebase=st.booleans(),
    session=st.none() | st.sampled_from(SessionState),
)


@given(st.lists(CHANGES, max_size=5))
def test_changes_round_trip(changes: list[ZnodeChange]) -> None:
    """A decoded message equals the encoded changes, encoded at once or one by one."""
    assert decode_message(encode_changes(changes)) == Batch(tuple(changes))
    assert decode_message(join_changes(map(encode_change, changes))) == Batch(tuple(changes))


@given(CHANGES, st.binary(max_size=40))
def test_payloads_round_trip(change: ZnodeChange, data: bytes) -> None:
    """A znode's bytes are the same after the log, UTF-8 or not."""
    fields = {name: getattr(change, name) for name in change.__struct_fields__}
    reported = ZnodeChange(**{**fields, "data": None, **data_fields(data)})
    assert decode_message(encode_changes([reported])).changes[0].payload() == data


@given(st.binary(max_size=80) | JSON.map(json.dumps).map(str.encode))
def test_garbage_bytes_raise_only_the_unreadable_record_error(data: bytes) -> None:
    """Bytes of no record of kcm raise only UnreadableRecordError, or are counted."""
    reasons: list[str] = []
    for decode in (decode_message, decode_event, decode_view):
        try:
            decode(data)
        except UnreadableRecordError as error:
            reasons.append(str(error))
    assert all(reasons)


SHRINKS = st.builds(
    IsrShrunk,
    at=st.integers(0, 9),
    position=st.builds(Position, st.just(1), st.integers(1, 9)),
    who=st.sampled_from([(0,), (0, 1)]),
    leader=st.integers(0, 1),
    by_controller=st.booleans(),
    partitions=st.lists(st.builds(TopicPartition, TEXT, st.integers(0, 9)), max_size=3).map(tuple),
)
ELECTIONS = st.builds(
    LeadersElected,
    at=st.integers(0, 9),
    position=st.builds(Position, st.just(1), st.integers(1, 9)),
    election=st.sampled_from(LeaderElectionKind),
    from_broker=st.just(0),
    to_broker=st.integers(0, 1),
    controller_epoch=st.just(1),
    partitions=st.lists(st.builds(TopicPartition, TEXT, st.integers(0, 9)), max_size=3).map(tuple),
)


@given(st.lists(SHRINKS | ELECTIONS, max_size=12))
def test_events_are_joined_numbered_and_read_again(
    events: list[IsrShrunk | LeadersElected],
) -> None:
    """Joining keeps every partition once per event, ids rise, and records round-trip."""
    events.sort(key=lambda event: event.position)
    joined = coalesce(events)
    listed = [p for event in joined if isinstance(event, IsrShrunk | LeadersElected)
              for p in event.partitions]  # fmt: skip
    assert sorted(listed) == sorted(p for event in events for p in event.partitions)
    records = number("prod", "l", joined, after=EventId("l", 1, 1, 0))
    ids = [EventId("l", 1, 1, 0), *(record.id for record in records)]
    assert all(before < after for before, after in pairwise(ids))
    assert [decode_event(encode_event(record)) for record in records] == records


def test_views_round_trip() -> None:
    """Every kind of view is read as it was written."""
    history = small_cluster()
    fold = Fold()
    fold.follow(history)
    history.topic_gone("t")
    shown = [*fold.views().values()]
    fold.follow(history)
    shown += fold.views().values()
    assert {type(view).__name__ for view in shown} == {
        "ClusterView", "BrokerView", "TopicView", "IncidentsView", "RecommendationView", "Deleted"
    }  # fmt: skip
    assert [decode_view(encode_view(view)) for view in shown] == shown
