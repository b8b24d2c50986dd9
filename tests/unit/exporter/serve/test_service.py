"""The exporter as a part: when one of its threads ends, it ends, too, with a reason."""

from __future__ import annotations

import threading
from typing import cast

import pytest
import structlog
from prometheus_client import CollectorRegistry

from exporter.core.config import ExportSettings
from exporter.core.metrics import ExporterMetrics
from exporter.core.status import ReadingState, ReadingStatus
from exporter.intake.event_store import EventStore
from exporter.partitions.worst_topics import WorstTopicsThread
from exporter.scrape.collector import Collector
from exporter.serve import main_loop, service
from exporter.serve.main_loop import MainLoop
from exporter.serve.server import HttpServer
from pipeline.runtime import KcmError, UnreachableError
from pipeline.settings import load
from pipeline.stop_signal import StopSignal
from pipeline.topics import EnsuredTopics
from tests.support.waiting import DEADLINE_S

pytestmark = pytest.mark.usefixtures("no_settings_of_the_machine")


class FakeThreadOwner:
    """A stand-in for the HTTP server or the search for the worst topics, whose thread may have ended."""

    def __init__(self, *, alive: bool) -> None:
        self.alive = alive


class Loop(MainLoop):
    """A main loop that fails as the test says."""

    def __init__(self, failure: Exception | None = None) -> None:
        state = ReadingState(ReadingStatus())
        super().__init__(
            load(ExportSettings),
            events=EventStore(kept=1),
            collector=Collector(state.of_cluster),
            state=state,
            metrics=ExporterMetrics(CollectorRegistry()),
            clock=lambda: 0,
        )
        self._failure = failure

    def check(self, now_s: float | None = None) -> None:
        """Raise the failure."""
        super().check(now_s)
        if self._failure is not None:
            raise self._failure


def check(loop: Loop, *, server_alive: bool = True, search_alive: bool = True) -> None:
    """Run the check that the exporter repeats while it serves."""
    server = cast("HttpServer", FakeThreadOwner(alive=server_alive))
    service._check(loop, server, cast("WorstTopicsThread", FakeThreadOwner(alive=search_alive)))


def test_the_failure_of_the_main_loop_ends_the_exporter() -> None:
    """The same exception is raised, so that its exit code says what is wrong."""
    with pytest.raises(UnreachableError, match="no Kafka"):
        check(Loop(UnreachableError("no Kafka")))


def test_the_exporter_serves_until_it_is_stopped_or_a_thread_fails(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A stop is no error; the failure of a thread is raised for the caller."""
    fails = threading.Event()

    def away(_settings: ExportSettings, stop: StopSignal) -> EnsuredTopics:
        assert fails.is_set() or stop.wait(DEADLINE_S)
        raise UnreachableError("no Kafka")

    monkeypatch.setattr(main_loop, "ensure_topics", away)
    settings, stop = load(ExportSettings, port=0), StopSignal()
    stop.set()
    with structlog.testing.capture_logs() as logged:
        service.run(settings, stop)
    assert [line["event"] for line in logged] == ["serving", "stopped"]
    stop.clear()
    fails.set()
    with pytest.raises(UnreachableError, match="no Kafka"):
        service.run(settings, stop)


@pytest.mark.parametrize(
    ("server_alive", "search_alive", "named"),
    [(False, True, "the HTTP server"), (True, False, "the search for the worst topics")],
)
def test_a_thread_that_is_gone_ends_the_exporter(
    *, server_alive: bool, search_alive: bool, named: str
) -> None:
    """The message names it and says to restart; nothing is raised while all run."""
    check(Loop())
    with pytest.raises(KcmError, match=f"{named} has ended.*restart it"):
        check(Loop(), server_alive=server_alive, search_alive=search_alive)
