"""Runs the fold: lock, topics, lineage, query; restarts what can be restarted.

The fold recovers by itself from what waiting or reading the log again repairs, with one
line in the log. What needs the user ends the part with one line and an exit code, unless it has
folded before: then it waits for the user as well. The log holds everything, so a new lineage always
works. It is begun when the state is unusable, not before.
"""

import os
import secrets
import time
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from prometheus_client import CollectorRegistry
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from pipeline.clock import clock_ms
from pipeline.java import find_java
from pipeline.kafka_errors import MissingTopic, TopicReadError
from pipeline.runtime import (
    Backoff,
    EnvironmentProblemError,
    KcmError,
    UnreachableError,
    end_at_once,
    get_logger,
)
from pipeline.stop_signal import StopSignal
from pipeline.topic_probe import TopicProbe
from pipeline.topics import EnsuredTopics, ensure_topics
from streaming import failures
from streaming.config import StreamSettings
from streaming.failures import FailureKind, QueryFailure
from streaming.lineage import Lineage, Lineages, topics_changed
from streaming.metrics import FoldMetrics
from streaming.progress import BatchReport, ProgressReader
from streaming.published_lineage import published_lineage
from streaming.query import failure_text, start_query
from streaming.session import Session, check_wire
from streaming.truncated_log import truncated_log
from streaming.watchdog import ANSWER_S, START_S, BatchClock, Watchdog
from streaming.workspace import Workspace, disk_problems
from web.health import PartHealth
from web.server import metrics_server

POLL_S = 0.5
"""How often the query is checked: a check costs two processes a few milliseconds."""

WAITED_FOR = frozenset({FailureKind.KAFKA, FailureKind.HUNG, FailureKind.WORKER})
"""Failures that end by themselves and say nothing about the checkpoint: the fold retries without limit."""

JVM_ERRORS = (Py4JError, PySparkException, OSError)
"""What a call into Spark's JVM raises: pyspark has its own classes for some of Java's exceptions."""

FORGET_INTERVAL_BATCHES = 5_000
"""The number of batches after which the JVM is made to forget the temporary files of earlier ones: it keeps 1 MB of them."""

STRIKES_BEFORE_NEW_LINEAGE = 2
"""Failures of unknown cause in a row, without a batch in between: after so many, a new lineage begins."""

STRIKES_BEFORE_GIVING_UP = 4
"""After so many, a new lineage has failed as well, so the cause is not the checkpoint."""


def run(settings: StreamSettings, stop: StopSignal) -> None:
    """Fold the log until `stop` is set; raise a KcmError with what the user must know."""
    java = find_java(os.environ, settings.java_home).path
    _check_jars(settings)
    check_wire(settings)
    registry = CollectorRegistry()
    metrics = FoldMetrics(registry)
    with (
        metrics_server(
            registry,
            PartHealth(registry, lambda: stop.age_s),
            settings,
            settings.stream_metrics_port,
        ) as server,
        Workspace(settings.checkpoint_dir, stop=stop) as workspace,
    ):
        get_logger("stream").info(
            "the fold starts", checkpoint_dir=str(workspace.root), metrics=f"{server.url}/metrics"
        )
        _Fold(settings, stop, workspace, java, metrics).run()


class _Fold:
    """The loop around queries."""

    def __init__(
        self,
        settings: StreamSettings,
        stop: StopSignal,
        workspace: Workspace,
        java: Path,
        metrics: FoldMetrics,
    ) -> None:
        self._settings = settings
        self._stop = stop
        self._workspace = workspace
        self._java = java
        self._metrics = metrics
        self._log = get_logger("stream")
        self._lineages = Lineages(
            workspace.root, now_ms=clock_ms, token=lambda: secrets.token_hex(3)
        )
        self._session: Session | None = None
        self._watchdog = Watchdog(self._kill_jvm, on_wait=stop.turned)
        self._batch_clock = BatchClock()
        self._strikes = 0
        self._pause = Backoff(first_s=0.5)
        self._has_folded = False
        self._away_since: float | None = None

    def run(self) -> None:
        self._watchdog.thread.start()
        try:
            while not self._stop.is_set():
                try:
                    topics = ensure_topics(self._settings, stop=self._stop)
                except UnreachableError:
                    if self._stop.is_set():
                        return
                    raise
                try:
                    failure = self._run_query(topics)
                    if failure is not None and not self._stop.is_set():
                        self._recover(failure, topics)
                except EnvironmentProblemError as error:
                    self._wait_for_machine(error)
        finally:
            self._close_session()
            self._watchdog.thread.close(0)

    def _run_query(self, topics: EnsuredTopics) -> QueryFailure | None:
        """Run one query to its end; return why it failed, None to continue or stop."""
        try:
            lineage = self._lineage(topics)
        except TopicReadError as error:
            return QueryFailure(FailureKind.KAFKA, error.reason)
        query: StreamingQuery | None = None
        self._watchdog.reason = None
        try:
            with self._watchdog.allow(START_S):
                spark = self._spark()
                if self._stop.is_set():
                    return None
                checkpoint = self._lineages.checkpoint(lineage)
                query = start_query(spark, self._settings, topics, lineage, checkpoint)
            self._log.info("the query runs", lineage=lineage.name)
            self._metrics.up.set(1)
            probe = TopicProbe(
                self._settings,
                topics,
                every_s=self._settings.topic_check_interval_s,
                ends_of=[topics.names.changes],
                # On the probe's thread: the main thread waits for Spark's JVM, and the lag must
                # also grow while that hangs.
                on_turn=lambda asked: self._metrics.measure_lag(_log_end(asked)),
            )
            probe.thread.start()
            try:
                return self._follow(query, lineage, probe)
            finally:
                # The probe may be in a request to a dead broker: a stop does not wait for that.
                probe.thread.close(0)
                self._metrics.measure_lag(None)
        except JVM_ERRORS as error:
            return self._describe(error)
        finally:
            self._metrics.up.set(0)
            self._end(query)

    def _describe(self, error: Exception) -> QueryFailure:
        """Return why a call into the JVM failed."""
        text = self._text_of(error)
        if self._watchdog.reason is not None:
            return QueryFailure(FailureKind.HUNG, self._watchdog.reason)
        if text is not None:
            return failures.describe(text)
        return QueryFailure(
            FailureKind.OTHER, f"Spark's JVM ended; see {self._workspace.spark_log}"
        )

    def _text_of(self, error: Exception) -> str | None:
        """Return the text of an error, which the JVM provides; None when the JVM does not answer."""
        with suppress(*JVM_ERRORS), self._watchdog.allow(ANSWER_S):
            if self._session is not None and self._session.alive:
                return str(error)
        return None

    def _lineage(self, topics: EnsuredTopics) -> Lineage:
        published = published_lineage(self._settings, topics)
        with disk_problems(self._workspace.root):
            lineage, because = self._lineages.open(topics, published=published)
            if because is None:
                checkpoint = self._lineages.checkpoint(lineage)
                because = truncated_log(self._settings, topics, checkpoint)
                if because is not None:
                    lineage = self._lineages.begin_new(topics)
        if because is not None:
            self._began(lineage, because)
        return lineage

    def _began(self, lineage: Lineage, reason: str) -> None:
        self._metrics.lineages.inc()
        self._metrics.start_over()
        self._log.info("a new lineage begins", lineage=lineage.name, reason=reason)

    def _spark(self) -> SparkSession:
        if self._session is not None and not self._session.alive:
            self._close_session()
        if self._session is None:
            self._session = Session(self._settings, self._workspace, self._java)
        return self._session.spark

    def _follow(
        self, query: StreamingQuery, lineage: Lineage, probe: TopicProbe
    ) -> QueryFailure | None:
        """Watch a running query; return why it failed, None when it is to be ended."""
        self._batch = -1
        progress = ProgressReader()
        missing = MissingTopic()
        self._batch_clock.begin()
        while not self._stop.wait(POLL_S):
            with self._watchdog.allow(ANSWER_S):
                active = query.isActive
                self._count(progress.read(query), lineage)
                if not active:
                    return failures.describe(failure_text(query))
            self._watchdog.thread.check()
            probe.thread.check()
            self._log_away(probe.failure)
            hangs = self._batch_clock.hang_reason(_log_end(probe))
            if hangs is not None:
                self._watchdog.end(hangs)
                return QueryFailure(FailureKind.HUNG, hangs)
            changed = _changed(lineage, probe, missing)
            if changed is not None:
                self._log.warning("the topics changed", what=changed)
                self._metrics.restarts.labels("topics").inc()
                return None
        return None

    def _count(self, reports: Iterable[BatchReport], lineage: Lineage) -> None:
        for report in reports:
            if self._batch < 0:
                self._lineages.remove_others(lineage)
            self._batch = report.batch
            self._strikes = 0
            self._has_folded = True
            self._pause.reset()
            self._batch_clock.moved(report.end_offset)
            if report.batch % FORGET_INTERVAL_BATCHES == 0 and self._session is not None:
                self._session.forget_temporary_files()
            if report.messages:
                self._metrics.observe(report)

    def _log_away(self, reason: str | None) -> None:
        """Log when Kafka stops answering and when it is back; Spark itself waits silently."""
        servers = self._settings.bootstrap_servers
        if reason is not None and self._away_since is None:
            self._away_since = time.monotonic()
            self._log.warning(
                "the pipeline's Kafka does not answer; the fold waits for it",
                bootstrap_servers=servers,
                reason=reason,
            )
        elif reason is None and self._away_since is not None:
            away_s = round(time.monotonic() - self._away_since, 1)
            self._away_since = None
            self._log.info("the pipeline's Kafka is back", bootstrap_servers=servers, away_s=away_s)

    def _recover(self, failure: QueryFailure, topics: EnsuredTopics) -> None:
        """Prepare the next query, or raise the error that the user must see."""
        self._metrics.restarts.labels(failure.kind.value).inc()
        # A full disk breaks things that seem unrelated, so check it before a checkpoint is blamed
        # and dropped.
        self._workspace.check_room()
        if failure.kind is FailureKind.DISK:
            raise EnvironmentProblemError(
                f"checkpoint folder {self._workspace.root}: {failure.line}; "
                "correct it or choose another checkpoint_dir"
            )
        self._log.warning("the query failed", kind=failure.kind.value, reason=failure.line)
        if failure.kind not in WAITED_FOR:
            self._strike(failure, topics)
        self._stop.wait(self._pause.next_s())

    def _wait_for_machine(self, error: EnvironmentProblemError) -> None:
        """Wait for what the machine lacks, such as disk space, if the fold has worked before; else raise the error."""
        if not self._has_folded:
            raise error
        wait_s = self._pause.next_s()
        self._log.error(
            "the fold cannot work; it tries again", reason=str(error), next_try_s=wait_s
        )
        self._stop.wait(wait_s)

    def _strike(self, failure: QueryFailure, topics: EnsuredTopics) -> None:
        self._strikes += 1
        if self._strikes >= STRIKES_BEFORE_GIVING_UP:
            raise KcmError(
                f"the fold fails again and again: {failure.line}; see {self._workspace.spark_log}"
            )
        if failure.kind is FailureKind.STATE or self._strikes == STRIKES_BEFORE_NEW_LINEAGE:
            with disk_problems(self._workspace.root):
                lineage = self._lineages.begin_new(topics)
            self._began(lineage, f"the checkpoint cannot be used: {failure.line}")

    def _end(self, query: StreamingQuery | None) -> None:
        try:
            if query is not None and self._session is not None and self._session.alive:
                with self._watchdog.allow(ANSWER_S):
                    query.stop()
        except JVM_ERRORS as error:
            self._log.debug("the query did not stop in order", reason=self._text_of(error))

    def _kill_jvm(self) -> None:
        """Kill a JVM that hangs; if it hangs while it starts, it can only be ended together with this process."""
        self._log.error("Spark's JVM hangs and is killed", reason=self._watchdog.reason)
        if self._session is None:
            end_at_once(KcmError.exit_code)
        self._session.kill()

    def _close_session(self) -> None:
        if self._session is not None:
            began = time.monotonic()
            self._session.close()
            self._session = None
            self._log.info("Spark has ended", took_s=round(time.monotonic() - began, 1))


def _changed(lineage: Lineage, probe: TopicProbe, missing: MissingTopic) -> str | None:
    """Return what happened to the topics; None while they are the same or one is missing for a moment."""
    ids = probe.answer.ids if probe.answer is not None and probe.failure is None else None
    if ids is not None and lineage.topic_ids.keys() - ids:
        return topics_changed(lineage, ids) if missing.is_deleted(time.monotonic()) else None
    missing.reset()
    return None if ids is None else topics_changed(lineage, ids)


def _log_end(probe: TopicProbe) -> int | None:
    """Return the end offsets summed over the log's partitions; None while they are not known."""
    if probe.failure is not None or probe.answer is None or not probe.answer.ends:
        return None
    return sum(probe.answer.ends.values())


def _check_jars(settings: StreamSettings) -> None:
    missing = [str(path) for path in settings.connector_jars if not path.is_file()]
    if missing:
        raise EnvironmentProblemError(
            f"jars of Spark's Kafka connector are missing: {', '.join(missing)}; "
            "correct connector_jars, or start by `kcm stream`, which downloads them"
        )
    if not settings.connector_jars and "spark.jars.packages" not in settings.spark_conf:
        raise EnvironmentProblemError(
            "the jars of Spark's Kafka connector are not given: set connector_jars, or start by "
            "`kcm stream`, which downloads them"
        )
