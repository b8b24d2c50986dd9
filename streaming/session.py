"""Spark's JVM and session: how they start, and how they end.

The rule: what Spark prints goes to files in the checkpoint folder, never to our console, and the
JVM ends with us: it reads a pipe whose other end we hold.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyspark
from py4j.protocol import Py4JError
from pyspark import SparkConf, SparkContext
from pyspark.errors import PySparkRuntimeError
from pyspark.java_gateway import launch_gateway
from pyspark.sql import SparkSession

from pipeline.runtime import EnvironmentProblemError
from streaming.config import StreamSettings
from streaming.workspace import Workspace

SPARK_END_DEADLINE_S = 4.0
"""How long Spark may take to end in order; it takes about 1 s."""

JVM_END_DEADLINE_S = 2.0
"""How long the JVM may take to end after that before it is killed."""

QUERY_STOP_TIMEOUT = "3s"
"""How long a query may take to stop: one that waits for a dead Kafka would take minutes."""

ROWS_PER_ARROW_BATCH = 64
"""Messages of up to 512 KiB that cross to Python at a time."""

STATES_PER_ARROW_BATCH = 200
"""Packed topics of up to some 100 KB that an iteration over the state fetches at a time."""

PROGRESS_KEPT = 32
"""Batches whose figures Spark keeps for us to fetch: those of some seconds."""

BATCHES_KEPT = 20
"""Batches that a restart could go back to; more only cost disk."""

_FILE_MANAGER = (
    "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
)
"""Spark's default one asks Hadoop's FileContext, which starts `readlink` eight times for each of the
three files of a batch: 25 to 30 ms a file. This one renames too, and our lock keeps others out."""


def spark_properties(settings: StreamSettings, workspace: Workspace) -> dict[str, str]:
    """Return Spark's properties: ours, then the user's."""
    jvm = (
        f"-Dlog4j2.configurationFile=file:{workspace.log4j_config}",
        f"-Djava.io.tmpdir={workspace.scratch}",
        "-XX:-UsePerfData",
        "-XX:+ExitOnOutOfMemoryError",
        # Heap is small and cores are few: one collector thread disturbs less than a pool.
        "-XX:+UseSerialGC",
        # The quick compiler alone halves the processor time of the start; the slow one gains about
        # a tenth of a batch after some 400 of them. spark.driver.extraJavaOptions may undo it.
        "-XX:TieredStopAtLevel=1",
        # The 48 MiB that come with it are full after two minutes: sweeping them out took seconds.
        "-XX:ReservedCodeCacheSize=240m",
        # Hadoop starts `chmod` for each file that it makes: without Java's helper it is one exec.
        "-Djdk.lang.Process.launchMechanism=VFORK",
    )
    jars = [str(path) for path in settings.connector_jars]
    properties = {
        "spark.app.name": "kafka-controller-monitor",
        "spark.master": settings.spark_master,
        "spark.driver.memory": settings.driver_memory,
        "spark.driver.defaultJavaOptions": " ".join(jvm),
        "spark.local.dir": str(workspace.scratch),
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.locality.wait": "0",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.adaptive.enabled": "false",
        # Spark writes Java anew for each batch; for a handful of rows that is all it does.
        "spark.sql.codegen.wholeStage": "false",
        "spark.sql.codegen.factoryMode": "NO_CODEGEN",
        "spark.sql.ui.retainedExecutions": "2",
        "spark.sql.execution.arrow.maxRecordsPerBatch": str(ROWS_PER_ARROW_BATCH),
        "spark.sql.execution.arrow.transformWithStateInPySpark.maxStateRecordsPerBatch": str(
            STATES_PER_ARROW_BATCH
        ),
        "spark.sql.streaming.stopTimeout": QUERY_STOP_TIMEOUT,
        "spark.sql.streaming.noDataMicroBatches.enabled": "false",
        "spark.sql.streaming.pollingDelay": f"{settings.poll_delay_ms}ms",
        "spark.sql.streaming.numRecentProgressUpdates": str(PROGRESS_KEPT),
        "spark.sql.streaming.minBatchesToRetain": str(BATCHES_KEPT),
        "spark.sql.streaming.checkpoint.fileChecksum.enabled": "false",
        "spark.sql.streaming.checkpointFileManagerClass": _FILE_MANAGER,
        "spark.sql.streaming.stateStore.providerClass": "org.apache.spark.sql.execution.streaming"
        ".state.RocksDBStateStoreProvider",
        "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
        "spark.sql.streaming.stateStore.rocksdb.trackTotalNumberOfRows": "false",
    }
    if is_local(settings):
        properties |= {
            "spark.driver.host": "127.0.0.1",
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.driver.extraClassPath": os.pathsep.join(jars),
        }
    else:
        properties["spark.jars"] = ",".join(jars)
    return properties | settings.spark_conf


class Session:
    """A JVM with a Spark session in it; a process has at most one."""

    def __init__(self, settings: StreamSettings, workspace: Workspace, java: Path) -> None:
        self._output = workspace.spark_output
        os.environ.update(_environment(java))
        conf = SparkConf(loadDefaults=False)
        conf.setAll(list(spark_properties(settings, workspace).items()))
        on_interrupt = signal.getsignal(signal.SIGINT)
        with self._output.open("wb") as output:
            kept = {
                "stdout": output,
                "stderr": subprocess.STDOUT,
                "pass_fds": (workspace.lock_fd,),
            }
            try:
                self._gateway: Any = launch_gateway(conf, kept)  # type: ignore[no-untyped-call]  # pyspark gives it no types
                SparkContext._ensure_initialized(gateway=self._gateway)  # noqa: SLF001  # the only way to give the JVM's output a place
                self.spark = SparkSession.builder.config(conf=conf).getOrCreate()
                if is_local(settings):
                    _keep_hadoop_short(self.spark, settings)
            except (PySparkRuntimeError, Py4JError, OSError) as error:
                raise EnvironmentProblemError(
                    f"Spark's JVM did not start: {self._last_output() or error}; see {self._output}"
                ) from None
            finally:
                # Spark's own handler cancels jobs and raises in the middle of our code.
                _restore_interrupt(on_interrupt)

    @property
    def alive(self) -> bool:
        """Whether the JVM still runs."""
        return self._gateway.proc.poll() is None

    def close(self) -> None:
        """End the session and the JVM, by force if it takes too long."""
        process = self._gateway.proc
        if self.alive:
            # A query that waits for a dead Kafka does not let Spark end in order.
            ending = threading.Thread(target=self._stop_spark, daemon=True)
            ending.start()
            ending.join(SPARK_END_DEADLINE_S)
        with suppress(Exception):
            self._gateway.shutdown()
        with suppress(OSError):
            process.stdin.close()
        try:
            process.wait(JVM_END_DEADLINE_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        _forget_gateway()

    def _stop_spark(self) -> None:
        with suppress(Exception):
            self.spark.stop()

    def _last_output(self) -> str:
        lines = self._output.read_text(errors="replace").splitlines()
        return next((line.strip() for line in reversed(lines) if line.strip()), "")


def is_local(settings: StreamSettings) -> bool:
    """Return whether Spark runs in one process, beside its checkpoint."""
    return settings.spark_master.startswith("local")


def _keep_hadoop_short(spark: SparkSession, settings: StreamSettings) -> None:
    """Spare work that Hadoop's defaults cost in each batch.

    Spark packs the whole configuration for each batch, a thousand settings of file systems and
    clusters that we have none of; and a `.crc` beside each file costs a fork of `chmod` as well.
    """
    jvm: Any = spark.sparkContext._jvm  # noqa: SLF001  # Hadoop has no property for it
    hadoop: Any = spark.sparkContext._jsc.hadoopConfiguration()  # noqa: SLF001  # the same
    jvm.org.apache.hadoop.fs.FileSystem.getLocal(hadoop).setWriteChecksum(False)
    hadoop.clear()
    prefix = "spark.hadoop."
    for name, value in settings.spark_conf.items():
        if name.startswith(prefix):
            hadoop.set(name.removeprefix(prefix), value)


def _environment(java: Path) -> dict[str, str]:
    return {
        "JAVA_HOME": str(java.resolve().parent.parent),
        # Without it workers run whatever `python3` is on PATH.
        "PYSPARK_PYTHON": sys.executable,
        "PYSPARK_DRIVER_PYTHON": sys.executable,
        # Another Spark that a user has installed does not fit our pyspark.
        "SPARK_HOME": str(Path(pyspark.__file__).parent),
    }


def _restore_interrupt(handler: Callable[..., Any] | int | None) -> None:
    with suppress(ValueError):  # not the main thread: Spark installed none either
        signal.signal(signal.SIGINT, handler)


def _forget_gateway() -> None:
    SparkContext._gateway = None  # noqa: SLF001  # so that the next session gets a new JVM
    SparkContext._jvm = None  # noqa: SLF001
    SparkContext._active_spark_context = None  # noqa: SLF001
    SparkSession._instantiatedSession = None  # noqa: SLF001
    SparkSession._activeSession = None  # noqa: SLF001
