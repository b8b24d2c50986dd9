"""A topic's numbers as counts that add up.

The rule: a contribution depends on the topic's own znodes and on nothing else, neither on which
brokers live nor on defaults. Those are applied when totals are read (`figures`), so that a
broker's death touches no topic, and the totals move by new minus old.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

import msgspec

from controller_model.ids import NO_LEADER

NO_MIN_ISR = 0
"""In a key: the topic sets no min.insync.replicas of its own."""

Partition = tuple[tuple[int, ...], int | None, tuple[int, ...]]
"""(replicas, leader or None without a state, ISR) of one partition."""


class Shape(NamedTuple):
    """What partitions with a state are counted by."""

    leader: int
    replicas: int
    target: int
    """Replicas without those that are still being added."""
    isr: int
    min_isr: int
    """The topic's own min.insync.replicas, or NO_MIN_ISR."""


class Member(NamedTuple):
    """What memberships in an ISR are counted by."""

    broker: int
    leader: int
    replicas: int
    isr: int
    min_isr: int


class Contribution(msgspec.Struct, array_like=True):
    """The numbers of a topic, or the sum over topics."""

    partitions: int = 0
    without_state: int = 0
    reassigning: int = 0
    preferred_imbalance: int = 0
    """The gauge rule: KafkaController.updateMetrics, with hasPreferredLeader's exemption."""
    sizes: dict[tuple[int, int], int] = {}
    """Partitions by (replication factor, the topic's min.insync.replicas)."""
    shapes: dict[Shape, int] = {}
    members: dict[Member, int] = {}
    replicas: dict[int, int] = {}
    leaders: dict[int, int] = {}
    preferred: dict[int, int] = {}
    """The ratio rule (checkAndTriggerAutoLeaderRebalance): partitions by first replica."""
    preferred_not_led: dict[int, int] = {}
    """Those of them that have a state and another leader, or none."""
    preferred_not_led_in_isr: dict[int, int] = {}
    """Those of them whose first replica is in the ISR."""

    @classmethod
    def of(
        cls,
        partitions: Mapping[int, Partition],
        *,
        adding: Mapping[int, tuple[int, ...]],
        removing: Mapping[int, tuple[int, ...]],
        min_isr: int | None,
        deleting: bool,
    ) -> Contribution:
        """Return the numbers of one topic; one that is being deleted counts in few of them."""
        topic = cls(partitions=len(partitions))
        own_min_isr = min_isr or NO_MIN_ISR
        for partition, (replicas, leader, isr) in partitions.items():
            _bump(topic.replicas, *replicas)
            _bump_pair(topic.sizes, (len(replicas), own_min_isr))
            added = adding.get(partition, ())
            topic.reassigning += bool(added or removing.get(partition))
            if leader is None:
                topic.without_state += 1
            elif leader >= 0:
                _bump(topic.leaders, leader)
            if not deleting:
                topic._count_live_topic(replicas, leader, isr, added, own_min_isr)
        return topic

    def _count_live_topic(
        self,
        replicas: tuple[int, ...],
        leader: int | None,
        isr: tuple[int, ...],
        added: tuple[int, ...],
        min_isr: int,
    ) -> None:
        preferred = replicas[0] if replicas else None
        if preferred is not None:
            _bump(self.preferred, preferred)
        if leader is None:
            return
        leader = max(leader, NO_LEADER)
        target = len(replicas) - len(set(added) & set(replicas))
        shape = Shape(leader, len(replicas), target, len(isr), min_isr)
        self.shapes[shape] = self.shapes.get(shape, 0) + 1
        for broker in isr:
            member = Member(broker, leader, len(replicas), len(isr), min_isr)
            self.members[member] = self.members.get(member, 0) + 1
        if preferred is None:
            return
        if leader != preferred:
            _bump(self.preferred_not_led, preferred)
            if preferred in isr:
                _bump(self.preferred_not_led_in_isr, preferred)
        self.preferred_imbalance += not _has_preferred_leader(preferred, leader, isr, added)

    def add(self, other: Contribution) -> None:
        """Add a topic's numbers to these totals."""
        self._move(other, 1)

    def take(self, other: Contribution) -> None:
        """Take a topic's numbers off these totals."""
        self._move(other, -1)

    def _move(self, other: Contribution, sign: int) -> None:
        self.partitions += sign * other.partitions
        self.without_state += sign * other.without_state
        self.reassigning += sign * other.reassigning
        self.preferred_imbalance += sign * other.preferred_imbalance
        for mine, theirs in zip(self._tables(), other._tables(), strict=True):
            for key, count in theirs.items():
                moved = mine.get(key, 0) + sign * count
                if moved:
                    mine[key] = moved
                else:
                    mine.pop(key, None)

    def _tables(self) -> Iterator[dict[object, int]]:
        for name in _TABLES:
            yield getattr(self, name)


_TABLES = (
    "sizes",
    "shapes",
    "members",
    "replicas",
    "leaders",
    "preferred",
    "preferred_not_led",
    "preferred_not_led_in_isr",
)


def _has_preferred_leader(
    preferred: int, leader: int, isr: tuple[int, ...], added: tuple[int, ...]
) -> bool:
    # ControllerContext.hasPreferredLeader: a preferred replica that is still being added is
    # exempt until it is in the ISR, and from then on counts even if it already leads.
    if preferred in added:
        return preferred not in isr
    return leader == preferred


def _bump(table: dict[int, int], *keys: int) -> None:
    for key in keys:
        table[key] = table.get(key, 0) + 1


def _bump_pair(table: dict[tuple[int, int], int], key: tuple[int, int]) -> None:
    table[key] = table.get(key, 0) + 1
