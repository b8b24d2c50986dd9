"""Whether all replicas of a partition are in one rack, where the cluster has others.

The rule: what cannot be known (a broker without a rack, one that was never seen) makes no risk.
"""

from collections.abc import Mapping

from controller_model.insights.cluster_facts import ClusterFacts

_SEVERAL = 2
"""Racks to spread over, and replicas to be spread."""


def has_racks_to_spread_over(cluster: ClusterFacts) -> bool:
    """Return whether live brokers are in more than one rack."""
    racks = {cluster.racks.get(broker) for broker in cluster.live} - {None}
    return len(racks) >= _SEVERAL


def in_one_rack(replicas: tuple[int, ...], racks: Mapping[int, str | None]) -> bool:
    """Return whether replicas, two or more, are all in one rack; not where a rack is not known.

    >>> in_one_rack((1, 2), {1: "a", 2: "a"}), in_one_rack((1, 2), {1: "a", 2: None})
    (True, False)
    """
    if len(replicas) < _SEVERAL:
        return False
    first = racks.get(replicas[0])
    return first is not None and all(racks.get(replica) == first for replica in replicas)
