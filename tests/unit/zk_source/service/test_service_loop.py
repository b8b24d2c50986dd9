"""The real main loop, with simulated Kafka, ZooKeeper and clock."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
import structlog
from confluent_kafka import KafkaError
from prometheus_client import CollectorRegistry

from controller_model.kafka.ids import AsOf
from controller_model.records.changes import ChangeKind, SessionState, ZnodeChange, decode_message
from controller_model.records.views import ResyncWanted, WatcherBeat, decode_view, encode_view
from pipeline import kafka_errors
from pipeline.kafka_errors import TopicReadError
from pipeline.runtime import Backoff, ConflictError, EnvironmentProblemError
from pipeline.settings import load
from pipeline.topics import EnsuredTopics, topic_names
from tests.support.ensemble_in_memory import SERVER, Ensemble, fill
from tests.support.kafka_client import Client, Message, use_client
from tests.support.samples import cluster_view, log_view
from zk_source.config import WatchSettings
from zk_source.election.candidacy import LeaseStatus
from zk_source.election.leader_elector import SoleWatcher
from zk_source.log import beats, publisher, readback
from zk_source.service import service
from zk_source.service.metrics import WatcherMetrics
from zk_source.service.service import (
    DELIVERY_WAIT_S,
    GOODBYE_S,
    MAX_ITEMS_AT_ONCE,
    METRICS_INTERVAL_S,
    STORM_PAUSE_S,
    LeaseLostError,
    LogLostError,
    WatcherService,
    check_readable,
)
from zk_source.watcher import dirty_paths, fold_lag
from zk_source.watcher.commands import GiveUp, GiveWay, NoBrokers, Send
from zk_source.watcher.fold_lag import PATIENCE_MS
from zk_source.wire.inbox import (
    Inbox,
    Notification,
    OtherWatcher,
    Overflow,
    Reply,
    SessionChanged,
    ViewsCut,
)
from zk_source.wire.jute import BadReplyError
from zk_source.wire.operations import Err, EventType, Request, Sync

pytestmark = pytest.mark.usefixtures("no_settings_of_the_machine")

NAMES = topic_names("kcm")
TOPICS = EnsuredTopics(NAMES, 1, dict.fromkeys(NAMES, "id"))
TURN_MS = 100
HOUR_MS = 3_600_000
SECOND = 10
"""Turns of a second."""
BAD: Any = object()
"""The body of a reply that cannot be read."""


class Kafka:
    """A fake broker for the producers: while it is up, it acknowledges everything at the next poll."""

    def __init__(self) -> None:
        self.up = True
        self.takes_changes = True
        self.error: KafkaError | None = None
        self.log: list[ZnodeChange] = []
        self.beats: list[WatcherBeat] = []
        self.flushes_s: list[float] = []
        self._open: list[tuple[bytes, str, Callable[[KafkaError | None, None], None]]] = []

    def produce(self, topic: str, *, value: bytes, on_delivery: Any, **_: Any) -> None:
        """Accept a message."""
        self._open.append((value, topic, on_delivery))

    def poll(self, _timeout_s: float) -> None:
        """Answer what is in flight."""
        answered = [each for each in self._open if self.takes_changes or each[1] == NAMES.views]
        for message in answered if self.up else ():
            self._open.remove(message)
            value, topic, on_delivery = message
            if self.error is None and topic == NAMES.views:
                view = decode_view(value)
                assert isinstance(view, WatcherBeat)
                self.beats.append(view)
            elif self.error is None:
                self.log += decode_message(value).changes
            on_delivery(self.error, None)

    def flush(self, timeout_s: float) -> None:
        """Answer what is in flight."""
        self.flushes_s.append(timeout_s)
        self.poll(timeout_s)

    def purge(self) -> None:
        """Forget what is in flight."""
        self._open.clear()


class Watched:
    """A fake of the watched ensemble: an ensemble in memory, which may fall silent."""

    def __init__(self, settings: object, inbox: Inbox, log: Any) -> None:
        assert isinstance(settings, WatchSettings)
        assert log.warning
        self.inbox = inbox
        self.zk = Ensemble()
        self.silent = False
        self.clients = 0
        self.questions = 0
        """How often the watcher asked it whether it still answers."""
        self.checks: list[bool] = []
        self.has_no_brokers = False
        fill(self.zk)

    def connect(self) -> None:
        """Connect at once, unless it is silent."""
        self.clients += 1
        if not self.silent:
            self.zk.connect()
            self.inbox.put(SessionChanged(self.clients, SessionState.CONNECTED.value, SERVER))

    def send(self, token: int, request: Request) -> None:
        """Answer a request, in order; notifications go first."""
        assert token > 0 or request == Sync("/")
        self.questions += token < 0
        if self.silent:
            return
        self.zk.requests.append(Send(token, request))
        self.zk.answer_one()
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


class InTurns:
    """A fake thread: its work is done when it is checked."""

    def __init__(self, _name: str, turn: Callable[[], None]) -> None:
        self.check = turn

    def start(self) -> None:
        """Wait for the first check."""

    def close(self, _timeout_s: float) -> None:
        """Do nothing more."""


class Lease(SoleWatcher):
    """A lease that a test can revoke."""

    def __init__(self) -> None:
        self.status = LeaseStatus.VALID
        self.kept = 0
        self.invalidated = 0

    def keep(self) -> None:
        """Count it."""
        self.kept += 1

    def invalidate(self) -> None:
        """Count it."""
        self.invalidated += 1


class Stage:
    """A watcher's service and all that it talks to."""

    def __init__(
        self,
        monkeypatch: pytest.MonkeyPatch,
        *,
        dropped: int = 0,
        elected: int | None = None,
        **settings: Any,
    ) -> None:
        self.now_ms = 1_000_000
        self._monkeypatch = monkeypatch
        self.kafka = Kafka()
        self.client = Client(ends=((0, 0),))
        self.lease = Lease()
        self.lease.czxid = elected
        self.registry = CollectorRegistry()
        use_client(monkeypatch, self.client)
        monkeypatch.setattr(publisher, "Producer", lambda _properties: self.kafka)
        kafka = self.kafka
        own = SimpleNamespace(
            produce=kafka.produce, poll=kafka.poll, flush=kafka.flush, purge=lambda: None
        )
        monkeypatch.setattr(beats, "Producer", lambda _properties: own)
        monkeypatch.setattr(service, "WatchedEnsemble", Watched)
        monkeypatch.setattr(service, "decode", _decode)
        monkeypatch.setattr(service, "steady_ms", lambda: self.now_ms)
        clock = SimpleNamespace(monotonic=lambda: self.now_ms / 1000)
        monkeypatch.setattr(service, "time", clock)
        monkeypatch.setattr(readback, "SupervisedThread", InTurns)
        self.service = WatcherService(
            load(WatchSettings, cluster="prod", **settings),
            TOPICS,
            WatcherMetrics(self.registry, "prod"),
            self.lease,
            name="me",
            dropped=dropped,
        )
        self.watched: Any = self.service._ensemble
        self.waits_s: list[float] = []
        self.pauses_s: list[float] = []
        monkeypatch.setattr(self.service._inbox, "take", self._take)

    def _take(self, wait_s: float, *, pause_s: float = 0.0) -> Any:
        """Take without waiting: the clock is simulated."""
        self.waits_s.append(wait_s)
        if pause_s:
            self.pauses_s.append(pause_s)
        return Inbox.take(self.service._inbox, 0)

    def begin(self) -> None:
        """Connect, and let the first resync end."""
        self.watched.connect()
        self.turns(2 * SECOND)
        assert ChangeKind.RESYNC_FINISHED in [change.kind for change in self.kafka.log]

    def turns(self, turns: int) -> list[WatcherBeat]:
        """Run some turns; return the beats that were sent in them."""
        before = len(self.kafka.beats)
        for _ in range(turns):
            self.now_ms += TURN_MS
            self.service._turn()
        return self.kafka.beats[before:]

    def run(self, turns: int) -> None:
        """Begin a term, run this many turns, and stop."""
        stop = threading.Event()
        turn, left = self.service._turn, [None] * turns

        def turn_and_stop() -> None:
            self.now_ms += TURN_MS
            turn()
            left.pop()
            if not left:
                stop.set()

        self._monkeypatch.setattr(self.service, "_turn", turn_and_stop)
        if not turns:
            stop.set()
        self.service.run(stop)

    def leads(self) -> float | None:
        """Return the gauge of whether this watcher leads."""
        return self.registry.get_sample_value("kcm_watcher_leader", {"cluster": "prod"})


def _decode(request: Request, body: Any, offset: int) -> Any:
    """Return the results, which are decoded already; a test's bad reply cannot be decoded."""
    assert (request is None, offset) == (False, 0)
    if body is BAD:
        raise BadReplyError("it ends too soon")
    return body


@pytest.fixture
def stage(monkeypatch: pytest.MonkeyPatch) -> Stage:
    """A watcher that has resynced."""
    stage = Stage(monkeypatch)
    stage.begin()
    return stage


def test_a_connected_watcher_sends_a_beat_each_second(stage: Stage) -> None:
    """With the position of the log's end. ZooKeeper's answer and the complete log are no older than a second."""
    sent = stage.turns(10 * SECOND)
    assert 9 <= len(sent) <= 10
    assert sent[-1].position in [change.position for change in stage.kafka.log[-2:]]
    assert {beat.session for beat in sent} == {SessionState.CONNECTED}
    assert {beat.watcher for beat in sent} == {"me"}
    numbers = [beat.number for beat in sent]
    assert numbers == list(range(numbers[0], numbers[0] + len(sent)))
    ages = [(beat.zookeeper_answered_ms, beat.log_complete_ms) for beat in sent]
    assert all((age or 0) <= 1_000 + TURN_MS for each in ages for age in each)


@pytest.mark.parametrize("ahead_ms", [HOUR_MS, -HOUR_MS])
def test_a_beat_carries_the_clock_difference_to_zookeeper(
    monkeypatch: pytest.MonkeyPatch, stage: Stage, ahead_ms: int
) -> None:
    """After two changes, as exactly as a turn and a request allow, and not from a resync."""
    ours_ahead_ms = 77 * HOUR_MS
    monkeypatch.setattr(service, "clock_ms", lambda: stage.now_ms + ours_ahead_ms)
    (*_, before) = stage.turns(2 * SECOND)
    assert before.zookeeper_ahead_ms is None
    for epoch in (b"8", b"9"):
        stage.watched.zk.zxid = (
            stage.now_ms + ours_ahead_ms + ahead_ms
        )  # the clock that gives new values their time
        stage.watched.zk.put("/controller_epoch", epoch)
        stage.watched.deliver()
        (*_, last) = stage.turns(3 * SECOND)
    assert last.zookeeper_ahead_ms is not None
    late_ms = abs(ahead_ms - last.zookeeper_ahead_ms)
    assert late_ms <= SECOND * TURN_MS + 3 * TURN_MS


def test_each_turn_keeps_the_lease_and_checks_the_threads(
    monkeypatch: pytest.MonkeyPatch, stage: Stage
) -> None:
    """A loop that no longer turns leads no more, nor does one whose thread has ended."""
    kept = stage.lease.kept
    stage.turns(3)
    assert stage.lease.kept == kept + 3

    def ended() -> None:
        raise LookupError

    monkeypatch.setattr(stage.service._readback, "check", ended)
    with pytest.raises(LookupError):
        stage.turns(1)


def test_another_writer_invalidates_the_lease_once_per_generation(stage: Stage) -> None:
    """Once for each generation of the writer: a stream of its records must not stop our log for ever."""
    other = OtherWatcher("prod", "she", 9, stage.now_ms)
    for _ in range(3):
        stage.service._take_in(other, stage.now_ms)
    assert stage.lease.invalidated == 1
    stage.service._take_in(OtherWatcher("prod", "me", 99, stage.now_ms), stage.now_ms)
    assert stage.lease.invalidated == 1, "it wrote that itself"
    stage.service._take_in(OtherWatcher("prod", "she", 10, stage.now_ms), stage.now_ms)
    assert stage.lease.invalidated == 2
    for writer, times in (("me", 2), ("he", 3)):  # the writer that the fold's view names
        view = cluster_view("prod", AsOf("l", 11, 4), log=log_view(watcher=writer))
        stage.service._take_in(view, stage.now_ms)
        assert stage.lease.invalidated == times


def test_a_resync_waits_for_a_fold_that_others_need(
    monkeypatch: pytest.MonkeyPatch, stage: Stage
) -> None:
    """Which shows how far it is by its view; alone, it may be as late as it is."""
    monkeypatch.setattr(fold_lag, "STEP", 1)

    def resynced(*, is_shared: bool) -> bool:
        stage.service._readback.is_shared = is_shared
        began, shown = len(stage.kafka.log), stage.kafka.log[-1]
        at = AsOf("l", shown.generation, shown.seq)
        stage.service._take_in(cluster_view("prod", at, log=log_view(watcher="me")), stage.now_ms)
        stage.service._inbox.put(ViewsCut())
        stage.turns(SECOND)
        return ChangeKind.RESYNC_FINISHED in [change.kind for change in stage.kafka.log[began:]]

    assert not resynced(is_shared=True)
    stage.turns(PATIENCE_MS // TURN_MS)
    assert stage.kafka.log[-1].kind is ChangeKind.RESYNC_FINISHED, "the fold has stopped"
    assert resynced(is_shared=False)


def test_lost_views_lead_to_a_resync(stage: Stage) -> None:
    """What Kafka has lost is published again."""
    began = stage.service._watcher.resyncs
    stage.service._inbox.put(ViewsCut())
    stage.turns(5 * SECOND)
    assert stage.service._watcher.resyncs == began + 1


def test_a_silent_ensemble_is_reported_and_leads_to_a_new_client(
    stage: Stage,
) -> None:
    """The connection is up, and nothing arrives. Beats show for how long until a new client."""
    stage.watched.silent = True
    first, *_, last = stage.turns(5 * SECOND)
    ages = (first.zookeeper_answered_ms, last.zookeeper_answered_ms)
    assert ages[1] is not None
    assert ages[1] >= 4_000
    clients = stage.watched.clients
    sent = stage.turns(12 * SECOND)
    assert stage.watched.clients > clients
    assert sent[-1].session is SessionState.LOST
    stage.watched.silent = False
    stage.watched.zk.put("/brokers/ids/9")
    sent = stage.turns(20 * SECOND)
    assert (sent[-1].session, sent[-1].position) == (
        *(SessionState.CONNECTED, stage.kafka.log[-1].position),
    )
    assert "/brokers/ids/9" in [change.path for change in stage.kafka.log]


def test_a_new_client_is_not_blamed_for_the_silence_of_the_old_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The new client may be connected, and have its one-shot watches armed, before the next turn of the loop."""
    stage = Stage(monkeypatch, zk_watches="one-shot")
    stage.begin()
    stage.watched.silent = True
    connect = stage.watched.connect

    def answer_again() -> None:
        stage.watched.silent = False
        connect()

    monkeypatch.setattr(stage.watched, "connect", answer_again)
    clients = stage.watched.clients
    sent = stage.turns(30 * SECOND)
    assert stage.watched.clients == clients + 1
    assert sent[-1].session is SessionState.CONNECTED


def test_after_a_pause_of_the_process_the_last_answer_is_old(stage: Stage) -> None:
    """A process that continues after a pause claims no more than it knew before."""
    stage.turns(SECOND)
    stage.now_ms += 60_000
    stage.service._beat(stage.now_ms)
    stage.turns(1)
    age_ms = stage.kafka.beats[-1].zookeeper_answered_ms
    assert age_ms is not None
    assert age_ms >= 60_000


def test_no_beat_is_sent_without_a_lease_or_while_kafka_is_down(stage: Stage) -> None:
    """Neither while the lease is unproven, nor while Kafka acknowledges nothing."""
    stage.lease.status = LeaseStatus.UNPROVEN
    assert stage.turns(5 * SECOND) == []
    assert stage.leads() == 0
    stage.lease.status = LeaseStatus.VALID
    assert stage.turns(2 * SECOND)
    stage.kafka.up = False
    stage.watched.zk.put("/brokers/ids/9")
    stage.watched.deliver()
    assert stage.turns(20 * SECOND) == []
    stage.kafka.up = True
    stage.turns(SECOND // 2)
    # One beat was in flight during the outage; it was created before Kafka stopped answering.
    assert len(stage.turns(5 * SECOND)) >= 4
    stage.lease.status = LeaseStatus.LOST
    with pytest.raises(LeaseLostError):
        stage.turns(1)


def test_a_beat_shows_that_kafka_takes_no_changes(stage: Stage) -> None:
    """The topics may have different leaders: changes that readers would take for current wait here."""
    stage.kafka.takes_changes = False
    stage.watched.zk.put("/brokers/ids/9")
    stage.watched.deliver()
    last = stage.turns(20 * SECOND)[-1]
    assert (last.zookeeper_answered_ms or 0) <= 1_000 + TURN_MS
    assert (last.log_complete_ms or 0) >= 18_000
    stage.kafka.takes_changes = True
    stage.turns(2)
    last = stage.turns(2 * SECOND)[-1]
    assert last.position == stage.kafka.log[-1].position
    assert (last.log_complete_ms or 0) <= 1_000 + TURN_MS


def test_a_beat_shows_that_changed_paths_are_not_read(stage: Stage) -> None:
    """ZooKeeper answers each second, but the read of a changed path does not return."""
    watched = stage.watched
    answer = watched.send

    def send(token: int, request: Request) -> None:
        if token < 0:
            answer(token, request)

    watched.send = send
    watched.zk.put("/brokers/ids/9")
    watched.deliver()
    last = stage.turns(10 * SECOND)[-1]
    assert (last.zookeeper_answered_ms or 0) <= 1_000 + TURN_MS
    assert (last.log_complete_ms or 0) >= 8_000
    watched.inbox.put(SessionChanged(watched.clients, SessionState.SUSPENDED.value, SERVER))
    last = stage.turns(5 * SECOND)[-1]
    assert (last.log_complete_ms or 0) >= 13_000, "reads that were given up count as done"


def test_a_buffer_overflow_drops_all_changes_once_and_ends_with_a_resync(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """After that nothing is dropped until the buffer is full again: the count of bytes starts again."""
    stage = Stage(monkeypatch, buffer_mib=0.01)
    stage.begin()
    stage.lease.status = LeaseStatus.UNPROVEN
    for number in range(200):
        stage.watched.zk.put(f"/brokers/topics/t{number}")
        stage.watched.deliver()
    with structlog.testing.capture_logs() as logged:
        stage.turns(SECOND)
    dropped = stage.service._watcher.recorder.dropped
    assert dropped
    reason = f"the lease could not be proved in time: {dropped} changes dropped"
    assert reason in [entry.get("reason") for entry in logged]
    assert stage.turns(5 * SECOND) == []
    stage.lease.status = LeaseStatus.VALID
    stage.turns(5 * SECOND)
    assert stage.service._watcher.recorder.dropped == dropped
    kinds = [change.kind for change in stage.kafka.log]
    assert kinds.count(ChangeKind.RESYNC_FINISHED) == 2
    assert stage.turns(2 * SECOND)
    assert len(stage.service._watcher.recorder.published) == 200 + 5
    stage.lease.status = LeaseStatus.UNPROVEN
    for number in range(200):
        stage.watched.zk.put(f"/brokers/topics/u{number}")
        stage.watched.deliver()
    stage.turns(SECOND)
    assert stage.service._watcher.recorder.dropped > dropped
    assert not stage.service._publisher.waiting


def test_in_a_storm_of_changes_a_turn_waits_to_collect_more(stage: Stage) -> None:
    """One change is published at once, and so is what a resync reads. After two, the next turn collects more."""
    stage.begin()
    stage.watched.zk.put("/brokers/topics/a")
    stage.watched.deliver()
    stage.turns(3)
    assert stage.pauses_s == []
    for name in ("b", "c"):
        stage.watched.zk.put(f"/brokers/topics/{name}")
    stage.watched.deliver()
    stage.turns(3)
    assert stage.pauses_s == [STORM_PAUSE_S]


def test_lost_notifications_are_counted_and_end_with_a_resync(stage: Stage) -> None:
    """The inbox drops them when there are more than its bound allows."""
    stage.service._take_in(Overflow(70), stage.now_ms)
    stage.turns(5 * SECOND)
    assert stage.service._watcher.overflows == 70
    kinds = [change.kind for change in stage.kafka.log]
    assert kinds.count(ChangeKind.RESYNC_FINISHED) == 2


def test_a_reply_that_cannot_be_decoded_is_requested_again(stage: Stage) -> None:
    """It ends neither the loop nor what is known about the znode."""
    answer = stage.watched.zk.answer_one
    spoils = [True]

    def spoil() -> None:
        answer()
        for at, item in enumerate(stage.watched.zk.to_client):
            if len(item) == 4 and item[0] > 0 and item[2] == Err.OK and spoils:
                spoils.clear()
                stage.watched.zk.to_client[at] = (*item[:3], BAD)

    stage.watched.zk.answer_one = spoil
    stage.watched.zk.put("/brokers/ids/9")
    stage.watched.deliver()
    with structlog.testing.capture_logs() as logged:
        stage.turns(60 * SECOND)
    assert not spoils
    reasons = [entry["reason"] for entry in logged if entry["event"] == "a resync is needed"]
    assert reasons == [f"reading /brokers/ids/9 failed with error {int(Err.MARSHALLING)}"]
    assert "/brokers/ids/9" in [change.path for change in stage.kafka.log]


def test_a_turn_takes_a_limited_number_of_inbox_items(stage: Stage) -> None:
    """A storm of notifications does not keep the lease and the threads from being checked."""
    for _ in range(MAX_ITEMS_AT_ONCE + 50):
        stage.service._inbox.put(Notification(3, "/brokers/ids/1"))
    stage.waits_s.clear()
    stage.service._turn()
    assert len(stage.service._inbox) >= 50
    assert len(stage.waits_s) == MAX_ITEMS_AT_ONCE
    assert stage.waits_s[1:] == [0] * (MAX_ITEMS_AT_ONCE - 1), "it waits for the first alone"


def test_a_turn_waits_until_the_next_task_or_the_next_delivery(
    stage: Stage,
) -> None:
    """Changes that wait for the producer are sent in the next turn, when there is room."""
    stage.turns(2 * SECOND)
    stage.waits_s.clear()
    idle_s = stage.service._watcher.wait_ms(stage.now_ms) / 1000
    assert DELIVERY_WAIT_S < idle_s < 60
    stage.service._turn()
    assert stage.waits_s[0] == idle_s
    stage.service._publisher.add(stage.kafka.log[-1])
    stage.waits_s.clear()
    stage.service._turn()
    assert stage.waits_s[0] == DELIVERY_WAIT_S


def test_the_ensemble_is_checked_only_while_there_is_no_session(stage: Stage) -> None:
    """The check gets whether there was a session before: then the address is right."""
    assert stage.watched.checks == []
    stage.watched.silent = True
    stage.turns(25 * SECOND)
    assert set(stage.watched.checks) == {True}
    fresh = stage.watched.checks
    fresh.clear()
    stage.service._watcher.resyncs = 0
    stage.turns(1)
    assert fresh == [False]


def test_give_way_and_give_up_end_the_watcher_with_their_own_errors(stage: Stage) -> None:
    """A conflict and a broken environment have different exit codes."""
    with pytest.raises(ConflictError, match="another watcher"):
        stage.service._do(GiveWay("another watcher"))
    with pytest.raises(EnvironmentProblemError, match="no znode"):
        stage.service._do(GiveUp("no znode"))
    stage.service._do(NoBrokers())
    assert stage.watched.has_no_brokers


def test_the_change_delay_is_observed_for_set_changes_only(
    monkeypatch: pytest.MonkeyPatch, stage: Stage
) -> None:
    """A resync publishes old values, and a deletion has no time of its change."""

    def delay_s() -> tuple[float | None, float | None]:
        name = "kcm_watcher_change_delay_seconds"
        about = {"cluster": "prod"}
        value = stage.registry.get_sample_value
        return value(f"{name}_count", about), value(f"{name}_sum", about)

    assert delay_s() == (0, 0)
    monkeypatch.setattr(service, "clock_ms", lambda: HOUR_MS)
    for kind in (ChangeKind.SET, ChangeKind.DELETED, ChangeKind.HEARTBEAT):
        change = msgspec.structs.replace(stage.kafka.log[-1], kind=kind, mtime=HOUR_MS - 2_000)
        stage.service._do(change)
    assert delay_s() == (1, 2)


def test_the_session_and_its_server_are_shown(stage: Stage) -> None:
    """The server's health is asked for in plain text, so never with TLS."""
    stage.service._metrics_at = 0.0
    stage.turns(1)
    state = {"cluster": "prod", "state": SessionState.CONNECTED.value}
    assert stage.registry.get_sample_value("kcm_watcher_session_state", state) == 1
    assert stage.service._server() == SERVER
    stage.service._settings = load(WatchSettings, cluster="prod", zk_tls=True)
    assert stage.service._server() == ""
    stage.service._settings = load(WatchSettings, cluster="prod")
    stage.watched.silent = True
    stage.turns(25 * SECOND)
    assert stage.service._server() == ""


@pytest.mark.parametrize("refused", [False, True])
def test_heartbeats_show_whether_beats_are_sent(stage: Stage, *, refused: bool) -> None:
    """From the first one of the term: readers of the fold's views must know whether to expect beats."""
    assert {c.beats for c in stage.kafka.log if c.kind is ChangeKind.HEARTBEAT} == {True}
    stage.service._beats.refused = refused
    stage.turns(11 * SECOND)
    newest = [change for change in stage.kafka.log if change.kind is ChangeKind.HEARTBEAT][-1]
    assert newest.beats is not refused


def test_changes_that_kafka_refuses_end_the_term(stage: Stage) -> None:
    """With the number of lost changes: those of the refused message and those that waited."""
    stage.kafka.error = KafkaError(KafkaError.TOPIC_AUTHORIZATION_FAILED, "not allowed")
    stage.watched.zk.put("/brokers/ids/9")
    stage.watched.deliver()
    stage.service._watcher.recorder.dropped = 10
    with pytest.raises(LogLostError, match="not allowed") as lost:
        stage.turns(SECOND)
    assert lost.value.dropped == 11
    stage.service._publisher.add(stage.kafka.log[-1])
    assert stage.service._lost("gone", 3).dropped == 14


def test_a_term_continues_from_the_log_and_ends_with_a_heartbeat(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Above every generation in the log, with the request that is still open and the number of dropped changes."""
    stage = Stage(monkeypatch, dropped=7)
    wanted = ResyncWanted(number=4, reason="a hole")
    view = cluster_view("prod", AsOf("l", 5, 4), resync_wanted=wanted)
    value = encode_view(view)
    newest = b'[{"cluster":"prod","generation":8,"watcher":"he","observed_at":7}]'
    stage.client.polls = [
        [Message((NAMES.views, 0), 0, key=b"prod/cluster", value=value)],
        [Message((NAMES.changes, 0), 0, key=b"prod", value=newest)],
    ]
    stage.client.ends = [(0, 1), (0, 1)]
    monkeypatch.setattr(service, "clock_ms", lambda: stage.now_ms + HOUR_MS)
    stop = threading.Event()
    turn = stage.service._turn

    def turn_and_stop() -> None:
        stage.now_ms += TURN_MS
        turn()
        if ChangeKind.RESYNC_FINISHED in {change.kind for change in stage.kafka.log}:
            stop.set()

    monkeypatch.setattr(stage.service, "_turn", turn_and_stop)
    stage.service.run(stop)
    first, *_, last = stage.kafka.log
    assert (first.kind, first.generation, first.answers) == (ChangeKind.RESYNC_STARTED, 9, 4)
    assert 0 <= stage.now_ms + HOUR_MS - first.observed_at <= 2_000
    assert (last.kind, last.session, last.dropped) == (
        *(ChangeKind.HEARTBEAT, SessionState.LOST, 7),
    )


def test_an_elected_watcher_leads_above_every_one_elected_before_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The znode of its election is newer than theirs, whatever the log still holds about them."""
    stage = Stage(monkeypatch, elected=4_000)
    stage.begin()
    assert stage.kafka.log[0].generation >= 4_000


def test_without_a_lease_nothing_is_published_on_close(stage: Stage) -> None:
    """With a lease, what waits is published."""
    stage.service._publisher.add(stage.kafka.log[-1])
    before = len(stage.kafka.log)
    stage.lease.status = LeaseStatus.UNPROVEN
    stage.service._close()
    assert len(stage.kafka.log) == before
    stage.lease.status = LeaseStatus.VALID
    stage.service._publisher.add(stage.kafka.log[-1])
    stage.kafka.flushes_s.clear()
    with structlog.testing.capture_logs() as logged:
        stage.service._close()
    assert len(stage.kafka.log) == before + 1
    assert stage.kafka.flushes_s == [
        0,
        GOODBYE_S,
        0,
    ]  # of the beats, of the log, of the purged messages
    assert logged == []
    stage.kafka.up = False
    stage.service._publisher.add(stage.kafka.log[-1])
    with structlog.testing.capture_logs() as logged:
        stage.service._close()
    (line,) = logged
    assert "did not take the last changes in time" in line["event"]


def test_read_denied_ends_a_watcher_before_it_leads(monkeypatch: pytest.MonkeyPatch) -> None:
    """With one message; neither a standby nor an elected watcher waits silently for the right."""
    stage = Stage(monkeypatch)
    stage.client.ends = [KafkaError.TOPIC_AUTHORIZATION_FAILED]
    settings = load(WatchSettings, cluster="prod")
    with pytest.raises(TopicReadError, match="allow READ"):
        check_readable(settings, TOPICS, threading.Event())
    with pytest.raises(TopicReadError, match="allow READ"):
        stage.service.run(threading.Event())
    assert stage.leads() == 0


def test_a_term_with_missing_topics_ends_so_that_they_are_created_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A leader that reads them starts over, which creates them; a standby creates them when it leads."""
    stage = Stage(monkeypatch)
    monkeypatch.setattr(readback, "Backoff", lambda **_: Backoff(first_s=0.001))
    monkeypatch.setattr(kafka_errors, "MISSING_S", 0.0)
    stage.client.ends = [KafkaError.UNKNOWN_TOPIC_OR_PART]
    check_readable(load(WatchSettings, cluster="prod"), TOPICS, threading.Event())
    with pytest.raises(LogLostError, match="there is no topic") as lost:
        stage.service.run(threading.Event())
    assert lost.value.dropped == 0


def test_a_lease_that_is_lost_while_the_topics_are_read_is_not_used(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Kafka may be down for long, and another watcher may be able to reach it."""
    stage = Stage(monkeypatch)
    stage.lease.status = LeaseStatus.LOST
    with pytest.raises(LeaseLostError):
        stage.service.run(threading.Event())
    assert stage.leads() == 0


def test_a_ping_lost_with_its_connection_does_not_count_as_an_answer(stage: Stage) -> None:
    """The age of the last answer does not change."""
    stage.turns(SECOND)
    before = stage.service._pulse.answered_ms(stage.now_ms)
    token = stage.service._pulse.ask(stage.now_ms + 10_000)
    assert token is not None
    stage.service._take_in(Reply(token, 0, Err.CONNECTION_LOSS, b"", 0), stage.now_ms)
    assert stage.service._pulse.answered_ms(stage.now_ms) == before


def test_an_error_reply_to_a_ping_does_not_count_as_an_answer(stage: Stage) -> None:
    """A server that throttles may have lost its leader; the ping is repeated in a second."""
    throttled = -127
    stage.turns(SECOND)
    pulse = stage.service._pulse
    before, asked = pulse.answered_ms(stage.now_ms), stage.now_ms + 10_000
    token = pulse.ask(asked)
    assert token is not None
    stage.service._take_in(Reply(token, 0, throttled, b"", 0), stage.now_ms)
    assert pulse.answered_ms(stage.now_ms) == before
    assert pulse.ask(asked + 1_000) is not None
    assert pulse.waits_ms(asked + 1_000) == 1_000


def test_a_stop_before_the_first_turn_publishes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor does the watcher connect: there was no term."""
    stage = Stage(monkeypatch)
    stage.run(0)
    assert (stage.kafka.log, stage.watched.clients, stage.leads()) == ([], 0, 0)


def test_the_leader_metric_is_1_from_the_start_of_a_term(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only a changed state of the lease or of Kafka is logged."""
    stage = Stage(monkeypatch)
    with structlog.testing.capture_logs() as logged:
        stage.run(SECOND)
    assert stage.leads() == 1
    said = [entry["event"] for entry in logged]
    assert "watching" in said
    assert not [line for line in said if "lease" in line or "takes changes again" in line]


def test_records_of_other_watchers_reach_the_main_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    """The records that are followed go into the inbox that the loop takes from."""
    stage = Stage(monkeypatch)
    other = OtherWatcher("prod", "he", 8, 7)
    monkeypatch.setattr(stage.service._readback, "follow", lambda inbox: inbox.put(other))
    taken: list[object] = []
    watcher = stage.service._watcher
    monkeypatch.setattr(watcher, "on_other_watcher", lambda item, _: taken.append(item))
    stage.run(SECOND)
    assert taken == [other]


def test_a_healthy_watcher_publishes_heartbeats_only(stage: Stage) -> None:
    """One heartbeat every ten seconds and no more, as the settings say; ZooKeeper is asked each second."""
    before = len(stage.kafka.log)
    questions = stage.watched.questions
    with structlog.testing.capture_logs() as logged:
        stage.turns(60 * SECOND)
    assert [change.kind for change in stage.kafka.log[before:]] == [ChangeKind.HEARTBEAT] * 6
    assert stage.kafka.log[-1].zookeeper == SERVER
    assert 59 <= stage.watched.questions - questions <= 61
    assert logged == []


def test_the_heartbeat_and_watch_settings_take_effect(monkeypatch: pytest.MonkeyPatch) -> None:
    """The intervals, and the way of watching."""
    stage = Stage(monkeypatch, heartbeat_s=3, zk_watches="one-shot")
    stage.begin()
    before = len(stage.kafka.log)
    stage.turns(30 * SECOND)
    assert [change.kind for change in stage.kafka.log[before:]] == [ChangeKind.HEARTBEAT] * 10
    assert stage.watched.zk.data_watches


def test_a_lost_session_is_logged_as_a_warning(stage: Stage) -> None:
    """A connected session is logged as information."""
    for state in (SessionState.SUSPENDED, SessionState.CONNECTED, SessionState.LOST):
        stage.watched.inbox.put(SessionChanged(stage.watched.clients, state.value, SERVER))
    with structlog.testing.capture_logs() as logged:
        stage.turns(1)
    said = [(line["log_level"], line["state"]) for line in logged if "session" in line["event"]]
    assert said == [("warning", "SUSPENDED"), ("info", "CONNECTED"), ("warning", "LOST")]


def test_beats_that_kafka_refuses_are_logged_once(stage: Stage) -> None:
    """With Kafka's reason: nothing else reports it."""
    stage.service._beats._refusal = "not allowed"
    with structlog.testing.capture_logs() as logged:
        stage.turns(3 * SECOND)
    assert [entry["reason"] for entry in logged] == ["not allowed"]


def test_only_a_data_changed_notification_leads_to_a_read(stage: Stage) -> None:
    """A changed value is read again; changed children have their own notifications."""
    reads = stage.service._watcher.reader.reads
    for type_, read in ((EventType.CHILDREN_CHANGED, 0), (EventType.DATA_CHANGED, 1)):
        stage.service._take_in(Notification(type_, "/brokers/ids/0"), stage.now_ms)
        stage.turns(SECOND)
        assert stage.service._watcher.reader.reads == reads + read


def test_an_overflow_of_notifications_is_reported_at_once(
    monkeypatch: pytest.MonkeyPatch, stage: Stage
) -> None:
    """A resync finds the changes that they would have reported."""
    monkeypatch.setattr(dirty_paths, "MAX_WAITING", 0)
    stage.service._take_in(Notification(EventType.DATA_CHANGED, "/brokers/ids/0"), stage.now_ms)
    monkeypatch.setattr(dirty_paths, "MAX_WAITING", 1)
    stage.turns(1)
    newest = stage.kafka.log[-1]
    assert (stage.service._watcher.overflows, newest.kind) == (1, ChangeKind.HEARTBEAT)
    assert newest.session is not SessionState.CONNECTED


def test_metrics_are_updated_twice_a_second(monkeypatch: pytest.MonkeyPatch, stage: Stage) -> None:
    """Many turns in a short time do not update them more often."""
    shown: list[int] = []
    monkeypatch.setattr(stage.service._metrics, "show", lambda _: shown.append(stage.now_ms))
    stage.turns(10 * SECOND)
    between = {later - earlier for earlier, later in itertools.pairwise(shown)}
    assert between <= {METRICS_INTERVAL_S * 1000, METRICS_INTERVAL_S * 1000 + TURN_MS}
    assert shown


def test_changes_that_kafka_does_not_take_in_time_are_dropped_and_logged(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The reason names Kafka, not the lease."""
    stage = Stage(monkeypatch, buffer_mib=0.01)
    stage.begin()
    stage.kafka.up = False
    with structlog.testing.capture_logs() as logged:
        while not stage.service._watcher.recorder.dropped:
            stage.watched.zk.put(f"/brokers/topics/t{stage.now_ms}")
            stage.watched.deliver()
            stage.turns(1)
        stage.turns(1)
    (reason,) = [line["reason"] for line in logged if line["event"] == "a resync is needed"]
    assert reason.startswith("the pipeline's Kafka did not take changes in time: ")
