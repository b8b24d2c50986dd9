"""Which two brokers must not be lost together: what a pair breaks that neither member breaks alone.

A partition counts for a pair only if both are involved in it, so one pass over the pairs
of each partition's own brokers finds all pairs, however many brokers there are. The loss of the
worst pairs is then computed like any other loss, so that the figures agree.
"""

from collections import Counter
from collections.abc import Callable, Iterable
from heapq import nsmallest
from itertools import combinations

import msgspec

from controller_model.insight.loss import (
    HARM,
    Loss,
    StopRisk,
    by_kind,
    involved,
    lose_groups,
    outcome,
)
from controller_model.kafka.cluster_facts import ClusterFacts, PartitionFacts

Pair = tuple[int, int]
"""Two live brokers, the lower id first."""


class PairLoss(msgspec.Struct, frozen=True, kw_only=True):
    """What the loss of two brokers at once would do."""

    loss: Loss
    beyond: dict[StopRisk, int]
    """How many partitions each risk affects although the loss of neither broker alone would."""


class PairLosses(msgspec.Struct, frozen=True, kw_only=True):
    """The pairs that break more than their members do alone."""

    count: int
    """The number of such pairs."""
    worst: tuple[PairLoss, ...] = ()


def lose_pairs(
    walk: Callable[[], Iterable[PartitionFacts]], cluster: ClusterFacts, *, most: int
) -> PairLosses:
    """Return the pairs that break more than their members do alone, the worst `most` of them.

    Args:
        walk: yields all partitions, and is called twice.
        cluster: the brokers of the cluster.
        most: how many pairs are listed; all are counted.
    """
    beyond = _beyond(walk(), cluster)
    worst = nsmallest(
        most, beyond, key=lambda pair: (*(-beyond[pair][risk] for risk in HARM), *pair)
    )
    losses = lose_groups(walk(), cluster, {pair: pair for pair in worst}) if worst else {}
    return PairLosses(
        count=len(beyond),
        worst=tuple(
            PairLoss(loss=loss, beyond={risk: beyond[pair][risk] for risk in HARM})
            for pair, loss in losses.items()
        ),
    )


def _beyond(
    partitions: Iterable[PartitionFacts], cluster: ClusterFacts
) -> dict[Pair, Counter[StopRisk]]:
    """Return what each pair breaks that neither member breaks alone; pairs without that are absent."""
    found: dict[Pair, Counter[StopRisk]] = {}
    of_kind = by_kind(cluster, lambda partition: _of_kind(partition, cluster))
    for partition in partitions:
        if not partition.counts:
            continue
        for pair, risks in of_kind(partition):
            found.setdefault(pair, Counter()).update(risks)
    return found


def _of_kind(partition: PartitionFacts, cluster: ClusterFacts) -> list[tuple[Pair, list[StopRisk]]]:
    """Return what pairs of a partition's brokers break that neither member breaks alone."""
    # Only its own brokers matter to a partition: small sets, in a cluster of any size.
    may_matter = involved(partition, cluster)
    members = cluster.live.intersection(
        (partition.written_leader, *partition.isr, *partition.replicas, *may_matter)
    )
    alone: dict[int, tuple[StopRisk, ...]] = {}
    found = []
    for pair in combinations(sorted(members & may_matter), 2):
        risks = outcome(partition, cluster, members.difference(pair)).risks
        if not risks:
            continue
        for broker in pair:
            if broker not in alone:
                alone[broker] = outcome(partition, cluster, members - {broker}).risks
        known = alone[pair[0]] + alone[pair[1]]
        new = [risk for risk in risks if risk in HARM and risk not in known]
        if new:
            found.append((pair, new))
    return found
