"""Recorded histories of real Kafka clusters, compared with the simulator and the fold."""

from __future__ import annotations

import msgspec
import pytest

from controller_model.records.events import (
    Anomaly,
    AnyEvent,
    ControllerZombie,
    LeaderElectionKind,
    LeadersElected,
    RecommendationGraded,
    StaleControllerWrite,
)
from controller_model.records.recommendations import SETTLE_MS, WATCH_MS, Outcome
from controller_simulator.cluster.settings import SimulatorSettings
from tests.support.agreement import Agreement, Reason, agree, agree_from_each_point
from tests.support.histories import Fold
from tests.support.recordings import Recording, load_recording
from tests.support.releases import KAFKAS, OLD_PROTOCOL
from tests.support.znode_log import ZnodeLog

HEARTBEAT_MS = 10_000

RECORDINGS = {
    **{kafka.recording: kafka.settings for kafka in KAFKAS},
    "real_kafka_3_9_log_dirs": SimulatorSettings(),
    "real_kafka_3_9_protocol_2_6_random": OLD_PROTOCOL.settings,
    "real_kafka_3_9_random": SimulatorSettings(),  # operations drawn by RandomOperations
    "real_kafka_3_9_random_2": SimulatorSettings(),  # and a busy machine
    "real_kafka_3_9_random_3": SimulatorSettings(),
    "real_kafka_3_9_rebalance": SimulatorSettings(auto_leader_rebalance=True),
}


@pytest.fixture(scope="module", params=RECORDINGS)
def agreement(request: pytest.FixtureRequest) -> Agreement:
    """Return how far the simulator agrees with one of the recordings."""
    name: str = request.param
    return agree(load_recording(name), RECORDINGS[name])


def test_the_simulator_writes_what_kafka_wrote(agreement: Agreement) -> None:
    """Every write, its zxid and every field of the snapshot at every quiet point is the same."""
    assert agreement.differences == []
    assert agreement.quiet_points >= 8
    assert agreement.written >= 57


def test_few_writes_of_a_recording_need_a_report(agreement: Agreement) -> None:
    """More than 93 % of all writes were predicted without a report; each other one has its reason."""
    assert set(agreement.given) <= set(Reason)
    assert agreement.predicted_share > 0.93


@pytest.mark.parametrize("name", sorted(RECORDINGS.keys() - {"real_kafka_3_9_log_dirs"}))
def test_a_cluster_loaded_from_znodes_continues_as_kafka_did(name: str) -> None:
    """Loaded at any quiet point, from its znodes alone, a cluster continues as Kafka did."""
    assert agree_from_each_point(load_recording(name), RECORDINGS[name]) == []


def test_failed_log_directories_are_not_in_zookeeper() -> None:
    """Only the controller's memory holds them: what follows such a failure cannot be known from the znodes."""
    found = agree_from_each_point(load_recording("real_kafka_3_9_log_dirs"))
    assert {reported.partition("(")[0] for reported in found} <= {
        "ElectPreferred", "DeleteTopic", "StopBroker", "StartBroker",
    }  # fmt: skip


def with_refused(recording: Recording, place: int, *, count: int = 1) -> Recording:
    """Return a recording in which so many requests were refused before the commit at an index."""
    after = recording.commits[place].zxid
    return Recording(
        tuple(
            msgspec.structs.replace(commit, zxid=commit.zxid + count * (commit.zxid >= after))
            for commit in recording.commits
        ),
        tuple(
            msgspec.structs.replace(point, zxid=point.zxid + count * (point.zxid >= after))
            for point in recording.quiet
        ),
    )


def writes_of(recording: Recording, path: str) -> list[int]:
    """Return the indices of the commits that write this path."""
    return [
        place
        for place, commit in enumerate(recording.commits)
        if any(write.path == path for write in commit.writes)
    ]


def test_losers_of_a_controller_election_may_be_refused_late() -> None:
    """Each of the two others once, at any index after the election; there is no third request."""
    recording = load_recording("real_kafka_3_9")
    elected = writes_of(recording, "/controller")[-1]
    late = elected + 4  # in the middle of the failover
    alone = agree(recording)
    assert agree(with_refused(recording, late, count=2)).differences == alone.differences == []
    (reported,) = agree(with_refused(recording, late, count=3)).differences
    assert "ExpireSession" in reported
    assert ": 3 refused before " in reported


def observed(name: str) -> list[AnyEvent]:
    """Return what a fold reports on a recording, with heartbeats every 10 s."""
    log, fold = ZnodeLog("prod"), Fold()
    fold.feed(log.resync())
    for commit in load_recording(name).commits:
        beat = max(log.tree.time_ms, commit.time_ms - 3 * HEARTBEAT_MS)
        while beat + HEARTBEAT_MS < commit.time_ms:
            beat += HEARTBEAT_MS
            fold.feed([log.heartbeat(beat)])
        fold.feed(log.follow([commit]))
    fold.feed([log.heartbeat(log.tree.time_ms + HEARTBEAT_MS)])
    return fold.events


@pytest.mark.parametrize("name", RECORDINGS)
def test_a_healthy_cluster_raises_no_alarm(name: str) -> None:
    """In all failures of brokers, no controller is called a zombie, and nothing is an anomaly."""
    alarms = (Anomaly, ControllerZombie, StaleControllerWrite)
    assert [event for event in observed(name) if isinstance(event, alarms)] == []


def test_the_rebalance_of_a_real_controller_is_inferred() -> None:
    """Its own check elected all that two brokers could get back; the log continues until the check and the grades."""
    name = "real_kafka_3_9_rebalance"
    elected = {
        event.source_number
        for event in observed(name)
        if isinstance(event, LeadersElected) and event.election is LeaderElectionKind.PREFERRED
    }
    log, fold = ZnodeLog("prod"), Fold()
    fold.feed(log.resync())
    waited_ms = 0

    def wait(ms: int) -> None:
        nonlocal waited_ms
        for _ in range(ms // HEARTBEAT_MS + 2):
            waited_ms += HEARTBEAT_MS
            fold.feed([log.heartbeat(log.tree.time_ms + HEARTBEAT_MS)])

    for commit in load_recording(name).commits:
        if commit.zxid in elected:
            wait(SETTLE_MS)
        later = msgspec.structs.replace(commit, time_ms=commit.time_ms + waited_ms)
        fold.feed(log.follow([later]))
        if commit.zxid in elected:
            wait(WATCH_MS)
    grades = [each.grade for each in fold.accounts if isinstance(each, RecommendationGraded)]
    assert [each.outcome for each in grades] == [Outcome.MENDED] * 2
    assert [each.elected_by for each in grades] == [{"rebalance": 1}] * 2
