"""Incidents and recommendations, compared with operations on real Kafka 3.9 clusters."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import pytest

from controller_model.records.events import (
    AnyEvent,
    IncidentClosed,
    IncidentOpened,
    LeaderElectionKind,
    LeadersElected,
    RecommendationGraded,
    RecommendationMade,
)
from controller_model.records.incidents import Incident, IncidentEnd
from controller_model.records.recommendations import Outcome
from controller_simulator.cluster.operations import (
    DeleteController,
    ElectPreferred,
    KillBroker,
    StopBroker,
)
from tests.support.histories import Fold
from tests.support.recordings import RECORDED, load_recording
from tests.support.scripted_operations import BounceBroker, ScriptedOperation
from tests.support.znode_log import ZnodeLog

RECORDINGS = sorted(path.name.removesuffix(".jsonl.gz") for path in RECORDED.glob("*.jsonl.gz"))
HEARTBEAT_MS = 10_000
QUIET_HEARTBEATS = 14
"""Two minutes, of which a clock correction may take a tenth: longer than the quiet time, and than a
recommendation waits."""


class Step(NamedTuple):
    """An operation on a real cluster, and what was tracked within two minutes after it."""

    operation: ScriptedOperation
    reported: list[AnyEvent]
    open: Incident | None


def steps(name: str, fold: Fold) -> Iterator[Step]:
    """Play a recording, with heartbeats after each operation.

    They are ahead of the recording's own clock, as if the watcher's clock were set back each time.
    """
    log = ZnodeLog("prod")
    fold.feed(log.resync())
    for operation, commits in load_recording(name).segments():
        before = len(fold.accounts)
        fold.feed(log.follow(commits))
        for _ in range(QUIET_HEARTBEATS):
            fold.feed([log.heartbeat(watchers_time(fold) + HEARTBEAT_MS)])
        yield Step(operation, fold.accounts[before:], fold.state.control.incidents.open)


def watchers_time(fold: Fold) -> int:
    """Return the last time of the watcher's clock: the log's time without its correction."""
    clock = fold.state.control.log.clock
    return fold.state.control.now - (clock.correction if clock else 0)


@pytest.mark.parametrize("name", RECORDINGS)
def test_each_failure_caused_on_a_real_cluster_is_in_an_incident(name: str) -> None:
    """A broker that was killed, stopped or bounced is named; every failure is in one of the incidents."""
    fold = Fold()
    closed: list[Incident] = []
    for step in steps(name, fold):
        closed += [e.incident for e in step.reported if isinstance(e, IncidentClosed)]
        seen = [*closed[-1:], *([step.open] if step.open else [])]
        if isinstance(step.operation, KillBroker | StopBroker | BounceBroker):
            assert any(step.operation.broker in i.brokers_lost for i in seen), step
        if isinstance(step.operation, DeleteController):
            assert sum(incident.controller_elections for incident in seen) > 0, step
    assert closed
    every = [*closed, *([fold.state.control.incidents.open] if step.open else [])]
    for kind in (LeaderElectionKind.OFFLINE, LeaderElectionKind.CONTROLLED_SHUTDOWN):
        counted = sum(i.leader_elections.get(kind.value, 0) for i in every if i)
        reported = (e for e in fold.events if isinstance(e, LeadersElected) and e.election is kind)
        assert counted == sum(len(event.partitions) for event in reported)
    assert fold.state.control.log.view.errors == 0


@pytest.mark.parametrize("name", RECORDINGS)
def test_a_real_cluster_that_has_recovered_has_no_open_incident(name: str) -> None:
    """An incident closed within two minutes is closed because everything is as it was before."""
    fold = Fold()
    for step in steps(name, fold):
        for event in step.reported:
            if isinstance(event, IncidentClosed):
                assert event.incident.complete
                assert event.incident.end is not IncidentEnd.CUT
                if event.incident.end is IncidentEnd.RECOVERED:
                    assert event.incident.still == ()
                    assert event.incident.missing == ()
        well = fold.counts()
        if step.open is not None:
            seen = step.open
            worse = (well.offline or 0) > seen.offline_before
            behind = (well.under_replicated or 0) > seen.under_replicated_before
            assert seen.missing or worse or behind, step


def test_a_real_preferred_election_is_graded() -> None:
    """Recommended after a restart, run, and graded as mended; the partitions are those that Kafka elected."""
    fold = Fold()
    made: RecommendationMade | None = None
    run: RecommendationMade | None = None
    mended = 0
    for step in steps("real_kafka_3_9", fold):
        if isinstance(step.operation, ElectPreferred) and not step.operation.partitions:
            run = made
        for event in step.reported:
            if isinstance(event, IncidentOpened) and made is not None:
                made = None  # something else happened meanwhile
            if isinstance(event, RecommendationMade):
                made = event
            if isinstance(event, RecommendationGraded) and made is not None:
                grade = event.grade
                if made is run:
                    assert grade.outcome is Outcome.MENDED
                    assert grade.regained == grade.watched == len(made.partitions)
                    mended += 1
    assert mended > 0
