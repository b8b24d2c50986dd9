"""What the loop around queries does that the simulation does not judge: settings, logs, lag, exit codes, ended threads.

When a query restarts, when a lineage begins and what ends the part is played by `tests/simulation/service`.
"""

from __future__ import annotations

import itertools
import os
import re
import threading
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import structlog
from prometheus_client import CollectorRegistry
from py4j.protocol import Py4JNetworkError

from pipeline.kafka_errors import MISSING_S, ReadTrouble, TopicReadError
from pipeline.runtime import EnvironmentProblemError, KcmError, UnreachableError, UsageError
from pipeline.settings import load
from pipeline.stop_signal import StopSignal
from pipeline.topics import EnsuredTopics, topic_names
from streaming.config import StreamSettings
from streaming.failures import FailureKind
from streaming.metrics import FoldMetrics
from streaming.service import _Fold, run
from streaming.workspace import Workspace
from tests.support.progress import PROGRESS, Progress

pytestmark = pytest.mark.usefixtures("no_settings_of_the_machine")

NAMES = topic_names("kcm")
TOPICS = EnsuredTopics(NAMES, 1, dict.fromkeys(NAMES, "id"))
STATE_GONE = "CANNOT_LOAD_STATE_STORE: a file is missing"


@pytest.fixture
def java_home(tmp_path: Path) -> Path:
    """The home of a program that answers `-version` as Java would."""
    java = tmp_path / "java" / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text("#!/bin/sh\necho 'openjdk version \"17.0.1\" 2025-01-01' >&2\n")
    java.chmod(0o755)
    return tmp_path / "java"


def test_what_is_missing_is_named_before_anything_starts(tmp_path: Path, java_home: Path) -> None:
    """A Java, all jars that do not exist, the setting of the jars, the secret of driver and executors."""
    (tmp_path / "there.jar").touch()
    jars = tuple(tmp_path / name for name in ("a.jar", "there.jar", "b.jar"))
    packages = {"spark.jars.packages": "kafka"}
    given: list[tuple[dict[str, Any], type[KcmError], str]] = [
        ({"java_home": tmp_path}, EnvironmentProblemError, "java_home"),
        ({"connector_jars": jars}, EnvironmentProblemError, rf": {jars[0]}, {jars[2]}; correct"),
        (
            {},
            EnvironmentProblemError,
            (
                "^the jars of Spark's Kafka connector are not given: set connector_jars, "
                "or start by `kcm stream`, which downloads them$"
            ),
        ),
        (
            {"spark_master": "spark://there:7077", "spark_conf": packages},
            UsageError,
            r"spark\.authenticate\.secret is missing",
        ),
    ]
    for options, error, text in given:
        settings = load(StreamSettings, **({"java_home": java_home} | options))
        with pytest.raises(error, match=text):
            run(settings, StopSignal())


class Stop(StopSignal):
    """A stop whose waits take no time, and are noted."""

    def __init__(self) -> None:
        super().__init__()
        self.waits_s: list[float | None] = []

    def wait(self, timeout: float | None = None) -> bool:
        """Return at once."""
        self.waits_s.append(timeout)
        return self.is_set()


class Played:
    """A fold whose queries end after their batches with their error texts; the last one is stopped."""

    def __init__(
        self,
        monkeypatch: pytest.MonkeyPatch,
        folder: Path,
        failures: Sequence[tuple[int, str]] = (),
    ) -> None:
        """Set up one query for each failure: how many batches end before it, and the exception's text."""
        self.registry = CollectorRegistry()
        self.stop = Stop()
        self.forgets = 0
        self.is_active = False
        """Whether the current query goes on after its batches."""
        self.end_took_s = 0.0
        self.now_s = 100.0
        self.measure: Callable[[object], None] = lambda _probe: None
        """What the probe calls after each turn."""
        self.on_query: Callable[[], None] = lambda: None
        self.on_turn: Callable[[], None] = lambda: None
        """Called at each look at the query."""
        self.on_session: Callable[[], None] = lambda: None
        self.progresses: list[Progress] = []
        self.sessions: list[SimpleNamespace] = []
        self.queries = self.stops = 0
        self.moved: list[int] = []
        self.log_ends: list[int | None] = []
        """What the clock of batches is told of the log."""
        self.probe = SimpleNamespace(thread=_thread(), answer=None, failure=None)
        self.watchdog = SimpleNamespace(
            thread=_thread(), reason=None, allow=lambda _limit_s: nullcontext()
        )
        self._failures = iter(failures)
        self._text = ""
        self._batches = itertools.count()
        clock = SimpleNamespace(
            begin=lambda: self.moved.append(0),
            moved=self.moved.append,
            hang_reason=self._hang_reason,
        )
        for name, value in {
            "ensure_topics": lambda *_, **__: TOPICS,
            "published_lineage": lambda *_: None,
            "truncated_log": lambda *_: None,
            "start_query": self._start,
            "failure_text": lambda _query: self._text,
            "Session": self._session,
            "TopicProbe": self._probe,
            "Watchdog": self._watch,
            "BatchClock": lambda: clock,
            "time": SimpleNamespace(monotonic=lambda: self.now_s),
        }.items():
            monkeypatch.setattr(f"streaming.service.{name}", value)
        self.workspace = Workspace(folder, stop=self.stop)

    def run(self) -> None:
        """Fold until the last query has failed; raise what the user would see."""
        settings = load(StreamSettings)
        with self.workspace as workspace:
            metrics = FoldMetrics(self.registry)
            try:
                _Fold(settings, self.stop, workspace, Path("java"), metrics).run()
            finally:
                assert self.sample("kcm_fold_up") == 0
                assert all(session.closed for session in self.sessions)
                assert self.stops == self.queries
                whole = ["start", "close within 0 s"]
                assert self.watchdog.thread.steps == whole
                assert self.probe.thread.steps == whole * self.queries

    def sample(self, name: str) -> float | None:
        """Return what is served."""
        return self.registry.get_sample_value(name)

    def _hang_reason(self, log_end: int | None) -> None:
        self.log_ends.append(log_end)
        self.on_turn()

    def _watch(self, kill: Callable[[], None], *, on_wait: Callable[[], None]) -> SimpleNamespace:
        assert on_wait == self.stop.turned, "a call that still has time is no hang"
        self.watchdog.kill = kill
        return self.watchdog

    def _probe(
        self, *_: object, ends_of: list[str], on_turn: Callable[[object], None], every_s: float
    ) -> SimpleNamespace:
        assert (ends_of, every_s) == ([NAMES.changes], load(StreamSettings).topic_check_interval_s)
        self.measure = on_turn
        return self.probe

    def _session(self, *_: object) -> SimpleNamespace:
        session = SimpleNamespace(alive=True, spark=object(), closed=False)

        def forget() -> None:
            self.forgets += 1

        def close() -> None:
            self.now_s += self.end_took_s
            session.closed = True

        session.forget_temporary_files, session.close = forget, close
        self.sessions.append(session)
        self.on_session()
        return session

    def _start(self, spark: object, _settings: object, topics: object, *_: object) -> _Query:
        assert (spark, topics) == (self.sessions[-1].spark, TOPICS)
        batches, self._text = next(self._failures, (0, ""))
        if self._text.startswith("refused"):
            raise OSError(self._text)
        if self._text == "the JVM dies":
            self.sessions[-1].alive = False
            raise Py4JNetworkError(self._text)
        if not self._text:
            self.stop.set()
        self.progresses = [
            Progress(PROGRESS | {"batchId": next(self._batches)}) for _ in range(batches)
        ]
        self.queries += 1
        self.on_query()
        return _Query(self)


class _Query(SimpleNamespace):
    """A query, as the service asks it."""

    def __init__(self, played: Played) -> None:
        super().__init__(_jsq=SimpleNamespace(recentProgress=lambda: played.progresses))
        self._played = played

    @property
    def isActive(self) -> bool:  # noqa: N802  # Spark's name
        """Whether it goes on."""
        assert self._played.sample("kcm_fold_up") == 1
        return self._played.is_active

    def stop(self) -> None:
        """End."""
        self._played.stops += 1


def _thread() -> SimpleNamespace:
    steps: list[str] = []
    return SimpleNamespace(
        steps=steps,
        start=lambda: steps.append("start"),
        check=list,
        close=lambda wait_s: steps.append(f"close within {wait_s} s"),
    )


def logged(played: Played) -> list[Any]:
    """Run the fold; return what it logged."""
    with structlog.testing.capture_logs() as entries:
        played.run()
    return entries


def test_a_full_disk_ends_the_fold_only_before_its_first_batch(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Only the user can correct it: at the start the fold ends with one line, later it waits and logs for how long."""
    full = "java.io.IOException: No space left on device"
    with pytest.raises(EnvironmentProblemError, match="No space left on device; correct it") as end:
        Played(monkeypatch, tmp_path / "new", [(0, full)]).run()
    assert str(tmp_path / "new") in str(end.value)
    played = Played(monkeypatch, tmp_path / "old", [(1, full), (0, full), (1, full)])
    entries = logged(played)
    waits = [entry for entry in entries if entry["event"].startswith("the fold cannot work")]
    assert all(str(tmp_path / "old") in entry["reason"] for entry in waits)
    first_s, second_s, third_s = (entry["next_try_s"] for entry in waits)
    assert max(first_s, third_s) <= 0.5 < second_s
    assert second_s in played.stop.waits_s


@pytest.mark.parametrize("batches", [0, 1])
def test_failures_of_unknown_cause_end_the_fold(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, batches: int
) -> None:
    """The fourth in a row without a batch in between; a new lineage has not helped either."""
    failures = [(batches, "who knows"), *[(0, "who knows")] * 9]
    played = Played(monkeypatch, tmp_path, failures)
    with pytest.raises(KcmError, match="fails again and again: who knows; see "):
        played.run()
    assert (played.queries, played.sample("kcm_fold_lineages_total")) == (4, 2)


@pytest.mark.parametrize(
    ("ids", "what", "turns"),
    [
        (dict.fromkeys(NAMES, "other"), "was re-created", 1),
        ({}, "is gone", 1 + MISSING_S),
    ],
)
def test_other_topics_restart_the_query(
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    ids: dict[str, str],
    what: str,
    turns: int,
) -> None:
    """It is counted and logged as such, not as a failure. A topic may be missing for a moment."""
    played = Played(monkeypatch, tmp_path, [(1, "not reached")])
    played.is_active = True
    played.probe.answer = SimpleNamespace(ids=ids, ends={})

    def pass_a_second() -> None:
        played.now_s += 1

    played.on_turn = pass_a_second
    entries = logged(played)
    (changed,) = [entry for entry in entries if entry["event"] == "the topics changed"]
    assert changed["what"] == f"topic {NAMES.changes} {what}"
    assert len(played.log_ends) == turns
    assert "the query failed" not in {entry["event"] for entry in entries}
    assert played.registry.get_sample_value("kcm_fold_restarts_total", {"reason": "topics"}) == 1


@pytest.mark.parametrize(
    ("question", "answers", "reason"),
    [
        ("published_lineage", [None, "9000000000000-a"], "the checkpoint is older than the views"),
        ("truncated_log", ["the log begins later"], "the log begins later"),
    ],
)
def test_a_checkpoint_that_no_longer_fits_is_given_up(
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    question: str,
    answers: list[str | None],
    reason: str,
) -> None:
    """Kafka is asked before a query continues from it; the log of the fold says why."""
    played = Played(monkeypatch, tmp_path, [(1, "x")])
    answered = iter(answers)
    monkeypatch.setattr(f"streaming.service.{question}", lambda *_: next(answered))
    began = [entry for entry in logged(played) if entry["event"] == "a new lineage begins"]
    assert len(began) == 2
    assert began[1]["reason"].startswith(reason)


def test_views_that_cannot_be_read_are_a_failure_of_kafka(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The fold asks again after a pause."""
    played = Played(monkeypatch, tmp_path)
    errors = iter(
        [TopicReadError(ReadTrouble.AWAY, where="there", topic="kcm.views", reason="away")]
    )

    def published(*_: object) -> None:
        for error in errors:
            raise error

    monkeypatch.setattr("streaming.service.published_lineage", published)
    reasons = [entry["reason"] for entry in logged(played) if entry["event"] == "the query failed"]
    assert reasons == ["away"]
    assert played.queries == 1


def test_the_session_forgets_batch_files_after_a_number_of_batches(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Also over restarts of the query: at batches 0, 3 and 6 of seven."""
    monkeypatch.setattr("streaming.service.FORGET_INTERVAL_BATCHES", 3)
    played = Played(monkeypatch, tmp_path, [(4, "who knows"), (3, "who knows")])
    played.run()
    assert played.forgets == 3


def test_the_reason_of_a_failed_query_is_logged(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Of one that does not start, too; Spark's log is named only when the JVM cannot answer any more."""
    failures = [(1, "who knows"), (0, "refused: the port is taken"), (1, "x"), (0, "the JVM dies")]
    played = Played(monkeypatch, tmp_path, failures)
    entries = logged(played)
    reasons = [entry["reason"] for entry in entries if entry["event"] == "the query failed"]
    assert reasons[:3] == ["who knows", "refused: the port is taken", "x"]
    assert reasons[3] == f"Spark's JVM ended; see {played.workspace.spark_log}"
    assert len(played.sessions) == 2
    assert played.stop.waits_s.count(1.0) == 2, (
        "the second failure in a row is followed by a longer pause"
    )


def test_the_reason_of_a_hang_is_told_of_its_own_query_only(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The JVM was killed for it; the next query's failure counts as what it is, not as a hang without end."""
    played = Played(monkeypatch, tmp_path, [(0, "the JVM dies"), (0, "refused: the port is taken")])
    hangs = "Spark's JVM has not answered for 120 s"

    def hang_once() -> None:
        if len(played.sessions) == 1:
            played.watchdog.reason = hangs

    played.on_session = hang_once
    failed = [entry for entry in logged(played) if entry["event"] == "the query failed"]
    assert [(entry["kind"], entry["reason"]) for entry in failed] == [
        (FailureKind.HUNG.value, hangs),
        (FailureKind.OTHER.value, "refused: the port is taken"),
    ]


def test_a_new_lineage_is_logged_with_its_reason_and_starts_the_lag_over(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """What the old lineage folded does not count. The old folder is removed after the new one's first batch."""
    played = Played(monkeypatch, tmp_path, [(1, STATE_GONE), (1, "x"), (1, "y")])
    folders: list[int] = []
    lags: list[float | None] = []

    def note() -> None:
        folders.append(len(list((played.workspace.root / "lineages").iterdir())))
        played.measure(SimpleNamespace(failure=None, answer=SimpleNamespace(ends={("l", 0): 150})))
        lags.append(played.sample("kcm_fold_lag_records"))

    played.on_query = note
    began = [entry for entry in logged(played) if entry["event"] == "a new lineage begins"]
    assert [entry["reason"] for entry in began] == [
        "there was no checkpoint",
        f"the checkpoint cannot be used: {STATE_GONE}",
    ]
    assert began[0]["lineage"] < began[1]["lineage"]
    assert all(re.fullmatch(r"\d{13}-[0-9a-f]{6}", entry["lineage"]) for entry in began)
    assert folders == [1, 2, 1, 1]
    assert lags == [None, None, 30, 30]


def test_the_lag_is_known_only_while_a_query_runs(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """From the sum of the log's ends in Kafka; an unknown end does not give a lag of 0."""
    played = Played(monkeypatch, tmp_path, [(1, "first")])
    lags: list[float | None] = []

    def note() -> None:
        ends = {("kcm.changes", 0): 100, ("kcm.changes", 1): 25}
        known = SimpleNamespace(ends=ends)
        for failure, answer in (
            (None, known),
            ("away", known),
            (None, None),
            (None, SimpleNamespace(ends={})),
            (None, known),
        ):
            played.measure(SimpleNamespace(failure=failure, answer=answer))
            lags.append(played.sample("kcm_fold_lag_records"))

    played.on_query = note
    played.run()
    assert lags == [None] * 5 + [5, None, None, None, 5]
    assert played.sample("kcm_fold_lag_records") is None


def test_each_batch_is_observed_once_and_an_empty_one_is_not(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Spark reports its last batches each time; also an empty one shows that it goes on."""
    played = Played(monkeypatch, tmp_path, [(3, "the end")])
    seen: list[float | None] = []

    def note() -> None:
        played.progresses.append(Progress(PROGRESS | {"batchId": 90, "numInputRows": 0}))
        played.is_active = True

    def look() -> None:
        seen.append(played.sample("kcm_fold_batch_seconds_count"))
        played.is_active = len(seen) < 3

    played.on_query, played.on_turn = note, look
    played.run()
    assert seen == [3, 3, 3]
    assert played.moved == [0, *[120] * 4, 0], "the clock begins with each query"


def test_an_outage_of_kafka_is_logged_at_its_start_and_end(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Once each, with its seconds: Spark itself waits for Kafka silently. So is the time that Spark took to end."""
    played = Played(monkeypatch, tmp_path, [(0, "the end")])
    played.end_took_s = 3.14
    failures = iter((None, "down", "down", None, None))

    def go_on() -> None:
        played.is_active = True

    def look() -> None:
        played.now_s += 1.26
        played.probe.failure = next(failures, "the end")
        played.is_active = played.probe.failure != "the end"

    played.on_query, played.on_turn = go_on, look
    played.probe.answer = SimpleNamespace(ids=TOPICS.ids, ends={("l", 0): 7})
    entries = [
        entry for entry in logged(played) if entry["event"].startswith(("the pipe", "Spark"))
    ]
    away, back, ended = entries
    servers = load(StreamSettings).bootstrap_servers
    assert away["event"] == "the pipeline's Kafka does not answer; the fold waits for it"
    assert (away["reason"], away["bootstrap_servers"]) == ("down", servers)
    assert (back["event"], back["away_s"]) == ("the pipeline's Kafka is back", 2.5)
    assert (ended["event"], ended["took_s"]) == ("Spark has ended", 3.1)
    assert played.log_ends == [7, 7, None, None, 7, 7], "it is not known while Kafka is away"


@pytest.mark.parametrize("name", ["watchdog", "probe"])
def test_a_thread_that_ended_ends_the_fold(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, name: str
) -> None:
    """Otherwise nothing would watch the JVM or the topics."""
    played = Played(monkeypatch, tmp_path, [(0, "not reached")])

    def fail() -> None:
        raise LookupError("gone")

    played.is_active = True
    getattr(played, name).thread.check = fail
    with pytest.raises(LookupError, match="gone"):
        played.run()


def test_unreachable_kafka_is_an_error_unless_the_fold_was_stopped(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A user who stops a fold that waits for Kafka sees no error."""
    for stops in (False, True):
        played = Played(monkeypatch, tmp_path)

        def away(*_: object, **options: threading.Event) -> None:
            if stops:  # noqa: B023  # called at once
                options["stop"].set()
            raise UnreachableError("away")

        monkeypatch.setattr("streaming.service.ensure_topics", away)
        with nullcontext() if stops else pytest.raises(UnreachableError):
            played.run()
        assert not played.sessions


def test_a_stop_while_spark_starts_begins_no_query(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Spark takes seconds to start, and as long to end."""
    played = Played(monkeypatch, tmp_path)
    played.on_session = played.stop.set
    played.run()
    assert (len(played.sessions), played.queries) == (1, 0)


def test_a_jvm_that_hangs_while_it_starts_ends_the_process(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """There is no session yet that could be killed."""
    played = Played(monkeypatch, tmp_path)

    def leave(code: int) -> None:
        raise SystemExit(code)

    monkeypatch.setattr(os, "_exit", leave)
    monkeypatch.setattr("streaming.service.Session", lambda *_: played.watchdog.kill())
    with pytest.raises(SystemExit) as end:
        played.run()
    assert end.value.code == KcmError.exit_code
