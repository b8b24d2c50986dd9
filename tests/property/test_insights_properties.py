"""Insights hold against brute force, over clusters that Kafka could and could not have made."""

from __future__ import annotations

import itertools
import json
from collections import Counter

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from controller_model.insight.loss import HARM, Loss, lose, lose_each, lose_groups, safety, settled
from controller_model.insight.pairs import lose_pairs
from controller_model.insight.pending_writes import list_pending_writes
from controller_model.insight.rebalance import (
    AutoRebalance,
    Blocked,
    blocked_by,
    next_rebalance,
    recommend,
)
from controller_model.kafka.cluster_facts import ClusterFacts, PartitionFacts
from controller_model.kafka.ids import TopicPartition
from controller_model.records.pending_writes import PendingWriteKind

BROKERS = range(6)
RACKS = (None, "a", "b")


@st.composite
def brokers(draw: st.DrawFn) -> ClusterFacts:
    """Any brokers: some dead, some never seen, with racks and configurations."""
    live = draw(st.frozensets(st.sampled_from(BROKERS)))
    return ClusterFacts(
        live=live,
        controller=draw(st.sampled_from([-1, *BROKERS])),
        controller_epoch=draw(st.none() | st.integers(1, 3)),
        refused_below=draw(st.sampled_from([None, None, None, None, 2, 3, 4])),
        racks={b: draw(st.sampled_from(RACKS)) for b in draw(st.sets(st.sampled_from(BROKERS)))},
        gone_since={b: draw(st.none() | st.integers(0, 100)) for b in set(BROKERS) - live},
        broker_min_isr=draw(
            st.dictionaries(st.sampled_from(["0", "1", "<default>"]), st.integers(1, 4))
        ),
        broker_unclean=draw(
            st.dictionaries(st.sampled_from(["0", "1", "<default>"]), st.booleans())
        ),
        min_isr_assumed=draw(st.integers(1, 3)),
    )


@st.composite
def some_partitions(draw: st.DrawFn) -> list[PartitionFacts]:
    """Up to 12 partitions of three topics; garbage included."""
    draws = draw(st.randoms(use_true_random=False))
    deleting = {topic for topic in "tuv" if draws.random() < 0.15}
    min_isr = {topic: draws.choice([None, 1, 2, 3]) for topic in "tuv"}
    may_be_unclean = {topic: draws.choice([None, False, True]) for topic in "tuv"}
    found = []
    for number in range(draws.randint(0, 12)):
        topic = draws.choice("tuv")
        replicas = tuple(draws.sample(BROKERS, draws.randint(0 if draws.random() < 0.1 else 1, 4)))
        isr = tuple(r for r in draws.sample(replicas, len(replicas)) if draws.random() < 0.7)
        if draws.random() < 0.05:
            isr = tuple(draws.sample(BROKERS, 2))
        leader = draws.choice([None, -1, -2, *isr, *isr, *replicas])
        found.append(
            PartitionFacts(
                topic=topic,
                partition=number,
                replicas=replicas,
                leader=leader,
                isr=() if leader is None else isr,
                leader_epoch=draws.randint(0, 5),
                controller_epoch=draws.randint(1, 3),
                adding=replicas[:1] if draws.random() < 0.15 else (),
                removing=replicas[1:2] if draws.random() < 0.15 else (),
                min_isr=min_isr[topic],
                unclean=may_be_unclean[topic],
                deleting=topic in deleting,
            )
        )
    return found


def unclean(partition: PartitionFacts, cluster: ClusterFacts) -> bool:
    """Return whether its topic allows unclean elections."""
    sources = (
        partition.unclean,
        cluster.broker_unclean.get(str(cluster.controller)),
        cluster.broker_unclean.get("<default>"),
        False,
    )
    return next(source for source in sources if source is not None)


def elected(partition: PartitionFacts, cluster: ClusterFacts, live: frozenset[int]) -> int | None:
    """Elect an offline partition's leader by a second implementation of Kafka's rules."""
    epoch = cluster.controller_epoch
    if epoch is not None and cluster.controller in cluster.live - live:
        epoch += 1  # of the next controller
    if max(cluster.refused_below or 0, partition.controller_epoch) > (epoch or 9):
        return None
    for replica in partition.replicas:
        if replica in live and replica in partition.isr:
            return replica
    if unclean(partition, cluster) and not set(partition.isr) & live:
        for replica in partition.replicas:
            if replica in live:
                return replica
    return None


def after(partition: PartitionFacts, cluster: ClusterFacts, live: frozenset[int]) -> PartitionFacts:
    """Return a partition once the controller has done what it can with these brokers."""
    if partition.leader in live:
        isr = tuple(r for r in partition.isr if r in live)
        return msgspec.structs.replace(partition, isr=isr or partition.isr[:1])
    leader = elected(partition, cluster, live)
    if leader is None:
        return msgspec.structs.replace(partition, leader=-1)
    in_sync = leader in partition.isr
    isr = tuple(r for r in partition.isr if r in live) if in_sync else (leader,)
    return msgspec.structs.replace(partition, leader=leader, isr=isr)


def is_unclean(before: PartitionFacts, now: PartitionFacts) -> bool:
    """Return whether a partition got a leader from outside its ISR."""
    return now.leader not in {-1, before.leader} and now.leader not in before.isr


def under_min_isr(partition: PartitionFacts, cluster: ClusterFacts) -> bool:
    """Return whether a partition is under its min ISR, by the definition of facts.md."""
    least = partition.min_isr
    if least is None:
        least = cluster.broker_min_isr.get(str(partition.leader))
    if least is None:
        least = cluster.broker_min_isr.get("<default>", cluster.min_isr_assumed)
    assert least is not None
    return len(partition.isr) < min(least, len(partition.replicas))


@given(some_partitions(), brokers(), st.frozensets(st.sampled_from(BROKERS)))
def test_a_loss_equals_a_count_by_hand(
    partitions: list[PartitionFacts], cluster: ClusterFacts, lost: frozenset[int]
) -> None:
    """Offline, stranded, below min ISR, unclean, moved leaders: each as its definition says."""
    loss = lose(partitions, cluster, lost)
    rest = cluster.live - lost
    counted = [p for p in partitions if p.leader is not None and not p.deleting]
    touched = [
        p
        for p in counted
        if (lost & cluster.live)
        & ({p.leader} | set(p.isr) | (set(p.replicas) if unclean(p, cluster) else set()))
    ]
    led = [p for p in counted if p.leader in cluster.live]
    ends = {p.id: after(p, cluster, rest) for p in counted}
    assert set(loss.offline) == {p.id for p in led if ends[p.id].leader == -1}
    assert set(loss.stranded) == {
        p.id
        for p in counted
        if p not in led
        and elected(p, cluster, cluster.live) is not None
        and elected(p, cluster, rest) is None
    }
    assert set(loss.under_min_isr) == {
        p.id
        for p in touched
        if ends[p.id].leader != -1
        and (now := after(p, cluster, cluster.live)).leader != -1
        and not under_min_isr(now, cluster)
        and under_min_isr(ends[p.id], cluster)
    }
    assert set(loss.unclean) == {
        p.id
        for p in counted
        if is_unclean(p, ends[p.id]) and not is_unclean(p, after(p, cluster, cluster.live))
    }
    after_all = Counter(ends[p.id].leader for p in led)
    del after_all[-1]
    assert loss.leaders_after == dict(after_all)
    assert sum(loss.moved.values()) == sum(ends[p.id].leader not in {-1, p.leader} for p in led)


@given(some_partitions(), brokers())
def test_losing_each_broker_in_one_walk_equals_losing_them_one_by_one(
    partitions: list[PartitionFacts], cluster: ClusterFacts
) -> None:
    """The walk that serves every broker's figures gives what a walk per broker gives."""
    each = lose_each(partitions, cluster)
    assert set(each) == cluster.live
    for broker, loss in each.items():
        alone = lose(partitions, cluster, {broker})
        assert loss == alone


@given(
    some_partitions(),
    brokers(),
    st.dictionaries(st.integers(0, 5), st.frozensets(st.sampled_from(BROKERS)), max_size=5),
)
def test_losing_groups_in_one_walk_equals_losing_them_one_by_one(
    partitions: list[PartitionFacts], cluster: ClusterFacts, groups: dict[int, frozenset[int]]
) -> None:
    """For racks, pairs and any sets that overlap: each gives the same as if computed alone."""
    found = lose_groups(partitions, cluster, groups)
    assert found == {name: lose(partitions, cluster, lost) for name, lost in groups.items()}


def beyond(pair: Loss, *alone: Loss) -> tuple[int, ...]:
    """Count by hand what a pair breaks and neither of its members, for each risk in order."""
    return tuple(
        len(set(getattr(pair, risk)).difference(*(getattr(each, risk) for each in alone)))
        for risk in HARM
    )


@given(some_partitions(), brokers(), st.integers(1, 15))
def test_pairs_are_those_that_break_more_together_than_apart(
    partitions: list[PartitionFacts], cluster: ClusterFacts, most: int
) -> None:
    """One walk finds the same pairs as a computation of each pair, the worst first."""
    each = {broker: lose(partitions, cluster, {broker}) for broker in cluster.live}
    pairs = {
        pair: lose(partitions, cluster, pair)
        for pair in itertools.combinations(sorted(cluster.live), 2)
    }
    more = {
        pair: counts
        for pair, loss in pairs.items()
        if any(counts := beyond(loss, each[pair[0]], each[pair[1]]))
    }
    ordered = sorted(more, key=lambda pair: (*(-count for count in more[pair]), *pair))
    reported = lose_pairs(lambda: partitions, cluster, most=most)
    assert reported.count == len(more)
    assert [(pair.loss, tuple(pair.beyond.values())) for pair in reported.worst] == [
        (pairs[pair], more[pair]) for pair in ordered[:most]
    ]


@given(some_partitions(), brokers(), st.permutations(list(BROKERS)), st.integers(1, 4))
def test_losing_a_rack_at_once_or_broker_by_broker_has_the_same_result(
    partitions: list[PartitionFacts], cluster: ClusterFacts, order: list[int], count: int
) -> None:
    """Without unclean elections, the order in which brokers go does not matter for what is left."""
    clean = [msgspec.structs.replace(p, unclean=False) for p in partitions if p.leader is not None]
    at_once = cluster.live.difference(order[:count])
    for partition in clean:
        one_by_one, live = partition, cluster.live
        for broker in order[:count]:
            live = live - {broker}
            before = one_by_one
            one_by_one = after(one_by_one, cluster, live)
            if one_by_one.leader == -1:
                one_by_one = msgspec.structs.replace(before, leader=-1)
        assert settled(partition, cluster, at_once)[0] == one_by_one.leader


@given(some_partitions(), brokers(), st.sampled_from(BROKERS))
def test_a_broker_is_safe_to_stop_exactly_if_nothing_gets_worse(
    partitions: list[PartitionFacts], cluster: ClusterFacts, broker: int
) -> None:
    """Each reason against a stop has its partitions; without a reason the broker is safe to stop."""
    loss = lose(partitions, cluster, {broker})
    verdict = safety(loss, cluster)
    worse = (*loss.offline, *loss.stranded, *loss.unclean, *loss.under_min_isr)
    if broker not in cluster.live:
        assert verdict.safe is None
        assert verdict.reasons
        return
    assert verdict.safe is (not worse)
    assert Counter(tp for r in verdict.reasons for tp in r.partitions) == Counter(worse)
    for reason in verdict.reasons:
        assert str(len(reason.partitions)) in reason.text


@given(some_partitions(), brokers(), st.integers(0, 100), st.booleans(), st.booleans())
def test_the_next_rebalance_is_that_of_kafkas_loop(
    partitions: list[PartitionFacts],
    cluster: ClusterFacts,
    percentage: int,
    enabled: bool,
    old: bool,
) -> None:
    """A copy of checkAndTriggerAutoLeaderRebalance elects the same partitions."""
    assumed = AutoRebalance(
        auto_leader_rebalance_enable=enabled,
        leader_imbalance_per_broker_percentage=percentage,
        reassignments_block=old,
    )
    found = next_rebalance(partitions, cluster, assumed)
    by_preferred: dict[int, list[PartitionFacts]] = {}
    for partition in partitions:
        if not partition.deleting and partition.replicas:
            by_preferred.setdefault(partition.replicas[0], []).append(partition)
    any_reassigned = any(p.adding or p.removing for p in partitions)
    elect: set[TopicPartition] = set()
    waiting: set[TopicPartition] = set()
    exceeding = set()
    for broker, mine in by_preferred.items():
        not_led = [p for p in mine if p.leader is not None and p.leader != broker]
        if len(not_led) / len(mine) > percentage / 100:
            exceeding.add(broker)
            for p in not_led:
                newer = (cluster.controller_epoch or p.controller_epoch) < p.controller_epoch
                electable = broker in cluster.live and broker in p.isr and not newer
                (elect if electable and not (old and any_reassigned) else waiting).add(p.id)
    assert set(found.exceeding) == exceeding
    assert set(found.elect) == (elect if enabled else set())
    blocked = {tp for reason, tps in found.blocked.items() for tp in tps}
    deleting = {p.id for p in partitions if p.deleting and p.replicas} & blocked
    assert blocked - deleting == waiting
    assert {b.broker: b.preferred for b in recommend(partitions, cluster).brokers} == {
        broker: len(mine) for broker, mine in by_preferred.items()
    }


@given(some_partitions(), brokers(), st.integers(1, 5))
def test_a_recommendation_holds_exactly_the_electable_partitions(
    partitions: list[PartitionFacts], cluster: ClusterFacts, size: int
) -> None:
    """Worst broker first, in chunks, in the tool's JSON; the predicted imbalance is reached."""
    wanted = recommend(partitions, cluster, partitions_per_chunk=size)
    by_id = {p.id: p for p in partitions}
    ordered = [tp for chunk in wanted.chunks for tp in chunk.partitions]
    assert len(ordered) == len(set(ordered))
    assert set(ordered) == {
        p.id
        for p in partitions
        if p.counts and p.replicas and p.leader != p.replicas[0] and blocked_by(p, cluster) is None
    }
    assert all(len(chunk.partitions) == size for chunk in wanted.chunks[:-1])
    ratio = {b.broker: b.ratio_before for b in wanted.brokers}
    ratios = [ratio[by_id[tp].replicas[0]] for tp in ordered]
    assert ratios == sorted(ratios, reverse=True)
    assert [key for key, _ in itertools.groupby(by_id[tp].replicas[0] for tp in ordered)] == list(
        dict.fromkeys(by_id[tp].replicas[0] for tp in ordered)
    )
    imbalance = sum(p.counts and not p.has_preferred_leader for p in partitions)
    assert wanted.imbalance_before == imbalance
    now = dict(by_id)
    for chunk in wanted.chunks:
        reported = json.loads(chunk.json)
        assert list(reported) == ["partitions"]
        for entry in reported["partitions"]:
            tp = TopicPartition(entry["topic"], entry["partition"])
            assert tp in chunk.partitions
            now[tp] = msgspec.structs.replace(now[tp], leader=now[tp].replicas[0])
        left = sum(p.counts and not p.has_preferred_leader for p in now.values())
        assert chunk.imbalance_after == left
    assert wanted.imbalance_after == sum(
        p.counts and not p.has_preferred_leader for p in now.values()
    )
    for broker in wanted.brokers:
        assert broker.not_led_after == sum(
            p.counts and p.replicas[:1] == (broker.broker,) and p.leader != broker.broker
            for p in now.values()
        )
    assert Blocked.REASSIGNMENT not in wanted.blocked


@given(some_partitions(), brokers())
def test_min_isr_blocks_where_one_replica_less_is_too_few(
    partitions: list[PartitionFacts], cluster: ClusterFacts
) -> None:
    """Acks=all is taken with all replicas in sync, and refused with all but one."""
    for p in partitions:
        led = p if p.counts else msgspec.structs.replace(p, leader=None)
        enough = msgspec.structs.replace(led, isr=p.replicas)
        one_less = msgspec.structs.replace(led, isr=p.replicas[1:])
        assert cluster.min_isr_blocks(p) == (
            len(p.replicas) > 1
            and not under_min_isr(enough, cluster)
            and under_min_isr(one_less, cluster)
        )


@given(some_partitions(), brokers())
def test_writes_are_due_until_they_are_made(
    partitions: list[PartitionFacts], cluster: ClusterFacts
) -> None:
    """A write that is due and made as predicted is no longer due; one that is not due never was."""
    kept = [p for p in partitions if not p.deleting]
    due = {(write.topic, write.partition): write for write in list_pending_writes(kept, cluster)}
    for partition in kept:
        write = due.get(partition.id)
        settles = (
            partition.leader in cluster.live
            and cluster.live.issuperset(partition.isr)
            and not partition.reassigning
        )
        assert not (settles and write)
        if write is None or write.kind is PendingWriteKind.REASSIGNMENT:
            continue
        isr = partition.isr if write.isr is None else write.isr
        leader = partition.leader if write.leader is None else write.leader
        made = msgspec.structs.replace(partition, leader=leader, isr=isr, adding=(), removing=())
        assert list(list_pending_writes([made], cluster)) == []
