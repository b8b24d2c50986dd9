"""ISRs that flap, with the broker to blame, and a controller that flaps.

Everything is computed from what happened and its own time, over a window that the caller
gives. Who is to blame is inferred: the ISR shows who left under which leader, not why.
"""

import enum
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Annotated

import msgspec
from msgspec import Meta

from controller_model.kafka.ids import NO_CONTROLLER, TopicPartition
from controller_model.records.events import ControllerElected, IsrShrunk
from controller_model.records.recent import Elections, count_elections

FLAPPING_TIMES = 3
"""Two within a window may be one restart, away and back; three are a pattern."""

EVIDENCE_MS = 30_000
"""Shrinks that are further apart are no evidence about each other. Leaders look for followers that lag every half of
replica.lag.time.max.ms (30 s), so all leaders of a slow follower drop it within 15 s."""


class Suspect(enum.StrEnum):
    """Who is to blame when a replica leaves an ISR."""

    REPLICA = "replica"
    """It is slow or gone: it left more ISRs under other leaders than its leader lost other followers."""
    LEADER = "leader"
    """It lost more other followers than this one left ISRs under other leaders."""
    UNKNOWN = "unknown"
    """As many: a network problem perhaps, or a full stop of a rack."""


class Blame(msgspec.Struct, frozen=True, kw_only=True):
    """How many replicas left an ISR because of a broker."""

    broker: int
    as_replica: Annotated[int, Meta(description="Times that it left: it is slow or gone.")] = 0
    as_leader: Annotated[int, Meta(description="Times that others left under it.")] = 0

    @property
    def leaves(self) -> int:
        """How many replicas left an ISR because of it."""
        return self.as_replica + self.as_leader


class BlamedBroker(Blame, frozen=True, kw_only=True):
    """A broker to blame, and in how many of the partitions that flap."""

    partition_count: int


class FlappingPartition(msgspec.Struct, frozen=True):
    """A partition whose ISR shrank repeatedly, and the brokers to blame, worst first."""

    topic: str
    partition: int
    shrinks: int
    blames: tuple[Blame, ...]
    unexplained: Annotated[int, Meta(description="Replicas that left for an unknown reason.")]


class IsrFlapping(msgspec.Struct, frozen=True, kw_only=True):
    """The partitions whose ISRs flap within a window."""

    partitions: tuple[FlappingPartition, ...]
    """The one that shrank most often is the first."""
    blames: tuple[BlamedBroker, ...]
    """The brokers to blame over all these partitions, worst first."""
    unexplained: int
    unexplained_partition_count: int
    """In how many of these partitions replicas left for an unknown reason."""


class ControllerFlapping(msgspec.Struct, frozen=True, kw_only=True):
    """How often the controller was elected within a window."""

    elections: int
    """Includes elections that only the controller epoch shows."""
    id_changes: int
    flapping: bool


_Blamed = tuple[Suspect, int]
"""Who is to blame, and that broker's id."""
_UNEXPLAINED = (Suspect.UNKNOWN, -1)


def isr_flapping(shrinks: Iterable[IsrShrunk], *, now: int, window_ms: int) -> IsrFlapping:
    """Return the partitions whose ISR shrank FLAPPING_TIMES or more in the window, and who is to blame.

    All shrinks in the window are evidence, whether their partition flaps or not: they show who left under whom.
    """
    inside = [event for event in shrinks if now - window_ms < event.at <= now]
    inside.sort(key=lambda event: event.at)
    shrunk = Counter(partition for event in inside for partition in event.partitions)
    blamed: dict[TopicPartition, Counter[_Blamed]] = {
        partition: Counter() for partition, count in shrunk.items() if count >= FLAPPING_TIMES
    }
    for event, leaves in zip(inside, _judge(inside), strict=True):
        for partition in event.partitions:
            if partition in blamed:
                blamed[partition].update(leaves)
    overall: Counter[_Blamed] = sum(blamed.values(), Counter())
    flapping = [
        FlappingPartition(
            *partition,
            shrinks=shrunk[partition],
            blames=_blames(found),
            unexplained=found[_UNEXPLAINED],
        )
        for partition, found in blamed.items()
    ]
    concerned = Counter(blame.broker for isr in flapping for blame in isr.blames)
    return IsrFlapping(
        partitions=tuple(
            sorted(flapping, key=lambda isr: (-isr.shrinks, isr.topic, isr.partition))
        ),
        blames=tuple(
            BlamedBroker(
                broker=blame.broker,
                as_replica=blame.as_replica,
                as_leader=blame.as_leader,
                partition_count=concerned[blame.broker],
            )
            for blame in _blames(overall)
        ),
        unexplained=overall[_UNEXPLAINED],
        unexplained_partition_count=sum(isr.unexplained > 0 for isr in flapping),
    )


def controller_flapping(
    elections: Elections, elected: Iterable[ControllerElected], *, now: int, window_ms: int
) -> ControllerFlapping:
    """Return how often the controller was elected in the window, and whether that is too often.

    `elections` are all that count, `elected` those that were reported; both count at the elections' own times.
    """
    count = count_elections(elections, now, window_ms)
    changes = sum(
        event.from_broker not in {NO_CONTROLLER, event.to_broker}
        for event in elected
        if (event.at if event.elected_at is None else event.elected_at) > now - window_ms
    )
    flapping = count >= FLAPPING_TIMES
    return ControllerFlapping(elections=count, id_changes=changes, flapping=flapping)


def _judge(shrinks: Sequence[IsrShrunk]) -> Iterator[list[_Blamed]]:
    """Yield for each of the shrinks, which are in order of time, who is to blame for each replica that left."""
    evidence = _Evidence()
    begin = end = 0
    for event in shrinks:
        while end < len(shrinks) and shrinks[end].at <= event.at + EVIDENCE_MS:
            evidence.count(shrinks[end], 1)
            end += 1
        while shrinks[begin].at < event.at - EVIDENCE_MS:
            evidence.count(shrinks[begin], -1)
            begin += 1
        yield [evidence.blamed(event, replica) for replica in event.who]


class _Evidence:
    """How many ISRs each replica left under each leader within EVIDENCE_MS of one shrink.

    A replica that the controller removed was dead. For the others, the larger number decides: the ISRs that the
    replica left under other leaders, or those that the leader's other followers left. One follower that leaves under
    one leader is the usual slow replica.
    """

    def __init__(self) -> None:
        self._left: Counter[tuple[int, int]] = Counter()
        self._of_replica: Counter[int] = Counter()
        self._of_leader: Counter[int] = Counter()

    def count(self, event: IsrShrunk, sign: int) -> None:
        """Add a shrink, or remove it again."""
        if event.by_controller:
            return
        times = sign * len(event.partitions)
        for replica in event.who:
            self._left[replica, event.leader] += times
            self._of_replica[replica] += times
            self._of_leader[event.leader] += times

    def blamed(self, event: IsrShrunk, replica: int) -> _Blamed:
        """Return who is to blame for a replica that left in this shrink."""
        if event.by_controller:
            return Suspect.REPLICA, replica
        both = self._left[replica, event.leader]
        under_others = self._of_replica[replica] - both
        by_others = self._of_leader[event.leader] - both
        if by_others > under_others:
            return Suspect.LEADER, event.leader
        if under_others > by_others or under_others == 0:
            return Suspect.REPLICA, replica
        return _UNEXPLAINED


def _blames(found: Counter[_Blamed]) -> tuple[Blame, ...]:
    blames = (
        Blame(
            broker=broker,
            as_replica=found[Suspect.REPLICA, broker],
            as_leader=found[Suspect.LEADER, broker],
        )
        for broker in {broker for suspect, broker in found if suspect is not Suspect.UNKNOWN}
    )
    return tuple(sorted(blames, key=lambda blame: (-blame.leaves, blame.broker)))
