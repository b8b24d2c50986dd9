"""What is checked before Spark starts, and what the loop around queries does when one fails."""

from __future__ import annotations

import errno
import itertools
import os
import re
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Self

import pytest
import structlog
from prometheus_client import CollectorRegistry
from py4j.protocol import Py4JError, Py4JNetworkError
from pyspark.errors import PySparkException

from pipeline.kafka_errors import MISSING_S, ReadTrouble, TopicReadError
from pipeline.runtime import EnvironmentProblemError, KcmError, UnreachableError
from pipeline.settings import load
from pipeline.topics import EnsuredTopics, topic_names
from streaming.config import StreamSettings
from streaming.lineage import Lineage
from streaming.metrics import FoldMetrics
from streaming.service import POLL_S, _Fold, run
from streaming.watchdog import ANSWER_S, START_S
from streaming.workspace import Workspace
from tests.support.progress import PROGRESS, Progress

pytestmark = pytest.mark.usefixtures("no_settings_of_the_machine")


def fake_java(folder: Path, version: str) -> Path:
    """Write a program that answers `-version` as Java would; return its home."""
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
    with pytest.raises(EnvironmentProblemError) as none:
        run(without, threading.Event())
    assert str(none.value) == (
        "the jars of Spark's Kafka connector are not given: set connector_jars, or start by "
        "`kcm stream`, which downloads them"
    )


JVM_DIES = "an error occurred while trying to connect to the Java server"
"""The error text of a query that does not start because Spark's JVM ends."""

JVM_HANGS = "an error in the watchdog's call"
"""The error text of a query that does not start because Spark's JVM hangs and is killed."""

NAMES = topic_names("kcm")
TOPICS = EnsuredTopics(NAMES, 1, dict.fromkeys(NAMES, "id"))
FIRST_PAUSE_S = 1_000
"""Pauses are 1000 s, 1001 s, … from a reset on: unlike every other wait."""


class Stop(threading.Event):
    """A stop that notes each wait and returns from it at once."""

    def __init__(self) -> None:
        super().__init__()
        self.waits_s: list[float | None] = []

    def wait(self, timeout: float | None = None) -> bool:
        """Note the wait."""
        self.waits_s.append(timeout)
        return self.is_set()


class Pauses:
    """A fake of the growing pauses between queries."""

    def __init__(self, *, first_s: float) -> None:
        assert first_s == 0.5
        self.reset()

    def reset(self) -> None:
        """Start with the first pause again."""
        self._next_s = itertools.count(FIRST_PAUSE_S)

    def next_s(self) -> float:
        """Return the next pause."""
        return next(self._next_s)


class FakeThread:
    """A fake thread that notes calls."""

    def __init__(self) -> None:
        self.steps: list[str] = []
        self.failure: Exception | None = None

    def start(self) -> None:
        """Note it."""
        self.steps.append("start")

    def check(self) -> None:
        """Raise the error that the test ends the query with."""
        if self.failure is not None:
            raise self.failure

    def close(self, wait_s: float) -> None:
        """Note it."""
        assert wait_s == 0, "a stop does not wait for a thread"
        self.steps.append("close")


class FakeWatchdog:
    """A fake watchdog without a clock; it knows how long the current call may take."""

    def __init__(self, kill: Callable[[], None]) -> None:
        self.thread = FakeThread()
        self.reason: str | None = None
        self.limit_s: float | None = None
        self._kill = kill

    @contextmanager
    def allow(self, limit_s: float) -> Iterator[None]:
        """Note the limit while it holds."""
        self.limit_s = limit_s
        try:
            yield
        finally:
            self.limit_s = None

    def end(self, reason: str) -> None:
        """Kill the JVM."""
        self.reason = reason
        self._kill()


class FakeQuery:
    """A query that ends by itself, unless the test keeps it running."""

    def __init__(self, played: FakeQueries, batches: Sequence[int]) -> None:
        self.is_active = False
        self.stops = 0
        self.on_stop: Callable[[], None] = _nothing
        self.progresses = [Progress(PROGRESS | {"batchId": n}) for n in batches]
        self._jsq = SimpleNamespace(recentProgress=lambda: self.progresses)
        self._played = played

    @property
    def isActive(self) -> bool:  # noqa: N802  # as Spark calls it
        """Whether it still runs; only called while the watchdog watches."""
        assert self._played.watchdog.limit_s == ANSWER_S
        assert self._played.up() == 1
        return self.is_active

    def stop(self) -> None:
        """Note it."""
        assert self._played.watchdog.limit_s == ANSWER_S
        self.stops += 1
        self.on_stop()


class FakeQueries:
    """Queries that each end after their batches with their error text, and the fold that runs them."""

    def __init__(
        self,
        monkeypatch: pytest.MonkeyPatch,
        folder: Path,
        failures: Sequence[tuple[int, str]] = (),
    ) -> None:
        """Set up one query for each failure: how many batches end before it, and the exception's text."""
        self.settings = load(StreamSettings, topic_check_interval_s=7)
        self.stop = Stop()
        self.lineages: list[str] = []
        self.sessions: list[SimpleNamespace] = []
        self.queries: list[FakeQuery] = []
        self.registry = CollectorRegistry()
        self.probe = SimpleNamespace(thread=FakeThread(), answer=None, failure=None)
        self.measure: Callable[[object], None] = _nothing
        """What the probe calls after each turn."""
        self.on_turn: Callable[[FakeQuery], None] = _nothing
        """Called with each query that starts."""
        self.on_session: Callable[[], None] = _nothing
        self.on_start: Callable[[], None] = _nothing
        """Called before a query starts."""
        self._failures = iter(failures)
        self._batches = itertools.count()
        self._text = ""
        played: dict[str, object] = {
            "ensure_topics": self._ensure,
            "published_lineage": self._published,
            "truncated_log": self._truncated,
            "start_query": self._start,
            "failure_text": self._failed,
            "Session": self._session,
            "TopicProbe": self._probe,
            "Backoff": Pauses,
            "Watchdog": self._watch,
        }
        for name, value in played.items():
            monkeypatch.setattr(f"streaming.service.{name}", value)
        self.workspace = Workspace(folder, stop=self.stop)

    def run(self) -> None:
        """Fold until the last query has failed; raise what the user would see."""
        self.registry = CollectorRegistry()
        with self.workspace as workspace:
            metrics = FoldMetrics(self.registry)
            fold = _Fold(self.settings, self.stop, workspace, Path("java"), metrics)
            try:
                fold.run()
            finally:
                assert self.up() == 0
                assert all(session.closed for session in self.sessions)
                assert self.watchdog.thread.steps == ["start", "close"]
                assert self.probe.thread.steps.count("start") == len(self.queries)
                assert self.probe.thread.steps.count("close") == len(self.queries)

    @property
    def pauses_s(self) -> list[float]:
        """The waits before each further query."""
        return [wait_s for wait_s in self.stop.waits_s if wait_s and wait_s >= FIRST_PAUSE_S]

    def sample(self, name: str, **labels: str) -> float | None:
        """Return what is served."""
        return self.registry.get_sample_value(name, labels)

    def up(self) -> float | None:
        """Return whether a query runs."""
        return self.sample("kcm_fold_up")

    def restarts(self, reason: str) -> float | None:
        """Return how often a query was started again for this reason."""
        return self.sample("kcm_fold_restarts_total", reason=reason)

    def _ensure(self, *given: object, **stops: object) -> EnsuredTopics:
        assert (given, stops) == ((self.settings,), {"stop": self.stop})
        return TOPICS

    def _published(self, *given: object) -> None:
        assert given == (self.settings, TOPICS)

    def _truncated(self, settings: object, topics: object, checkpoint: Path) -> None:
        assert (settings, topics) == (self.settings, TOPICS)
        assert checkpoint.is_dir()

    def _watch(self, kill: Callable[[], None]) -> FakeWatchdog:
        self.watchdog = FakeWatchdog(kill)
        return self.watchdog

    def _probe(
        self, *given: object, on_turn: Callable[[object], None], **options: object
    ) -> SimpleNamespace:
        assert given == (self.settings, TOPICS)
        assert options == {"every_s": 7, "ends_of": [NAMES.changes]}
        self.measure = on_turn
        return self.probe

    def _session(self, *given: object) -> SimpleNamespace:
        assert given == (self.settings, self.workspace, Path("java"))
        assert self.watchdog.limit_s == START_S
        session = SimpleNamespace(alive=True, spark=object(), closed=False, forgets=0)

        def kill() -> None:
            session.alive = False

        def close() -> None:
            session.alive, session.closed = False, True

        def forget() -> None:
            assert self.watchdog.limit_s == ANSWER_S
            session.forgets += 1

        session.kill, session.close, session.forget_temporary_files = kill, close, forget
        self.sessions.append(session)
        self.on_session()
        return session

    def _start(self, *given: object) -> object:
        spark, settings, topics, lineage, checkpoint = given
        assert isinstance(lineage, Lineage)
        assert re.fullmatch(r"\d{13}-[0-9a-f]{6}", lineage.name)
        assert (spark, settings, topics) == (self.sessions[-1].spark, self.settings, TOPICS)
        assert checkpoint == self.workspace.root / "lineages" / lineage.name
        assert self.watchdog.limit_s == START_S
        assert (self.watchdog.reason, self.up()) == (None, 0)
        self.lineages.append(lineage.name)
        batches, self._text = next(self._failures, (0, ""))
        if self._text == JVM_DIES:
            self.sessions[-1].alive = False
            raise Py4JNetworkError(self._text)
        if self._text == JVM_HANGS:
            self.watchdog.end("it hangs")
            raise Py4JNetworkError(self._text)
        if self._text.startswith("refused"):
            raise OSError(self._text)
        self.on_start()
        if not self._text:
            self.stop.set()
        query = FakeQuery(self, [next(self._batches) for _ in range(batches)])
        self.queries.append(query)
        self.on_turn(query)
        return query

    def _failed(self, query: object) -> str:
        assert query is self.queries[-1]
        return self._text


def _nothing(*_: object) -> None:
    """Do nothing."""


def test_failures_separated_by_batches_keep_the_lineage(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """However many there are in a year, they are unrelated."""
    played = FakeQueries(monkeypatch, tmp_path, [(1, "who knows")] * 12)
    played.run()
    assert len(played.lineages) == 13
    assert len(set(played.lineages)) == 1


def test_the_session_forgets_batch_files_after_a_number_of_batches(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """After each so many batches, also over restarts of the query: batches 0, 3 and 6 of seven."""
    monkeypatch.setattr("streaming.service.FORGETS_EACH", 3)
    played = FakeQueries(monkeypatch, tmp_path, [(4, "who knows"), (3, "who knows")])
    played.run()
    assert sum(session.forgets for session in played.sessions) == 3


def test_repeated_failures_begin_a_new_lineage_and_then_end_the_fold(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The second begins a lineage, the fourth ends the part with one line; a failure without any batch counts the same."""
    for batches in (1, 0):
        failures = [(batches, "who knows"), *[(0, "who knows")] * 9]
        played = FakeQueries(monkeypatch, tmp_path / str(batches), failures)
        with pytest.raises(KcmError, match="fails again and again: who knows"):
            played.run()
        first, second, third, fourth = played.lineages
        assert first == second < third == fourth


DISK_FULL = "java.io.IOException: No space left on device"
KAFKA_AWAY = "org.apache.kafka.common.errors.TimeoutException: no answer"
STATE_GONE = "CANNOT_LOAD_STATE_STORE: a file is missing"


def test_a_full_disk_ends_the_fold_only_before_its_first_batch(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Only the user can fix it: at the start the fold ends with one line, later it waits."""
    with pytest.raises(EnvironmentProblemError, match="No space left on device; correct it") as end:
        FakeQueries(monkeypatch, tmp_path / "new", [(0, DISK_FULL)]).run()
    assert str(tmp_path / "new") in str(end.value)
    played = FakeQueries(monkeypatch, tmp_path / "old", [(1, "who knows"), *[(0, DISK_FULL)] * 6])
    played.run()
    assert len(set(played.lineages)) == 1
    assert (played.restarts("disk"), played.restarts("other")) == (6, 1)
    assert played.pauses_s == [FIRST_PAUSE_S + number for number in range(7)]


def test_failures_while_kafka_is_down_keep_the_lineage(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """However often a query fails because of Kafka, or the views cannot be read before a query."""
    played = FakeQueries(monkeypatch, tmp_path, [(0, KAFKA_AWAY)] * 8)
    unread = iter([True] * 8)

    def published(*_: object) -> None:
        if next(unread, False):
            raise TopicReadError(ReadTrouble.AWAY, where="there", topic="kcm.views", reason="away")

    monkeypatch.setattr("streaming.service.published_lineage", published)
    played.run()
    assert len(played.lineages) == 9
    assert len(set(played.lineages)) == 1
    assert played.restarts("kafka") == 16


def test_a_state_that_cannot_be_read_begins_a_lineage_at_once(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Another try with the same checkpoint would fail as well."""
    played = FakeQueries(monkeypatch, tmp_path, [(0, STATE_GONE)])
    played.run()
    assert len(set(played.lineages)) == len(played.lineages) == 2
    assert played.restarts("state") == 1


def test_a_log_that_lost_its_beginning_and_newer_views_begin_a_lineage(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The checkpoint needs what the log no longer holds, or is older than what was written."""
    whole = FakeQueries(monkeypatch, tmp_path, [])
    whole.run()
    played = FakeQueries(monkeypatch, tmp_path, [])
    monkeypatch.setattr("streaming.service.truncated_log", lambda *_: "the log was cut")
    played.run()
    (cut,) = played.lineages
    assert [cut] > whole.lineages
    newer = f"{int(cut.split('-')[0]) + 9:013d}-abcdef"
    played = FakeQueries(monkeypatch, tmp_path, [])
    monkeypatch.setattr("streaming.service.published_lineage", lambda *_: newer)
    with structlog.testing.capture_logs() as logged:
        played.run()
    assert played.lineages[0] > newer
    (began,) = [entry for entry in logged if entry["event"] == "a new lineage begins"]
    assert newer in began["reason"]


def test_a_jvm_that_exits_is_started_again(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The reason is in Spark's log. The dead session is closed first, and the last one at the end."""
    played = FakeQueries(monkeypatch, tmp_path, [(1, "who knows"), (0, JVM_DIES)])
    with structlog.testing.capture_logs() as logged:
        played.run()
    assert [session.closed for session in played.sessions] == [True, True]
    failed = [entry["reason"] for entry in logged if entry["event"] == "the query failed"]
    assert failed[0] == "who knows"
    assert failed[1].startswith("Spark's JVM ended; see ")


def running(query: FakeQuery) -> None:
    """Make a query run until it is ended."""
    query.is_active = True


def test_recreated_topics_restart_the_query_without_a_pause(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """If the topics differ, the next query begins a lineage; there is no pause before it."""
    played = FakeQueries(monkeypatch, tmp_path, [(0, "not reached")] * 6)
    ids = dict.fromkeys(NAMES, "other")
    played.probe.answer = SimpleNamespace(ids=ids, ends={})
    played.on_turn = running
    played.run()
    assert (played.restarts("topics"), played.pauses_s) == (6, [])
    assert [query.stops for query in played.queries] == [1] * 7
    assert len(played.lineages) == 7


@pytest.mark.parametrize("away", [None, "down"])
def test_a_topic_that_is_missing_for_a_moment_does_not_end_the_query(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, away: str | None
) -> None:
    """A broker that has just started does not know its topics; an outage proves nothing either."""
    played = FakeQueries(monkeypatch, tmp_path, [(0, "not reached")])
    there = dict.fromkeys(NAMES, "id")
    gone = dict.fromkeys(list(NAMES)[1:], "id")
    between = (there, None) if away is None else (gone, away)
    moment = [(gone, None)] * int(MISSING_S)
    answers = [*moment, between, *moment, between, *moment, (gone, None)]
    now_s = itertools.count()
    seconds = [0]
    clock = SimpleNamespace(monotonic=lambda: float(seconds[0]))
    monkeypatch.setattr("streaming.service.time", clock)

    def look(_log_end: int | None) -> None:
        seconds[0] = next(now_s)
        ids, failure = answers[seconds[0]]
        played.probe.answer, played.probe.failure = SimpleNamespace(ids=ids, ends={}), failure

    watch = SimpleNamespace(begin=_nothing, moved=_nothing, look=look)
    monkeypatch.setattr("streaming.service.BatchClock", lambda: watch)
    played.on_turn = lambda query: running(query) if len(played.queries) == 1 else None
    played.run()
    assert (played.restarts("topics"), seconds[0]) == (1, len(answers) - 1)


def test_a_batch_that_hangs_restarts_the_jvm(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Only while the log grows: then waiting longer would not help."""
    played = FakeQueries(monkeypatch, tmp_path, [(0, "not reached")] * 6)
    looked: list[int | None] = []

    def look(log_end: int | None) -> str:
        looked.append(log_end)
        return "no batch has ended"

    clock = SimpleNamespace(begin=_nothing, moved=_nothing, look=look)
    monkeypatch.setattr("streaming.service.BatchClock", lambda: clock)
    ids = dict.fromkeys(NAMES, "id")
    played.probe.answer = SimpleNamespace(ids=ids, ends={("kcm.changes", 0): 3, ("other", 1): 4})
    played.on_turn = running
    played.run()
    assert looked == [7] * 6
    assert (played.restarts("hung"), len(played.sessions)) == (6, 7)
    assert len(set(played.lineages)) == 1


def test_an_outage_of_kafka_is_logged_once_at_its_start_and_end(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Spark itself waits for Kafka silently."""
    played = FakeQueries(monkeypatch, tmp_path, [(0, "the end")])
    answers = iter((None, "down", "down", None, None))
    queries: list[FakeQuery] = []

    def look(_log_end: int | None) -> None:
        played.probe.failure = next(answers, "the end")
        queries[-1].is_active = played.probe.failure != "the end"

    def run_on(query: FakeQuery) -> None:
        query.is_active = True
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
    servers = played.settings.bootstrap_servers
    assert (away["reason"], away["bootstrap_servers"]) == ("down", servers)


def test_a_running_fold_locks_its_folder_and_serves_its_metrics(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """It uses the Java and the wire that were checked; folder and port are released however the fold ends."""
    settings = load(
        StreamSettings,
        checkpoint_dir=tmp_path / "fold",
        java_home=tmp_path,
        allowed_hosts="monitor",
        spark_conf={"spark.jars.packages": "kafka"},
    )
    stop, steps = Stop(), list[str]()
    served: list[CollectorRegistry] = []

    class Server:
        url = "http://here"

        def __init__(self, registry: CollectorRegistry, *given: object) -> None:
            assert given == (settings, settings.stream_metrics_port)
            served.append(registry)

        def __enter__(self) -> Self:
            return self

        def __exit__(self, *_: object) -> None:
            steps.append("close")

    class Fold:
        def __init__(self, *given: object) -> None:
            *rest, workspace, java, metrics = given
            assert (rest, java) == ([settings, stop], Path("/there/java"))
            assert isinstance(workspace, Workspace)
            assert workspace.root == (tmp_path / "fold").resolve()
            assert workspace._stop is stop
            assert workspace.lock_fd >= 0
            assert isinstance(metrics, FoldMetrics)
            self.workspace = workspace

        def run(self) -> None:
            assert served[0].get_sample_value("kcm_fold_up") == 0
            steps.append("run")
            raise KcmError("the end")

    def java(*given: object) -> SimpleNamespace:
        assert given == (os.environ, tmp_path)
        return SimpleNamespace(path=Path("/there/java"))

    def wire(given: object) -> None:
        assert given is settings
        steps.append("wire")

    monkeypatch.setattr("streaming.service.find_java", java)
    monkeypatch.setattr("streaming.service.check_wire", wire)
    monkeypatch.setattr("streaming.service.metrics_server", Server)
    monkeypatch.setattr("streaming.service._Fold", Fold)
    with pytest.raises(KcmError, match="the end"):
        run(settings, stop)
    assert steps == ["wire", "run", "close"]
    with Workspace(tmp_path / "fold", stop=stop, lock_deadline_s=0):
        pass  # nothing holds the folder any more


def test_jars_that_are_missing_are_all_named(tmp_path: Path) -> None:
    """Those that exist are not named."""
    (tmp_path / "there.jar").touch()
    names = ("a.jar", "there.jar", "b.jar")
    settings = load(
        StreamSettings,
        connector_jars=tuple(tmp_path / name for name in names),
        java_home=fake_java(tmp_path / "java", "17.0.1"),
    )
    missing = rf"missing: {tmp_path}/a\.jar, {tmp_path}/b\.jar; correct"
    with pytest.raises(EnvironmentProblemError, match=missing):
        run(settings, threading.Event())


def test_unreachable_kafka_is_an_error_unless_the_fold_was_stopped(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A user who stops a fold that waits for Kafka sees no error."""
    played = FakeQueries(monkeypatch, tmp_path)
    stops = False

    def away(*_: object, **__: object) -> None:
        if stops:
            played.stop.set()
        raise UnreachableError("away")

    monkeypatch.setattr("streaming.service.ensure_topics", away)
    with pytest.raises(UnreachableError):
        played.run()
    stops = True
    played.run()
    assert played.sessions == []


def test_a_stop_while_spark_starts_begins_no_query(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Spark takes seconds to start, and as long to end."""
    played = FakeQueries(monkeypatch, tmp_path)
    played.on_session = played.stop.set
    played.run()
    assert (len(played.sessions), played.lineages) == (1, [])


def test_a_jvm_that_hangs_at_query_start_keeps_the_lineage(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The next session begins without the reason of the last one."""
    played = FakeQueries(monkeypatch, tmp_path, [(0, JVM_HANGS)] * 6)
    with structlog.testing.capture_logs() as logged:
        played.run()
    assert (played.restarts("hung"), len(set(played.lineages))) == (6, 1)
    failed = {entry["reason"] for entry in logged if entry["event"] == "the query failed"}
    assert failed == {"it hangs"}
    assert len(played.sessions) == 7


def test_the_reason_of_a_query_that_does_not_start_is_logged(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The message refers to Spark's log only when the JVM cannot answer any more."""
    played = FakeQueries(monkeypatch, tmp_path, [(0, "refused: the port is taken")])
    with structlog.testing.capture_logs() as logged:
        played.run()
    failed = [entry["reason"] for entry in logged if entry["event"] == "the query failed"]
    assert failed == ["refused: the port is taken"]
    assert len(played.sessions) == 1


class JavaError(Py4JError):  # type: ignore[misc]  # the package has no types
    """A fake of a JVM exception, whose text is requested from the JVM."""

    def __init__(self, played: FakeQueries, ask: Callable[[], str]) -> None:
        super().__init__()
        self._played = played
        self._ask = ask

    def __str__(self) -> str:
        assert self._played.watchdog.limit_s == ANSWER_S
        return self._ask()


@pytest.mark.parametrize("stops", [False, True], ids=["start", "stop"])
@pytest.mark.parametrize("way", ["answers", "dies", "hangs"])
def test_the_watchdog_covers_the_call_for_the_text_of_an_error(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, way: str, *, stops: bool
) -> None:
    """A call without an answer does not count as another error."""
    played = FakeQueries(monkeypatch, tmp_path, [(1, "who knows")])

    def ask() -> str:
        if way == "answers":
            return "org.apache.kafka.common.errors.TimeoutException: late"
        if way == "dies":
            played.sessions[-1].alive = False
        else:
            played.watchdog.end("it hangs")
        raise Py4JNetworkError("no answer")

    def fail() -> None:
        played.on_start = _nothing
        raise JavaError(played, ask)

    def fail_at_its_end(query: FakeQuery) -> None:
        played.on_turn = _nothing
        query.on_stop = fail

    if stops:
        played.on_turn = fail_at_its_end
    else:
        played.on_start = fail
    played.run()
    kind = {"answers": "kafka", "dies": "other", "hangs": "hung"}[way]
    assert played.restarts("other" if stops else kind) == 1
    assert len(played.sessions) == (1 if way == "answers" else 2)


def test_a_pyspark_exception_is_handled_like_a_py4j_error(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """It is not a Py4JError. The second failure begins a lineage, the fourth ends the part."""
    played = FakeQueries(monkeypatch, tmp_path, [(0, "not reached")] * 9)

    def refuse() -> None:
        raise PySparkException("requirement failed")

    played.on_start = refuse
    with pytest.raises(KcmError, match="fails again and again: requirement failed"):
        played.run()
    assert len(played.lineages) == 4
    assert len(set(played.lineages)) == 2


def test_a_folder_that_cannot_be_written_ends_the_fold_with_its_name(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """When the lineage is looked up, and when a new one is begun after failures."""

    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    played = FakeQueries(monkeypatch, tmp_path / "a", [(0, STATE_GONE)])
    monkeypatch.setattr("streaming.service.Lineages.begin_new", full)
    with pytest.raises(EnvironmentProblemError, match="a: No space left on device; free some"):
        played.run()
    played = FakeQueries(monkeypatch, tmp_path / "b")
    monkeypatch.setattr("streaming.service.Lineages.open", full)
    with pytest.raises(EnvironmentProblemError, match="b: No space left on device; free some"):
        played.run()


def test_the_disk_is_checked_before_a_checkpoint_is_discarded(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A full disk breaks things that seem unrelated."""
    played = FakeQueries(monkeypatch, tmp_path, [(0, STATE_GONE)])

    def full() -> None:
        raise EnvironmentProblemError("full")

    monkeypatch.setattr(played.workspace, "check_room", full)
    with pytest.raises(EnvironmentProblemError, match="full"):
        played.run()
    assert len(list((played.workspace.root / "lineages").iterdir())) == 1


def test_pauses_grow_while_the_disk_is_full(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The log has the reason and the pause; after a batch the next pause is short again."""
    failures = [(1, DISK_FULL), (0, DISK_FULL), (1, DISK_FULL)]
    played = FakeQueries(monkeypatch, tmp_path, failures)
    with structlog.testing.capture_logs() as logged:
        played.run()
    entries = [entry for entry in logged if entry["event"].startswith("the fold cannot go on")]
    assert all(str(tmp_path) in entry["reason"] for entry in entries)
    assert [entry["next_try_s"] for entry in entries] == played.pauses_s
    assert played.pauses_s == [FIRST_PAUSE_S, FIRST_PAUSE_S + 1, FIRST_PAUSE_S]


def test_a_new_lineage_is_counted_and_logged_with_its_reason(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """What the old lineage folded does not count in the new one's lag. The old folder is removed after the new one's first batch."""
    played = FakeQueries(monkeypatch, tmp_path, [(1, STATE_GONE), (1, "x"), (1, "y")])
    folders: list[int] = []
    lags: list[float | None] = []

    def note(_query: FakeQuery) -> None:
        folders.append(len(list((played.workspace.root / "lineages").iterdir())))
        played.measure(SimpleNamespace(failure=None, answer=SimpleNamespace(ends={("l", 0): 150})))
        lags.append(played.sample("kcm_fold_lag_records"))

    played.on_turn = note
    with structlog.testing.capture_logs() as logged:
        played.run()
    began = [entry for entry in logged if entry["event"] == "a new lineage begins"]
    assert [entry["lineage"] for entry in began] == [played.lineages[0], played.lineages[1]]
    assert began[0]["reason"] == "there was no checkpoint"
    assert began[1]["reason"] == f"the checkpoint cannot be used: {STATE_GONE}"
    assert played.sample("kcm_fold_lineages_total") == 2
    assert folders == [1, 2, 1, 1]
    assert lags == [None, None, 30, 30]


def test_the_lag_is_known_only_while_a_query_runs(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """From the sum of the log's ends in Kafka; an unknown end does not give a lag of 0."""
    played = FakeQueries(monkeypatch, tmp_path, [(1, "first"), (1, "second")])
    lags: list[float | None] = []

    def measure(**probe: object) -> None:
        played.measure(SimpleNamespace(**probe))
        lags.append(played.sample("kcm_fold_lag_records"))

    def note(_query: FakeQuery) -> None:
        known = SimpleNamespace(ends={("kcm.changes", 0): 100, ("kcm.changes", 1): 25})
        measure(failure=None, answer=known)
        measure(failure="away", answer=known)
        measure(failure=None, answer=None)
        measure(failure=None, answer=SimpleNamespace(ends={}))
        measure(failure=None, answer=known)

    played.on_turn = note
    played.run()
    assert lags == [None] * 5 + [5, None, None, None, 5] * 2
    assert played.sample("kcm_fold_lag_records") is None


def test_each_batch_is_observed_once_and_an_empty_one_is_not(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Spark reports the last hundred batches each time."""
    played = FakeQueries(monkeypatch, tmp_path, [(3, "the end")])
    moved: list[int] = []
    begun: list[int] = []
    clock = SimpleNamespace(
        begin=lambda: begun.append(1), moved=moved.append, look=lambda _log_end: None
    )
    monkeypatch.setattr("streaming.service.BatchClock", lambda: clock)
    seen: list[float | None] = []

    def run_on(query: FakeQuery) -> None:
        query.progresses.append(Progress(PROGRESS | {"batchId": 90, "numInputRows": 0}))
        query.is_active = True

        def check() -> None:
            seen.append(played.sample("kcm_fold_batch_seconds_count"))
            query.is_active = len(seen) < 3

        monkeypatch.setattr(played.watchdog.thread, "check", check)
        played.on_turn = _nothing

    played.on_turn = run_on
    played.run()
    assert seen == [3, 3, 3]
    assert moved == [120] * 4
    assert len(begun) == 2
    assert played.stop.waits_s.count(POLL_S) == 5


@pytest.mark.parametrize("name", ["watchdog", "probe"])
def test_a_thread_that_ended_ends_the_fold(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, name: str
) -> None:
    """Otherwise nothing would watch the JVM or the topics; the query is stopped in order."""
    played = FakeQueries(monkeypatch, tmp_path, [(0, "not reached")])

    def fail(query: FakeQuery) -> None:
        query.is_active = True
        getattr(played, name).thread.failure = LookupError("gone")

    played.on_turn = fail
    with pytest.raises(LookupError, match="gone"):
        played.run()
    assert played.queries[0].stops == 1


def test_a_stop_ends_a_running_query_and_its_jvm_in_order(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A JVM that is dead or answers with an error does not prevent the fold from ending."""
    played = FakeQueries(monkeypatch, tmp_path)
    played.run()
    assert [query.stops for query in played.queries] == [1]
    dead = FakeQueries(monkeypatch, tmp_path)

    def die(_query: FakeQuery) -> None:
        dead.sessions[-1].alive = False

    dead.on_turn = die
    dead.run()
    assert [query.stops for query in dead.queries] == [0]
    broken = FakeQueries(monkeypatch, tmp_path)

    def refuse() -> None:
        raise Py4JNetworkError("no answer")

    def spoil(query: FakeQuery) -> None:
        query.on_stop = refuse

    broken.on_turn = spoil
    broken.run()
    assert [query.stops for query in broken.queries] == [1]


def test_a_jvm_that_hangs_while_it_starts_ends_the_process(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A session that exists can be killed; while it starts, there is none."""
    codes: list[int] = []

    def leave(code: int) -> None:
        codes.append(code)
        raise SystemExit

    monkeypatch.setattr(os, "_exit", leave)
    FakeQueries(monkeypatch, tmp_path, [(0, JVM_HANGS)]).run()
    assert codes == []
    played = FakeQueries(monkeypatch, tmp_path)
    monkeypatch.setattr("streaming.service.Session", lambda *_: played.watchdog.end("it hangs"))
    with pytest.raises(SystemExit):
        played.run()
    assert codes == [KcmError.exit_code]


def test_the_outage_of_kafka_and_the_shutdown_time_of_spark_are_logged(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """In seconds, to one decimal."""
    played = FakeQueries(monkeypatch, tmp_path, [(0, "not reached")])
    now_s = [100.0]
    monkeypatch.setattr("streaming.service.time", SimpleNamespace(monotonic=lambda: now_s[0]))
    failures: Iterator[str | None] = iter(("down", "down", None))

    def look(_log_end: int | None) -> None:
        now_s[0] += 1.26
        played.probe.failure = next(failures, None)

    def check() -> None:
        if played.probe.failure is None and now_s[0] > 104:
            played.stop.set()

    clock = SimpleNamespace(begin=_nothing, moved=_nothing, look=look)
    monkeypatch.setattr("streaming.service.BatchClock", lambda: clock)

    def run_on(query: FakeQuery) -> None:
        running(query)
        monkeypatch.setattr(played.watchdog.thread, "check", check)
        close = played.sessions[-1].close

        def end_slowly() -> None:
            now_s[0] += 3.14
            close()

        played.sessions[-1].close = end_slowly

    played.on_turn = run_on
    with structlog.testing.capture_logs() as logged:
        played.run()
    (back,) = [entry for entry in logged if entry["event"].endswith("Kafka is back")]
    (ended,) = [entry for entry in logged if entry["event"] == "Spark has ended"]
    assert (back["away_s"], ended["took_s"]) == (2.5, 3.1)
