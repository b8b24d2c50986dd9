"""The main loop with Kafka, ZooKeeper and a clock in memory: what the simulation does not play.

The simulation plays the loop under faults; here are its waits, its logs, its metrics, its errors.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import msgspec
import pytest
import structlog
from prometheus_client import CollectorRegistry

from controller_model.kafka.ids import AsOf
from controller_model.records.changes import ChangeKind, SessionState
from controller_model.records.views import ResyncWanted, WatcherBeat, encode_view
from pipeline.runtime import ConflictError, EnvironmentProblemError
from pipeline.settings import load
from pipeline.stop_signal import StopSignal
from pipeline.supervised_thread import STANDSTILL_S
from pipeline.topics import EnsuredTopics, topic_names
from source_log import log_writer, readback
from source_log.generation_fencing import OtherWatcher
from source_log.lease import LeaseStatus, SoleWatcher
from source_log.publisher import DELIVERY_WAIT_MS
from source_log.readback import ViewsCut
from source_log.terms import Term
from tests.support.ensemble_in_memory import SERVER, Ensemble, fill
from tests.support.kafka_client import Client, Message, use_client
from tests.support.producer import Kafka, Polled
from tests.support.samples import cluster_view, log_view
from zk_source.config import WatchSettings
from zk_source.service import service
from zk_source.service.metrics import GAUGES, TOTALS, WatcherMetrics
from zk_source.service.service import (
    MAX_ITEMS_AT_ONCE,
    METRICS_INTERVAL_S,
    STORM_PAUSE_S,
    WatcherService,
    figures,
    intervals,
)
from zk_source.watcher.commands import GiveUp, GiveWay, NoBrokers, Send
from zk_source.watcher.watcher import Intervals, Watcher
from zk_source.wire.inbox import Inbox, Notification, Overflow, Reply, SessionChanged
from zk_source.wire.jute import BadReplyError
from zk_source.wire.operations import AddWatch, Err, EventType, Request, Sync

pytestmark = pytest.mark.usefixtures("no_settings_of_the_machine")

NAMES = topic_names("kcm")
TOPICS = EnsuredTopics(NAMES, 1, dict.fromkeys(NAMES, "id"))
POLL_MS = 100
HOUR_MS = 3_600_000
SECOND = 10
"""Polls of a second."""
BAD: Any = object()
"""The body of a reply that cannot be read."""


class Watched:
    """The watched ensemble in memory, which may fall silent."""

    def __init__(self, _settings: WatchSettings, inbox: Inbox, _log: object) -> None:
        self.inbox = inbox
        self.zk = Ensemble()
        self.silent = False
        self.open = False
        self.clients = 0
        self.checks: list[bool] = []
        self.has_no_brokers = False
        fill(self.zk)

    def connect(self) -> None:
        """Connect at once, unless it is silent."""
        self.clients += 1
        self.open = True
        if not self.silent:
            self.zk.connect()
            self.inbox.put(SessionChanged(self.clients, SessionState.CONNECTED.value, SERVER))

    def send(self, token: int, request: Request) -> None:
        """Answer a request, in order; notifications go first."""
        assert token > 0 or request == Sync("/")
        if not self.silent:
            self.zk.requests.append(Send(token, request))
            self.zk.answer_one()
            self.deliver()

    def put(self, *paths: str) -> None:
        """Set znodes, and notify the watcher."""
        for path in paths:
            self.zk.put(path)
        self.deliver()

    def deliver(self) -> None:
        """Deliver everything to the watcher."""
        while self.zk.to_client:
            match self.zk.to_client.popleft():
                case (token, zxid, err, results):
                    body: Any = results
                    self.inbox.put(Reply(token, zxid, err, body, 0))
                case (type_, path):
                    self.inbox.put(Notification(type_, path))

    def is_own(self, change: SessionChanged) -> bool:
        """Return whether the change is of the newest client."""
        return change.client == self.clients

    def check(self, *, resynced: bool) -> None:
        """Find no problem."""
        self.checks.append(resynced)

    def report_no_brokers(self) -> None:
        """Note it."""
        self.has_no_brokers = True

    def close(self) -> None:
        """End the client."""
        self.open = False


class Lease(SoleWatcher):
    """A lease that counts the reports of the main loop, and what invalidates it."""

    reports = 0
    invalidated = 0

    def invalidate(self) -> None:
        """Count it."""
        self.invalidated += 1

    def report_alive(self) -> None:
        """Count it."""
        self.reports += 1


class Stage:
    """A watcher's service and all that it talks to."""

    def __init__(
        self,
        monkeypatch: pytest.MonkeyPatch,
        *,
        dropped: int = 0,
        term: int | None = None,
        **settings: Any,
    ) -> None:
        self.now_ms = 1_000_000
        self.ahead_ms = 0
        """How far the machine's clock is ahead of the steady clock."""
        self.kafka, self.client = Kafka(monkeypatch, NAMES), Client(ends=((0, 0),))
        self.lease, self.registry = Lease(), CollectorRegistry()
        self.lease.term = term
        use_client(monkeypatch, self.client)
        monkeypatch.setattr(service, "WatchedEnsemble", Watched)
        monkeypatch.setattr(service, "decode", _decode)
        monkeypatch.setattr(service, "steady_ms", lambda: self.now_ms)
        for module in (service, log_writer):
            monkeypatch.setattr(module, "clock_ms", lambda: self.now_ms + self.ahead_ms)
        clock = SimpleNamespace(monotonic=lambda: self.now_ms / 1000)
        monkeypatch.setattr(service, "time", clock)
        monkeypatch.setattr(readback, "SupervisedThread", Polled)
        self.service = WatcherService(
            load(WatchSettings, cluster="prod", **settings),
            WatcherMetrics(self.registry, "prod", bool),
            Term(TOPICS, self.lease, "me", dropped),
        )
        self.watcher, self.inbox = self.service._watcher, self.service._inbox
        self.watched: Any = self.service._ensemble
        self.waits_s: list[float] = []
        self.pauses_s: list[float] = []
        monkeypatch.setattr(self.inbox, "pop", self._pop)

    def _pop(self, wait_s: float, *, pause_s: float = 0.0) -> Any:
        """Return an item without waiting: the clock is simulated."""
        self.waits_s.append(wait_s)
        if pause_s:
            self.pauses_s.append(pause_s)
        return Inbox.pop(self.inbox, 0)

    def polls(self, polls: int) -> list[WatcherBeat]:
        """Let the loop run; return the beats that were sent."""
        before = len(self.kafka.beats)
        for _ in range(polls):
            self.now_ms += POLL_MS
            self.service._poll()
        return self.kafka.beats[before:]

    def value(self, name: str, **labels: str) -> float | None:
        """Return a served value."""
        return self.registry.get_sample_value(name, {"cluster": "prod", **labels})

    @property
    def kinds(self) -> list[ChangeKind]:
        """What the log has."""
        return [change.kind for change in self.kafka.log]


def _decode(_request: Request, body: Any, _offset: int) -> Any:
    if body is BAD:
        raise BadReplyError("it ends too soon")
    return body


@pytest.fixture
def stage(monkeypatch: pytest.MonkeyPatch) -> Stage:
    """A watcher that has resynced."""
    stage = Stage(monkeypatch)
    stage.watched.connect()
    stage.polls(2 * SECOND)
    assert ChangeKind.RESYNC_FINISHED in stage.kinds
    return stage


def test_a_healthy_watcher_sends_a_beat_each_second_and_a_heartbeat_every_ten(stage: Stage) -> None:
    """Beats carry the session, ZooKeeper's newest answer and the completeness of the log. Nothing is logged."""
    before, reports = len(stage.kafka.log), stage.lease.reports
    with structlog.testing.capture_logs() as logged:
        sent = stage.polls(60 * SECOND)
    assert stage.kinds[before:] == [ChangeKind.HEARTBEAT] * 6
    assert (stage.kafka.log[-1].zookeeper, logged) == (SERVER, [])
    assert 59 <= len(sent) <= 60
    assert sent[-1].position in [change.position for change in stage.kafka.log[-2:]]
    assert {beat.session for beat in sent} == {SessionState.CONNECTED}
    ages = [(beat.source_answered_ms, beat.log_complete_ms) for beat in sent]
    assert all((age or 0) <= 1_000 + POLL_MS for each in ages for age in each)
    assert stage.lease.reports >= reports + 60 * SECOND, "the loop reports that it works"


def test_the_loop_reports_that_it_works_for_each_change_of_a_resync(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """One reply brings the values of hundreds of znodes: a loop that is busy with them does not hang."""
    stage = Stage(monkeypatch)
    for number in range(1_000):
        stage.watched.zk.put(f"/brokers/ids/{number}")
    stage.watched.connect()
    stage.polls(5 * SECOND)
    assert stage.kinds.count(ChangeKind.RESYNC_FINISHED) == 1
    assert stage.lease.reports > len(stage.kafka.log) > 1_000


def test_a_change_carries_the_time_of_its_reply(
    monkeypatch: pytest.MonkeyPatch, stage: Stage
) -> None:
    """However long the loop waited for something before."""
    arrived: list[int] = []
    stage.ahead_ms = HOUR_MS

    def pop(wait_s: float, **_: float) -> Any:
        stage.now_ms += int(wait_s * 1_000)
        item = Inbox.pop(stage.inbox, 0)
        if isinstance(item, Reply) and item.token > 0:
            arrived.append(stage.now_ms + stage.ahead_ms)
        return item

    monkeypatch.setattr(stage.inbox, "pop", pop)
    stage.polls(1)
    stage.watched.put("/controller")
    stage.polls(SECOND)
    (last,) = [each for each in stage.kafka.log if each.path == "/controller"][1:]
    assert [last.observed_at] == arrived


@pytest.mark.parametrize("source_ahead_ms", [HOUR_MS, -HOUR_MS])
def test_a_beat_carries_the_clock_difference_to_zookeeper(
    stage: Stage, source_ahead_ms: int
) -> None:
    """After two changes, as exactly as a poll and a request allow, and not from a resync."""
    stage.ahead_ms = 77 * HOUR_MS
    (*_, before) = stage.polls(2 * SECOND)
    assert before.source_ahead_ms is None
    for _ in range(2):
        # The clock that gives new values their time.
        stage.watched.zk.zxid = stage.now_ms + stage.ahead_ms + source_ahead_ms
        stage.watched.put("/controller_epoch")
        (*_, last) = stage.polls(3 * SECOND)
    assert last.source_ahead_ms is not None
    assert abs(source_ahead_ms - last.source_ahead_ms) <= SECOND * POLL_MS + 3 * POLL_MS


def test_a_value_of_another_server_than_its_notification_shows_no_clock_difference(
    stage: Stage,
) -> None:
    """The next connection's server may be behind, and show the value of long before the change."""
    for _ in range(2):
        stage.inbox.put(Notification(EventType.DATA_CHANGED, "/controller"))
        stage.inbox.put(SessionChanged(stage.watched.clients, "SUSPENDED", SERVER))
        stage.polls(1)
        stage.watched.connect()
        (*_, last) = stage.polls(3 * SECOND)
    assert stage.kinds.count(ChangeKind.RESYNC_FINISHED) == 3
    assert last.source_ahead_ms is None


def test_a_walk_waits_for_room_and_loses_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """While nothing may be written, a resync of more znodes than the buffer holds stands still."""
    stage = Stage(monkeypatch, buffer_changes=600, zk_watches="one-shot")
    for number in range(700):
        stage.watched.zk.put(f"/brokers/ids/{number}")
    stage.lease.status = LeaseStatus.UNPROVEN
    stage.watched.connect()
    stage.polls(10 * SECOND)
    assert 300 <= stage.service._writer.publisher.waiting < 600
    stage.lease.status = LeaseStatus.VALID
    stage.polls(10 * SECOND)
    assert stage.kinds.count(ChangeKind.RESYNC_FINISHED) == 1
    assert stage.watcher.recorder.dropped == 0


def test_the_log_is_not_complete_before_a_change_is_read(
    monkeypatch: pytest.MonkeyPatch, stage: Stage
) -> None:
    """However often ZooKeeper answers in the meantime, and also when the read is lost with its connection."""
    send = stage.watched.send
    monkeypatch.setattr(
        stage.watched, "send", lambda token, request: token > 0 or send(token, request)
    )
    stage.watched.put("/controller_epoch")
    (*_, last) = stage.polls(5 * SECOND)
    assert (last.log_complete_ms or 0) > 4_000 > (last.source_answered_ms or 0)
    stage.inbox.put(SessionChanged(stage.watched.clients, "SUSPENDED", SERVER))
    (*_, last) = stage.polls(2 * SECOND)
    assert (last.log_complete_ms or 0) > 6_000


@pytest.mark.parametrize("lost", [Overflow(1), OtherWatcher("prod", "he", 10, 1_000_000)])
def test_the_log_is_not_complete_while_notifications_are_missed(
    monkeypatch: pytest.MonkeyPatch, stage: Stage, lost: Any
) -> None:
    """However often ZooKeeper answers on the live connection: nothing is read until a resync begins."""
    stage.polls(40 * SECOND)  # it is no newcomer any more
    send = stage.watched.send
    monkeypatch.setattr(
        stage.watched, "send", lambda token, request: token > 0 or send(token, request)
    )
    stage.inbox.put(lost)
    (*_, last) = stage.polls(5 * SECOND)
    assert last.session is SessionState.SUSPENDED
    assert (last.log_complete_ms or 0) > 4_000 > (last.source_answered_ms or 0)
    monkeypatch.setattr(stage.watched, "send", send)
    stage.inbox.put(Overflow(1))  # what waits for an answer is given up
    (*_, last) = stage.polls(3 * SECOND)
    assert last.session is SessionState.CONNECTED
    assert (last.log_complete_ms or 0) <= 1_000 + POLL_MS


@pytest.mark.parametrize("breaks", [True, False])
def test_a_session_has_been_lost_since_zookeeper_fell_silent(stage: Stage, *, breaks: bool) -> None:
    """Whether its connection breaks then, or the watcher gives it up."""
    stage.watched.silent = True
    stage.polls(1)
    silent_at = stage.now_ms
    stage.polls(4 * SECOND)
    if breaks:
        stage.inbox.put(SessionChanged(stage.watched.clients, "SUSPENDED", SERVER))
    stage.polls(20 * SECOND)
    last = [change for change in stage.kafka.log if change.kind is ChangeKind.HEARTBEAT][-1]
    assert last.session is SessionState.LOST
    assert abs((last.session_since or 0) - silent_at) <= 1_000


def test_a_connection_without_watches_proves_nothing(
    monkeypatch: pytest.MonkeyPatch, stage: Stage
) -> None:
    """The answers of a server that reports no changes renew no sign of life."""
    send = stage.watched.send
    monkeypatch.setattr(
        stage.watched,
        "send",
        lambda token, request: isinstance(request, AddWatch) or send(token, request),
    )
    stage.inbox.put(SessionChanged(stage.watched.clients, "SUSPENDED", SERVER))
    stage.watched.connect()
    (*_, last) = stage.polls(5 * SECOND)
    assert (last.source_answered_ms or 0) > 4_000
    assert (last.log_complete_ms or 0) > 4_000


def test_a_question_that_ends_with_its_connection_is_asked_again_on_the_next(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Also where no watches have to be set first, and both connections are seen in one poll."""
    stage = Stage(monkeypatch, zk_watches="one-shot")
    stage.watched.connect()
    stage.polls(2 * SECOND)
    stage.watched.silent = True
    stage.polls(2 * SECOND)
    stage.watched.silent = False
    stage.inbox.put(SessionChanged(stage.watched.clients, "SUSPENDED", SERVER))
    stage.inbox.put(SessionChanged(stage.watched.clients, "CONNECTED", SERVER))
    (*_, last) = stage.polls(20 * SECOND)
    assert stage.watched.clients == 1
    assert (last.source_answered_ms or 0) <= 1_000 + POLL_MS


def test_a_refused_question_is_asked_again(monkeypatch: pytest.MonkeyPatch, stage: Stage) -> None:
    """A server that throttles its clients for a moment is not taken for a silent one."""
    send, refused = stage.watched.send, list[int]()

    def refuse_first(token: int, request: Request) -> None:
        if token > 0 or refused:
            send(token, request)
        else:
            refused.append(token)
            stage.inbox.put(Reply(token, 0, Err.MARSHALLING, b"", 0))

    monkeypatch.setattr(stage.watched, "send", refuse_first)
    clients = stage.watched.clients
    (*_, last) = stage.polls(20 * SECOND)
    assert (len(refused), stage.watched.clients) == (1, clients)
    assert (last.source_answered_ms or 0) <= 1_000 + POLL_MS


def test_views_that_kafka_has_lost_are_published_by_a_resync(stage: Stage) -> None:
    """The fold counts them as published."""
    stage.inbox.put(ViewsCut())
    stage.polls(SECOND)
    assert stage.kinds.count(ChangeKind.RESYNC_FINISHED) == 2


def test_a_silent_ensemble_leads_to_a_new_client(stage: Stage) -> None:
    """The ensemble is checked while there is no session, and told whether there was one before."""
    clients = stage.watched.clients
    assert stage.watched.checks == []
    stage.watched.silent = True
    sent = stage.polls(17 * SECOND)
    assert (sent[5].source_answered_ms or 0) >= 4_000
    assert stage.watched.clients > clients
    assert set(stage.watched.checks) == {True}
    assert sent[-1].session is SessionState.LOST
    assert stage.service._server() == ""


def test_records_of_another_watcher_and_of_the_fold_that_follows_it_reach_the_writer(
    stage: Stage,
) -> None:
    """Either may show that another watcher leads; both ask for a new generation."""
    stage.polls(40 * SECOND)  # it is no newcomer any more
    view = cluster_view("prod", AsOf("l", 9, 4), log=log_view(watcher="he"))
    for item in (view, OtherWatcher("prod", "he", 10, stage.now_ms)):
        stage.inbox.put(item)
    stage.polls(SECOND)
    assert stage.lease.invalidated == 2
    assert stage.kafka.log[-1].generation == 11


def test_waits_end_when_something_is_due(stage: Stage) -> None:
    """Or when Kafka may have acknowledged what is in flight. In a storm, the next poll waits for more at first."""
    stage.waits_s.clear()
    idle_s = stage.watcher.wait_ms(stage.now_ms) / 1000
    stage.service._poll()
    assert stage.waits_s[0] == idle_s > DELIVERY_WAIT_MS / 1000
    stage.kafka.up = False
    stage.watched.put("/controller")
    stage.polls(3)
    assert (stage.waits_s[-1], stage.pauses_s) == (DELIVERY_WAIT_MS / 1000, [])
    stage.watched.put("/brokers/topics/b", "/brokers/topics/c")
    stage.polls(3)
    assert stage.pauses_s == [STORM_PAUSE_S]


def test_a_change_that_may_wait_is_sent_with_others(
    monkeypatch: pytest.MonkeyPatch, stage: Stage
) -> None:
    """Half a second after the last message, or with what is urgent; the loop sleeps in between."""
    monkeypatch.setattr(stage.service._pulse, "ask", lambda _: None)
    stage.polls(SECOND)
    before = len(stage.kafka.log)

    def sent() -> list[str]:
        return [change.path.rpartition("/")[2] for change in stage.kafka.log[before:]]

    for topic in ("a", "b", "c"):
        stage.watched.put(f"/brokers/topics/{topic}")
        stage.polls(2)  # one reads it, one sends it
    assert sent() == ["a"], "nothing was sent in the half second before it"
    assert 0.1 in stage.waits_s[-2:]
    stage.polls(1)
    assert sent() == ["a", "b", "c"]
    stage.watched.put("/brokers/topics/d", "/brokers/ids/1")
    stage.polls(2)
    assert sent() == ["a", "b", "c", "d", "1"]


@pytest.mark.parametrize("begins", range(5))
def test_a_wait_delays_no_proof_that_the_log_is_complete(stage: Stage, begins: int) -> None:
    """What waits is sent when ZooKeeper has answered the question of whether it still responds, once a second."""
    stage.polls(SECOND + begins)
    ages = []
    stage.service._writer._beats._next_ms = stage.service._pulse._next_ms + 3 * POLL_MS
    for number in range(10 * SECOND):
        stage.watched.put(f"/brokers/topics/{number}")
        ages += [beat.log_complete_ms or 0 for beat in stage.polls(1)]
    assert len(ages) > 8
    assert max(ages) <= 3 * POLL_MS


def test_a_poll_handles_a_limited_number_of_items(stage: Stage) -> None:
    """A storm of notifications does not keep the lease and the threads from being checked; each reports that the loop works."""
    for _ in range(MAX_ITEMS_AT_ONCE + 50):
        stage.inbox.put(Notification(3, "/brokers/ids/1"))
    stage.waits_s.clear()
    reports = stage.lease.reports
    stage.service._poll()
    assert stage.lease.reports > reports + MAX_ITEMS_AT_ONCE
    assert len(stage.inbox) >= 50
    assert stage.waits_s[1:] == [0] * (MAX_ITEMS_AT_ONCE - 1), "it waits for the first alone"


def test_a_reply_that_cannot_be_decoded_is_requested_again(stage: Stage) -> None:
    """It ends neither the loop nor what is known about the znode."""
    answer, spoils = stage.watched.zk.answer_one, [True]

    def spoil() -> None:
        answer()
        for at, item in enumerate(stage.watched.zk.to_client):
            if len(item) == 4 and item[0] > 0 and item[2] == Err.OK and spoils:
                spoils.clear()
                stage.watched.zk.to_client[at] = (*item[:3], BAD)

    stage.watched.zk.answer_one = spoil
    stage.watched.put("/brokers/ids/9")
    with structlog.testing.capture_logs() as logged:
        stage.polls(60 * SECOND)
    reasons = [entry["reason"] for entry in logged if entry["event"] == "a resync is needed"]
    assert reasons == [f"reading /brokers/ids/9 failed with error {int(Err.MARSHALLING)}"]
    assert "/brokers/ids/9" in [change.path for change in stage.kafka.log]


def test_commands_for_the_user_end_the_watcher_with_their_own_errors(stage: Stage) -> None:
    """A conflict and a broken environment have different exit codes."""
    with pytest.raises(ConflictError, match="another watcher"):
        stage.service._carry_out(GiveWay("another watcher"))
    with pytest.raises(EnvironmentProblemError, match="no znode"):
        stage.service._carry_out(GiveUp("no znode"))
    stage.service._carry_out(NoBrokers())
    assert stage.watched.has_no_brokers


def test_each_published_change_is_counted_by_its_kind(stage: Stage) -> None:
    """The counts are those of the log."""
    stage.watched.put("/brokers/ids/8", "/brokers/ids/9")
    stage.polls(15 * SECOND)
    for kind in (ChangeKind.RESYNC_STARTED, ChangeKind.SET, ChangeKind.HEARTBEAT):
        count = stage.value("kcm_watcher_changes_total", kind=kind.value)
        assert count == stage.kinds.count(kind) > 0


def test_the_change_delay_is_observed_for_set_changes_only(stage: Stage) -> None:
    """A resync publishes old values, and a deletion has no time of its change."""
    name = "kcm_watcher_change_delay_seconds"
    assert stage.value(f"{name}_count") == 0
    for kind in (ChangeKind.SET, ChangeKind.DELETED, ChangeKind.HEARTBEAT):
        change = msgspec.structs.replace(stage.kafka.log[-1], kind=kind, mtime=stage.now_ms - 2_000)
        stage.service._publish(change)
    assert stage.value(f"{name}_count") == 0, "it is not sent yet"
    stage.now_ms += 500
    stage.service._carry_out_commands()
    assert (stage.value(f"{name}_count"), stage.value(f"{name}_sum")) == (1, 2.5)


def test_the_health_of_a_server_is_never_asked_for_with_tls(stage: Stage) -> None:
    """Four-letter words are plain text."""
    assert stage.service._server() == SERVER
    stage.service._settings = load(WatchSettings, cluster="prod", zk_tls=True)
    assert stage.service._server() == ""


@pytest.mark.parametrize(("term", "generation"), [(None, 9), (30, 30)])
def test_a_term_continues_from_the_log_and_ends_with_a_heartbeat(
    monkeypatch: pytest.MonkeyPatch, term: int | None, generation: int
) -> None:
    """Above every generation in the log, with the request that is still open and the number of dropped changes."""
    stage = Stage(monkeypatch, dropped=7, term=term, zk_watches="one-shot")
    wanted = ResyncWanted(number=4, reason="a hole")
    value = encode_view(cluster_view("prod", AsOf("l", 5, 4), resync_wanted=wanted))
    newest = b'[{"cluster":"prod","generation":8,"watcher":"he","observed_at":7}]'
    stage.client.polls = [
        [Message((NAMES.views, 0), 0, key=b"prod/cluster", value=value)],
        [Message((NAMES.changes, 0), 0, key=b"prod", value=newest)],
    ]
    stage.client.ends = [(0, 1), (0, 1)]
    stage.ahead_ms = HOUR_MS
    stop, poll = threading.Event(), stage.service._poll

    def poll_until_resynced() -> None:
        stage.now_ms += POLL_MS
        poll()
        if ChangeKind.RESYNC_FINISHED in stage.kinds:
            assert stage.value("kcm_watcher_leader") == 1
            assert stage.watched.open
            stop.set()

    monkeypatch.setattr(stage.service, "_poll", poll_until_resynced)
    stage.service.run(stop)
    first, *_, last = stage.kafka.log
    assert (first.kind, first.generation, first.answers) == (
        ChangeKind.RESYNC_STARTED,
        generation,
        4,
    )
    assert 0 <= stage.now_ms + HOUR_MS - first.observed_at <= 2_000
    assert (last.kind, last.session) == (ChangeKind.HEARTBEAT, SessionState.LOST)
    assert last.dropped == 7
    assert stage.watched.zk.data_watches, "watches are those of the setting"
    assert not stage.watched.open, "the session ends with the term"


def test_an_error_of_the_thread_that_asks_for_the_servers_health_ends_the_watcher(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It reaches the user, and the connections are closed."""
    stage = Stage(monkeypatch)

    @contextmanager
    def watched_health(*_: object) -> Iterator[Callable[[], None]]:
        yield Mock(side_effect=[None, EnvironmentProblemError("the thread hangs")])

    def poll() -> None:
        assert next(polls) < 9

    polls = itertools.count()
    monkeypatch.setattr(service, "watched_health", watched_health)
    monkeypatch.setattr(stage.service, "_poll", poll)
    with pytest.raises(EnvironmentProblemError, match="the thread hangs"):
        stage.service.run(threading.Event())
    assert (next(polls), stage.watched.open) == (2, False)


def test_a_stop_before_the_first_poll_publishes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor does the watcher connect: there was no term."""
    stage, stop = Stage(monkeypatch), threading.Event()
    stop.set()
    stage.service.run(stop)
    assert (stage.kafka.log, stage.watched.clients, stage.value("kcm_watcher_leader")) == ([], 0, 0)


def test_the_part_serves_its_metrics_while_it_leads_in_terms(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Those of a standby before the first term; each term is that of a service."""
    stage, stop = Stage(monkeypatch), StopSignal()
    settings, served = load(WatchSettings, cluster="prod"), list[CollectorRegistry]()
    stop.set()

    @contextmanager
    def serve(
        registry: CollectorRegistry, _health: object, *given: object
    ) -> Iterator[SimpleNamespace]:
        assert given == (settings, settings.watcher_metrics_port)
        served.append(registry)
        yield SimpleNamespace(port=1)
        served.clear()

    def terms(*given: object, lead: Callable[[Term], None], on_standby: Any) -> None:
        assert (given[0], type(given[1]), given[2]) == (settings, SoleWatcher, stop)
        on_standby(3)
        assert served[0].get_sample_value("kcm_watcher_leader", {"cluster": "prod"}) == 0
        lead(Term(TOPICS, stage.lease, "me", 0))
        assert stage.kafka.flushes_s, "a service has ended"
        stage.waits_s.append(1.0)

    monkeypatch.setattr(service, "metrics_server", serve)
    monkeypatch.setattr(service, "run_terms", terms)
    service.run(settings, stop)
    assert (stage.waits_s, served) == ([1.0], [])


def test_one_term_is_shown_in_the_metrics_of_somebody_else(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Whoever serves them stops the term; a loop that hangs does not lead."""
    stage, stop, registry = Stage(monkeypatch), StopSignal(), CollectorRegistry()
    poll = WatcherService._poll

    def leader() -> float | None:
        return registry.get_sample_value("kcm_watcher_leader", {"cluster": "prod"})

    def poll_until_resynced(watching: WatcherService) -> None:
        stage.now_ms += POLL_MS
        poll(watching)
        if ChangeKind.RESYNC_FINISHED in stage.kinds:
            stop.set()

    monkeypatch.setattr(WatcherService, "_poll", poll_until_resynced)
    opened = Mock(side_effect=log_writer.kafka_clients)
    term = Term(TOPICS, stage.lease, "me", 0, opened)
    service.run_term(load(WatchSettings, cluster="prod"), term, registry, stop)
    assert (stage.kafka.log[-1].watcher, leader(), opened.call_count) == ("me", 1, 1)
    monkeypatch.setattr(StopSignal, "age_s", STANDSTILL_S + 1)
    assert leader() == 0


def test_a_lost_session_is_logged_as_a_warning(stage: Stage) -> None:
    """A connected session is logged as information; a client that was given up has none."""
    for state in (SessionState.SUSPENDED, SessionState.CONNECTED, SessionState.LOST):
        stage.inbox.put(SessionChanged(stage.watched.clients, state.value, SERVER))
        stage.inbox.put(SessionChanged(stage.watched.clients - 1, state.value, SERVER))
    with structlog.testing.capture_logs() as logged:
        stage.polls(1)
    said = [(line["log_level"], line["state"]) for line in logged if "session" in line["event"]]
    assert said == [("warning", "SUSPENDED"), ("info", "CONNECTED"), ("warning", "LOST")]


def test_changes_that_do_not_fit_are_dropped_until_kafka_is_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Once; the resync that follows is logged with the reason, and the end of the outage."""
    stage = Stage(monkeypatch, buffer_changes=3)
    stage.watched.connect()
    stage.polls(2 * SECOND)
    stage.kafka.up = False
    with structlog.testing.capture_logs() as logged:
        for number in range(200):
            stage.watched.put(f"/brokers/topics/t{number}")
            stage.polls(1)
        stage.kafka.up = True
        stage.polls(5 * SECOND)
    dropped = stage.watcher.recorder.dropped
    assert 0 < dropped < 200
    said = [line.get("reason", line["event"]) for line in logged]
    cause = "the pipeline's Kafka did not accept changes in time"
    assert said == [
        f"{cause}: {dropped} changes dropped",
        "the pipeline's Kafka accepts changes again",
    ]
    assert stage.kinds.count(ChangeKind.RESYNC_FINISHED) == 2
    assert stage.kafka.log[-1].dropped in {None, dropped}


def test_lost_notifications_are_counted(monkeypatch: pytest.MonkeyPatch, stage: Stage) -> None:
    """Metrics are updated twice a second, however often the loop polls."""
    stage.service._handle_item(Overflow(70), stage.now_ms)
    stage.polls(SECOND)
    assert stage.value("kcm_watcher_dropped_notifications_total") == 70
    assert stage.value("kcm_watcher_session_state", state="CONNECTED") == 1
    shown: list[int] = []
    monkeypatch.setattr(stage.service._metrics, "show", lambda _: shown.append(stage.now_ms))
    stage.polls(10 * SECOND)
    between = {later - earlier for earlier, later in itertools.pairwise(shown)}
    assert between == {METRICS_INTERVAL_S * 1000}


def test_every_figure_has_a_metric_and_every_metric_a_figure() -> None:
    """A name that only one of the two has would be served without a value, or end the watcher."""
    publisher: Any = SimpleNamespace(waiting=3, bytes_held=4, bytes_published=6)
    watcher = Watcher("prod", "a", 0)
    watcher.recorder.omitted = 5
    read = figures(watcher, publisher, queue_length=2)
    assert set(read) == {*GAUGES, *TOTALS}
    assert {name: value for name, value in read.items() if value} == {
        "queue_length": 2,
        "buffer_changes": 3,
        "buffer_bytes": 4,
        "omitted_data": 5,
        "published_bytes": 6,
    }


def test_each_interval_follows_its_setting() -> None:
    """None of them is left as shipped where an operator has set it; simulations use the shipped values."""
    assert intervals(load(WatchSettings)) == Intervals()
    settings = load(
        WatchSettings,
        heartbeat_s=7,
        reconciliation_interval_s=8,
        full_resync_s=9,
        resync_reads_per_s=10,
        reconciliation_reads_per_s=11,
        session_timeout_s=30,
    )
    assert intervals(settings) == Intervals(
        heartbeat_ms=7_000,
        reconciliation_ms=8_000,
        resync_ms=9_000,
        resync_reads_per_s=10,
        reconciliation_reads_per_s=11,
        new_client_ms=settings.most_silent_ms,
    )
    assert settings.most_silent_ms != Intervals().new_client_ms
