"""The conditions by which partitions are filtered: offline, under-replicated, not preferred and others.

The rule: each condition is the one that the figures count (`views.Counts`), so a list is never longer or
shorter than the number that led an operator to it. Where min.insync.replicas is not known, it is not known
(None) whether a partition meets a condition that depends on it: it is not listed, and there is no number.
"""

import enum
from collections.abc import Callable, Iterable, Mapping

from controller_model.insight.racks import has_racks_to_spread_over, in_one_rack
from controller_model.kafka.cluster_facts import ClusterFacts, PartitionFacts
from controller_model.records.views import Counts

Judge = Callable[[PartitionFacts, ClusterFacts], bool | None]


class Condition(enum.StrEnum):
    """A filter for partitions and topics."""

    OFFLINE = "offline"
    """It has a state and no live leader."""
    UNDER_REPLICATED = "under-replicated"
    UNDER_MIN_ISR = "under-min-isr"
    AT_MIN_ISR = "at-min-isr"
    NOT_PREFERRED = "not-preferred"
    """Its leader is not the preferred replica (the gauge PreferredReplicaImbalanceCount)."""
    ELECTABLE = "electable"
    """Another replica leads while the preferred replica is live and in sync."""
    REASSIGNING = "reassigning"
    WITHOUT_STATE = "without-state"
    """It is assigned, and its state znode does not exist yet."""
    SINGLE_REPLICA = "single-replica"
    MIN_ISR_BLOCKING = "min-isr-blocking"
    """Its min.insync.replicas is not below its replication factor; partitions with one replica are not counted."""
    ON_GONE_BROKERS = "on-gone-brokers"
    """A broker that is not registered has a replica."""
    ONE_RACK = "one-rack"
    """All its replicas are in one rack although live brokers are in other racks."""
    DELETING = "deleting"
    """Its topic is being deleted."""


def is_under_replicated(partition: PartitionFacts) -> bool:
    """Return whether a counted partition lacks in-sync replicas, not counting those being added."""
    wanted = len(set(partition.replicas) - set(partition.adding))
    return partition.counts and wanted > len(partition.isr)


JUDGES: Mapping[Condition, Judge] = {
    Condition.OFFLINE: lambda partition, cluster: cluster.is_offline(partition),
    Condition.UNDER_REPLICATED: lambda partition, _: is_under_replicated(partition),
    Condition.UNDER_MIN_ISR: lambda partition, cluster: cluster.is_under_min_isr(partition),
    Condition.AT_MIN_ISR: lambda partition, cluster: cluster.is_at_min_isr(partition),
    Condition.NOT_PREFERRED: lambda partition, cluster: (
        partition.counts and not cluster.has_preferred_leader(partition)
    ),
    Condition.ELECTABLE: lambda partition, cluster: (
        partition.counts
        and partition.leader != partition.preferred
        and partition.preferred in cluster.live
        and partition.preferred in partition.isr
    ),
    Condition.REASSIGNING: lambda partition, _: partition.reassigning,
    Condition.WITHOUT_STATE: lambda partition, _: partition.leader is None,
    Condition.SINGLE_REPLICA: lambda partition, _: len(partition.replicas) == 1,
    Condition.MIN_ISR_BLOCKING: lambda partition, cluster: cluster.min_isr_blocks(partition),
    Condition.ON_GONE_BROKERS: lambda partition, cluster: (
        not cluster.live.issuperset(partition.replicas)
    ),
    # Whether there are other racks is checked last: it reads all brokers, and few partitions get that far.
    Condition.ONE_RACK: lambda partition, cluster: (
        not partition.deleting
        and in_one_rack(partition.replicas, cluster.racks)
        and has_racks_to_spread_over(cluster)
    ),
    Condition.DELETING: lambda partition, _: partition.deleting,
}

_ALL_NEED = frozenset({"deletions"})
"""Most conditions leave out topics that are being deleted."""
_NEEDS: Mapping[Condition, frozenset[str]] = {
    **dict.fromkeys(
        (Condition.ELECTABLE, Condition.ON_GONE_BROKERS, Condition.ONE_RACK),
        _ALL_NEED | {"brokers"},
    ),
    **dict.fromkeys((Condition.REASSIGNING, Condition.SINGLE_REPLICA), frozenset()),
}
"""What a condition needs that a judge does not ask for itself, by the names of capabilities."""

_COUNTED: Mapping[Condition, Callable[[Counts], int | None]] = {
    Condition.OFFLINE: lambda counts: counts.offline,
    Condition.UNDER_REPLICATED: lambda counts: counts.under_replicated,
    Condition.UNDER_MIN_ISR: lambda counts: counts.under_min_isr,
    Condition.AT_MIN_ISR: lambda counts: counts.at_min_isr,
    Condition.NOT_PREFERRED: lambda counts: counts.preferred_imbalance,
    Condition.ELECTABLE: lambda counts: counts.preferred_electable,
    Condition.MIN_ISR_BLOCKING: lambda counts: counts.min_isr_blocks,
    Condition.ON_GONE_BROKERS: lambda counts: counts.replicas_on_gone_brokers,
    Condition.DELETING: lambda counts: counts.deleting_topics,
}
"""The conditions that the cluster's view counts exactly, so that "none" is known without reading partitions."""


def meets(condition: Condition, partition: PartitionFacts, cluster: ClusterFacts) -> bool | None:
    """Return whether a partition meets a condition; None: it is not known."""
    is_known = partition.is_known and _NEEDS.get(condition, _ALL_NEED).isdisjoint(cluster.hidden)
    return JUDGES[condition](partition, cluster) if is_known else None


def judge(partition: PartitionFacts, cluster: ClusterFacts) -> dict[Condition, bool | None]:
    """Return whether a partition meets each condition; None: it is not known."""
    return {condition: meets(condition, partition, cluster) for condition in JUDGES}


def none_counted(conditions: Iterable[Condition], counts: Counts) -> bool:
    """Return whether the cluster's figures say that no partition meets one of the conditions; they do not count all."""
    return any(each in _COUNTED and _COUNTED[each](counts) == 0 for each in conditions)
