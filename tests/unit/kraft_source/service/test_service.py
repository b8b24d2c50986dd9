"""What a KRaft watcher's beats say of the controllers, and when it sends what; the running service is in tests/component/kraft."""

from __future__ import annotations

import time
from collections import deque
from typing import Any, cast

import pytest
from prometheus_client import CollectorRegistry

from controller_model.kafka.metadata_records import FeatureLevel, LeaderChange, MetadataRecord
from controller_model.records.changes import SessionState, decode_message
from controller_model.records.views import WatcherBeat
from kraft_source.config import KraftSettings
from kraft_source.observer.observer import ObserverStatus
from kraft_source.observer.released import Committed, CommittedBatch
from kraft_source.service import service as service_module
from kraft_source.service.metrics import KraftWatcherMetrics
from kraft_source.service.quorum_sampler import QuorumSampler
from kraft_source.service.service import KraftService, _beat_of, _sight_of
from kraft_source.service.watcher import Sight
from kraft_source.wire.messages import EpochLeader
from pipeline.settings import load
from pipeline.topics import EnsuredTopics, topic_names
from source_log import log_writer
from source_log.beats import Beats
from source_log.lease import SoleWatcher
from source_log.log_writer import LogClients
from source_log.publisher import Publisher
from source_log.terms import Term
from tests.support.producer import AnsweredProducer

NAMES = topic_names("kcm")
TOPICS = EnsuredTopics(NAMES, 1, dict.fromkeys(NAMES, "id"))

HEADER = {
    "v": 1,
    "cluster": "prod",
    "watcher": "w1",
    "generation": 1,
    "seq": 1,
    "number": 1,
    "sent_at": 1,
    "sent_steady": 1,
}


def status_of(
    commits_stand_still_s: float = 0.0,
    *,
    unreachable_s: float | None = None,
    silent_s: float | None = None,
) -> ObserverStatus:
    """Return what an observer knows whose leader has answered, and, for so long, nobody or not the leader."""
    now = time.monotonic()
    return ObserverStatus(
        leader=EpochLeader(3001, 1),
        no_leader_since=None,
        unreachable_since=None if unreachable_s is None else now - unreachable_s,
        leader_silent_since=None if silent_s is None else now - silent_s,
        answered_at=now,
        high_watermark=9,
        high_watermark_since=now - commits_stand_still_s,
        problem="",
    )


def beat(commits_stand_still_s: float, *, unreachable_s: float | None = None) -> WatcherBeat:
    """Return a beat while no commit has come for so long."""
    status = status_of(commits_stand_still_s, unreachable_s=unreachable_s)
    return _beat_of(HEADER, status, deque([5]))


def test_an_answer_without_a_commit_proves_nothing() -> None:
    """A leader that has lost its majority answers, and its log is no proof that the log of kcm is complete."""
    answered_ms = beat(4.0).source_answered_ms
    assert answered_ms is not None
    assert 4_000 <= answered_ms < 5_000
    assert beat(4.0).session is SessionState.CONNECTED
    assert beat(4.0, unreachable_s=3.0).session is SessionState.SUSPENDED
    assert _beat_of(HEADER, None, deque()).source_answered_ms is None


class Stage:
    """A service that leads, whose producers are in memory and whose observer a test replaces."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now_ms, self.offset = 0, 0
        self.log = AnsweredProducer({"error_cb": None})
        monkeypatch.setattr(service_module, "steady_ms", lambda: self.now_ms)
        monkeypatch.setattr(log_writer, "clock_ms", lambda: 1_000 + self.now_ms)
        self.registry = CollectorRegistry()
        producer = cast("Any", lambda _: self.log)

        def open_clients(settings: Any, topics: EnsuredTopics, name: str, _: Any) -> LogClients:
            publisher = Publisher(settings, topics, producer)
            return LogClients(publisher, Beats(settings, topics, name, producer), cast("Any", None))

        self.service = KraftService(
            load(KraftSettings, cluster="prod", controllers="c1:9093"),
            KraftWatcherMetrics(self.registry, "prod", bool),
            Term(TOPICS, SoleWatcher(), "me", 0, open_clients),
        )
        self.service._watcher.begin(0, [], is_alone=True, now=0)
        self.service._watcher.tick(Sight(0, EpochLeader(3001, 1)), 0)

    def commit(self, record: MetadataRecord) -> None:
        """Let the controllers commit a record now, and the service write it."""
        batch = CommittedBatch(
            self.offset, self.offset, 1, 1_000 + self.now_ms, [(self.offset, record)]
        )
        self.offset += 1
        self.service._watcher.handle_released(Committed([batch], self.offset), None, self.now_ms)
        self.service._write()
        self.log.answer()

    @property
    def sent(self) -> list[int]:
        """How many records each message has."""
        return [len(decode_message(message).metadata) for message in self.log.taken]


@pytest.mark.usefixtures("no_settings_of_the_machine")
def test_what_is_not_urgent_waits_for_what_is(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another active controller is written at once, with what waited. The delay in the metrics includes the wait."""
    stage = Stage(monkeypatch)
    level = FeatureLevel("metadata.version", 20)
    stage.commit(level)
    assert stage.sent == [1]
    for stage.now_ms in (100, 200):
        stage.commit(level)
    assert stage.sent == [1]
    stage.now_ms = 300
    stage.commit(LeaderChange(3002, 1))
    assert stage.sent == [1, 3]
    name = "kcm_watcher_change_delay_seconds"
    assert stage.registry.get_sample_value(f"{name}_sum", {"cluster": "prod"}) == pytest.approx(0.3)


@pytest.mark.parametrize("silent_s", [None, 0.0, 1.5])
def test_a_leader_is_told_as_silent_after_a_moment(silent_s: float | None) -> None:
    """A leader that ends has a successor by then; the heartbeat dates it by the watcher's clock."""
    sight = _sight_of(status_of(silent_s=silent_s), QuorumSampler(time.monotonic))
    assert sight.leader == (3001, 1)
    if not silent_s:
        assert sight.leader_silent_since is None
    else:
        assert sight.leader_silent_since is not None
        assert 1_500 <= sight.sent_at - sight.leader_silent_since < 60_000


def test_nobody_is_told_as_leader_where_nobody_answers() -> None:
    """Who led last is not known to lead now, and not told as silent either."""
    sight = _sight_of(status_of(unreachable_s=2.0, silent_s=2.0), QuorumSampler(time.monotonic))
    assert (sight.leader, sight.leader_silent_since) == (None, None)
    assert sight.unreachable_since is not None
    assert 2_000 <= sight.sent_at - sight.unreachable_since < 60_000
