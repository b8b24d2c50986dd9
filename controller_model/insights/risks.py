"""What is wrong with an assignment before anything has failed.

The rule: a standing risk is read off assignments, configuration and registrations alone; no
election mends it, only a reassignment or another configuration does. What cannot be known (a
broker without a rack, one that was never seen) makes no risk, unless its absence is the risk.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Mapping

import msgspec

from controller_model.insights.cluster_facts import ClusterFacts, PartitionFacts, counted, named
from controller_model.kafka.ids import TopicPartition

LONG_GONE_MS = 86_400_000
"""A broker that has been away for a day does not just restart."""

_RACKS_TO_SPREAD_OVER = 2


class Risk(enum.StrEnum):
    """A standing risk of a partition."""

    REPLICATION_FACTOR_1 = "replication_factor_1"
    MIN_ISR_BLOCKS = "min_isr_blocks"
    """min.insync.replicas is not below the replication factor, RF 1 apart."""
    REPLICAS_ON_GONE_BROKERS = "replicas_on_gone_brokers"
    ONE_RACK = "one_rack"


_WORDS = {
    Risk.REPLICATION_FACTOR_1: "with a single replica: offline as soon as its broker is",
    Risk.MIN_ISR_BLOCKS: (
        "with min.insync.replicas not below the replication factor: no broker of theirs can stop "
        "without refusing acks=all"
    ),
    Risk.REPLICAS_ON_GONE_BROKERS: "with replicas on brokers that are long gone: {gone}",
    Risk.ONE_RACK: "with all replicas in one rack, though the cluster has others",
}


class StandingRisk(msgspec.Struct, frozen=True, kw_only=True):
    """One risk and the partitions that have it."""

    risk: Risk
    text: str
    partitions: tuple[TopicPartition, ...]
    brokers: tuple[int, ...] = ()
    """The brokers that are gone, where that is the risk."""


class LeaderSkew(msgspec.Struct, frozen=True, kw_only=True):
    """How many leaders a live broker has too many when every preferred replica leads."""

    broker: int
    preferred: int
    fair_share: float
    """Partitions (topics being deleted excluded) over live brokers."""

    @property
    def ratio(self) -> float:
        """0 = its share; 0.5 = half as much again; -1 = it would lead nothing."""
        return self.preferred / self.fair_share - 1 if self.fair_share else 0.0


def standing_risks(
    partitions: Iterable[PartitionFacts],
    cluster: ClusterFacts,
    *,
    now: int,
    long_gone_ms: int = LONG_GONE_MS,
) -> tuple[StandingRisk, ...]:
    """Return the standing risks of a cluster, in the order of `Risk`; topics being deleted apart.

    `now` is a time by the watcher's clock, as the ends of registrations are.
    """
    found: dict[Risk, list[TopicPartition]] = {risk: [] for risk in Risk}
    gone: set[int] = set()
    spread = has_racks_to_spread_over(cluster)
    for partition in partitions:
        if partition.deleting:
            continue
        absent = _long_gone(partition, cluster, now - long_gone_ms)
        gone |= absent
        for risk, has in (
            (Risk.REPLICATION_FACTOR_1, len(partition.replicas) == 1),
            (Risk.MIN_ISR_BLOCKS, _min_isr_blocks(partition, cluster)),
            (Risk.REPLICAS_ON_GONE_BROKERS, bool(absent)),
            (Risk.ONE_RACK, spread and in_one_rack(partition.replicas, cluster.racks)),
        ):
            if has:
                found[risk].append(partition.id)
    return tuple(
        StandingRisk(
            risk=risk,
            text=f"{counted(len(having), 'partition')} ({named(having)}) {_WORDS[risk].format(gone=_listed(gone))}",
            partitions=tuple(having),
            brokers=tuple(sorted(gone)) if risk is Risk.REPLICAS_ON_GONE_BROKERS else (),
        )
        for risk, having in found.items()
        if having
    )


def has_racks_to_spread_over(cluster: ClusterFacts) -> bool:
    """Tell whether live brokers are in more than one rack."""
    racks = {cluster.racks.get(broker) for broker in cluster.live} - {None}
    return len(racks) >= _RACKS_TO_SPREAD_OVER


def in_one_rack(replicas: tuple[int, ...], racks: Mapping[int, str | None]) -> bool:
    """Tell whether replicas, two or more, are all in one rack; not where a rack is not known.

    >>> in_one_rack((1, 2), {1: "a", 2: "a"}), in_one_rack((1, 2), {1: "a", 2: None})
    (True, False)
    """
    if len(replicas) < _RACKS_TO_SPREAD_OVER:
        return False
    first = racks.get(replicas[0])
    return first is not None and all(racks.get(replica) == first for replica in replicas)


def leader_skew(
    partitions: Iterable[PartitionFacts], cluster: ClusterFacts
) -> tuple[LeaderSkew, ...]:
    """Return the skew of every live broker that no election can mend, worst first.

    The only election that an operator can ask for gives a partition to its preferred replica; how
    evenly those are spread is up to the assignment.
    """
    preferred = dict.fromkeys(cluster.live, 0)
    total = 0
    for partition in partitions:
        if partition.deleting or partition.preferred is None:
            continue
        total += 1
        if partition.preferred in preferred:
            preferred[partition.preferred] += 1
    share = total / max(1, len(cluster.live))
    each = [
        LeaderSkew(broker=broker, preferred=count, fair_share=share)
        for broker, count in preferred.items()
    ]
    return tuple(sorted(each, key=lambda skew: (-skew.preferred, skew.broker)))


def _listed(brokers: set[int]) -> str:
    return ", ".join(map(str, sorted(brokers)))


def _min_isr_blocks(partition: PartitionFacts, cluster: ClusterFacts) -> bool:
    # min_isr_of never exceeds the replication factor: equal to it means that it blocks.
    factor = len(partition.replicas)
    return factor > 1 and cluster.min_isr_of(partition) == factor


def _long_gone(partition: PartitionFacts, cluster: ClusterFacts, since: int) -> set[int]:
    absent = {replica for replica in partition.replicas if replica not in cluster.live}
    ends = {replica: cluster.gone_since.get(replica) for replica in absent}
    # One that was never registered as long as anybody watched has been gone for long.
    return {replica for replica, end in ends.items() if end is None or end <= since}
