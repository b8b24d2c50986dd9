"""No healthy controller is ever reported as a zombie, and every silent one with pending writes is.

The clusters are those of the simulated controller: under all operations and failures the
writes are Kafka's, complete and in order.
"""

from __future__ import annotations

import random

from hypothesis import assume, given, settings
from hypothesis import strategies as st

from controller_model.insight.pending_writes import health_of, list_pending_writes
from controller_model.records.completeness import Status
from controller_model.records.pending_writes import ControllerHealth
from controller_simulator.cluster.operations import DeleteController, KillBroker
from rehearsal.rehearse import rehearse
from tests.support.scripted_operations import ScriptedOperation
from tests.support.watched import BROKERS, cluster, facts, operation


@given(st.randoms(use_true_random=False))
@settings(max_examples=20)
def test_no_slow_run_reports_a_zombie_controller(draws: random.Random) -> None:
    """Ten seconds between any two transactions: slow at times, and never a zombie."""
    watched = cluster(draws)
    done: list[ScriptedOperation] = []
    for _ in range(draws.randint(1, 15)):
        done.append(operation(draws, watched))
        watched.simulator.perform(done[-1])
        watched.report(beats=1)
        assert watched.beat(1) == [], done


@given(st.randoms(use_true_random=False))
@settings(max_examples=40)
def test_no_sure_partition_write_is_due_at_a_quiet_point(draws: random.Random) -> None:
    """Also partition by partition, a healthy controller has no sure write due."""
    watched = cluster(draws)
    done: list[ScriptedOperation] = []
    for _ in range(draws.randint(1, 20)):
        done.append(operation(draws, watched))
        watched.simulator.perform(done[-1])
        watched.report()
        watched.beat(1)
    partitions, brokers = facts(watched.fold)
    view = watched.fold.cluster_view()
    due = [write for write in list_pending_writes(partitions, brokers) if write.sure]
    assert due == [] or health_of(view, Status.LIVE) is ControllerHealth.UNKNOWN, done


@given(st.randoms(use_true_random=False), st.sampled_from(BROKERS))
@settings(max_examples=40)
def test_a_silent_controller_with_pending_writes_is_reported_once(
    draws: random.Random, victim: int
) -> None:
    """A follower or leader dies and no state is written: one zombie, with what is due."""
    watched = cluster(draws)
    watched.beat(2)
    assume(any(victim in partition.replicas for partition in facts(watched.fold)[0]))
    watched.deaf_to = "/brokers/topics/"
    watched.simulator.perform(KillBroker(victim))
    watched.report()
    reported = watched.beat(30)
    assert len(reported) == 1
    assert set(reported[0].pending) <= {"new_leader", "isr_removal"}
    assert watched.fold.cluster_view().pending_writes.health is ControllerHealth.ZOMBIE


@given(st.randoms(use_true_random=False), st.sampled_from(BROKERS))
@settings(max_examples=40)
def test_the_next_controller_makes_the_pending_writes_of_a_zombie(
    draws: random.Random, victim: int
) -> None:
    """The leaders that are listed as pending are those that the rehearsal of its deletion elects."""
    watched = cluster(draws)
    watched.beat(2)
    watched.deaf_to = "/brokers/topics/"
    watched.simulator.perform(KillBroker(victim))
    watched.report()
    watched.beat(1)
    partitions, brokers = facts(watched.fold)
    pending = {
        (write.topic, write.partition): write.leader
        for write in list_pending_writes(partitions, brokers)
        if write.sure and write.leader is not None
    }
    assume(pending and brokers.controller in brokers.live)
    rehearsal = rehearse(brokers, partitions, [DeleteController()], is_zombie=True)
    made = {(e.topic, e.partition): e.leader for e in rehearsal.steps[0].changes.partitions}
    assert pending.items() <= made.items()
    assert rehearse(brokers, partitions, [DeleteController()]).pending_writes > 0
