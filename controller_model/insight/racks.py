"""Whether all replicas of a partition are in one rack, where the cluster has others.

A rack that is not known (a broker without one, or one never seen) is no risk.
"""

from collections.abc import Mapping

from controller_model.kafka.cluster_facts import ClusterFacts

_SEVERAL = 2
"""The least number of racks to spread over, and of replicas to be spread."""


def has_racks_to_spread_over(cluster: ClusterFacts) -> bool:
    """Return whether live brokers are in more than one rack."""
    racks = {cluster.racks.get(broker) for broker in cluster.live} - {None}
    return len(racks) >= _SEVERAL


def in_one_rack(replicas: tuple[int, ...], racks: Mapping[int, str | None]) -> bool:
    """Return whether two or more replicas are all in one rack; False if a rack is not known.

    >>> in_one_rack((1, 2), {1: "a", 2: "a"}), in_one_rack((1, 2), {1: "a", 2: None})
    (True, False)
    """
    if len(replicas) < _SEVERAL:
        return False
    first = racks.get(replicas[0])
    return first is not None and all(racks.get(replica) == first for replica in replicas)
