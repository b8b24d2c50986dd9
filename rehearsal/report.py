"""The report of a rehearsal: records of what each step does, and of what is not known.

What the controller decides is reported as its decision, a race in Kafka as a race, and what ZooKeeper does
not hold as not known. Brokers are ids. Times are in steps, because how long a step takes depends on the
operator and on the brokers' speed.
"""

import enum
from collections.abc import Collection

import msgspec

from controller_model.kafka.ids import TopicPartition


class PartitionName(msgspec.Struct, frozen=True, kw_only=True):
    """A partition."""

    topic: str
    partition: int


class PartitionNames(msgspec.Struct, frozen=True, kw_only=True):
    """Partitions: how many, and which; all of them unless the report was shortened."""

    count: int = 0
    partitions: tuple[PartitionName, ...] = ()


class LeadersMoved(msgspec.Struct, frozen=True, kw_only=True):
    """How many partitions a broker leads after a step that it did not lead before."""

    broker: int
    partition_count: int


class Race(enum.StrEnum):
    """What depends on which of the real brokers is faster."""

    CONTROLLER = "controller"
    """Who creates /controller."""
    SESSION_END = "session_end"
    """What happens between a broker's death and the end of its session."""
    CATCH_UP = "catch_up"
    """When followers catch up with their leaders, and which of them first."""


class RaceNote(msgspec.Struct, frozen=True, kw_only=True):
    """A race in a step, and what the rehearsal assumes for it."""

    race: Race
    text: str


class Unknown(msgspec.Struct, frozen=True, kw_only=True):
    """Something that the outcome may depend on, and that ZooKeeper does not hold."""

    what: str
    """The name of a Kafka setting, or a few words."""
    text: str


class ChangedPartition(msgspec.Struct, frozen=True, kw_only=True):
    """A partition before and after a step; its leader is -1 if it has none, None without a state."""

    topic: str
    partition: int
    leader_before: int | None
    leader: int | None
    isr_before: tuple[int, ...]
    isr: tuple[int, ...]
    replicas_before: tuple[int, ...]
    replicas: tuple[int, ...]
    """Empty if the partition is deleted."""
    leader_epoch: int | None
    deleted: bool = False


class Changes(msgspec.Struct, frozen=True, kw_only=True):
    """Changes of partitions: how many, and which, listed as in `PartitionNames`."""

    count: int = 0
    partitions: tuple[ChangedPartition, ...] = ()


class BrokerRequests(msgspec.Struct, frozen=True, kw_only=True):
    """How many requests a broker gets from the controller in a step."""

    broker: int
    leader_and_isr: int
    leader_and_isr_partitions: int
    """The states of partitions in these requests."""
    update_metadata: int
    update_metadata_after_isr_changes: int
    """At most: one for each ISR change that a leader requests, and real leaders request several at once."""
    stop_replica: int
    stop_replica_partitions: int


class FailoverEstimate(msgspec.Struct, frozen=True, kw_only=True):
    """What the broker that becomes controller has to do, and how long that may take."""

    partitions: int
    """Partitions whose leader is gone when it is elected: each costs an election and a write."""
    zookeeper_writes: int
    at_least_ms: int | None
    at_most_ms: int | None
    """From this cluster's last failover: if all of its time was spent on reading, and if all of it was
    spent on writing leaders. Both None: not known."""


class RehearsedStep(msgspec.Struct, frozen=True, kw_only=True):
    """What one operation does, until nothing is under way any more."""

    number: int
    """Counted from 1."""
    operation: str
    refused: str | None
    """Why the operation, or a part of it, is refused: Kafka's error, or what does not run. None: it is not."""
    controller_before: int | None
    controller: int | None
    """None: there is no controller."""
    controller_epoch: int | None
    controller_candidates: tuple[int, ...]
    """The brokers that race to become controller. Empty: nobody does."""
    elections: dict[str, int]
    """By kind: offline, unclean, controlled_shutdown, preferred, reassign."""
    leaders_moved: tuple[LeadersMoved, ...]
    changes: Changes
    went_offline: PartitionNames
    came_online: PartitionNames
    """Partitions that have a leader again; deleted ones do not."""
    leaderless_meanwhile: PartitionNames
    """Partitions written without a leader during the step, and led at its end."""
    went_under_min_isr: PartitionNames
    left_under_min_isr: PartitionNames
    """Partitions whose ISR is large enough again; those that are offline or deleted are not among them."""
    min_isr_unknown: PartitionNames
    """Partitions whose ISR changed while their min.insync.replicas is not known."""
    unclean: PartitionNames
    """Partitions that get a leader from outside the ISR: data is lost."""
    unclean_unknown: PartitionNames
    """Partitions that are offline unless the brokers' own files allow an unclean election."""
    not_reassigned: PartitionNames
    """Partitions of a reassignment that are not on their target at the end of the step."""
    requests: tuple[BrokerRequests, ...]
    zookeeper_writes: int
    """Znodes that are created, set and deleted, including those of sessions."""
    failover: FailoverEstimate | None
    """None: nobody is elected."""
    races: tuple[RaceNote, ...]


class OutageKind(enum.StrEnum):
    """What is wrong with a partition in an outage."""

    OFFLINE = "offline"
    UNDER_MIN_ISR = "under_min_isr"


class PartitionOutage(msgspec.Struct, frozen=True, kw_only=True):
    """The steps in which a partition is offline or under its min.insync.replicas."""

    kind: OutageKind
    topic: str
    partition: int
    from_step: int
    """0: it began before the first step."""
    until_step: int | None
    """The step that ends it; None: it has not ended."""


class OutageList(msgspec.Struct, frozen=True, kw_only=True):
    """Outages in the order in which they begin: how many, and which, listed as in `PartitionNames`."""

    count: int = 0
    outages: tuple[PartitionOutage, ...] = ()


class Rehearsal(msgspec.Struct, frozen=True, kw_only=True):
    """What the controller would do, step by step."""

    steps: tuple[RehearsedStep, ...]
    outages: OutageList
    """Includes outages that began before the first step."""
    pending_writes: int
    """Partitions with a pending write before the first step. The rehearsal begins after these writes, unless the controller
    is a zombie."""
    is_zombie: bool
    """The controller is a zombie: it writes nothing, and what is pending is written by the next controller."""
    unknown: tuple[Unknown, ...]


def listed(partitions: Collection[TopicPartition]) -> PartitionNames:
    """Return partitions in the form of the report."""
    names = tuple(PartitionName(topic=topic, partition=number) for topic, number in partitions)
    return PartitionNames(count=len(names), partitions=names)


def shortened(rehearsal: Rehearsal, most: int) -> Rehearsal:
    """Return a rehearsal with no list of partitions longer than `most`; the counts stay.

    >>> outages = OutageList(count=2, outages=())
    >>> shortened(Rehearsal(steps=(), outages=outages, pending_writes=0, is_zombie=False, unknown=()), 1).outages.count
    2
    """
    steps = tuple(_shortened_step(step, most) for step in rehearsal.steps)
    outages = msgspec.structs.replace(rehearsal.outages, outages=rehearsal.outages.outages[:most])
    return msgspec.structs.replace(rehearsal, steps=steps, outages=outages)


def _shortened_step(step: RehearsedStep, most: int) -> RehearsedStep:
    fields = msgspec.structs.asdict(step)
    return msgspec.structs.replace(
        step,
        **{
            name: msgspec.structs.replace(value, partitions=value.partitions[:most])
            for name, value in fields.items()
            if isinstance(value, PartitionNames | Changes)
        },
    )
