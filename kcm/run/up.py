"""`kcm up`: run the whole pipeline on one machine, for a cluster of the user's own.

Everything that can be checked is checked before anything is started. Then one loop
restarts what has died until a signal arrives. However it ends, no process is left running.
"""

import fcntl
import importlib.util
import os
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from kcm.cli.exits import traced
from kcm.cli.options import NO_CLUSTER, Options, with_options
from kcm.cli.parts import (
    ALL_SETTINGS,
    AllSettings,
    load_all,
    missing_package,
    require_cluster,
    suspicious_variables,
)
from kcm.queries.options import HttpConfigFile
from kcm.run.exporter_client import ClusterSeen
from kcm.run.pipeline_processes import Pipeline
from kcm.run.process_restarter import ProcessRestarter
from kcm.servers.class_archive import KAFKA_CLASSES, SPARK_CLASSES, ensure_class_archive
from kcm.servers.jars import ensure_jars
from kcm.servers.supervisor import Supervisor
from pipeline.java import use_java
from pipeline.runtime import (
    ConflictError,
    EnvironmentProblemError,
    install_stop_signal,
    queue_output,
)
from pipeline.settings import PipelineSettings, given_values
from pipeline.topics import client_properties
from zk_source.config import WatchSettings

POLL_INTERVAL_S = 0.25
"""How often the processes are checked: a death is reported, and its backoff begins, this soon."""
STATUS_INTERVAL_S = 2.0
"""How often the exporter is polled once it shows the cluster; before that, at each check."""
QUIET_START_S = 10.0
"""The longest time without a line while everything starts."""
SPARK_HINT = " (Spark takes 10 s to start on an idle machine, longer on a busy one)"
ANSWER_DEADLINE_S = 5.0
"""How long the pipeline's Kafka may take to answer with its cluster's id."""
_NEEDED_PACKAGES = ("kazoo", "pyspark", "pyarrow")

DataFolder = Annotated[
    Path | None,
    typer.Option(
        "--data",
        help="Folder for the pipeline's topics, checkpoint and logs, which are kept over restarts. "
        "[default: ~/.local/state/kcm/CLUSTER]",
    ),
]


@with_options(
    *ALL_SETTINGS,
    defaults={
        **NO_CLUSTER,
        "bootstrap_servers": "a broker that is started for it",
        "checkpoint_dir": "DATA/checkpoint",
    },
)
def up(
    config: Path | None,
    options: Options,
    *,
    data: DataFolder = None,
    http_config_file: HttpConfigFile = None,
) -> int:
    """Run the whole monitor on this machine for one of your clusters.

    Example: kcm up --zookeeper zk1:2181,zk2:2181/kafka --cluster prod

    A cluster in KRaft mode is named by its controllers (kcm up --controllers c1:9093,c2:9093). It runs the watcher, the
    fold, the exporter, and a Kafka broker for their topics; with --bootstrap-servers the topics are kept on a Kafka of
    yours instead (not on the cluster that is watched). Every option can also be given as an environment variable
    (--log-level as KCM_LOG_LEVEL) or in the configuration file (log_level = "info"). Give passwords there: arguments
    are visible to all users. Ctrl-C stops everything.
    """
    settings = load_all(config, options)
    require_cluster(config, options)
    for line in suspicious_variables():
        _say(f"warning: {line}")
    with traced(wanted=settings.watch.log_level == "debug"):
        check_packages()
        java = use_java(settings.stream.java_home)
        with locked(data or default_folder(settings.watch.cluster)) as folder:
            jars = ensure_jars()
            ensure_class_archive(SPARK_CLASSES, jars.connector, java)
            if own_servers(settings) is None:
                ensure_class_archive(KAFKA_CLASSES, jars.broker, java)
            with Supervisor(folder) as supervisor:
                pipeline = Pipeline(
                    supervisor=supervisor,
                    jars=jars,
                    data_dir=folder,
                    cluster=settings.watch.cluster,
                    zookeeper=settings.watch.zookeeper
                    if isinstance(settings.watch, WatchSettings)
                    else None,
                    bootstrap_servers=own_servers(settings),
                    options=options_of(settings),
                    http_config=http_config_file,
                )
                LocalRun(pipeline, settings).until(install_stop_signal())
    return 0


class LocalRun:
    """One run of a pipeline, from its start to a stop signal or a final error."""

    def __init__(self, pipeline: Pipeline, settings: AllSettings) -> None:
        self._pipeline = pipeline
        self._settings = settings
        self._restarter = ProcessRestarter(pipeline, fail_fast=settings.watch.fail_fast)
        self._began = time.monotonic()
        self._next_status_at = 0.0
        self._quiet_until = self._began + QUIET_START_S
        self._shown: ClusterSeen | None = None
        self._hint = SPARK_HINT  # printed once

    def until(self, stop: threading.Event) -> None:
        """Run until `stop` is set; stop everything, whatever ends the run."""
        pipeline = self._pipeline
        pipeline.check_ports()
        queue_output()  # what has died is restarted also while nobody reads this
        _say(self._first_line())
        try:
            pipeline.start()
            while not stop.wait(POLL_INTERVAL_S):
                for line in self._restarter.step():
                    _say(line)
                self._show_status()
            _say("stopping")
        finally:
            self._restarter.close()
            pipeline.stop()

    def _first_line(self) -> str:
        pipeline = self._pipeline
        own = f"the pipeline's Kafka ({pipeline.bootstrap_servers}), " if pipeline.broker else ""
        return (
            f"starting {own}watcher, fold and exporter for cluster {pipeline.cluster} "
            f"(data and logs: {pipeline.data_dir})"
        )

    def _show_status(self) -> None:
        """Ask the exporter about the cluster and print what changed."""
        now = time.monotonic()
        if now < self._next_status_at:
            return
        seen = self._pipeline.seen()
        if self._shown:
            self._next_status_at = now + STATUS_INTERVAL_S
        if isinstance(seen, ClusterSeen) and (seen.live or self._shown):
            self._print_changes(seen)
        elif self._shown is None and now >= self._quiet_until:
            self._quiet_until = now + QUIET_START_S
            what = seen if isinstance(seen, str) else f"its figures are {seen.status}"
            _say(f"not ready after {now - self._began:.0f} s: {what}{self._hint}")
            self._hint = ""

    def _print_changes(self, seen: ClusterSeen) -> None:
        before = self._shown
        self._shown = seen
        if before is None:
            self._restarter.has_worked()
            url = self._pipeline.exporter_url
            took_s = time.monotonic() - self._began
            _say(f"ready: {_controller(seen)}; metrics at {url}/metrics, API at {url}/api/v1")
            _say(f"(after {took_s:.0f} s; Ctrl-C stops everything)")
            self._warn_of_own_cluster(seen)
            return
        if seen.status != before.status:
            _say(f"the figures are {seen.status} now (they were {before.status})")
        if (seen.controller_id, seen.epoch) != (before.controller_id, before.epoch):
            _say(_controller(seen))

    def _warn_of_own_cluster(self, seen: ClusterSeen) -> None:
        """Warn when the topics are on the cluster that is watched."""
        if self._pipeline.broker is not None or seen.cluster_id is None:
            return
        if cluster_id_of(self._settings.export) == seen.cluster_id:
            _say(
                "warning: the pipeline's topics are on the cluster that is watched: when it fails, "
                "the monitor is blind; leave --bootstrap-servers out, or name another Kafka"
            )


def default_folder(cluster: str) -> Path:
    """Return `$XDG_STATE_HOME/kcm/<cluster>`, or `~/.local/state/kcm/<cluster>`."""
    root = os.environ.get("XDG_STATE_HOME")
    return (Path(root) if root else Path.home() / ".local" / "state") / "kcm" / cluster


@contextmanager
def locked(folder: Path) -> Iterator[Path]:
    """Create the folder in which a pipeline is kept between runs, hold its lock, and yield its absolute path.

    The lock ends with the process that holds it, so there is never a stale one to remove. Raises
    ConflictError when another process holds it, EnvironmentProblemError for a folder that cannot be
    created.
    """
    folder = folder.expanduser().absolute()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock = (folder / "lock").open("a+")
    except OSError as error:
        raise EnvironmentProblemError(
            f"cannot keep data in {folder}: {error.strerror}; choose another folder with --data"
        ) from None
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            lock.seek(0)
            holder = lock.read().strip() or "unknown"
            raise ConflictError(
                f"another kcm up (process {holder}) uses the data in {folder}; "
                "stop it or choose another folder with --data"
            ) from None
        lock.truncate(0)
        lock.write(f"{os.getpid()}\n")
        lock.flush()
        yield folder


def check_packages() -> None:
    """Raise EnvironmentProblemError when a package of some part is not installed."""
    for package in _NEEDED_PACKAGES:
        if importlib.util.find_spec(package) is None:
            raise EnvironmentProblemError(missing_package(package, "all"))


def own_servers(settings: AllSettings) -> str | None:
    """Return the user's own brokers for the topics; None when the user named none."""
    export = settings.export
    return export.bootstrap_servers if "bootstrap_servers" in export.model_fields_set else None


def options_of(settings: AllSettings) -> dict[str, str]:
    """Return the parts' settings: what the user gave, and the ports.

    A port is chosen freely only if the user gave 0, because Prometheus must find the same port
    again.
    """
    options: dict[str, str] = {
        "port": str(settings.export.port),
        "watcher_metrics_port": str(settings.watch.watcher_metrics_port),
        "stream_metrics_port": str(settings.stream.stream_metrics_port),
    }
    for each in settings:
        options |= given_values(each)
    # this program reads the logs from their files
    return options | {"log_format": "json"}


def cluster_id_of(settings: PipelineSettings) -> str | None:
    """Return the id of the pipeline's Kafka cluster; None when it does not answer."""
    admin = AdminClient(client_properties(settings))
    try:
        answer = admin.list_topics(timeout=ANSWER_DEADLINE_S)
    except KafkaException:
        return None
    return answer.cluster_id or None


def _controller(seen: ClusterSeen) -> str:
    if seen.controller_id is None or seen.controller_id < 0:
        return f"no controller, epoch {seen.epoch}"
    return f"controller is {seen.controller_id}, epoch {seen.epoch}"


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
