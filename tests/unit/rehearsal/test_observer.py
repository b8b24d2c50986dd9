"""What a controller elects and sends in a step is counted."""

from __future__ import annotations

from typing import Any

from controller_model.kafka.cluster_facts import PartitionFacts
from controller_simulator.cluster.operations import (
    DeleteController,
    ElectPreferred,
    KillBroker,
    Operation,
    StartBroker,
    StopBroker,
)
from rehearsal.build_cluster import build_cluster
from rehearsal.failover import LastFailover
from rehearsal.observer import UNCLEAN, StepObserver
from tests.support.partition_facts import T0, T1, part, up

LAST = LastFailover(partitions=1, took_ms=100)


def observed(
    *operations: Operation, partitions: tuple[PartitionFacts, ...], **facts: Any
) -> StepObserver:
    """Return the observer of these operations on brokers 1, 2, 3; the first is the controller."""
    usual = {"controller": 1, "controller_epoch": 7}
    cluster = build_cluster(up(1, 2, 3, **usual | facts), partitions)
    observer = StepObserver(cluster)
    for operation in operations:
        assert cluster.perform(operation) is None
    return observer


def test_elections_are_counted_by_their_kind() -> None:
    """An unclean election is counted as unclean, by any request."""
    led_by_3 = part(replicas=(3, 2), leader=3, isr=(3, 2), unclean=True)
    out = part(1, replicas=(3, 2), leader=3, isr=(3,), unclean=True)
    observer = observed(KillBroker(3), StartBroker(3), ElectPreferred(), partitions=(led_by_3, out))
    assert observer.elections == {"offline": 1, "preferred": 2, UNCLEAN: 1}
    assert observer.unclean == (T1,)
    assert observed(StartBroker(4), partitions=(led_by_3,)).elections == {}


def test_requests_are_counted_for_each_broker_that_got_one() -> None:
    """LeaderAndIsr and StopReplica with their partitions; the last is sent twice, as Kafka does."""
    observer = observed(StopBroker(3), partitions=(part(), part(1)))
    sent = {each.broker: each for each in observer.requests}
    assert sorted(sent) == [1, 2, 3]
    assert (sent[3].stop_replica, sent[3].stop_replica_partitions) == (2, 4)
    assert (sent[1].leader_and_isr, sent[1].leader_and_isr_partitions) == (2, 4)
    assert [each.update_metadata for each in observer.requests] == [2, 2, 1]
    assert [each.update_metadata_after_isr_changes for each in observer.requests] == [0, 0, 0]
    assert observer.isr_changes == 0


def test_isr_changes_requested_by_leaders_are_counted() -> None:
    """Here two followers join; after that each broker is sent metadata only."""
    partitions = (part(replicas=(1, 9), isr=(1,)), part(1, replicas=(2, 9), leader=2, isr=(2,)))
    observer = observed(StartBroker(9), partitions=partitions)
    assert observer.isr_changes == 2
    assert {
        each.broker: each.update_metadata_after_isr_changes for each in observer.requests
    } == dict.fromkeys((1, 2, 3, 9), 2)


def test_leaders_moved_by_the_same_controller_are_not_failover_work() -> None:
    """Leaders that move under the same controller are not part of a failover."""
    observer = observed(KillBroker(3), partitions=(part(leader=3),))
    assert observer.elections == {"offline": 1}
    assert observer.failover(LAST, set()) is None


def test_failover_work_counts_the_partitions_led_by_the_dead_controller() -> None:
    """Partitions that get a leader, assigned to it or not, and those that get none; not those that had none before."""
    led = part()
    alone = part(1, replicas=(1,), isr=(1,))
    elsewhere = part(2, leader=2)
    unassigned = part(3, replicas=(2, 3))
    partitions = (led, alone, elsewhere, unassigned)
    work = observed(KillBroker(1), partitions=partitions).failover(LAST, set())
    assert work is not None
    assert work.partitions == 3
    assert (work.at_least_ms, work.at_most_ms) == (100, 300)
    less = observed(KillBroker(1), partitions=partitions).failover(LAST, {T0, elsewhere.id})
    assert less is not None
    assert less.partitions == 2
    assert less.zookeeper_writes == work.zookeeper_writes > 0


def test_a_failover_that_ends_a_reassignment_also_writes_the_topic_znode() -> None:
    """The topic's znode: a write of the failover, but not a due leader."""
    moved = part(replicas=(2, 3, 1), leader=2, isr=(2, 3), adding=(3,), removing=(1,))
    plain = observed(KillBroker(1), partitions=(part(1, leader=2),)).failover(LAST, set())
    work = observed(KillBroker(1), partitions=(moved, part(1, leader=2))).failover(LAST, set())
    assert plain is not None
    assert work is not None
    assert (plain.partitions, work.partitions) == (0, 0)
    assert work.zookeeper_writes > plain.zookeeper_writes


def test_the_last_of_several_failovers_counts() -> None:
    """The first one's leaders are already written when the second begins."""
    observer = observed(KillBroker(1), DeleteController(), partitions=(part(), part(1)))
    last = observer.failover(LAST, set())
    first = observed(KillBroker(1), partitions=(part(), part(1))).failover(LAST, set())
    assert last is not None
    assert first is not None
    assert (first.partitions, last.partitions) == (2, 0)
    assert last.zookeeper_writes < first.zookeeper_writes
