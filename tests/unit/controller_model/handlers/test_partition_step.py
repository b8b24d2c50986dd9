"""What the fold concludes from steps, compared with what was really done to Kafka 3.9 clusters."""

from __future__ import annotations

import pytest

from controller_model.kafka.ids import TopicPartition
from controller_model.records.events import (
    AnyEvent,
    BrokerEnd,
    BrokerStarted,
    BrokerStopped,
    ControllerElected,
    ElectionCause,
    IsrShrunk,
    LeaderElectionKind,
    LeadersElected,
    LogDirFailed,
    PreferredElectionRequested,
    ReassignmentRequested,
    TopicCreated,
    TopicDeletionCompleted,
    TopicDeletionRequested,
    TopicExpanded,
)
from controller_model.sources.zookeeper.brokers import BrokerState
from controller_model.sources.zookeeper.source import ZOOKEEPER
from controller_simulator.cluster import operations as did
from tests.support import scripted_operations as scripted
from tests.support.histories import Fold
from tests.support.recordings import RECORDED, load_recording
from tests.support.scripted_operations import ScriptedOperation
from tests.support.scripted_simulator import ScriptedSimulator
from tests.support.znode_log import ZnodeLog

Kind = LeaderElectionKind
RECORDINGS = sorted(path.name.removesuffix(".jsonl.gz") for path in RECORDED.glob("*.jsonl.gz"))

ELECTIONS: dict[type[ScriptedOperation], set[LeaderElectionKind]] = {
    did.StopBroker: {Kind.CONTROLLED_SHUTDOWN},
    did.KillBroker: {Kind.OFFLINE},
    scripted.BounceBroker: {Kind.OFFLINE},
    scripted.ExpireSession: {Kind.OFFLINE},
    did.ElectPreferred: {Kind.PREFERRED},
    scripted.ElectPreferredByZnode: {Kind.PREFERRED},
    did.ElectUnclean: {Kind.UNCLEAN},
    scripted.AlterTopicConfig: {Kind.UNCLEAN},
    did.Reassign: {Kind.REASSIGNMENT},
    scripted.ReassignByZnode: {Kind.REASSIGNMENT},
    did.StartBroker: {Kind.OFFLINE, Kind.UNCLEAN, Kind.PREFERRED, Kind.REASSIGNMENT},
    did.DeleteController: {Kind.PREFERRED},
    scripted.FailLogDir: {Kind.OFFLINE},
}
"""How leaders can be elected after each operation. A broker that starts brings offline partitions
back, waiting work continues, and the balance is restored; a new controller restores the balance. All
others elect nobody."""

Story = list[tuple[ScriptedOperation, list[AnyEvent]]]
REQUESTS: dict[type[ScriptedOperation], type[AnyEvent]] = {
    scripted.CreateTopic: TopicCreated,
    scripted.CreatePartitions: TopicExpanded,
    did.DeleteTopic: TopicDeletionRequested,
    scripted.ElectPreferredByZnode: PreferredElectionRequested,
    scripted.ReassignByZnode: ReassignmentRequested,
}
"""What is reported once of each request that exists as a znode."""


@pytest.fixture(scope="module", params=RECORDINGS)
def story(request: pytest.FixtureRequest) -> Story:
    """Return the operations of a recording, each with what a fold of that recording reported.

    Operations that Kafka refused made no commit, and are left out.
    """
    log, fold = ZnodeLog("prod"), Fold()
    fold.feed(log.resync())
    segments = load_recording(request.param).segments()
    return [
        (operation, fold.feed(log.follow(commits))) for operation, commits in segments if commits
    ]


def test_a_stopped_broker_is_reported_with_the_cause_of_its_end(
    story: Story,
) -> None:
    """A stop is a controlled shutdown, a kill or a lost session a crash; nothing else is an end.

    The end is unknown if no ISR shows it, or if a failed log directory explains it as well.
    """
    shows = {
        did.StopBroker: BrokerEnd.CONTROLLED_SHUTDOWN,
        did.KillBroker: BrokerEnd.CRASHED,
        scripted.BounceBroker: BrokerEnd.CRASHED,
        scripted.ExpireSession: BrokerEnd.CRASHED,
    }
    for operation, reported in story:
        ends = [e.end for e in reported if isinstance(e, BrokerStopped)]
        expected = shows.get(type(operation))
        assert len(ends) == (expected is not None), operation
        assert set(ends) <= {expected, BrokerEnd.UNKNOWN}, operation


def test_each_stopped_broker_of_a_recording_has_a_known_cause() -> None:
    """If replicas are in sync and no disk fails, no end is reported as unknown."""
    log, fold = ZnodeLog("prod"), Fold()
    fold.feed(log.resync())
    for _, commits in load_recording("real_kafka_3_9").segments():
        fold.feed(log.follow(commits))
    ends = [event.end for event in fold.events if isinstance(event, BrokerStopped)]
    assert set(ends) == {BrokerEnd.CONTROLLED_SHUTDOWN, BrokerEnd.CRASHED}


def test_a_broker_that_started_is_reported_and_no_other(
    story: Story,
) -> None:
    """Also the one that bounced; none of them is reported as moved."""
    for operation, reported in story:
        started = [(e.broker, e.moved_from) for e in reported if isinstance(e, BrokerStarted)]
        match operation:
            case did.StartBroker(broker) | scripted.BounceBroker(broker):
                assert started == [(broker, None)], operation
            case scripted.ExpireSession():
                assert [moved_from for _, moved_from in started] == [None], operation
            case _:
                assert started == [], operation


def test_leaders_were_elected_for_the_reason_that_is_reported(
    story: Story,
) -> None:
    """No election has a kind that the operation cannot cause, and none is unknown."""
    for operation, reported in story:
        kinds = {event.election for event in reported if isinstance(event, LeadersElected)}
        assert kinds <= ELECTIONS.get(type(operation), set()), operation


def test_controllers_were_elected_for_the_reason_that_is_reported(
    story: Story,
) -> None:
    """/controller deleted by hand, its broker's session lost, or the first of all elections."""
    for index, (operation, reported) in enumerate(story):
        elected = [event for event in reported if isinstance(event, ControllerElected)]
        causes = [event.cause for event in elected]
        match operation:
            case did.DeleteController():
                assert causes == [ElectionCause.DELETED]
            case did.StartBroker() if index == 0:
                assert causes == [ElectionCause.FIRST]
            case did.StopBroker(broker) | did.KillBroker(broker) | scripted.BounceBroker(broker):
                assert set(causes) <= {ElectionCause.SESSION_LOST}
                assert all(event.from_broker == broker for event in elected)
            case scripted.ExpireSession(broker):
                assert set(causes) <= {ElectionCause.SESSION_LOST}
                assert broker is not None or causes
            case _:
                assert causes == [], operation
        assert all(event.missed_elections == 0 for event in elected)


def test_requests_are_reported_once(story: Story) -> None:
    """Each request with a znode, by the operation that made it and by no other one."""
    for operation, reported in story:
        requests = [type(e) for e in reported if isinstance(e, tuple(REQUESTS.values()))]
        expected = REQUESTS.get(type(operation))
        assert requests == ([] if expected is None else [expected]), operation


def test_a_deletion_is_completed_with_its_topic(
    story: Story,
) -> None:
    """Every request is completed, at once or when a dead replica is back."""
    asked = {o.topic for o, _ in story if isinstance(o, did.DeleteTopic)}
    done = [e for _, reported in story for e in reported if isinstance(e, TopicDeletionCompleted)]
    assert {event.topic for event in done} == asked
    assert all(event.deleted for event in done)


def test_a_slow_follower_is_dropped_by_its_leader(
    story: Story,
) -> None:
    """A stalled broker leaves the ISRs, and no controller removed it."""
    stalls = [(o, reported) for o, reported in story if isinstance(o, scripted.StallBroker)]
    for operation, reported in stalls:
        shrunk = [event for event in reported if isinstance(event, IsrShrunk)]
        assert shrunk, operation
        assert {(event.who, event.by_controller) for event in shrunk} == {
            ((operation.broker,), False)
        }


def test_failed_log_directories_are_reported(story: Story) -> None:
    """By the broker that lost one, whenever it did."""
    for operation, reported in story:
        failed = {event.broker for event in reported if isinstance(event, LogDirFailed)}
        expected = {operation.broker} if isinstance(operation, scripted.FailLogDir) else set()
        assert failed == expected, operation


@pytest.mark.parametrize("name", RECORDINGS)
def test_at_quiet_points_each_broker_is_inferred_running_or_not_running(name: str) -> None:
    """A shutdown that has ended is not pending; what is registered at a quiet point is running."""
    at_rest = {BrokerState.RUNNING_AS_BROKER, BrokerState.NOT_RUNNING}
    log, fold = ZnodeLog("prod"), Fold()
    fold.feed(log.resync())
    for operation, commits in load_recording(name).segments():
        fold.feed(log.follow(commits))
        control = fold.state.control
        states = {ZOOKEEPER.broker_state(control, each) for each in control.brokers}
        assert states <= at_rest, operation


def test_a_failed_log_directory_is_not_a_controlled_shutdown() -> None:
    """The live broker lost its leaders to an offline election; the simulator shows the same."""
    cluster, log, fold = ScriptedSimulator(), ZnodeLog("prod"), Fold()
    fold.feed(log.resync())
    partitions = (TopicPartition("t", 0), TopicPartition("t", 1))
    for broker in range(3):
        cluster.perform(did.StartBroker(broker))
    cluster.perform(scripted.CreateTopic("t", ((0, 1, 2), (1, 2, 0))))
    fold.feed(log.follow(cluster.commits))
    before = len(cluster.commits)
    cluster.perform(scripted.FailLogDir(1, partitions))
    reported = fold.feed(log.follow(cluster.commits[before:]))
    assert [event.broker for event in reported if isinstance(event, LogDirFailed)] == [1]
    assert [e.election for e in reported if isinstance(e, LeadersElected)] == [Kind.OFFLINE]
    assert {event.who for event in reported if isinstance(event, IsrShrunk)} == {(1,)}
    assert fold.broker_view(1).inferred_state == "RunningAsBroker"
    before = len(cluster.commits)
    cluster.perform(did.KillBroker(1))
    reported = fold.feed(log.follow(cluster.commits[before:]))
    assert [e.end for e in reported if isinstance(e, BrokerStopped)] == [BrokerEnd.UNKNOWN]
