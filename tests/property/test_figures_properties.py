"""Every figure of a view equals a count over the partitions themselves, from 1 to many of them.

The count here knows neither contributions nor totals: it reads the partitions out of the topic
views and applies the definitions, one partition after the other.
"""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller_model.insight.loss import lose_each, safety
from controller_model.records.views import Counts
from controller_model.state.control_plane import Assumed
from tests.property.brute_force import check, seen
from tests.support.histories import Fold, History, small_cluster

BROKERS = range(5)


def random_cluster(draws: random.Random, partitions: int) -> Fold:
    """Return a cluster of this size with every kind of failure, some of it folded late."""
    assignment = {
        name: {
            p: tuple(draws.sample(BROKERS, draws.randint(1, 4)))
            for p in range(partitions if name == "a" else draws.randint(0, 3))
        }
        for name in ("a", "b", "c", "d")
    }
    history = small_cluster(**assignment)
    for broker in (3, 4):
        history.broker(broker)
    fold = Fold(packed=draws.random() < 0.3, min_isr=draws.randint(1, 2))
    fold.follow(history)
    for name, replicas in assignment.items():
        _trouble(history, draws, name, replicas)
        if draws.random() < 0.5:
            fold.follow(history)
    for broker in draws.sample(BROKERS, draws.randint(0, 2)):
        history.broker_gone(broker)
    for path in ("/config/topics/a", "/config/brokers/1", "/config/brokers/<default>"):
        if draws.random() < 0.5:
            content = {"min.insync.replicas": str(draws.randint(1, 4))}
            if draws.random() < 0.3:
                content["unclean.leader.election.enable"] = draws.choice(["true", "false"])
            history.set(path, {"version": 1, "config": content})
    fold.follow(history)
    return fold


def _trouble(
    history: History, draws: random.Random, name: str, assignment: dict[int, tuple[int, ...]]
) -> None:
    adding = {p: r[:1] for p, r in assignment.items() if draws.random() < 0.1}
    removing = {p: r[-1:] for p, r in assignment.items() if draws.random() < 0.1}
    if draws.random() < 0.7:
        history.topic(name, assignment, adding=adding, removing=removing)
    for partition, replicas in assignment.items():
        if draws.random() < 0.05:
            history.delete(f"/brokers/topics/{name}/partitions/{partition}/state")
        elif draws.random() < 0.6:
            isr = draws.sample(replicas, draws.randint(1, len(replicas)))
            leader = draws.choice([-1, -2, *isr, *isr, *isr])
            epoch = history.epoch
            if draws.random() < 0.15:  # as no Kafka leaves it
                isr = draws.sample(BROKERS, draws.randint(1, 3))
                leader = draws.choice([-1, *BROKERS])
                epoch += draws.randint(0, 2)
            history.state(
                name, partition, leader=leader, isr=isr, leader_epoch=1, controller_epoch=epoch
            )
    if draws.random() < 0.2:
        history.set(f"/admin/delete_topics/{name}", b"")
    if draws.random() < 0.1:
        history.topic_gone(name)


@given(st.randoms(use_true_random=False), st.integers(0, 6))
def test_figures_equal_a_count_over_few_partitions(draws: random.Random, partitions: int) -> None:
    """Where a single partition decides, and where states are as no Kafka leaves them."""
    check(random_cluster(draws, partitions))


@pytest.mark.parametrize("partitions", [1, 999, 1_000, 1_001, 3_000])
def test_figures_equal_a_count_over_many_partitions(partitions: int) -> None:
    """Also where a topic needs several views."""
    check(random_cluster(random.Random(partitions), partitions))  # noqa: S311  # a play, not a secret


@given(st.randoms(use_true_random=False), st.integers(0, 8), st.integers(1, 5))
def test_figures_known_without_min_insync_replicas_hold_for_any_value(
    draws: random.Random, partitions: int, min_isr: int
) -> None:
    """If min.insync.replicas is unknown, a figure is right for any value of it, or None."""
    fold = random_cluster(draws, partitions)
    control = fold.state.control
    control.assumed = Assumed()
    unconfigured = seen(fold)
    control.assumed = Assumed(min_insync_replicas=min_isr)
    configured = seen(fold)
    for name in Counts.__struct_fields__:
        figure = getattr(unconfigured.cluster.counts, name)
        assert figure in {None, getattr(configured.cluster.counts, name)}
    for id_, broker in unconfigured.brokers.items():
        now = configured.brokers[id_]
        assert broker.under_min_isr_if_lost in {None, now.under_min_isr_if_lost}
        assert broker.safe_to_stop in {None, now.safe_to_stop}
    led = [p for p in unconfigured.partitions if unconfigured.facts.is_led(p)]
    is_known = all(unconfigured.facts.min_isr_of(p) is not None for p in led)
    assert (unconfigured.cluster.counts.under_min_isr is not None) == is_known
    lost = lose_each(unconfigured.partitions, unconfigured.facts)
    for id_, loss in lose_each(configured.partitions, configured.facts).items():
        verdict = safety(lost[id_], unconfigured.facts).safe
        assert verdict in {None, safety(loss, configured.facts).safe}
        assert set(lost[id_].under_min_isr) <= set(loss.under_min_isr)
        maybe = {*lost[id_].under_min_isr, *lost[id_].min_isr_unknown}
        assert set(loss.under_min_isr) <= maybe
