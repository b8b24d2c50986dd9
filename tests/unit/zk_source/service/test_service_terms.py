"""The terms of a watcher, one after the other."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, Self

import pytest
from prometheus_client import CollectorRegistry

from controller_model.records.changes import SessionState
from pipeline.runtime import UnreachableError
from pipeline.settings import load
from pipeline.topics import EnsuredTopics, topic_names
from zk_source.config import WatchSettings
from zk_source.election.leader_elector import SoleWatcher
from zk_source.service import service
from zk_source.service.metrics import WatcherMetrics
from zk_source.service.service import SOUND_S, LeaseLostError, LogLostError

pytestmark = pytest.mark.usefixtures("no_settings_of_the_machine")

NAMES = topic_names("kcm")
TOPICS = EnsuredTopics(NAMES, 1, dict.fromkeys(NAMES, "id"))
LEADER = "kcm_watcher_leader"
DROPPED = "kcm_watcher_dropped_changes_total"


class Term(SimpleNamespace):
    """What a term was given."""

    name: str
    dropped: int
    metrics: WatcherMetrics


class Run(SoleWatcher):
    """`run` with simulated terms and clock; it also serves as the election and the metrics' port."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now_s = 1_000.0
        self.stop = threading.Event()
        self.settings = load(WatchSettings, cluster="prod", allowed_hosts="monitor")
        self.steps: list[str] = []
        self.terms: list[Term] = []
        self.pauses_s: list[float] = []
        self.each_term: Callable[[], None] = self.stop.set
        """How a term runs and ends."""
        self.on_pause: Callable[[], None] = lambda: None
        self.registry = CollectorRegistry()
        self.port = 8080
        monkeypatch.setattr(self.stop, "wait", self._pause)
        played: dict[str, object] = {
            "make_elector": self._elect,
            "metrics_server": self._serve,
            "ensure_topics": self._make,
            "check_readable": self._read,
            "check_writable": self._write,
            "WatcherService": self._term,
            "time": SimpleNamespace(monotonic=lambda: self.now_s),
        }
        for name, value in played.items():
            monkeypatch.setattr(service, name, value)

    def run(self) -> None:
        """Run until it stops."""
        service.run(self.settings, self.stop)

    def sample(self, name: str, **labels: str) -> float | None:
        """Return what is served."""
        return self.registry.get_sample_value(name, {"cluster": "prod", **labels})

    def stands_by(self) -> bool:
        """Return whether the served metrics are a standby's."""
        lost = self.sample("kcm_watcher_session_state", state=SessionState.LOST.value)
        return (self.sample(LEADER), lost) == (0, 1)

    def wait(self, stop: threading.Event) -> Self | None:
        """Win at once, unless stopped."""
        assert stop is self.stop
        self.steps.append("wait")
        return super().wait(stop)

    def resign(self) -> None:
        """Note it."""
        self.steps.append("resign")

    def close(self) -> None:
        """Note that the election is closed."""
        self.steps.append("close")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Note that the metrics' port is closed."""
        self.steps.append("close")

    def _elect(self, *given: object) -> Self:
        assert given == (self.settings,)
        return self

    def _serve(self, registry: CollectorRegistry, *given: object) -> Self:
        assert given == (self.settings, self.settings.watcher_metrics_port)
        self.registry = registry
        return self

    def _make(self, *given: object, **stops: object) -> EnsuredTopics:
        assert (given, stops) == ((self.settings,), {"stop": self.stop})
        self.steps.append("make")
        return TOPICS

    def _read(self, *given: object) -> None:
        assert given == (self.settings, TOPICS, self.stop)
        assert self.stands_by()
        self.steps.append("read")

    def _write(self, *given: object) -> None:
        assert given == (self.settings, TOPICS.names.changes)
        self.steps.append("write")

    def _term(
        self, settings: object, topics: object, metrics: WatcherMetrics, lease: object, **given: Any
    ) -> Any:
        assert (settings, topics, lease) == (self.settings, TOPICS, self)
        self.terms.append(Term(metrics=metrics, **given))
        return SimpleNamespace(run=self._lead)

    def _lead(self, stop: object) -> None:
        assert stop is self.stop
        self.steps.append("lead")
        metrics = self.terms[-1].metrics
        metrics.leads(leads=True)
        metrics.session(SessionState.CONNECTED)
        self.each_term()

    def _pause(self, timeout_s: float) -> None:
        self.pauses_s.append(timeout_s)
        self.on_pause()


def test_a_lost_log_leads_to_a_resignation_and_retries_with_backoff(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The pause grows from a second to half a minute, and starts at a second again after a term that went well."""
    played = Run(monkeypatch)
    lengths_s = iter([*[0.0] * 7, SOUND_S, SOUND_S + 0.1, 0.0])

    def lose() -> None:
        length_s = next(lengths_s, None)
        if length_s is None:
            played.stop.set()
            return
        played.now_s += length_s
        raise LogLostError("gone", 0)

    def pause() -> None:
        assert played.steps[-1] == "resign", "another watcher may lead meanwhile"
        assert played.stands_by()

    played.each_term, played.on_pause = lose, pause
    played.run()
    assert played.pauses_s == [1, 2, 4, 8, 16, 30, 30, 30, 1, 2]
    assert played.steps.count("resign") == 10


def test_dropped_changes_add_up_over_terms_under_one_watcher_name(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The fold adds up dropped changes by name; the metric counts each once."""
    played = Run(monkeypatch)

    def drop() -> None:
        term = played.terms[-1]
        term.metrics.show({"dropped_changes": term.dropped})
        if len(played.terms) == 4:
            played.stop.set()
            return
        term.metrics.show({"dropped_changes": term.dropped + 5})
        raise LogLostError("gone", term.dropped + 5)

    played.each_term = drop
    played.run()
    assert [term.dropped for term in played.terms] == [0, 5, 10, 15]
    assert played.sample(DROPPED) == 15
    (name,) = {term.name for term in played.terms}
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
    assert played.steps == [*term, "resign", *term, *term, "close", "close"]
    first, second, third = played.terms
    assert (first.name, first.dropped) == (second.name, 0)
    assert (second.dropped, third.dropped) == (3, 0), "what the other dropped is not ours"
    assert re.fullmatch("[0-9a-f]{6}", third.name)
    assert third.name != second.name
    assert played.pauses_s == [1], "a lost lease is stood for again at once"


def test_a_stop_ends_a_standby(monkeypatch: pytest.MonkeyPatch) -> None:
    """No term begins; everything that was opened is closed."""
    played = Run(monkeypatch)
    monkeypatch.setattr(played, "wait", lambda _stop: None)
    played.run()
    assert played.steps == ["make", "read", "write", "close", "close"]


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

    monkeypatch.setattr(service, "ensure_topics", away)
    with pytest.raises(UnreachableError):
        played.run()
    assert played.steps == ["close", "close"]
    stops = True
    played.run()
    assert played.steps == ["close"] * 4
