"""ISRs that flap, with the broker to blame, and a controller that flaps.

Everything is computed from events and their own times, over a window that the caller
gives. Who is to blame is inferred: the ISR shows who left under which leader, not why.
"""

import enum
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from typing import Annotated

import msgspec
from msgspec import Meta

from controller_model.kafka.ids import NO_CONTROLLER, TopicPartition
from controller_model.records.events import ControllerElected, IsrShrunk

FLAPPING_TIMES = 3
"""Two within a window may be one restart, away and back; three are a pattern."""


class Suspect(enum.StrEnum):
    """Who is to blame when a replica leaves an ISR."""

    REPLICA = "replica"
    """It is slow or gone: it left under more leaders than its leader lost followers."""
    LEADER = "leader"
    """Two or more followers left under it, and they did not leave under as many other leaders."""
    UNKNOWN = "unknown"
    """Several left under as many leaders: a network problem perhaps, or a full stop of a rack."""


class Blame(msgspec.Struct, frozen=True, kw_only=True):
    """How many replicas left an ISR because of a broker."""

    broker: int
    as_replica: Annotated[int, Meta(description="Times that it left: it is slow or gone.")] = 0
    as_leader: Annotated[int, Meta(description="Times that others left under it.")] = 0

    @property
    def leaves(self) -> int:
        """How many replicas left an ISR because of it."""
        return self.as_replica + self.as_leader


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
    blames: tuple[Blame, ...]
    """The brokers to blame over all these partitions, worst first."""
    unexplained: int


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
    shrunk = Counter(partition for event in inside for partition in event.partitions)
    blamed: dict[TopicPartition, Counter[_Blamed]] = {
        partition: Counter() for partition, count in shrunk.items() if count >= FLAPPING_TIMES
    }
    blame_for = _judge(inside)
    for event in inside:
        leaves = [blame_for(event, replica) for replica in event.who]
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
    return IsrFlapping(
        partitions=tuple(
            sorted(flapping, key=lambda isr: (-isr.shrinks, isr.topic, isr.partition))
        ),
        blames=_blames(overall),
        unexplained=overall[_UNEXPLAINED],
    )


def controller_flapping(
    elections: Iterable[ControllerElected], *, now: int, window_ms: int
) -> ControllerFlapping:
    """Return how often the controller was elected in the window, and whether that is too often."""
    inside = [event for event in elections if now - window_ms < event.at <= now]
    count = sum(1 + event.missed_elections for event in inside)
    changes = sum(event.from_broker not in {NO_CONTROLLER, event.to_broker} for event in inside)
    flapping = count >= FLAPPING_TIMES
    return ControllerFlapping(elections=count, id_changes=changes, flapping=flapping)


def _judge(shrinks: Iterable[IsrShrunk]) -> Callable[[IsrShrunk, int], _Blamed]:
    """Return a function that returns who is to blame for a replica that left in a shrink.

    A replica that the controller removed was dead. For the others, the larger number decides: the
    leaders under which the replica left, or the followers that left under the leader. One follower
    that leaves under one leader is the usual slow replica.
    """
    leaders_of: defaultdict[int, set[int]] = defaultdict(set)
    followers_of: defaultdict[int, set[int]] = defaultdict(set)
    for event in shrinks:
        if not event.by_controller:
            followers_of[event.leader].update(event.who)
            for replica in event.who:
                leaders_of[replica].add(event.leader)

    def blame_for(event: IsrShrunk, replica: int) -> _Blamed:
        if event.by_controller:
            return Suspect.REPLICA, replica
        leaders, followers = len(leaders_of[replica]), len(followers_of[event.leader])
        if followers > leaders:
            return Suspect.LEADER, event.leader
        if leaders > followers or leaders == 1:
            return Suspect.REPLICA, replica
        return _UNEXPLAINED

    return blame_for


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
