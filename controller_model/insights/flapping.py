"""What goes to and fro: ISRs, and the controller; and who is to blame.

The rule: everything is judged from events and the times that they carry, over a window that the
caller names; nothing is counted that was not told. A blame is an inference and called one: the
ISR shows who left under which leader, not why.
"""

from __future__ import annotations

import enum
from collections import Counter
from collections.abc import Iterable, Sequence

import msgspec

from controller_model.kafka.ids import NO_CONTROLLER, TopicPartition
from controller_model.records.events import ControllerElected, IsrShrunk

FLAPPING_TIMES = 3
"""Twice may be one restart, there and back; three times within a window is a pattern."""


class Suspect(enum.StrEnum):
    """Who is suspected when a replica leaves an ISR."""

    REPLICA = "replica"
    """It is slow or gone: it leaves under more leaders than its leader loses followers."""
    LEADER = "leader"
    """Two or more followers leave under it, and they do not leave under as many others."""
    UNKNOWN = "unknown"
    """Several leave under several alike: a network, perhaps, or a full stop of a rack."""


class Blame(msgspec.Struct, frozen=True, kw_only=True):
    """How often a broker is the suspect."""

    broker: int
    as_replica: int = 0
    as_leader: int = 0

    @property
    def leaves(self) -> int:
        """Leaves of an ISR that are put down to it."""
        return self.as_replica + self.as_leader


class IsrFlapping(msgspec.Struct, frozen=True, kw_only=True):
    """ISRs that shrank again and again within a window."""

    since: int
    until: int
    partitions: dict[TopicPartition, int]
    """How often each flapping partition's ISR shrank, most often first."""
    blames: tuple[Blame, ...]
    """The suspects of those shrinks, worst first."""
    unexplained: int
    """Leaves whose suspect is unknown."""


class ControllerFlapping(msgspec.Struct, frozen=True, kw_only=True):
    """How often the controller was elected within a window."""

    since: int
    until: int
    elections: int
    """Those that only the epoch tells of included."""
    id_changes: int
    flapping: bool


class _Leave(msgspec.Struct, frozen=True):
    partition: TopicPartition
    leader: int
    replica: int
    by_controller: bool


def isr_flapping(
    shrinks: Iterable[IsrShrunk], *, now: int, window_ms: int, times: int = FLAPPING_TIMES
) -> IsrFlapping:
    """Return the partitions whose ISR shrank `times` or more in the window, and the suspects.

    Blame looks at all shrinks in the window, flapping or not: they tell who leaves under whom.
    """
    since = now - window_ms
    inside = [event for event in shrinks if since < event.at <= now]
    count = Counter(partition for event in inside for partition in event.partitions)
    flapping = {tp: n for tp, n in count.items() if n >= times}
    leaves = [
        _Leave(partition, event.leader, replica, event.by_controller)
        for event in inside
        for partition in event.partitions
        for replica in event.who
    ]
    suspects = suspect_of(leaves)
    as_replica: Counter[int] = Counter()
    as_leader: Counter[int] = Counter()
    unexplained = 0
    for leave, suspect in zip(leaves, suspects, strict=True):
        if leave.partition not in flapping:
            continue
        as_replica[leave.replica] += suspect is Suspect.REPLICA
        as_leader[leave.leader] += suspect is Suspect.LEADER
        unexplained += suspect is Suspect.UNKNOWN
    blames = [
        Blame(broker=broker, as_replica=as_replica[broker], as_leader=as_leader[broker])
        for broker in as_replica + as_leader
    ]
    return IsrFlapping(
        since=since,
        until=now,
        partitions=dict(sorted(flapping.items(), key=lambda entry: (-entry[1], entry[0]))),
        blames=tuple(sorted(blames, key=lambda blame: (-blame.leaves, blame.broker))),
        unexplained=unexplained,
    )


def suspect_of(leaves: Sequence[_Leave]) -> list[Suspect]:
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
