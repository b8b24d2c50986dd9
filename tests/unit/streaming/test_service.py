"""What is checked before Spark starts, and what the loop around queries does when one fails."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace

import msgspec
import pytest
import structlog
from prometheus_client import CollectorRegistry
from py4j.protocol import Py4JNetworkError

from pipeline.kafka_errors import ReadTrouble, TopicReadError
from pipeline.runtime import EnvironmentProblemError, KcmError
from pipeline.settings import load
from pipeline.topics import EnsuredTopics, topic_names
from streaming.config import StreamSettings
from streaming.lineage import Lineage
from streaming.metrics import FoldMetrics
from streaming.service import _Fold, run
from streaming.workspace import Workspace
from tests.support.progress import PROGRESS


def fake_java(folder: Path, version: str) -> Path:
    """Write a program that answers `-version` as a Java would; return its home."""
    java = folder / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\" 2025-01-01' >&2\n")
    java.chmod(0o755)
    return folder


def test_missing_jars_are_named(tmp_path: Path) -> None:
    """Before anything starts, with what to do."""
    java_home = fake_java(tmp_path / "java", "17.0.1")
    settings = load(StreamSettings, connector_jars=(tmp_path / "no.jar",), java_home=java_home)
    with pytest.raises(EnvironmentProblemError, match=r"no\.jar; correct connector_jars"):
        run(settings, threading.Event())
    without = load(StreamSettings, java_home=java_home)
    with pytest.raises(EnvironmentProblemError, match="not given: set connector_jars"):
        run(without, threading.Event())


JVM_DIES = "an error occurred while trying to connect to the Java server"
"""The text of a query that does not start because Spark's JVM ends."""


class PlayedQueries:
    """Queries that end, each after its batches and with its text, and what the fold makes of them."""

    def __init__(
        self, monkeypatch: pytest.MonkeyPatch, folder: Path, failures: Sequence[tuple[int, str]]
    ) -> None:
        """Play one query a failure: how many batches end before it, and the exception's text."""
        self.lineages: list[str] = []
        self.sessions: list[SimpleNamespace] = []
        self.pauses = 0
        self.registry = CollectorRegistry()
        self.probe = SimpleNamespace(
            thread=SimpleNamespace(start=_nothing, check=_nothing, close=_nothing),
            answer=None,
            failure=None,
        )
        self.on_turn: Callable[[SimpleNamespace], None] = _nothing
        """Called with each query that starts."""
        self._failures = iter(failures)
        self._batches = itertools.count()
        self._text = ""
        self._stop = threading.Event()
        topics = EnsuredTopics(topic_names("kcm"), 1, dict.fromkeys(topic_names("kcm"), "id"))
        played: dict[str, object] = {
            "ensure_topics": lambda *_, **__: topics,
            "published_lineage": lambda *_: None,
            "truncated_log": lambda *_: None,
            "start_query": self._start,
            "failure_text": lambda _: self._text,
            "Session": self._session,
            "TopicProbe": lambda *_, **__: self.probe,
            "Backoff": lambda **_: SimpleNamespace(next_s=self._pause, reset=_nothing),
            "POLL_S": 0,
        }
        for name, value in played.items():
            monkeypatch.setattr(f"streaming.service.{name}", value)
        self._workspace = Workspace(folder, stop=self._stop)

    def run(self) -> None:
        """Fold until the last query has failed; raises what the user would hear."""
        settings = load(StreamSettings)
        with self._workspace as workspace:
            metrics = FoldMetrics(self.registry)
            _Fold(settings, self._stop, workspace, Path("java"), metrics).run()

    def restarts(self, reason: str) -> float | None:
        """Return how often a query was started again for this reason."""
        return self.registry.get_sample_value("kcm_fold_restarts_total", {"reason": reason})

    def _pause(self) -> float:
        self.pauses += 1
        return 0.0

    def _session(self, *given: object) -> SimpleNamespace:
        assert given[1:] == (self._workspace, Path("java"))
        session = SimpleNamespace(alive=True, spark=object(), closed=False)

        def kill() -> None:
            session.alive = False

        def close() -> None:
            session.alive, session.closed = False, True

        session.kill, session.close = kill, close
        self.sessions.append(session)
        return session

    def _start(self, *given: object) -> object:
        lineage = given[3]
        assert given[0] is self.sessions[-1].spark
        assert isinstance(lineage, Lineage)
        self.lineages.append(lineage.name)
        assert self._workspace.root in Path(str(given[4])).parents
        batches, self._text = next(self._failures, (0, ""))
        if self._text == JVM_DIES:
            self.sessions[-1].alive = False
            raise Py4JNetworkError(self._text)
        if not self._text:
            self._stop.set()
        ended = [next(self._batches) for _ in range(batches)]
        reports = [
            SimpleNamespace(json=msgspec.json.encode(PROGRESS | {"batchId": n})) for n in ended
        ]
        query = SimpleNamespace(isActive=False, recentProgress=reports, stop=_nothing)
        self.on_turn(query)
        return query


def _nothing(*_: object) -> None:
    """Do nothing."""


@pytest.mark.usefixtures("no_settings_of_the_machine")
def test_failures_with_batches_between_them_never_end_the_fold(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """They are unrelated, however many there are in a year: the lineage stays."""
    played = PlayedQueries(monkeypatch, tmp_path, [(1, "who knows")] * 12)
    played.run()
    assert len(played.lineages) == 13
    assert len(set(played.lineages)) == 1


@pytest.mark.usefixtures("no_settings_of_the_machine")
def test_failures_without_a_batch_between_them_end_it_after_a_new_lineage_was_tried(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The second begins a lineage, the fourth ends the part with one line."""
    played = PlayedQueries(monkeypatch, tmp_path, [(1, "who knows"), *[(0, "who knows")] * 9])
    with pytest.raises(KcmError, match="fails again and again: who knows"):
        played.run()
    assert len(played.lineages) == 4
    assert len(set(played.lineages)) == 2


DISK_FULL = "java.io.IOException: No space left on device"
KAFKA_AWAY = "org.apache.kafka.common.errors.TimeoutException: no answer"
STATE_GONE = "CANNOT_LOAD_STATE_STORE: a file is missing"


@pytest.mark.usefixtures("no_settings_of_the_machine")
def test_a_full_disk_ends_a_fold_that_has_not_folded_yet_and_no_other(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """It is the user's to mend: at the start one line says so, later the fold waits for it."""
    with pytest.raises(EnvironmentProblemError, match="No space left on device; correct it") as end:
        PlayedQueries(monkeypatch, tmp_path / "new", [(0, DISK_FULL)]).run()
    assert str(tmp_path / "new") in str(end.value)
    played = PlayedQueries(monkeypatch, tmp_path / "old", [(1, "who knows"), *[(0, DISK_FULL)] * 6])
    played.run()
    assert len(set(played.lineages)) == 1
    assert (played.restarts("disk"), played.restarts("other"), played.pauses) == (6, 1, 7)


@pytest.mark.usefixtures("no_settings_of_the_machine")
def test_kafka_that_is_away_blames_neither_the_checkpoint_nor_the_fold(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """However often a query fails by it, or the views cannot be read before one."""
    played = PlayedQueries(monkeypatch, tmp_path, [(0, KAFKA_AWAY)] * 8)
    unread = iter([True] * 8)

    def published(*_: object) -> None:
        if next(unread, False):
            raise TopicReadError(ReadTrouble.AWAY, where="there", topic="kcm.views", reason="away")

    monkeypatch.setattr("streaming.service.published_lineage", published)
    played.run()
    assert len(played.lineages) == 9
    assert len(set(played.lineages)) == 1
    assert played.restarts("kafka") == 16


@pytest.mark.usefixtures("no_settings_of_the_machine")
def test_a_state_that_cannot_be_read_begins_a_lineage_at_once(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A second try with the same checkpoint would fail as well."""
    played = PlayedQueries(monkeypatch, tmp_path, [(0, STATE_GONE)])
    played.run()
    assert len(set(played.lineages)) == len(played.lineages) == 2
    assert played.restarts("state") == 1


@pytest.mark.usefixtures("no_settings_of_the_machine")
def test_a_log_that_lost_its_beginning_and_newer_views_begin_a_lineage(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The checkpoint goes on from what the log no longer holds, or is older than what was written."""
    PlayedQueries(monkeypatch, tmp_path, []).run()
    played = PlayedQueries(monkeypatch, tmp_path, [])
    monkeypatch.setattr("streaming.service.truncated_log", lambda *_: "the log was cut")
    played.run()
    (cut,) = played.lineages
    newer = f"{int(cut.split('-')[0]) + 9:013d}-abcdef"
    played = PlayedQueries(monkeypatch, tmp_path, [])
    monkeypatch.setattr("streaming.service.published_lineage", lambda *_: newer)
    with structlog.testing.capture_logs() as logged:
        played.run()
    assert played.lineages[0] > newer
    (began,) = [entry for entry in logged if entry["event"] == "a new lineage begins"]
    assert newer in began["reason"]


@pytest.mark.usefixtures("no_settings_of_the_machine")
def test_a_jvm_that_ends_is_made_again(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Its reason is in Spark's log; the dead session is closed first, and the last one at the end."""
    played = PlayedQueries(monkeypatch, tmp_path, [(1, "who knows"), (0, JVM_DIES)])
    with structlog.testing.capture_logs() as logged:
        played.run()
    assert [session.closed for session in played.sessions] == [True, True]
    failed = [entry["reason"] for entry in logged if entry["event"] == "the query failed"]
    assert failed[0] == "who knows"
    assert failed[1].startswith("Spark's JVM ended; see ")


def running(query: SimpleNamespace) -> None:
    """Let a query run until it is ended."""
    query.isActive = True


@pytest.mark.usefixtures("no_settings_of_the_machine")
def test_topics_that_are_made_again_end_the_query_without_blame(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The next one begins a lineage if the topics are others; nothing is waited for."""
    played = PlayedQueries(monkeypatch, tmp_path, [(0, "not reached")] * 6)
    ids = dict.fromkeys(topic_names("kcm"), "other")
    played.probe.answer = SimpleNamespace(ids=ids, ends={})
    played.on_turn = running
    played.run()
    assert (played.restarts("topics"), played.pauses) == (6, 0)
    assert len(played.lineages) == 7


@pytest.mark.usefixtures("no_settings_of_the_machine")
def test_a_batch_that_hangs_ends_the_jvm(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """While the log grows: then it is nobody's fault that waiting would mend."""
    played = PlayedQueries(monkeypatch, tmp_path, [(0, "not reached")] * 6)
    looked: list[int | None] = []

    def look(log_end: int | None) -> str:
        looked.append(log_end)
        return "no batch has ended"

    clock = SimpleNamespace(begin=_nothing, moved=_nothing, look=look)
    monkeypatch.setattr("streaming.service.BatchClock", lambda: clock)
    ids = dict.fromkeys(topic_names("kcm"), "id")
    played.probe.answer = SimpleNamespace(ids=ids, ends={("kcm.changes", 0): 3, ("other", 1): 4})
    played.on_turn = running
    played.run()
    assert looked == [7] * 6
    assert (played.restarts("hung"), len(played.sessions)) == (6, 7)
    assert len(set(played.lineages)) == 1


@pytest.mark.usefixtures("no_settings_of_the_machine")
def test_kafka_is_reported_as_away_once_and_as_back_once(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Spark itself waits for it in silence."""
    played = PlayedQueries(monkeypatch, tmp_path, [(0, "the end")])
    answers = iter((None, "down", "down", None, None))
    queries: list[SimpleNamespace] = []

    def look(_log_end: int | None) -> None:
        played.probe.failure = next(answers, "the end")
        queries[-1].isActive = played.probe.failure != "the end"

    def run_on(query: SimpleNamespace) -> None:
        query.isActive = True
        queries.append(query)

    clock = SimpleNamespace(begin=_nothing, moved=_nothing, look=look)
    monkeypatch.setattr("streaming.service.BatchClock", lambda: clock)
    played.on_turn = run_on
    with structlog.testing.capture_logs() as logged:
        played.run()
    events = [entry["event"] for entry in logged if "Kafka" in entry["event"]]
    assert events == [
        "the pipeline's Kafka does not answer; the fold waits for it",
        "the pipeline's Kafka is back",
    ]
    (away,) = [entry for entry in logged if "does not answer" in entry["event"]]
    assert away["reason"] == "down"
