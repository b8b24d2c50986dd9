"""The exporter as a part: when one of its threads ends, it ends, too, with a reason."""

from __future__ import annotations

from typing import cast

import pytest
from prometheus_client import CollectorRegistry

from exporter.core.config import ExportSettings
from exporter.core.metrics import ExporterMetrics
from exporter.core.status import ReadingState, ReadingStatus
from exporter.intake.event_store import EventStore
from exporter.partitions.worst_topics import WorstTopicsThread
from exporter.scrape.collector import Collector
from exporter.scrape.reading_thread import ReadingThread
from exporter.serve import service
from exporter.serve.server import HttpServer
from pipeline.runtime import KcmError, UnreachableError
from pipeline.settings import load

pytestmark = pytest.mark.usefixtures("no_settings_of_the_machine")


class FakeThreadOwner:
    """A stand-in for the HTTP server or the search for the worst topics, whose thread may have ended."""

    def __init__(self, *, alive: bool) -> None:
        self.alive = alive


class Reader(ReadingThread):
    """A reading thread that runs or has ended as the test says."""

    def __init__(self, *, alive: bool) -> None:
        state = ReadingState(ReadingStatus())
        super().__init__(
            load(ExportSettings),
            events=EventStore(kept=1),
            collector=Collector(state.of_cluster),
            state=state,
            metrics=ExporterMetrics(CollectorRegistry()),
            clock=lambda: 0,
        )
        self._runs = alive
        self.watched = 0

    def watch(self, now_s: float | None = None) -> None:
        """Note that the check for a standstill was called."""
        super().watch(now_s)
        self.watched += 1

    @property
    def alive(self) -> bool:
        """Whether it runs, as the test says."""
        return self._runs


def check(reader: Reader, *, server_alive: bool = True, search_alive: bool = True) -> None:
    """Run the check that the exporter repeats while it serves."""
    server = cast("HttpServer", FakeThreadOwner(alive=server_alive))
    service._check(reader, server, cast("WorstTopicsThread", FakeThreadOwner(alive=search_alive)))


def test_the_failure_of_the_reading_thread_ends_the_exporter() -> None:
    """The same exception is raised, so that its exit code says what is wrong."""
    reader = Reader(alive=False)
    reader.failure = UnreachableError("no Kafka")
    with pytest.raises(UnreachableError, match="no Kafka"):
        check(reader)


@pytest.mark.parametrize(
    ("reader_alive", "server_alive", "search_alive", "named"),
    [
        (False, True, True, "the reading thread"),
        (True, False, True, "the HTTP server"),
        (True, True, False, "the search for the worst topics"),
    ],
)
def test_a_thread_that_is_gone_ends_the_exporter(
    *, reader_alive: bool, server_alive: bool, search_alive: bool, named: str
) -> None:
    """Where the thread left no exception, the message names it and says to restart."""
    with pytest.raises(KcmError, match=f"{named} has ended.*restart it"):
        check(Reader(alive=reader_alive), server_alive=server_alive, search_alive=search_alive)


def test_the_check_passes_while_all_threads_run() -> None:
    """Nothing is raised, and each check also looks for a standstill of the reading thread."""
    reader = Reader(alive=True)
    check(reader)
    check(reader)
    assert reader.watched == 2
