"""The placement of the partitions on the real cluster."""

from __future__ import annotations

from collections import Counter

from bench.real_cluster import BROKERS, LEADER, placed


def test_the_killed_broker_leads_the_requested_number_of_partitions() -> None:
    """The other brokers lead the rest, and every partition is on all three."""
    topics, preferred = placed(1_000, 334)
    assert len(topics) == 100
    assert Counter(preferred.values()) == {1: 334, 2: 333, 3: 333}
    assert all(topic.num_partitions == 10 for topic in topics)
    assert all(
        sorted(each) == list(BROKERS) for t in topics for each in t.replica_assignment or [[]]
    )


def test_the_killed_broker_may_lead_all_partitions() -> None:
    """So does the first broker of a cluster whose brokers were started one after the other."""
    _, preferred = placed(100, 100)
    assert set(preferred.values()) == {LEADER}
