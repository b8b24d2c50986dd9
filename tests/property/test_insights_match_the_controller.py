"""The simulated controller then does what insights predict.

A broker is killed or stopped, or preferred elections are held, and the resulting cluster is
the predicted one: leaders, offline partitions, imbalance.
"""

from __future__ import annotations

import random
from collections import Counter

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from controller_model.insight.loss import lose
from controller_model.insight.pending_writes import list_pending_writes
from controller_model.insight.rebalance import AutoRebalance, next_rebalance, recommend
from controller_model.kafka.ids import TopicPartition
from controller_model.records.pending_writes import PendingWriteKind
from controller_simulator.cluster.operations import ElectPreferred, KillBroker, StopBroker
from tests.support.scripted_operations import FailLogDir, ScriptedOperation, StallBroker
from tests.support.watched import BROKERS, Watched, cluster, facts, operation


def random_cluster(draws: random.Random, *, auto_leader_rebalance: bool | None = None) -> Watched:
    """Return a quiet cluster after random operations, without failed log directories."""
    watched = cluster(draws)
    if auto_leader_rebalance is not None:
        watched.simulator.settings = msgspec.structs.replace(
            watched.simulator.settings, auto_leader_rebalance=auto_leader_rebalance
        )
    for _ in range(draws.randint(0, 15)):
        step: ScriptedOperation = operation(draws, watched)
        if not isinstance(step, FailLogDir | StallBroker):
            watched.simulator.perform(step)
    watched.report()
    watched.beat(1)
    return watched


@given(
    st.randoms(use_true_random=False),
    st.sampled_from(BROKERS),
    st.sampled_from([KillBroker, StopBroker]),
)
@settings(max_examples=60)
def test_a_lost_broker_leaves_the_predicted_leaders_and_offline_partitions(
    draws: random.Random, broker: int, how: type[KillBroker | StopBroker]
) -> None:
    """After a kill or a stop the leaders and the offline partitions are those of the insight."""
    watched = random_cluster(draws, auto_leader_rebalance=False)
    before, brokers = facts(watched.fold)
    loss = lose(before, brokers, {broker})
    watched.simulator.perform(how(broker))
    watched.report()
    watched.beat(1)
    after, left = facts(watched.fold)
    stayed = {p.id for p in before if not p.deleting} & {p.id for p in after if not p.deleting}
    moving = {p.id for p in (*before, *after) if p.reassigning}
    for partition in after:
        if partition.id not in stayed - moving or partition.leader is None:
            continue
        offline = partition.leader not in left.live
        was = next(p for p in before if p.id == partition.id)
        was_offline = brokers.is_offline(was)
        assert (partition.id in loss.offline) == (offline and not was_offline)
    if not moving:
        led = Counter(p.leader for p in after if p.id in stayed and p.leader in left.live)
        assert led == Counter(loss.leaders_after)


@given(st.randoms(use_true_random=False))
@settings(max_examples=30)
def test_recommended_elections_reach_the_predicted_imbalance(draws: random.Random) -> None:
    """Chunk by chunk: every partition is elected, and the imbalance is the one that was reported."""
    watched = random_cluster(draws, auto_leader_rebalance=False)
    partitions, brokers = facts(watched.fold)
    wanted = recommend(partitions, brokers, partitions_per_chunk=2)
    for chunk in wanted.chunks:
        watched.simulator.perform(ElectPreferred(chunk.partitions))
        watched.report()
        watched.beat(1)
        now, _ = facts(watched.fold)
        elected = [p for p in now if p.id in chunk.partitions]
        assert all(p.leader == p.preferred for p in elected)
        assert sum(p.counts and not p.has_preferred_leader for p in now) == chunk.imbalance_after
    partitions, brokers = facts(watched.fold)
    assert recommend(partitions, brokers).chunks == ()


@given(st.randoms(use_true_random=False))
@settings(max_examples=30)
def test_a_controller_that_rebalances_leaves_nothing_to_elect(draws: random.Random) -> None:
    """At rest, auto.leader.rebalance has elected all that the next check would elect."""
    watched = random_cluster(draws, auto_leader_rebalance=True)
    partitions, brokers = facts(watched.fold)
    leaders_back = {
        TopicPartition(write.topic, write.partition)
        for write in list_pending_writes(partitions, brokers)
        if write.kind is PendingWriteKind.LEADER_BACK
    }
    if watched.fold.state.control.controller.view.id >= 0:
        assert set(next_rebalance(partitions, brokers, AutoRebalance()).elect) <= leaders_back
