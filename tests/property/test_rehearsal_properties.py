"""A rehearsal and a what-if give the same answer where both have one: one broker, stopped or killed."""

from __future__ import annotations

import random

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from controller_model.insight.loss import lose
from controller_model.kafka.cluster_facts import ClusterFacts, PartitionFacts
from controller_model.kafka.ids import NO_LEADER
from rehearsal.rehearse import rehearse
from rehearsal.report import RehearsedStep
from rehearsal.steps import read_step
from tests.property.test_insights_match_the_controller import random_cluster
from tests.support.rehearsing import moved, names
from tests.support.watched import facts as facts_of

BROKERS = range(6)


@st.composite
def clusters_at_rest(draw: st.DrawFn) -> tuple[ClusterFacts, list[PartitionFacts]]:
    """Return any cluster without due writes, with dead brokers, lagging followers and settings."""
    live = draw(st.frozensets(st.sampled_from(BROKERS), min_size=1))
    facts = ClusterFacts(
        live=live,
        controller=draw(st.sampled_from(sorted(live))),
        controller_epoch=3,
        broker_min_isr=draw(
            st.dictionaries(st.sampled_from(["0", "1", "<default>"]), st.integers(1, 4))
        ),
        # The broker that is the controller then may have a value of its own: a what-if cannot know.
        broker_unclean=draw(st.dictionaries(st.just("<default>"), st.booleans())),
        min_isr_assumed=draw(st.none() | st.integers(1, 3)),
    )
    draws = random.Random(draw(st.integers(0, 2**32)))  # noqa: S311  # a play, not a secret
    found = []
    for topic in "tuv":
        min_isr, unclean = draws.choice([None, 1, 2, 3]), draws.choice([None, None, False, True])
        for number in range(draws.randint(0, 6)):
            partition = PartitionFacts(
                topic=topic,
                partition=number,
                replicas=tuple(draws.sample(BROKERS, draws.randint(1, 4))),
                leader_epoch=draws.randint(0, 5),
                controller_epoch=draws.randint(1, 3),
                min_isr=min_isr,
                unclean=unclean,
            )
            found.append(_at_rest(partition, facts, draws))
    return facts, found


def _at_rest(
    partition: PartitionFacts, facts: ClusterFacts, draws: random.Random
) -> PartitionFacts:
    """Return a partition with a leader and an ISR that the controller would not change."""
    online = [replica for replica in partition.replicas if replica in facts.live]
    isr = tuple(replica for replica in online if draws.random() < 0.7)
    if isr:
        leader = draws.choice(isr)
    elif online and facts.unclean_of(partition):
        leader, isr = online[0], (online[0],)
    elif len(online) < len(partition.replicas):
        gone = [replica for replica in partition.replicas if replica not in facts.live]
        leader, isr = NO_LEADER, (draws.choice(gone),)
    else:
        leader, isr = online[0], (online[0],)
    return msgspec.structs.replace(partition, leader=leader, isr=isr)


def _agree(facts: ClusterFacts, partitions: list[PartitionFacts], broker: int, how: str) -> None:
    loss = lose(partitions, facts, {broker})
    result = rehearse(facts, partitions, [read_step(f"{how}:{broker}")])
    step: RehearsedStep = result.steps[0]
    assert result.pending_writes == 0
    assert set(names(step.went_offline)) == set(loss.offline)
    assert set(names(step.unclean)) == set(loss.unclean)
    assert set(names(step.went_under_min_isr)) == set(loss.under_min_isr)
    assert set(names(step.min_isr_unknown)) == set(loss.min_isr_unknown)
    assert moved(step) == loss.moved
    assert loss.stranded == ()


@given(clusters_at_rest(), st.data(), st.sampled_from(["stop-broker", "kill-broker"]))
@settings(max_examples=150)
def test_a_rehearsal_agrees_with_the_what_if(
    cluster: tuple[ClusterFacts, list[PartitionFacts]], data: st.DataObject, how: str
) -> None:
    """In offline and unclean partitions, in those under min.insync.replicas, and in new leaders."""
    facts, partitions = cluster
    broker = data.draw(st.sampled_from(sorted(facts.live)))
    _agree(facts, partitions, broker, how)


@given(st.randoms(use_true_random=False), st.sampled_from(["stop-broker", "kill-broker"]))
@settings(max_examples=40)
def test_a_rehearsal_agrees_with_the_what_if_over_views_of_a_used_cluster(
    draws: random.Random, how: str
) -> None:
    """Earlier operations and failures make no difference, except reassignments and deletions."""
    watched = random_cluster(draws, auto_leader_rebalance=False)
    partitions, facts = facts_of(watched.fold)
    settled = [
        p for p in partitions if not p.reassigning and not p.deleting and p.leader is not None
    ]
    if facts.controller in facts.live:
        _agree(facts, settled, draws.choice(sorted(facts.live)), how)
