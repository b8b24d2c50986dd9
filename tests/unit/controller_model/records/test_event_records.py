"""Events as records: joined by cause, numbered, written and read."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from controller_model.kafka.coordinators import Coordinator
from controller_model.kafka.errors import UnreadableRecordError
from controller_model.kafka.ids import AsOf, Position, TopicPartition
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
    IsrExpanded,
    IsrShrunk,
    LeaderElectionKind,
    LeadersElected,
    PartitionsOffline,
    PartitionsOnline,
    ReassignmentCompleted,
    ReassignmentStarted,
    StaleControllerWrite,
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
    """Return an event's position, ten times that as its time, and its other fields."""
    return {"at": 10 * seq, "position": Position(1, seq), "source_number": seq, **fields}


def of(*partitions: int) -> tuple[TopicPartition, ...]:
    """Return partitions of topic t."""
    return tuple(TopicPartition("t", partition) for partition in partitions)


@pytest.mark.parametrize(("kind", "facts"), CAUSES)
def test_events_of_one_cause_are_joined_for_each_kind(
    kind: type[Any], facts: dict[str, Any]
) -> None:
    """First time and zxid, last position, all partitions in their order."""
    first, second = (kind(**at(s, partitions=of(s), **facts)) for s in (3, 5))
    (joined,) = coalesce([first, second])
    assert joined == kind(
        at=30, position=Position(1, 5), source_number=3, partitions=of(3, 5), **facts
    )


@pytest.mark.parametrize(("kind", "fact"), [(kind, f) for kind, facts in CAUSES for f in facts])
def test_events_that_differ_in_one_fact_are_not_joined(kind: type[Any], fact: str) -> None:
    """Each fact of an event keeps it apart from events in which that fact differs."""
    facts = dict(CAUSES)[kind]
    reported = [
        kind(**at(1, partitions=of(1), **facts)),
        kind(**at(2, partitions=of(2), **{**facts, fact: OTHER[fact]})),
    ]
    assert coalesce(reported) == reported


def test_reassignments_and_anomalies_are_never_joined() -> None:
    """Reassignments are reported per topic; anomalies have no partitions."""
    reported: list[AnyEvent] = [
        kind(**at(seq, topic="t", partitions=of(0)))
        for kind in (ReassignmentStarted, ReassignmentCompleted)
        for seq in (1, 2)
    ]
    reported += [Anomaly(**at(3, path="/x", reason="y"))] * 2
    assert coalesce(reported) == sorted(reported, key=lambda event: event.position)


@pytest.mark.parametrize(("more", "lists"), [(0, [10_000]), (1, [10_000, 1])])
def test_a_wide_cause_is_reported_in_several(more: int, lists: list[int]) -> None:
    """No record lists more than the limit, and no partition is lost."""
    assert MAX_PARTITIONS_PER_EVENT == 10_000
    halves = (range(5_000), range(5_000, 10_000 + more))
    reported = [PartitionsOnline(**at(s, to_broker=1, partitions=of(*halves[s]))) for s in (0, 1)]
    joined = [
        event.partitions for event in coalesce(reported) if isinstance(event, PartitionsOnline)
    ]
    assert [len(partitions) for partitions in joined] == lists
    assert [p.partition for partitions in joined for p in partitions] == [*range(10_000 + more)]


def test_event_ids_rise_while_positions_do_not() -> None:
    """An event that was reported late gets an id after those that were reported before it."""
    reported = [Anomaly(**at(seq, path="", reason="")) for seq in (0, 2, 2, 1, 3)]
    reported[0] = msgspec.structs.replace(reported[0], position=Position(0, 0))
    ids = [record.id for record in number("prod", "l", reported)]
    assert ids == [
        EventId("l", 0, 0, 1), EventId("l", 1, 2, 0), EventId("l", 1, 2, 1),
        EventId("l", 1, 2, 2), EventId("l", 1, 3, 0),
    ]  # fmt: skip
    (after,) = number("prod", "l", reported[1:2], after=EventId("l", 1, 2, 7))
    assert after.id == EventId("l", 1, 2, 8)
    assert as_of(after.id) == AsOf("l", 1, 2)


def test_records_are_read_as_they_were_written() -> None:
    """Another version, or bytes that are not a record, are unreadable."""
    (record,) = number("prod", "l", [Anomaly(**at(1, path="/x", reason="y"))])
    assert decode_event(encode_event(record)) == record
    newer = encode_event(msgspec.structs.replace(record, v=2))
    for data, reason in ((newer, "an event of version 2; this release reads 1"),
                         (b"{}", "not an event: "), (b"\xff", "not an event: ")):  # fmt: skip
        with pytest.raises(UnreadableRecordError) as caught:
            decode_event(data)
        assert str(caught.value).startswith(reason)


def test_events_of_one_cause_are_one_event() -> None:
    """Joined over partitions, at the first one's time and the last one's position, with rising ids."""

    def shrunk(seq: int, who: int) -> IsrShrunk:
        return IsrShrunk(
            at=seq, position=Position(1, seq), who=(who,), leader=1, by_controller=True,
            partitions=(TopicPartition("t", seq),),
        )  # fmt: skip

    joined = coalesce([shrunk(1, 0), shrunk(2, 2), shrunk(3, 0)])
    assert [event.position.seq for event in joined] == [2, 3]
    assert joined[1].at == 1
    records = number("prod", "l", [*joined, joined[1]])
    assert [tuple(record.id.__getattribute__(f) for f in ("seq", "index")) for record in records] == [
        (2, 0), (3, 0), (3, 1)
    ]  # fmt: skip
