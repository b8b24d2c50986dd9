"""The whole pipeline as child processes: its Kafka, the watcher, the fold, the exporter.

The rule: everybody who runs the whole line runs it through here (`kcm up`, `kcm demo`, the system
tests, the benchmarks), so what is tested is what users get. Settings reach the parts by their
environment alone: it is not visible to other users of the machine, as arguments would be.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Self

from kcm.jars.jars import Jars
from kcm.local.exporter_client import ClusterSeen, read_cluster
from kcm.processes.errors import NotReadyError
from kcm.processes.ports import HOST, free_port, require_free
from kcm.processes.process import Process
from kcm.processes.supervisor import Supervisor
from kcm.stack.kafka import KraftBroker
from pipeline.settings import ENV_PREFIX

VERBS = {"watcher": "watch", "stream": "stream", "exporter": "export"}
"""The parts' names, and the verb of the command line that runs each."""
PART_STOP_DEADLINE_S = 10.0
"""A part ends within a few seconds of SIGTERM; Spark finishes its batch first."""
READY_POLL_S = 0.1
"""How often the exporter is polled until it shows the cluster."""
_PORTS = (
    ("exporter", "port", "host"),
    ("watcher", "watcher_metrics_port", "metrics_host"),
    ("stream", "stream_metrics_port", "metrics_host"),
)
"""Each part with the settings of the port and the address that it listens on."""
_EVERY_ADDRESS = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}  # noqa: S104  # nothing is bound here: it is how a user says "all"


class Pipeline:
    """The processes of one pipeline that watches one cluster; `start` it under a supervisor.

    `processes` holds the three parts by name; each can be killed, stopped, paused and started again
    by itself. `broker` is the embedded Kafka; None when `bootstrap_servers` was given.
    """

    def __init__(
        self,
        *,
        supervisor: Supervisor,
        jars: Jars,
        data_dir: Path,
        cluster: str,
        zookeeper: str,
        bootstrap_servers: str | None = None,
        options: Mapping[str, str] | None = None,
    ) -> None:
        """Describe the pipeline; nothing is written or started yet.

        `options` are more settings of the parts by field name. A port that is not among them, or is
        0, is a free one. Our own KCM_ variables do not reach the parts: `options` say all.
        """
        self.cluster = cluster
        self.data_dir = data_dir
        self.processes: dict[str, Process] = {}
        self.broker = None if bootstrap_servers else self._describe_broker(supervisor, jars)
        self.bootstrap_servers = bootstrap_servers or (
            self.broker.bootstrap_servers if self.broker else ""
        )
        self._supervisor = supervisor
        self._options = {
            "checkpoint_dir": str(data_dir / "checkpoint"),
            "connector_jars": ",".join(str(jar) for jar in jars.connector),
            "log_format": "json",
            **(options or {}),
            "cluster": cluster,
            "zookeeper": zookeeper,
            "bootstrap_servers": self.bootstrap_servers,
        }
        for _, name, _ in _PORTS:
            if self._options.get(name, "0") == "0":
                self._options[name] = str(free_port())

    @property
    def exporter_url(self) -> str:
        """Where the exporter serves, without a slash at the end."""
        host = self._options.get("host", HOST)
        return f"http://{_EVERY_ADDRESS.get(host, host)}:{self._options['port']}"

    @property
    def metrics_addresses(self) -> list[str]:
        """Where the parts serve their metrics, `host:port`, the exporter first."""
        addresses = []
        for _, port, host_option in _PORTS:
            host = self._options.get(host_option, HOST)
            addresses.append(f"{_EVERY_ADDRESS.get(host, host)}:{self._options[port]}")
        return addresses

    def start(self, *, wait_broker: bool = True) -> Self:
        """Start everything at once: the parts wait for their Kafka themselves, which saves time.

        Raises what the embedded broker's start raises; the parts' health is `wait_ready`'s matter.
        """
        if self.broker:
            self.broker.start(wait=False)
        for name in VERBS:
            self.start_part(name)
        if self.broker and wait_broker:
            self.broker.wait_ready()
        return self

    def start_part(self, name: str) -> Process:
        """Start one part, or start it again after it ended; does nothing while it runs."""
        process = self.processes.get(name)
        if process is not None:
            process.start()
            return process
        process = self._supervisor.start(
            name,
            # -P: modules in the current folder must not pass for ours
            [sys.executable, "-P", "-m", "kcm", VERBS[name]],
            env=self.environment(),
            stop_deadline_s=PART_STOP_DEADLINE_S,
            wait=False,
        )
        self.processes[name] = process
        return process

    def seen(self) -> ClusterSeen | str:
        """Return what the exporter shows of the cluster, or why it shows nothing of it."""
        return read_cluster(self.exporter_url, self.cluster)

    def wait_ready(self, deadline_s: float = 90.0) -> ClusterSeen:
        """Wait until the exporter shows the cluster, proven and live, and return what it shows.

        Raises ProcessFailedError when a part ends instead, NotReadyError at the deadline.
        """
        deadline = time.monotonic() + deadline_s
        while True:
            for process in self.processes.values():
                process.check()
            seen = self.seen()
            if isinstance(seen, ClusterSeen) and seen.live:
                return seen
            if time.monotonic() >= deadline:
                late = self._latest_suspect(seen)
                raise NotReadyError(
                    "the pipeline", deadline_s, str(seen), late.log_path, late.log_tail()
                )
            time.sleep(READY_POLL_S)

    def stop(self) -> None:
        """Stop the parts together, then the embedded broker, which they need to end cleanly."""
        self._supervisor.stop(self.processes.values())
        if self.broker and self.broker.running:
            self.broker.stop()

    def environment(self) -> dict[str, str]:
        """Return the parts' environment beyond ours: all settings, as KCM_ variables.

        A variable of our own environment is made empty, which counts as not given.
        """
        inherited = [name for name in os.environ if name.upper().startswith(ENV_PREFIX)]
        given = {f"{ENV_PREFIX}{name.upper()}": value for name, value in self._options.items()}
        return dict.fromkeys(inherited, "") | given

    def log_path(self, name: str) -> Path:
        """Return where a part's log is, also before the part runs."""
        return self._supervisor.folder / "logs" / f"{name}.log"

    def check_ports(self) -> None:
        """Raise PortInUseError when a part could not listen on its port."""
        for name, option, host_option in _PORTS:
            host = self._options.get(host_option, HOST)
            if ":" not in host:
                require_free(name, int(self._options[option]), host)

    def _describe_broker(self, supervisor: Supervisor, jars: Jars) -> KraftBroker:
        return KraftBroker(supervisor, jars, self.data_dir / "kafka")

    def _latest_suspect(self, seen: ClusterSeen | str) -> Process:
        """Return the part whose log probably says why the cluster is not shown."""
        if isinstance(seen, str) and "does not answer" in seen:
            return self.processes["exporter"]
        return self.processes["stream"]
