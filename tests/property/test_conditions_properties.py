"""The API's partition lists agree with the view's counts, on any cluster."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from exporter.partitions.conditions import JUDGES, Condition, conditions_of, none_counted
from tests.property.test_figures_properties import random_cluster, seen

COUNTED = {
    Condition.OFFLINE: "offline",
    Condition.UNDER_REPLICATED: "under_replicated",
    Condition.UNDER_MIN_ISR: "under_min_isr",
    Condition.AT_MIN_ISR: "at_min_isr",
    Condition.NOT_PREFERRED: "preferred_imbalance",
    Condition.ELECTABLE: "preferred_electable",
    Condition.REASSIGNING: "reassigning",
    Condition.WITHOUT_STATE: "without_state",
    Condition.SINGLE_REPLICA: "replication_factor_1",
    Condition.MIN_ISR_BLOCKING: "min_isr_blocks",
}
"""The figure of each condition."""

COUNTED_ELSE = {Condition.ON_GONE_BROKERS, Condition.ONE_RACK, Condition.DELETING}
"""The figures count replicas, are the exporter's own (`OneRackCount`), and count topics."""


@given(st.integers(0, 2**32), st.integers(0, 12))
def test_each_condition_holds_for_as_many_partitions_as_the_view_counts(
    seed: int, partitions: int
) -> None:
    """The condition's list is as long as the figure that links to it."""
    _, fold = random_cluster(seed, partitions)
    now = seen(fold)
    counts = now.cluster.counts
    found = Counter(
        condition for each in now.partitions for condition in conditions_of(each, now.facts)
    )
    assert {condition: found[condition] for condition in COUNTED} == {
        condition: getattr(counts, figure) for condition, figure in COUNTED.items()
    }
    assert set(JUDGES) == {*COUNTED, *COUNTED_ELSE}
    for condition in Condition:
        assert not (none_counted([condition], counts) and found[condition])
