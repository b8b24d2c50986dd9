"""Events as records: joined by cause, numbered, written and read."""

from __future__ import annotations

from typing import Any, get_args

import msgspec
import pytest

from controller_model.kafka.coordinators import Coordinator
from controller_model.kafka.errors import UnreadableRecordError
from controller_model.kafka.ids import AsOf, Position, TopicPartition
from controller_model.records import events
from controller_model.records.changes import ChangeKind, ZnodeChange
from controller_model.records.event_records import (
    MAX_PARTITIONS_PER_EVENT,
    EventId,
    as_of,
    coalesce,
    decode_event,
    encode_event,
    number,
)
from controller_model.records.events import (
    Anomaly,
    AnyEvent,
    CoordinatorsMoved,
    Event,
    IsrExpanded,
    IsrShrunk,
    LeaderElectionKind,
    LeadersElected,
    PartitionsOffline,
    PartitionsOnline,
    ReassignmentCompleted,
    ReassignmentStarted,
    StaleControllerWrite,
    where,
)

CAUSES: list[tuple[type[Any], dict[str, Any]]] = [
    (LeadersElected, {"election": LeaderElectionKind.OFFLINE, "from_broker": 0, "to_broker": 1,
                      "controller_epoch": 2}),
    (PartitionsOffline, {"from_broker": 0}),
    (PartitionsOnline, {"to_broker": 0}),
    (IsrShrunk, {"who": (0,), "leader": 1, "by_controller": True}),
    (IsrExpanded, {"who": (0,), "leader": 1}),
    (CoordinatorsMoved, {"coordinator": Coordinator.GROUP, "from_broker": 0, "to_broker": 1}),
    (StaleControllerWrite, {"controller_epoch": 1, "current_epoch": 2}),
]  # fmt: skip
OTHER = {
    "election": LeaderElectionKind.UNCLEAN, "from_broker": 9, "to_broker": 9, "controller_epoch": 9,
    "who": (9,), "leader": 9, "by_controller": False, "coordinator": Coordinator.TRANSACTION,
    "current_epoch": 9,
}  # fmt: skip


def at(seq: int, **fields: Any) -> dict[str, Any]:
    """Return an event's place, its time ten times as much, and its other fields."""
    return {"at": 10 * seq, "position": Position(1, seq), "zxid": seq, **fields}


def of(*partitions: int) -> tuple[TopicPartition, ...]:
    """Return partitions of topic t."""
    return tuple(TopicPartition("t", partition) for partition in partitions)


def test_every_event_of_the_module_is_in_the_record() -> None:
    """A kind that is not in the union could be told, and never read."""
    declared = {
        value
        for value in vars(events).values()
        if isinstance(value, type) and issubclass(value, Event) and value is not Event
    }
    assert set(get_args(AnyEvent)) == declared


@pytest.mark.parametrize(("kind", "facts"), CAUSES)
def test_events_of_one_cause_are_one(kind: type[Any], facts: dict[str, Any]) -> None:
    """First time and zxid, last position, all partitions in their order."""
    first, second = (kind(**at(s, partitions=of(s), **facts)) for s in (3, 5))
    (joined,) = coalesce([first, second])
    assert joined == kind(at=30, position=Position(1, 5), zxid=3, partitions=of(3, 5), **facts)


@pytest.mark.parametrize(("kind", "fact"), [(kind, f) for kind, facts in CAUSES for f in facts])
def test_another_fact_is_another_cause(kind: type[Any], fact: str) -> None:
    """Each fact of an event keeps it apart from those that differ in it."""
    facts = dict(CAUSES)[kind]
    told = [
        kind(**at(1, partitions=of(1), **facts)),
        kind(**at(2, partitions=of(2), **{**facts, fact: OTHER[fact]})),
    ]
    assert coalesce(told) == told


def test_what_lists_a_topics_partitions_itself_is_never_joined() -> None:
    """Reassignments are told per topic; anomalies have no partitions."""
    told: list[AnyEvent] = [
        kind(**at(seq, topic="t", partitions=of(0)))
        for kind in (ReassignmentStarted, ReassignmentCompleted)
        for seq in (1, 2)
    ]
    told += [Anomaly(**at(3, path="/x", reason="y"))] * 2
    assert coalesce(told) == sorted(told, key=lambda event: event.position)


@pytest.mark.parametrize(("more", "lists"), [(0, [10_000]), (1, [10_000, 1])])
def test_a_wide_cause_is_told_in_several(more: int, lists: list[int]) -> None:
    """No record lists more than the bound, and none is lost."""
    assert MAX_PARTITIONS_PER_EVENT == 10_000
    halves = (range(5_000), range(5_000, 10_000 + more))
    told = [PartitionsOnline(**at(s, to_broker=1, partitions=of(*halves[s]))) for s in (0, 1)]
    joined = [event.partitions for event in coalesce(told) if isinstance(event, PartitionsOnline)]
    assert [len(partitions) for partitions in joined] == lists
    assert [p.partition for partitions in joined for p in partitions] == [*range(10_000 + more)]


def test_ids_rise_whatever_positions_do() -> None:
    """An event that was told late is named after those that were told before it."""
    told = [Anomaly(**at(seq, path="", reason="")) for seq in (0, 2, 2, 1, 3)]
    told[0] = msgspec.structs.replace(told[0], position=Position(0, 0))
    ids = [record.id for record in number("prod", "l", told)]
    assert ids == [
        EventId("l", 0, 0, 1), EventId("l", 1, 2, 0), EventId("l", 1, 2, 1),
        EventId("l", 1, 2, 2), EventId("l", 1, 3, 0),
    ]  # fmt: skip
    (after,) = number("prod", "l", told[1:2], after=EventId("l", 1, 2, 7))
    assert after.id == EventId("l", 1, 2, 8)
    assert as_of(after.id) == AsOf("l", 1, 2)


def test_records_are_read_as_they_were_written() -> None:
    """Another version, or what is no record, is unreadable."""
    (record,) = number("prod", "l", [Anomaly(**at(1, path="/x", reason="y"))])
    assert decode_event(encode_event(record)) == record
    newer = encode_event(msgspec.structs.replace(record, v=2))
    for data, reason in ((newer, "an event of version 2; this release reads 1"),
                         (b"{}", "not an event: "), (b"\xff", "not an event: ")):  # fmt: skip
        with pytest.raises(UnreadableRecordError) as caught:
            decode_event(data)
        assert str(caught.value).startswith(reason)


@pytest.mark.parametrize(("mzxid", "zxid"), [(None, 8), (5, 5), (0, 0)])
def test_an_event_says_where_it_was_seen(mzxid: int | None, zxid: int) -> None:
    """The zxid of the value, or of the read where there is none."""
    change = ZnodeChange(
        v=1, cluster="c", generation=2, watcher="w", seq=3, kind=ChangeKind.DELETED, observed_at=4,
        mzxid=mzxid, read_zxid=8,
    )  # fmt: skip
    assert where(change) == {"at": 4, "position": Position(2, 3), "zxid": zxid}
