"""No healthy controller is ever reported as a zombie, and every silent one with pending writes is.

The clusters are those of the simulated controller: under all operations and failures the
writes are Kafka's, complete and in order.
"""

from __future__ import annotations

import random

from hypothesis import given, settings
from hypothesis import strategies as st

from controller_model.insight.pending_writes import health_of, list_pending_writes
from controller_model.records.completeness import Status
from controller_model.records.pending_writes import ControllerHealth
from controller_simulator.cluster.operations import KillBroker
from tests.support.scripted_operations import ScriptedOperation
from tests.support.watched import BROKERS, cluster, facts, operation

QUIET_HEARTBEATS = 12
"""Two minutes: longer than the write timeout of a cluster of this size."""


@given(st.integers(0, 2**32))
@settings(max_examples=40)
def test_no_healthy_run_reports_a_zombie_controller(seed: int) -> None:
    """At every quiet point nothing is due for long, and no prediction fails, ever."""
    draws = random.Random(seed)  # noqa: S311  # a play, not a secret
    watched = cluster(draws)
    done: list[ScriptedOperation] = []
    for _ in range(draws.randint(1, 25)):
        done.append(operation(draws))
        watched.simulator.perform(done[-1])
        watched.report()
        quiet = QUIET_HEARTBEATS if draws.random() < 0.5 else draws.randint(0, 2)
        assert watched.beat(quiet) == [], done
        due = watched.fold.cluster_view().pending_writes
        assert due.counts == {} or due.health is ControllerHealth.UNKNOWN, done


@given(st.integers(0, 2**32))
@settings(max_examples=20)
def test_no_slow_run_reports_a_zombie_controller(seed: int) -> None:
    """Ten seconds between any two transactions: slow at times, and never a zombie."""
    draws = random.Random(seed)  # noqa: S311  # a play, not a secret
    watched = cluster(draws)
    done: list[ScriptedOperation] = []
    for _ in range(draws.randint(1, 15)):
        done.append(operation(draws))
        watched.simulator.perform(done[-1])
        watched.report(beats=1)
        assert watched.beat(1) == [], done


@given(st.integers(0, 2**32))
@settings(max_examples=40)
def test_no_sure_partition_write_is_due_at_a_quiet_point(seed: int) -> None:
    """Also partition by partition, a healthy controller has no sure write due."""
    draws = random.Random(seed)  # noqa: S311  # a play, not a secret
    watched = cluster(draws)
    done: list[ScriptedOperation] = []
    for _ in range(draws.randint(1, 20)):
        done.append(operation(draws))
        watched.simulator.perform(done[-1])
        watched.report()
        watched.beat(1)
    partitions, brokers = facts(watched.fold)
    view = watched.fold.cluster_view()
    due = [write for write in list_pending_writes(partitions, brokers) if write.sure]
    assert due == [] or health_of(view, Status.LIVE) is ControllerHealth.UNKNOWN, done


@given(st.integers(0, 2**32), st.sampled_from(BROKERS))
@settings(max_examples=40)
def test_a_silent_controller_with_pending_writes_is_reported_once(seed: int, victim: int) -> None:
    """A follower or leader dies and no state is written: one zombie, with what is due."""
    draws = random.Random(seed)  # noqa: S311  # a play, not a secret
    watched = cluster(draws)
    watched.beat(2)
    watched.deaf_to = "/brokers/topics/"
    watched.simulator.perform(KillBroker(victim))
    watched.report()
    reported = watched.beat(30)
    assert len(reported) == 1
    assert set(reported[0].pending) <= {"new_leader", "isr_removal"}
    assert watched.fold.cluster_view().pending_writes.health is ControllerHealth.ZOMBIE
