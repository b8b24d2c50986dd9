"""What a KRaft controller does otherwise: no threshold of imbalance, and eligible leader replicas where nobody is in sync."""

from __future__ import annotations

import msgspec
import pytest

from controller_model.insight.loss import involved, lose, outcome, safety
from controller_model.insight.rebalance import AutoRebalance, Blocked, next_rebalance, recommend
from controller_model.kafka.cluster_facts import ClusterFacts, PartitionFacts
from controller_model.kafka.ids import TopicPartition
from controller_model.kafka.kraft_elections import EligibleLeaders

KRAFT = ClusterFacts(
    live=frozenset({1, 2, 3}), controller=3000, controller_epoch=None, is_kraft=True, has_elr=True,
    min_isr_assumed=1,
)  # fmt: skip


def partition(number: int, leader: int, isr: tuple[int, ...], **more: object) -> PartitionFacts:
    """Return a partition on brokers 1, 2 and 3."""
    fields: dict[str, object] = {"topic": "t", "partition": number, "replicas": (1, 2, 3)}
    return PartitionFacts(**(fields | {"leader": leader, "isr": isr} | more))  # type: ignore[arg-type]  # its fields


def test_every_imbalanced_partition_is_elected() -> None:
    """One of a hundred is enough in KRaft; a ZooKeeper controller waits for more than 10 %."""
    partitions = [partition(each, 1, (1, 2, 3)) for each in range(99)]
    partitions.append(partition(99, 2, (2, 1)))
    assumed = AutoRebalance(reassignments_block=True)
    in_kraft = next_rebalance(partitions, KRAFT, assumed)
    assert (in_kraft.exceeding, in_kraft.elect) == ((1,), (TopicPartition("t", 99),))
    in_zookeeper = msgspec.structs.replace(KRAFT, is_kraft=False)
    assert next_rebalance(partitions, in_zookeeper, assumed).elect == ()


def test_a_reassignment_blocks_no_rebalance() -> None:
    """That was a rule of old ZooKeeper controllers."""
    partitions = [partition(0, 2, (2, 1)), partition(1, 1, (1,), adding=(3,))]
    assumed = AutoRebalance(reassignments_block=True)
    assert next_rebalance(partitions, KRAFT, assumed).elect == (TopicPartition("t", 0),)


def test_a_preferred_replica_that_is_being_added_counts_as_imbalance() -> None:
    """A KRaft controller makes no exception for it, and elects it as soon as it is in sync."""
    lags = partition(0, 2, (2, 3), adding=(1,))
    caught_up = partition(1, 2, (2, 1), adding=(1,))
    done = partition(2, 1, (1, 2), adding=(1,))
    assert [KRAFT.has_preferred_leader(each) for each in (lags, caught_up, done)] == [
        False,
        False,
        True,
    ]
    assert [each.has_preferred_leader for each in (lags, caught_up, done)] == [True, False, False]
    found = recommend([lags, caught_up, done], KRAFT)
    assert [chunk.partitions for chunk in found.chunks] == [(TopicPartition("t", 1),)]
    assert (found.imbalance_before, found.imbalance_after) == (2, 1)


def test_a_fenced_or_lagging_preferred_replica_stays_blocked() -> None:
    """Only members of the ISR can be elected, whatever is eligible."""
    eligible = EligibleLeaders((1,))
    partitions = [partition(0, 2, (2,), eligible=eligible), partition(1, 2, (2, 1))]
    alive = next_rebalance(partitions, KRAFT, AutoRebalance())
    assert alive.blocked == {Blocked.NOT_IN_ISR: (TopicPartition("t", 0),)}
    fenced = msgspec.structs.replace(KRAFT, live=frozenset({2, 3}))
    assert next_rebalance(partitions, fenced, AutoRebalance()).elect == ()


@pytest.mark.parametrize(
    ("held", "lost", "risks"),
    [
        (partition(0, 1, (1,), eligible=EligibleLeaders((2,))), {1}, ()),  # 2 is eligible
        (partition(0, 1, (1,), eligible=EligibleLeaders((2,))), {1, 2}, ("offline",)),
        (partition(0, 1, (1,)), {1}, ("offline",)),
        (partition(0, 1, (1,), unclean=True), {1}, ("unclean",)),
        (partition(0, 1, (1, 2)), {1}, ()),
        (partition(0, 1, (1, 2), min_isr=2), {2}, ("under_min_isr",)),
    ],
)
def test_what_a_loss_breaks(held: PartitionFacts, lost: set[int], risks: tuple[str, ...]) -> None:
    """An eligible replica takes over where the ISR would be empty; without one the partition is offline."""
    assert outcome(held, KRAFT, KRAFT.live - lost).risks == risks
    assert bool(safety(lose([held], KRAFT, lost), KRAFT).safe) is not bool(risks)


def test_eligible_replicas_are_involved() -> None:
    """The loss of one that is not in sync may matter, so that it is examined."""
    held = partition(0, -1, (), eligible=EligibleLeaders((3,), (2,)))
    assert {2, 3} <= involved(held, KRAFT)


def test_eligible_replicas_outlive_the_feature() -> None:
    """They stay in the records after eligible.leader.replicas.version was set back, and Kafka elects them."""
    held = partition(0, 1, (1,), eligible=EligibleLeaders((2,)))
    off = msgspec.structs.replace(KRAFT, has_elr=False)
    assert outcome(held, off, off.live - {1}).risks == ()
    assert outcome(partition(0, 1, (1,)), off, off.live - {1}).risks == ("offline",)
