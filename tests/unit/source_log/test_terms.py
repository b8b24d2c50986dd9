"""The terms of a watcher, one after the other."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable
from functools import partial
from types import SimpleNamespace
from typing import Self

import pytest
import structlog
from confluent_kafka import KafkaError

from pipeline import kafka_errors
from pipeline.kafka_errors import TopicReadError
from pipeline.runtime import Backoff, UnreachableError
from pipeline.settings import load
from pipeline.topic_probe import TopicProbe
from pipeline.topics import EnsuredTopics, topic_names
from source_log import readback, terms
from source_log.config import SourceSettings
from source_log.lease import LeaseLostError, SoleWatcher
from source_log.log_writer import LogLostError, kafka_clients
from source_log.terms import LONG_TERM_S, PROBE_INTERVAL_S, Term, check_readable, run_terms
from tests.support.kafka_client import Client, use_client

pytestmark = pytest.mark.usefixtures("no_settings_of_the_machine")

NAMES = topic_names("kcm")
TOPICS = EnsuredTopics(NAMES, 1, dict.fromkeys(NAMES, "id"))


class Run(SoleWatcher):
    """`run_terms` with simulated terms and clock; it also serves as the elector."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now_s = 1_000.0
        self.stop = threading.Event()
        self.settings = load(SourceSettings, cluster="prod")
        self.steps: list[str] = []
        self.terms: list[Term] = []
        self.pauses_s: list[float] = []
        self.each_term: Callable[[], None] = self.stop.set
        """How a term runs and ends."""
        self.standby_dropped: list[int] = []
        monkeypatch.setattr(self.stop, "wait", self._pause)
        played: dict[str, object] = {
            "ensure_topics": self._make,
            "check_readable": self._read,
            "check_writable": self._write,
            "time": SimpleNamespace(monotonic=lambda: self.now_s),
        }
        for name, value in played.items():
            monkeypatch.setattr(terms, name, value)

    def run(self) -> None:
        """Run until it stops."""
        run_terms(
            self.settings,
            self,
            self.stop,
            lead=self._lead,
            on_standby=self.standby_dropped.append,
        )

    def wait(self, stop: threading.Event, make_probe: Callable[[], TopicProbe]) -> Self | None:
        """Win at once, unless stopped."""
        assert stop is self.stop
        assert isinstance(make_probe, partial)
        assert make_probe.args == (self.settings, TOPICS)
        assert make_probe.keywords == {
            "every_s": PROBE_INTERVAL_S,
            "ends_of": (NAMES.changes,),  # the leaders of its partitions answer
        }
        self.steps.append("wait")
        return super().wait(stop, make_probe)

    def resign(self) -> None:
        """Note it."""
        self.steps.append("resign")

    def close(self) -> None:
        """Note it."""
        self.steps.append("close")

    def _make(self, *given: object, **stops: object) -> EnsuredTopics:
        assert (given, stops) == ((self.settings,), {"stop": self.stop})
        self.steps.append("make")
        return TOPICS

    def _read(self, *given: object) -> None:
        assert given == (self.settings, TOPICS, self.stop)
        self.steps.append("read")

    def _write(self, *given: object) -> None:
        assert given == (self.settings, TOPICS.names.changes)
        self.steps.append("write")

    def _lead(self, term: Term) -> None:
        assert (term.topics, term.lease, term.open_clients) == (TOPICS, self, kafka_clients)
        self.terms.append(term)
        self.steps.append("lead")
        self.each_term()

    def _pause(self, timeout_s: float) -> None:
        assert self.steps[-1] == "resign", "another watcher may lead meanwhile"
        self.pauses_s.append(timeout_s)


def test_a_lost_log_leads_to_a_resignation_and_retries_with_backoff(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The pause grows from a second to half a minute, and starts at a second again after a term that went well."""
    played = Run(monkeypatch)
    lengths_s = iter([*[0.0] * 7, LONG_TERM_S, LONG_TERM_S + 0.1, 0.0])

    def lose() -> None:
        length_s = next(lengths_s, None)
        if length_s is None:
            played.stop.set()
            return
        played.now_s += length_s
        raise LogLostError("gone", 0)

    played.each_term = lose
    with structlog.testing.capture_logs() as logged:
        played.run()
    assert {line["reason"] for line in logged} == {"gone"}
    assert played.pauses_s == [1, 2, 4, 8, 16, 30, 30, 30, 1, 2]
    assert played.steps.count("resign") == 10


def test_dropped_changes_add_up_over_terms_under_one_watcher_name(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The fold adds up dropped changes by name."""
    played = Run(monkeypatch)

    def drop() -> None:
        if len(played.terms) == 4:
            played.stop.set()
            return
        raise LogLostError("gone", played.terms[-1].dropped + 5)

    played.each_term = drop
    played.run()
    assert [term.dropped for term in played.terms] == [0, 5, 10, 15]
    assert played.standby_dropped == [0, 5, 5, 10, 10, 15, 15], "before each term, and after it"
    (name,) = {term.watcher for term in played.terms}
    assert re.fullmatch("[0-9a-f]{6}", name)


def test_a_lost_lease_begins_a_new_watcher(monkeypatch: pytest.MonkeyPatch) -> None:
    """The topics are created and read before the lead is taken, and created again when it is taken."""
    played = Run(monkeypatch)

    def lose() -> None:
        if len(played.terms) == 1:
            raise LogLostError("gone", 3)
        if len(played.terms) == 2:
            raise LeaseLostError
        played.stop.set()

    played.each_term = lose
    played.run()
    term = ["make", "read", "write", "wait", "make", "lead"]
    assert played.steps == [*term, "resign", *term, *term, "close"]
    first, second, third = played.terms
    assert (first.watcher, first.dropped) == (second.watcher, 0)
    assert (second.dropped, third.dropped) == (3, 0), "what the other dropped is not ours"
    assert re.fullmatch("[0-9a-f]{6}", third.watcher)
    assert third.watcher != second.watcher
    assert played.pauses_s == [1], "a lost lease is stood for again at once"


def test_a_stop_ends_a_standby(monkeypatch: pytest.MonkeyPatch) -> None:
    """No term begins; everything that was opened is closed."""
    played = Run(monkeypatch)
    monkeypatch.setattr(played, "wait", lambda *_: None)
    played.run()
    assert played.steps == ["make", "read", "write", "close"]


def test_unreachable_kafka_is_an_error_unless_the_watcher_was_stopped(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A user who stops a watcher that waits for Kafka sees no error."""
    played = Run(monkeypatch)
    stops = False

    def away(*_: object, **__: object) -> None:
        if stops:
            played.stop.set()
        raise UnreachableError("away")

    monkeypatch.setattr(terms, "ensure_topics", away)
    with pytest.raises(UnreachableError):
        played.run()
    assert played.steps == ["close"]
    stops = True
    played.run()
    assert played.steps == ["close"] * 2


def test_a_denied_read_ends_a_standby(monkeypatch: pytest.MonkeyPatch) -> None:
    """With one message: it must not wait silently for the right. Missing topics are created when it leads."""
    monkeypatch.setattr(readback, "Backoff", lambda **_: Backoff(first_s=0.001))
    monkeypatch.setattr(kafka_errors, "MISSING_S", 0.0)
    settings = load(SourceSettings, cluster="prod")
    missing = Client(ends=(KafkaError.UNKNOWN_TOPIC_OR_PART,))
    use_client(monkeypatch, missing)
    check_readable(settings, TOPICS, threading.Event())
    denied = Client(ends=(KafkaError.TOPIC_AUTHORIZATION_FAILED,))
    use_client(monkeypatch, denied)
    with pytest.raises(TopicReadError, match="allow READ"):
        check_readable(settings, TOPICS, threading.Event())
    assert (missing.closed, denied.closed) == (1, 1), "a standby may wait for weeks"
