"""Starts and ends Spark's JVM and session.

What Spark prints is written to files in the checkpoint folder, never to the console. The
JVM ends with this process: it reads a pipe whose other end this process holds. Its arguments name
files that only this user may read, since every user of the machine can see arguments. Where
executors run on other machines, driver and executors authenticate each other and encrypt what they
send.
"""

import logging
import os
import re
import shlex
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pyspark
from py4j.protocol import Py4JError
from pyspark import SparkContext
from pyspark.errors import PySparkRuntimeError
from pyspark.java_gateway import launch_gateway
from pyspark.sql import SparkSession

from pipeline.runtime import EnvironmentProblemError, UsageError
from streaming.config import StreamSettings
from streaming.fixed_costs import reduce_costs_of_a_batch
from streaming.kafka_options import quoted
from streaming.processor import import_fold
from streaming.workspace import Workspace, disk_problems

SPARK_END_DEADLINE_S = 4.0
"""How long Spark may take to stop; it takes about 1 s."""

JVM_END_DEADLINE_S = 2.0
"""How long the JVM may take to end after that before it is killed."""

_FILE_MANAGER = (
    "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
)
"""Spark's default uses Hadoop's FileContext, which starts `readlink` eight times for each of the
three files of a batch: 25 to 30 ms a file. This one renames too, and the fold's lock excludes other
writers."""


_JVM_OPTIONS = (
    "-XX:-UsePerfData",
    "-XX:+ExitOnOutOfMemoryError",
    # Otherwise the heap begins with a 64th of the machine's memory, and all of its young part is soon touched.
    "-Xms64m",
    # The heap is small and cores are few: one collector thread disturbs less than a pool.
    "-XX:+UseSerialGC",
    # The quick compiler alone halves the processor time of the start. The slow one makes batches
    # about a tenth faster, after some 400 of them. spark.driver.extraJavaOptions may undo this.
    "-XX:TieredStopAtLevel=1",
    # The default of this option, 48 MiB, is full after two minutes, and each cleanup took seconds.
    "-XX:ReservedCodeCacheSize=240m",
    # Spark starts `rm` for folders that it removes: this avoids Java's helper process.
    "-Djdk.lang.Process.launchMechanism=VFORK",
)

_PROPERTIES = {
    "spark.app.name": "kafka-controller-monitor",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.locality.wait": "0",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.adaptive.enabled": "false",
    # Spark generates Java code for each batch; for a handful of rows that would be most of the
    # work.
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    # Without names here, Spark looks up a logger for each batch of rules of each plan.
    "spark.sql.planChangeLog.rules": "none",
    "spark.sql.planChangeLog.batches": "none",
    "spark.sql.ui.retainedExecutions": "2",
    # Messages of up to 512 KiB that are passed to Python at a time.
    "spark.sql.execution.arrow.maxRecordsPerBatch": "64",
    # Chunks of packed topics, or batches of the journal, that an iteration fetches at a time.
    "spark.sql.execution.arrow.transformWithStateInPySpark.maxStateRecordsPerBatch": "200",
    # A query that waits for a dead Kafka would take minutes to stop.
    "spark.sql.streaming.stopTimeout": "3s",
    "spark.sql.streaming.noDataMicroBatches.enabled": "false",
    # Batches whose figures Spark keeps until the fold fetches them: those of some seconds.
    "spark.sql.streaming.numRecentProgressUpdates": "32",
    # Batches that a restart could go back to; more of them only cost disk space.
    "spark.sql.streaming.minBatchesToRetain": "20",
    "spark.sql.streaming.checkpoint.fileChecksum.enabled": "false",
    "spark.sql.streaming.checkpointFileManagerClass": _FILE_MANAGER,
    "spark.sql.streaming.stateStore.providerClass": "org.apache.spark.sql.execution.streaming"
    ".state.RocksDBStateStoreProvider",
    # Spark's own pattern does not cover account.key and jaas.
    "spark.redaction.regex": "(?i)secret|password|passphrase|token|credential|jaas|sasl|access[.]?key"
    "|account[.]?key|keystore[.]key|key[.]pem",
    "spark.sql.redaction.options.regex": "(?i)url|secret|password|token|jaas|sasl|ssl",
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
    "spark.sql.streaming.stateStore.rocksdb.trackTotalNumberOfRows": "false",
}
"""Properties that no setting of kcm changes; the user's spark_conf may."""

_WIRE = {
    "spark.authenticate": "true",
    "spark.network.crypto.enabled": "true",
    "spark.network.crypto.authEngineVersion": "2",
    "spark.network.crypto.saslFallback": "false",
    "spark.io.encryption.enabled": "true",
}
"""For the connections between driver and executors, and for the executors' disks. Locally there are no such connections."""

_OWN_SECRET = re.compile(r"yarn|k8s")
"""Masters for which Spark makes a secret at each start and passes it to the executors."""

_CAUSE = "Caused by: "

_NO_REASON = re.compile(
    r"WARNING:|\[\d+\.\d+s\]|\s+(at |\.\.\. \d+ more)"
    r"|Error: (Could not create the Java Virtual Machine|A fatal exception has occurred)"
)
"""Lines of the JVM that give no reason: warnings of each start, its own log (of a class archive, for one), calls in a trace, and what it
says after the reason."""

_JAVA_OPTIONS = "spark.driver.extraJavaOptions"


def spark_properties(settings: StreamSettings, workspace: Workspace) -> dict[str, str]:
    """Return Spark's properties: kcm's, overridden by the user's."""
    jvm = (
        f"-Dlog4j2.configurationFile=file:{workspace.log4j_config}",
        f"-Djava.io.tmpdir={workspace.scratch}",
        *_JVM_OPTIONS,
        *_class_archive(settings),
    )
    properties = _PROPERTIES | {
        "spark.master": settings.spark_master,
        "spark.driver.memory": settings.driver_memory,
        "spark.driver.defaultJavaOptions": " ".join(jvm),
        "spark.local.dir": str(workspace.scratch),
        "spark.sql.streaming.pollingDelay": f"{settings.poll_delay_ms}ms",
    }
    jars = [str(path) for path in settings.connector_jars]
    if is_local(settings):
        properties |= {
            "spark.driver.host": "127.0.0.1",
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.driver.extraClassPath": os.pathsep.join(jars),
            # Over TCP each batch waits 40 ms: the JVM sends two small pieces, and its kernel holds
            # the second one back until Python's has acknowledged the first (Nagle's algorithm,
            # delayed acknowledgements).
            "spark.python.unix.domain.socket.enabled": str(workspace.takes_unix_sockets()).lower(),
        }
    else:
        properties |= {"spark.jars": ",".join(jars), **_WIRE}
    return properties | settings.spark_conf


def _class_archive(settings: StreamSettings) -> tuple[str, ...]:
    """Return the option for a class archive that exists; Java starts without one that does not fit."""
    path = settings.class_archive
    # A warning that the archive does not fit would later be mistaken for the cause of another
    # failure.
    quiet = "-Xlog:cds*=off"
    return (f"-XX:SharedArchiveFile={path}", quiet) if path and path.is_file() else ()


def check_wire(settings: StreamSettings) -> None:
    """Raise UsageError where driver and executors must authenticate and have no secret for it."""
    if is_local(settings) or _OWN_SECRET.match(settings.spark_master):
        return
    conf = _WIRE | settings.spark_conf
    secrets = (name for name in conf if name.startswith("spark.authenticate.secret"))
    if conf.get("spark.authenticate") == "true" and not any(conf[name] for name in secrets):
        raise UsageError(
            f"spark_conf: spark.authenticate.secret is missing: the master {settings.spark_master} "
            "and its workers need the same one; or say spark.authenticate=false and "
            "spark.network.crypto.enabled=false"
        )


@contextmanager
def submit_files(properties: Mapping[str, str], folder: Path) -> Iterator[str]:
    """Yield spark-submit's arguments for these properties, which it reads from files; then remove the files.

    The JVM gets all properties again through its socket, so the files are only for its start.
    """
    conf, options = folder / "spark.properties", folder / "java.options"
    held = dict(properties)
    files = {conf: ""}
    if given := held.get(_JAVA_OPTIONS):
        held[_JAVA_OPTIONS] = f"@{options}"
        files[options] = "".join(f"{quoted(each)}\n" for each in shlex.split(given))
    files[conf] = "".join(f"{_escaped(key)}={_escaped(held[key])}\n" for key in held)
    try:
        with disk_problems(folder):
            for path, text in files.items():
                path.unlink(missing_ok=True)
                flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
                with os.fdopen(os.open(path, flags, 0o600), "w", encoding="utf-8") as file:
                    file.write(text)
        yield f"--load-spark-defaults --properties-file {shlex.quote(str(conf))} pyspark-shell"
    finally:
        for path in files:
            path.unlink(missing_ok=True)


def _escaped(text: str) -> str:
    r"""Return a key or value as written in a file of Java properties: in units of UTF-16.

    >>> _escaped("a=")
    '\\u0061\\u003d'
    """
    units = text.encode("utf-16-be", "surrogatepass")
    return "".join(
        f"\\u{high:02x}{low:02x}" for high, low in zip(units[::2], units[1::2], strict=True)
    )


class Session:
    """A JVM with a Spark session; a process has at most one."""

    def __init__(self, settings: StreamSettings, workspace: Workspace, java: Path) -> None:
        self._output = workspace.spark_output
        os.environ.update(_environment(java, local=is_local(settings)))
        properties = spark_properties(settings, workspace)
        on_interrupt = signal.getsignal(signal.SIGINT)
        with (
            self._output.open("wb") as output,
            submit_files(properties, workspace.scratch) as arguments,
        ):
            os.environ["PYSPARK_SUBMIT_ARGS"] = arguments
            kept = {"stdout": output, "stderr": subprocess.STDOUT, "pass_fds": (workspace.lock_fd,)}
            try:
                self._gateway: Any = launch_gateway(None, kept)  # type: ignore[no-untyped-call]  # pyspark gives it no types
                context = SparkContext(gateway=self._gateway)
                if is_local(settings):
                    _start_worker_early(context)
                self.spark = SparkSession(context)
                _silence(self.spark)
                if is_local(settings):
                    reduce_costs_of_a_batch(self.spark, self._gateway.jvm, settings.spark_conf)
            except (PySparkRuntimeError, Py4JError, OSError) as error:
                printed = self._output.read_text(errors="replace")
                reason = reason_printed(printed) or _first_lines(error)
                raise EnvironmentProblemError(
                    f"Spark's JVM did not start: {reason}; see {self._output}"
                ) from None
            finally:
                # Spark's own handler cancels jobs and raises in the middle of our code. Outside of
                # the main thread Spark installs none, and no signal handler may be installed.
                with suppress(ValueError):
                    signal.signal(signal.SIGINT, on_interrupt)

    @property
    def alive(self) -> bool:
        """Whether the JVM still runs."""
        return self._gateway.proc.poll() is None

    def kill(self) -> None:
        """Kill the JVM and its workers; any thread may call this, also while another waits for the JVM's answer."""
        for pid in (self._gateway.proc.pid, *_below(self._gateway.proc.pid)):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def forget_temporary_files(self) -> None:
        """Clear the JVM's list of files to delete at its exit: all of them are in the scratch folder, which is deleted anyway.

        Each batch makes a Unix socket. Spark deletes it afterwards, but also registers it for the
        exit (File.deleteOnExit). Java keeps 190 bytes for each (`python -m bench patches`), 15 % of
        the heap after a day of ten batches a second.
        """
        # A Java that keeps them elsewhere keeps them until its exit: no reason for a batch to fail.
        with suppress(Py4JError):
            jvm = self._gateway.jvm
            hook = jvm.java.lang.Class.forName("java.io.DeleteOnExitHook")
            files = hook.getDeclaredField("files")
            files.setAccessible(True)
            # A new set rather than null: another thread may add a file at this moment.
            files.set(None, jvm.java.util.LinkedHashSet())

    def close(self, *, jvm_deadline_s: float = JVM_END_DEADLINE_S) -> None:
        """End the session and the JVM, by force if it takes too long."""
        process = self._gateway.proc
        if self.alive:
            # A query that waits for a dead Kafka prevents Spark from stopping in order.

            def stop_spark() -> None:
                with suppress(Exception):
                    self.spark.stop()

            ending = threading.Thread(target=stop_spark, daemon=True)
            ending.start()
            ending.join(SPARK_END_DEADLINE_S)
        with suppress(Exception):
            self._gateway.shutdown()
        with suppress(OSError):
            process.stdin.close()
        try:
            process.wait(jvm_deadline_s)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        _forget_gateway()


def _start_worker_early(context: SparkContext) -> None:
    """Let Spark start a Python worker, which imports the fold's modules, while the main thread goes on to the query.

    The first batch finds that worker idle and takes it. Saves 0.5 s of the 6 s after which a fold that was killed shows the
    next change (`python -m bench cold`).
    """

    def start() -> None:
        # What fails here fails in the first batch as well, which says so. The session may also end meanwhile.
        with suppress(Exception):
            context.parallelize([0], 1).map(import_fold).collect()

    threading.Thread(target=start, name="early-worker", daemon=True).start()


def reason_printed(output: str) -> str:
    r"""Return the line in a JVM's output that says why it ended; "" if it printed nothing of its own.

    That is the deepest cause of the last stack trace, or what stands before a trace without one; without a trace, the last line.

    >>> reason_printed("Exception in thread main\n\tat a.B(C)\nCaused by: x.Unknown: h\n\tat a.D(E)\n\t... 17 more\n")
    'x.Unknown: h'
    >>> reason_printed("java.io.IOException: full\n\tat a.B(C)\n[1.2s][warning][cds] Skipping a/B\n")
    'java.io.IOException: full'
    """
    lines = [line for line in output.splitlines() if line.strip() and not _NO_REASON.match(line)]
    causes = [line.partition(_CAUSE)[2] for line in lines if line.lstrip().startswith(_CAUSE)]
    return (causes or lines or [""])[-1].strip()


def _first_lines(error: Exception) -> str:
    r"""Return an error's text before its stack trace, in one line.

    >>> _first_lines(ValueError("An error occurred.\n: java.io.IOException: full\n\tat java.io.X"))
    'An error occurred. : java.io.IOException: full'
    """
    return " ".join(str(error).split("\n\t", maxsplit=1)[0].split())


def _below(pid: int) -> list[int]:
    """Return a process's children and their descendants; none except on Linux."""
    children: list[int] = []
    for path in Path(f"/proc/{pid}/task").glob("*/children"):
        with suppress(OSError):  # the thread has just ended
            children += map(int, path.read_text().split())
    return [*children, *(each for child in children for each in _below(child))]


def is_local(settings: StreamSettings) -> bool:
    """Return whether Spark runs in one process, on the machine of its checkpoint."""
    return re.fullmatch(r"local(\[.*\])?", settings.spark_master) is not None


def _silence(spark: SparkSession) -> None:
    """Keep Spark's Python side from printing tracebacks when the JVM is killed: the fold handles that itself.

    The server of its accumulators, which the fold does not use, prints them. Py4J logs to the root
    logger, which writes to the console unless it has a handler.
    """
    server: Any = spark.sparkContext._accumulatorServer  # noqa: SLF001  # the only way to reach it
    server.handle_error = lambda _request, _client: None
    logging.basicConfig(handlers=[logging.NullHandler()])


def _environment(java: Path, *, local: bool) -> dict[str, str]:
    # Spark asks for the address of this machine's name at its start (Utils.findLocalInetAddress). In local mode nothing needs
    # it, and in a container, or where an image is built, the name may have none.
    address = {"SPARK_LOCAL_IP": "127.0.0.1"} if local else {}
    return address | {
        "JAVA_HOME": str(java.resolve().parent.parent),
        # Otherwise workers run whatever `python3` is on PATH.
        "PYSPARK_PYTHON": sys.executable,
        "PYSPARK_DRIVER_PYTHON": sys.executable,
        # glibc's arenas, one for each thread that allocates, cost the JVM and Python's workers some 15 MiB.
        "MALLOC_ARENA_MAX": os.environ.get("MALLOC_ARENA_MAX", "2"),
        # Another Spark that a user has installed does not fit this pyspark.
        "SPARK_HOME": str(Path(pyspark.__file__).parent),
    }


def _forget_gateway() -> None:
    """Let the next session of this process have a new JVM: pyspark keeps a dead one."""
    SparkContext._gateway = None  # noqa: SLF001  # there is no public way
    SparkContext._jvm = None  # noqa: SLF001
    SparkContext._active_spark_context = None  # noqa: SLF001
    SparkSession._instantiatedSession = None  # noqa: SLF001
    SparkSession._activeSession = None  # noqa: SLF001
