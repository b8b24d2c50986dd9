"""Every figure of a view equals a count over the partitions themselves, from 1 to many of them.

The count here knows neither contributions nor totals: it reads the partitions out of the topic
views and applies the definitions, one partition after the other.
"""

from __future__ import annotations

import random
from collections import Counter
from typing import NamedTuple

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller_model.fold.projection import SentViews
from controller_model.insight.loss import Loss, lose_each, safety
from controller_model.insight.rebalance import recommend
from controller_model.kafka.cluster_facts import ClusterFacts, PartitionFacts
from controller_model.records.view_facts import cluster_facts, partitions_in
from controller_model.records.views import BrokerView, ClusterView, Counts, TopicView
from controller_model.state.control_plane import Assumed
from tests.support.histories import Fold, History, small_cluster

BROKERS = range(5)


class Seen(NamedTuple):
    """The views as a reader holds them."""

    cluster: ClusterView
    brokers: dict[int, BrokerView]
    partitions: list[PartitionFacts]
    topics: set[str]
    facts: ClusterFacts


def seen(fold: Fold) -> Seen:
    """Read all views of a cluster, as a new reader would."""
    fold.sent = SentViews()
    fold.state.changed.update(dict.fromkeys(fold.state.topics.names()))
    views = fold.views().values()
    brokers = {view.id: view for view in views if isinstance(view, BrokerView)}
    topics = [view for view in views if isinstance(view, TopicView)]
    (cluster,) = (view for view in views if isinstance(view, ClusterView))
    return Seen(
        cluster=cluster,
        brokers=brokers,
        partitions=[partition for view in topics for partition in partitions_in(view)],
        topics={view.name for view in topics},
        facts=cluster_facts(cluster, brokers.values()),
    )


def random_cluster(seed: int, partitions: int) -> tuple[History, Fold]:
    """Return a cluster of this size with every kind of failure, some of it folded late."""
    draws = random.Random(seed)  # noqa: S311  # a play, not a secret
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
            history.set(path, {"version": 1, "config": content})
    fold.follow(history)
    return history, fold


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
            history.state(name, partition, leader=leader, isr=isr, leader_epoch=1)
    if draws.random() < 0.2:
        history.set(f"/admin/delete_topics/{name}", b"")
    if draws.random() < 0.1:
        history.topic_gone(name)


def check(fold: Fold) -> None:
    """Compare every figure with its definition."""
    now = seen(fold)
    _check_cluster(now)
    _check_brokers(now)
    _check_recommendation(now)


def _check_cluster(now: Seen) -> None:
    counts, live = now.cluster.counts, set(now.cluster.brokers_live)
    everything = now.partitions
    stated = [p for p in everything if p.leader is not None and not p.deleting]
    led = [p for p in stated if p.leader in live]
    assert counts.topics == len(now.topics)
    assert counts.partitions == len(everything)
    assert counts.offline == len(stated) - len(led)
    assert counts.leaderless == sum(p.leader in {-1, -2} for p in stated)
    assert counts.pending_leader_writes == counts.offline - counts.leaderless
    assert counts.without_state == sum(p.leader is None for p in everything)
    assert counts.under_replicated == sum(
        len(p.replicas) - len(p.adding) > len(p.isr) for p in stated
    )
    lacking = [p for p in stated if len(p.replicas) - len(p.adding) > len(p.isr)]
    assert counts.under_replicated_reassigning == sum(bool(p.adding) for p in lacking)
    assert counts.under_replicated_at_min_isr == sum(
        len(p.isr) == _least(p, now) for p in lacking if p in led
    )
    assert counts.under_min_isr == sum(len(p.isr) < _least(p, now) for p in led)
    assert counts.at_min_isr == sum(len(p.isr) == _least(p, now) for p in led)
    assert counts.reassigning == sum(bool(p.adding or p.removing) for p in everything)
    assert counts.replication_factor_1 == sum(len(p.replicas) == 1 for p in everything)
    assert counts.preferred_imbalance == sum(
        p.replicas[0] in p.isr if p.replicas[0] in p.adding else p.leader != p.replicas[0]
        for p in stated
    )
    assert counts.preferred_electable == sum(
        p.leader != p.replicas[0] and p.replicas[0] in live and p.replicas[0] in p.isr
        for p in stated
    )
    assert counts.min_isr_blocks == sum(
        len(p.replicas) > 1 and _least(p, now) == len(p.replicas)
        for p in (p if p in stated else msgspec.structs.replace(p, leader=-1) for p in everything)
    )
    assert counts.replicas_on_gone_brokers == sum(
        replica not in live for p in everything for replica in p.replicas
    )


def _least(partition: PartitionFacts, now: Seen) -> int:
    """Return min.insync.replicas, which the fold of these histories is given."""
    by_broker, default = now.cluster.config.broker_min_isr, now.cluster.min_isr_assumed
    own = partition.min_isr or by_broker.get(str(partition.leader), by_broker.get("<default>"))
    least = default if own is None else own
    assert least is not None
    return min(least, len(partition.replicas))


def _check_brokers(now: Seen) -> None:
    live = set(now.cluster.brokers_live)
    stated = [p for p in now.partitions if p.leader is not None and not p.deleting]
    assigned = [p for p in now.partitions if not p.deleting and p.replicas]
    replicas = Counter(r for p in now.partitions for r in p.replicas)
    leaders = Counter(p.leader for p in now.partitions)
    preferred = Counter(p.replicas[0] for p in assigned)
    losses = lose_each(now.partitions, now.facts)
    for id_, view in now.brokers.items():
        not_led = [p for p in stated if p.replicas[0] == id_ and p.leader != id_]
        member = [p for p in stated if id_ in p.isr]
        at_risk = [p for p in member if p.leader in live]
        assert view.record.live == (id_ in live)
        assert view.replicas == replicas[id_]
        assert view.leaders == leaders[id_]
        assert view.preferred == preferred[id_]
        assert view.preferred_not_led == len(not_led)
        assert view.preferred_electable == (
            sum(id_ in p.isr for p in not_led) if id_ in live else 0
        )
        assert view.imbalance_ratio == (len(not_led) / preferred[id_] if preferred[id_] else 0.0)
        assert view.in_isr == len(member)
        assert view.offline_if_lost == sum(len(p.isr) == 1 for p in at_risk)
        assert view.under_min_isr_if_lost == sum(
            len(p.isr) > 1 and len(p.isr) == _least(p, now) for p in at_risk
        )
        if id_ in live:
            skew = preferred[id_] * len(live) / len(assigned) - 1 if assigned else 0.0
            assert view.leader_skew == pytest.approx(skew, abs=0.0005)
            clean = all(live.issuperset(p.isr) for p in member)
            assert not clean or view.offline_if_lost == len(losses[id_].offline)
            uniform = clean and not set(now.cluster.config.broker_min_isr) - {"<default>"}
            assert not uniform or view.under_min_isr_if_lost == len(losses[id_].under_min_isr)
            _check_safety(view, losses[id_], now, uniform=uniform)
        else:
            assert view.leader_skew is None
    assert set(now.brokers) == set(now.cluster.brokers_known)


def _check_safety(view: BrokerView, loss: Loss, now: Seen, *, uniform: bool) -> None:
    """True and False follow from every single partition; otherwise the answer is None."""
    breaks = (*loss.offline, *loss.under_min_isr, *loss.unclean)
    if view.safe_to_stop:
        assert not breaks
        # Totals do not know replicas out of sync: only an unclean election could choose one of them.
        stranded = [p for p in now.partitions if p.id in loss.stranded]
        assert all(now.facts.unclean_of(p) for p in stranded)
    elif view.safe_to_stop is False and uniform:
        assert breaks


def _check_recommendation(now: Seen) -> None:
    wanted = recommend(now.partitions, now.facts)
    counts = now.cluster.counts
    assert wanted.imbalance_before == counts.preferred_imbalance
    newer = sum(len(tps) for reason, tps in wanted.blocked.items() if "epoch" in reason)
    assert sum(len(c.partitions) for c in wanted.chunks) + newer == counts.preferred_electable
    assert {b.broker: b.ratio_before for b in wanted.brokers} == {
        id_: view.imbalance_ratio for id_, view in now.brokers.items() if view.preferred
    }


@given(st.integers(0, 2**32), st.integers(0, 12))
def test_figures_equal_a_count_over_partitions(seed: int, partitions: int) -> None:
    """After any history the views' figures equal a count over their own partitions."""
    _, fold = random_cluster(seed, partitions)
    check(fold)


@pytest.mark.parametrize("partitions", [1, 999, 1_000, 1_001, 3_000])
def test_figures_equal_a_count_over_many_partitions(partitions: int) -> None:
    """Also where a topic needs several views."""
    _, fold = random_cluster(partitions, partitions)
    check(fold)


@given(st.integers(0, 2**32))
def test_figures_follow_every_step(seed: int) -> None:
    """The figures are right after each change of a history, not only at its end."""
    history, _ = random_cluster(seed, 4)
    fold = Fold()
    draws = random.Random(seed)  # noqa: S311  # a play, not a secret
    changes = list(history.changes)
    while changes:
        size = draws.randint(1, 12)
        fold.feed(changes[:size])
        changes = changes[size:]
        check(fold)


@given(st.integers(0, 2**32), st.integers(0, 8), st.integers(1, 5))
def test_figures_known_without_min_insync_replicas_hold_for_any_value(
    seed: int, partitions: int, min_isr: int
) -> None:
    """If min.insync.replicas is unknown, a figure is right for any value of it, or None."""
    _, fold = random_cluster(seed, partitions)
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
