"""ISRs that flap, with the broker to blame, and a controller that changes again and again.

The rule: everything is read off events and the times that they carry, over a window that the caller
names. A blame is an inference: the ISR shows who left under which leader, not why.
"""

from __future__ import annotations

import enum
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Annotated

import msgspec
from msgspec import Meta

from controller_model.kafka.ids import NO_CONTROLLER, TopicPartition
from controller_model.records.events import ControllerElected, IsrShrunk

FLAPPING_TIMES = 3
"""Twice may be one restart, there and back; three times within a window is a pattern."""


class Suspect(enum.StrEnum):
    """Who is to blame when a replica leaves an ISR."""

    REPLICA = "replica"
    """It is slow or gone: it leaves under more leaders than its leader loses followers."""
    LEADER = "leader"
    """Two or more followers leave under it, and they do not leave under as many others."""
    UNKNOWN = "unknown"
    """Several leave under several alike: a network, perhaps, or a full stop of a rack."""


class Blame(msgspec.Struct, frozen=True, kw_only=True):
    """How many replicas left an ISR because of a broker."""

    broker: int
    as_replica: Annotated[int, Meta(description="Times that it left: it is slow or gone.")] = 0
    as_leader: Annotated[int, Meta(description="Times that others left under it.")] = 0

    @property
    def leaves(self) -> int:
        """How many replicas left an ISR because of it."""
        return self.as_replica + self.as_leader


class FlappingIsr(msgspec.Struct, frozen=True, kw_only=True):
    """A partition whose ISR shrank again and again."""

    partition: TopicPartition
    shrinks: int
    blames: tuple[Blame, ...]
    """The brokers to blame for them, worst first."""
    unexplained: int
    """How many replicas left it for an unknown reason."""


class IsrFlapping(msgspec.Struct, frozen=True, kw_only=True):
    """The partitions whose ISRs flap within a window."""

    since: int
    until: int
    partitions: tuple[FlappingIsr, ...]
    """The one that shrank most often first."""
    blames: tuple[Blame, ...]
    """The brokers to blame over all of them, worst first."""
    unexplained: int


class ControllerFlapping(msgspec.Struct, frozen=True, kw_only=True):
    """How often the controller was elected within a window."""

    since: int
    until: int
    elections: int
    """Those included that only the controller epoch shows."""
    id_changes: int
    flapping: bool


class _Leave(msgspec.Struct, frozen=True):
    """One replica that left the ISR of one partition."""

    partition: TopicPartition
    leader: int
    replica: int
    by_controller: bool


def isr_flapping(
    shrinks: Iterable[IsrShrunk], *, now: int, window_ms: int, times: int = FLAPPING_TIMES
) -> IsrFlapping:
    """Return the partitions whose ISR shrank `times` or more in the window, and who is to blame.

    All shrinks in the window are evidence, flapping or not: they show who leaves under whom.
    """
    since = now - window_ms
    inside = [event for event in shrinks if since < event.at <= now]
    shrunk = Counter(partition for event in inside for partition in event.partitions)
    leaves = [
        _Leave(partition, event.leader, replica, event.by_controller)
        for event in inside
        for partition in event.partitions
        for replica in event.who
    ]
    suspects: dict[TopicPartition, Counter[tuple[Suspect, int]]] = {
        partition: Counter() for partition, count in shrunk.items() if count >= times
    }
    for leave, suspect in zip(leaves, _suspects(leaves), strict=True):
        if leave.partition in suspects:
            broker = leave.leader if suspect is Suspect.LEADER else leave.replica
            suspects[leave.partition][suspect, broker] += 1
    overall: Counter[tuple[Suspect, int]] = sum(suspects.values(), Counter())
    flapping = [
        FlappingIsr(
            partition=partition,
            shrinks=shrunk[partition],
            blames=_blames(found),
            unexplained=_unexplained(found),
        )
        for partition, found in suspects.items()
    ]
    return IsrFlapping(
        since=since,
        until=now,
        partitions=tuple(sorted(flapping, key=lambda isr: (-isr.shrinks, isr.partition))),
        blames=_blames(overall),
        unexplained=_unexplained(overall),
    )


def controller_flapping(
    elections: Iterable[ControllerElected],
    *,
    now: int,
    window_ms: int,
    times: int = FLAPPING_TIMES,
) -> ControllerFlapping:
    """Return how often the controller was elected in the window, and whether that is too often."""
    since = now - window_ms
    inside = [event for event in elections if since < event.at <= now]
    count = sum(1 + event.missed_elections for event in inside)
    changes = sum(event.from_broker not in {NO_CONTROLLER, event.to_broker} for event in inside)
    return ControllerFlapping(
        since=since, until=now, elections=count, id_changes=changes, flapping=count >= times
    )


def _suspects(leaves: Sequence[_Leave]) -> list[Suspect]:
    """Return the suspect of each leave.

    A replica that the controller took out was dead. Of the others, whoever has the more partners
    explains more with less: a replica that leaves under many leaders, or a leader that many leave.
    One follower that leaves under one leader is the usual slow replica.
    """
    leaders_of: dict[int, set[int]] = {}
    followers_of: dict[int, set[int]] = {}
    for leave in leaves:
        if not leave.by_controller:
            leaders_of.setdefault(leave.replica, set()).add(leave.leader)
            followers_of.setdefault(leave.leader, set()).add(leave.replica)

    def suspect(leave: _Leave) -> Suspect:
        if leave.by_controller:
            return Suspect.REPLICA
        leaders, followers = len(leaders_of[leave.replica]), len(followers_of[leave.leader])
        if followers > leaders:
            return Suspect.LEADER
        if leaders > followers or leaders == 1:
            return Suspect.REPLICA
        return Suspect.UNKNOWN

    return [suspect(leave) for leave in leaves]


def _blames(found: Counter[tuple[Suspect, int]]) -> tuple[Blame, ...]:
    blames = (
        Blame(
            broker=broker,
            as_replica=found[Suspect.REPLICA, broker],
            as_leader=found[Suspect.LEADER, broker],
        )
        for broker in {broker for suspect, broker in found if suspect is not Suspect.UNKNOWN}
    )
    return tuple(sorted(blames, key=lambda blame: (-blame.leaves, blame.broker)))


def _unexplained(found: Counter[tuple[Suspect, int]]) -> int:
    return sum(count for (suspect, _), count in found.items() if suspect is Suspect.UNKNOWN)
