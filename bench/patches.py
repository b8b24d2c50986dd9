"""Measure what each patch of Spark's insides saves: a batch's time and processor time, and memory.

Two folds run as processes of their own on one Kafka: one as shipped, one without the patch. They
take turns: a batch of the one, then a batch of the other with the same change, so that the speed of
the machine changes for both alike. `nothing` compares two folds as shipped: what it seems to save is
the error of the others.
"""

from __future__ import annotations

import argparse
import gc
import importlib.util
import itertools
import json
import os
import statistics
import sys
import tempfile
import threading
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock

from confluent_kafka import Consumer, TopicPartition
from pyspark.sql import DataFrame
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

from bench import machine
from bench.brokers import Line
from bench.load import LogLoad, LogWriter, messages
from kcm.servers.class_archive import SPARK_CLASSES, find_class_archive
from kcm.servers.jars import Jars, ensure_jars
from kcm.servers.kafka import KraftBroker
from kcm.servers.ports import free_port
from kcm.servers.process import Process
from kcm.servers.supervisor import Supervisor
from pipeline.java import find_java
from pipeline.part import main_of_part
from pipeline.runtime import UsageError, run_program
from pipeline.settings import load
from pipeline.topics import topic_names
from streaming import fixed_costs, processor, query, service
from streaming.config import StreamSettings
from streaming.metrics import FoldMetrics
from streaming.processor import FoldProcessor
from streaming.progress import BatchReport, ProgressReader, read_progress
from streaming.schemas import OUTPUT
from streaming.session import Session
from streaming.workspace import Workspace

SUMMARY = "what each patch of Spark's insides saves of a batch and of memory (2 minutes for each)"

CLUSTER = "bench"
SIZE = {"topics": 1_000, "partitions": 10, "brokers": 30}
WARM_UP = 150
"""Batches until Spark's quick compiler is done."""
PAUSE_S = 0.05
"""How long a batch still works after its views can be read."""
QUIET_S = 0.3
"""A fold without new views for so long has folded all."""
DEADLINE_S = 120.0


class _WithoutFreeze(FoldProcessor):
    """A processor whose worker searches all objects in each run of the collector."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Declare the state."""
        mock.patch.object(processor, "freeze_long_lived", list).start()
        super().init(handle)


def _public_transform(records: DataFrame, folding: StatefulProcessor) -> DataFrame:
    grouped: Any = records.groupBy("cluster")
    transformed: DataFrame = grouped.transformWithState(folding, OUTPUT, "update", query.TIME_MODE)
    return transformed


def _public_progress(_reader: ProgressReader, running: StreamingQuery) -> list[BatchReport]:
    newest = _seen.get(running.runId, -1)
    found = [json.loads(each.json) for each in running.recentProgress]
    fresh = [each for each in found if each["batchId"] > newest and each["numInputRows"]]
    if fresh:
        _seen[running.runId] = fresh[-1]["batchId"]
    return [read_progress(each) for each in fresh]


_seen: dict[Any, int] = {}


class _Nothing:
    """Stands for a patch that is switched off."""

    def __call__(self, *_: Any) -> None:
        """Leave everything as it is."""


def _use(module: Any, name: str, replacement: Any = _Nothing()) -> Callable[[], None]:  # noqa: B008  # it has no state
    return lambda: setattr(module, name, replacement)


WITHOUT: dict[str, Callable[[], None]] = {
    "nothing": lambda: None,
    "local_files": _use(fixed_costs, "_write_files_without_processes"),
    "hadoop_configuration": _use(fixed_costs, "_shorten_hadoop_configuration"),
    "no_codegen": _use(fixed_costs, "_generate_no_code_in_any_thread"),
    "no_page_listeners": _use(fixed_costs, "_remove_page_listeners"),
    "freeze_long_lived": _use(query, "FoldProcessor", _WithoutFreeze),
    "progress": _use(ProgressReader, "read", _public_progress),
    "transform": _use(query, "_transform_with_state", _public_transform),
}
"""How a fold's process switches a patch off, by the patch's name."""

NEEDS_PANDAS = "transform"
IN_PROCESS = ("relax_gc", "temporary_files")
"""Patches that are measured without a query: what they save of a large batch, or after many."""

BROKERS = 100
RESYNCS = 2
BATCH_CHANGES = 50_000
"""Changes in a full batch of a resync."""

FILES = 200_000
NAMES_FILES = """
for (int n = 0; n < %d; n++) {
  new java.io.File("%s/." + java.util.UUID.randomUUID() + ".sock").deleteOnExit();
}
"""
"""Java for what Spark does with the Unix socket of each batch."""


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of this scenario."""
    named = [name for name in WITHOUT if name != NEEDS_PANDAS or _has_pandas()]
    parser.add_argument(
        "--only",
        nargs="+",
        choices=[*WITHOUT, *IN_PROCESS],
        default=[*named, *IN_PROCESS],
        metavar="PATCH",
        help=", ".join([*WITHOUT, *IN_PROCESS]),
    )
    parser.add_argument("--batches", type=int, default=300, help="batches of each fold (300)")
    parser.add_argument("--changes", type=int, default=1, help="changes in each batch (1)")


def measure(*, only: list[str], batches: int, changes: int) -> dict[str, Any]:
    """Return what a batch and the memory are without each patch, in percent of what they are with it."""
    if NEEDS_PANDAS in only and not _has_pandas():
        raise UsageError(
            f"{NEEDS_PANDAS}: pyspark's own method needs pandas, which is not installed"
        )
    jars = ensure_jars()
    patches = {}
    with (
        tempfile.TemporaryDirectory(prefix="kcm-bench-") as folder,
        Supervisor(Path(folder), kill_on_exit=True) as supervisor,
    ):
        broker = KraftBroker(supervisor, jars, Path(folder) / "kafka")
        broker.start()
        kafka = _Kafka(supervisor, broker, jars, Path(folder))
        for name in only:
            if name == "relax_gc":
                patches[name] = _resyncs()
            elif name == "temporary_files":
                patches[name] = _kept_files(Path(folder))
            else:
                patches[name] = _pair(kafka, name, batches, changes)
            print(f"bench: {name}: {patches[name]}", file=sys.stderr)
    return {
        "scenario": "patches",
        "patches": patches,
        "settings": SIZE | {"warm_up": WARM_UP, "batches": batches, "changes": changes},
        "machine": machine.describe(),
    }


def _pair(kafka: _Kafka, name: str, batches: int, changes: int) -> dict[str, Any]:
    pair = (
        Fold(kafka, f"{name}.shipped", changes, without="nothing"),
        Fold(kafka, f"{name}.without", changes, without=name),
    )
    try:
        return _compare(*pair, batches)
    finally:
        for fold in pair:
            fold.close()


def _resyncs() -> dict[str, float]:
    """Return the processor milliseconds of Python in all batches of a resync of 200,000 partitions."""
    own, relaxed = gc.get_threshold(), fixed_costs.GC_THRESHOLDS
    spent_s: dict[tuple[int, ...], list[float]] = {own: [], relaxed: []}
    with mock.patch.object(processor, "relax_gc", list):
        for number in range(RESYNCS):
            for thresholds in (own, relaxed) if number % 2 else (relaxed, own):
                spent_s[thresholds].append(_resync_s(thresholds))
    return _compared(*(statistics.median(spent_s[each]) * 1000 for each in (relaxed, own)))


def _resync_s(thresholds: tuple[int, int, int]) -> float:
    before, line, spent_s = gc.get_threshold(), Line(BROKERS), 0.0
    log = line.load.resync()
    while changes := list(itertools.islice(log, BATCH_CHANGES)):
        gc.set_threshold(*thresholds)
        spent_s += line.fold(changes)[0]
        gc.set_threshold(*before)
        gc.collect()  # as Spark's worker does after each batch
    return spent_s


def _kept_files(folder: Path) -> dict[str, float]:
    """Return the heap that Java keeps for the file that each batch leaves for its exit."""
    with Workspace(folder, stop=threading.Event()) as workspace:
        session = Session(load(StreamSettings), workspace, find_java(os.environ).path)
        try:
            jvm: Any = session.spark.sparkContext._jvm  # noqa: SLF001  # the only way to ask the JVM
            before = _heap_bytes(jvm)
            script = jvm.org.codehaus.janino.ScriptEvaluator()
            script.cook(NAMES_FILES % (FILES, workspace.scratch))
            script.evaluate(None)
            kept = _heap_bytes(jvm) - before
            session.forget_temporary_files()
            freed = before + kept - _heap_bytes(jvm)
        finally:
            session.close()
    return {"bytes_a_batch": round(kept / FILES), "bytes_a_batch_freed": round(freed / FILES)}


def _heap_bytes(jvm: Any) -> int:
    runtime = jvm.java.lang.Runtime.getRuntime()
    runtime.gc()
    return int(runtime.totalMemory() - runtime.freeMemory())


def _has_pandas() -> bool:
    return importlib.util.find_spec("pandas") is not None


class _Kafka(NamedTuple):
    """The Kafka of all folds, and what they need in addition."""

    supervisor: Supervisor
    broker: KraftBroker
    jars: Jars
    folder: Path


class Fold:
    """A fold without one patch, as a process of its own, and the writer of its log."""

    def __init__(self, beside: _Kafka, name: str, changes: int, *, without: str) -> None:
        self._changes = changes
        supervisor, broker, jars, folder = beside
        self._names = topic_names(name)
        self._load = LogLoad(CLUSTER, **SIZE)
        self._log = LogWriter(broker.bootstrap_servers, 1, self._names.changes)
        self._port = free_port()
        self._took = folder / f"{name}.took"
        self._took.touch()
        environment = {
            "KCM_BOOTSTRAP_SERVERS": broker.bootstrap_servers,
            "KCM_TOPIC_PREFIX": name,
            "KCM_CHECKPOINT_DIR": os.fspath(folder / name),
            "KCM_CONNECTOR_JARS": ",".join(map(os.fspath, jars.connector)),
            "KCM_CLASS_ARCHIVE": os.fspath(
                find_class_archive(SPARK_CLASSES, jars.connector, find_java(os.environ)) or ""
            ),
            "KCM_STREAM_METRICS_PORT": str(self._port),
        }
        self.process = Process(
            supervisor,
            f"fold-{name}",
            [sys.executable, "-m", "bench.patches", without, self._took],
            env=environment,
            health=self._health,
            ready_deadline_s=DEADLINE_S,
        )
        self.process.start()
        self._views = Consumer(
            {
                "bootstrap.servers": broker.bootstrap_servers,
                "group.id": name,
                "fetch.wait.max.ms": 5,
            }
        )

    def begin(self) -> None:
        """Wait for the query, and fold the cluster's resync."""
        self.process.wait_ready()
        self._views.assign([TopicPartition(self._names.views, 0, 0)])
        self._log.write(CLUSTER, messages(self._load.resync()))
        self._await_views()

    def fold_one(self) -> None:
        """Fold one batch of changes; Spark may split a large one."""
        while self._views.poll(0) is not None:
            pass
        self._log.write(CLUSTER, messages(self._load.changes(self._changes)))
        self._await_views()
        while self._changes > 1 and self._views.poll(QUIET_S) is not None:
            pass
        time.sleep(PAUSE_S)

    def batches_ms(self) -> list[int]:
        """Return how long each batch took, as far as Spark has reported it."""
        return [int(line) for line in self._took.read_text().split()]

    def cpu_s(self) -> float:
        """Return the processor seconds that it has used."""
        return machine.added(machine.usage(self.process.pid or 0).values()).cpu_s

    def memory_mib(self) -> dict[str, float]:
        """Return the memory of the JVM and of the Python processes."""
        usages = machine.usage(self.process.pid or 0)
        return {name: round(each.pss_mib, 1) for name, each in usages.items()}

    def close(self) -> None:
        """End the process."""
        self._views.close()
        self.process.kill()

    def _await_views(self) -> None:
        deadline = time.monotonic() + DEADLINE_S
        while self._views.poll(0.1) is None:
            if time.monotonic() > deadline:
                raise OSError(f"no batch within {DEADLINE_S:.0f} s")

    def _health(self) -> str | None:
        try:
            with urllib.request.urlopen(
                f"http://127.0.0.1:{self._port}/metrics", timeout=5
            ) as answer:
                return None if b"kcm_fold_up 1.0" in answer.read() else "the query does not run yet"
        except OSError as error:
            return f"no metrics yet: {error}"


def _compare(shipped: Fold, without: Fold, batches: int) -> dict[str, Any]:
    pair = (shipped, without)
    for fold in pair:
        fold.begin()
    _take_turns(pair, WARM_UP)
    done, used_s = [len(fold.batches_ms()) for fold in pair], [fold.cpu_s() for fold in pair]
    _take_turns(pair, batches)
    both_ms = [fold.batches_ms()[n:] for fold, n in zip(pair, done, strict=True)]
    cpu_ms = [
        (fold.cpu_s() - before) * 1000 / batches for fold, before in zip(pair, used_s, strict=True)
    ]
    return {
        "batch_ms": _compared(*map(_middle, both_ms)),
        "cpu_ms": _compared(*cpu_ms),
        "pss_mib": {
            name: _compared(mib, without.memory_mib()[name])
            for name, mib in shipped.memory_mib().items()
        },
    }


def _take_turns(pair: tuple[Fold, Fold], batches: int) -> None:
    for number in range(batches):
        for fold in pair if number % 2 else reversed(pair):
            fold.fold_one()
    time.sleep(2 * service.POLL_S)  # until the last batches are reported


def _middle(took: list[int]) -> float:
    """Return the mean of the middle half: the machine's other work slows some batches down."""
    ordered = sorted(took)
    return statistics.mean(ordered[len(took) // 4 : len(took) - len(took) // 4])


def _compared(shipped: float, without: float) -> dict[str, float]:
    return {
        "shipped": round(shipped, 1),
        "without": round(without, 1),
        "saved_percent": round((1 - shipped / without) * 100, 1),
    }


def _report_each_batch(path: Path) -> None:
    """Let this process write each batch's milliseconds to a file."""
    observe = FoldMetrics.observe

    def observed(self: FoldMetrics, report: BatchReport) -> None:
        observe(self, report)
        with path.open("a") as file:
            file.write(f"{report.took_ms}\n")

    FoldMetrics.observe = observed  # type: ignore[method-assign]  # in this process alone


if __name__ == "__main__":
    _report_each_batch(Path(sys.argv.pop()))
    WITHOUT[sys.argv.pop()]()
    run_program(lambda: main_of_part("stream", StreamSettings, service.run))
