"""The whole pipeline as child processes: its Kafka, the watcher, the fold, the exporter.

Every caller that runs the whole pipeline uses this module (`kcm up`, `kcm demo`, the
system tests, the benchmarks), so what is tested is what users get. Settings reach the parts through
their environment only: other users of the machine cannot see it, unlike arguments.
"""

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from controller_model.kafka.ids import join_host_port
from kcm.queries.http_config import OPTION
from kcm.run.exporter_client import ClusterSeen, read_cluster
from kcm.servers.class_archive import SPARK_CLASSES, find_class_archive
from kcm.servers.jars import Jars
from kcm.servers.kafka import KraftBroker
from kcm.servers.ports import HOST, free_port, require_free
from kcm.servers.process import Process, without_settings
from kcm.servers.supervisor import Supervisor
from pipeline.java import find_java
from pipeline.runtime import ENV_PREFIX, UsageError
from web.config import WebSecurity
from web.server import local_host


class _Part(NamedTuple):
    """The verb that runs a part, and the settings of the port and the address on which it listens."""

    verb: str
    port: str
    host: str


PARTS = {
    "watcher": _Part("watch", "watcher_metrics_port", "metrics_host"),
    "stream": _Part("stream", "stream_metrics_port", "metrics_host"),
    "exporter": _Part("export", "port", "host"),
}
READY_DEADLINE_S = 240.0
"""On two idle cores everything is up in about 30 s, on busy ones in 120."""
PART_STOP_DEADLINE_S = 10.0
"""A part ends within a few seconds of SIGTERM; Spark finishes its batch first."""


class Pipeline:
    """The processes of one pipeline that watches one cluster; `start` runs them under a supervisor.

    `processes` holds the three parts by name; each can be killed, stopped, paused and restarted by
    itself. The stream is ready when the exporter shows the cluster, verified and live. `broker` is
    the embedded Kafka; None when `bootstrap_servers` was given.
    """

    def __init__(
        self,
        *,
        supervisor: Supervisor,
        jars: Jars,
        data_dir: Path,
        cluster: str,
        zookeeper: str | None,
        bootstrap_servers: str | None = None,
        options: Mapping[str, str] | None = None,
        http_config: Path | None = None,
    ) -> None:
        """Describe the pipeline; nothing is written or started yet.

        `options` are more settings of the parts by field name: without `zookeeper`, they hold `controllers`. A port that is missing there, or is
        0, becomes a free one. KCM_ variables of this process do not reach the parts: `options`
        holds all settings. `http_config` is the client configuration for an exporter that
        `web_config_file` secures.
        """
        self.cluster = cluster
        self.data_dir = data_dir
        self.broker: KraftBroker | None = None
        if bootstrap_servers is None:
            self.broker = KraftBroker(supervisor, jars, data_dir / "kafka")
            bootstrap_servers = self.broker.bootstrap_servers
        self.bootstrap_servers = bootstrap_servers
        self._http_config = http_config
        self._supervisor = supervisor
        archive = find_class_archive(SPARK_CLASSES, jars.connector, find_java(os.environ))
        self._options = {
            "checkpoint_dir": str(data_dir / "checkpoint"),
            "connector_jars": ",".join(str(jar) for jar in jars.connector),
            "class_archive": str(archive or ""),  # empty counts as not given
            "log_format": "json",
            **(options or {}),
            "cluster": cluster,
            **({} if zookeeper is None else {"zookeeper": zookeeper}),
            "bootstrap_servers": bootstrap_servers,
        }
        web_config = self._options.get("web_config_file")
        security = WebSecurity(Path(web_config) if web_config else None)
        self.is_tls = security.context is not None
        """Whether the parts' ports ask for TLS."""
        if http_config is None and (security.context or security.users):
            raise UsageError(
                f"web_config_file asks for TLS or a password: give {OPTION} as well, with which kcm up "
                "asks the exporter whether its figures are live"
            )
        self.listens_at: dict[str, tuple[str, int]] = {}
        """The HTTP address and port of each part, by the part's name."""
        for name, part in PARTS.items():
            if self._options.get(part.port, "0") == "0":
                self._options[part.port] = str(free_port())
            host = self._options.get(part.host, HOST)
            port = int(self._options[part.port])
            self.listens_at[name] = (local_host(host), port)
        self.processes = {name: self._describe(name, part) for name, part in PARTS.items()}

    @property
    def exporter_url(self) -> str:
        """The exporter's URL, without a slash at the end."""
        scheme = "https" if self.is_tls else "http"
        return f"{scheme}://{join_host_port(*self.listens_at['exporter'])}"

    @property
    def metrics_addresses(self) -> list[str]:
        """Addresses of the parts' metrics, `host:port`."""
        return [join_host_port(host, port) for host, port in self.listens_at.values()]

    def start(self) -> None:
        """Start everything at once, which saves time: the parts themselves wait for their Kafka.

        Raises what the embedded broker's start raises.
        """
        if self.broker:
            self.broker.start(wait=False)
        for process in self.processes.values():
            process.start()

    def seen(self) -> ClusterSeen | str:
        """Return what the exporter shows of the cluster, or why it shows nothing."""
        return read_cluster(self.exporter_url, self.cluster, self._http_config)

    def stop(self) -> None:
        """Stop the parts together, then the embedded broker, which they need to end cleanly."""
        self._supervisor.stop(self.processes.values())
        if self.broker:
            self.broker.stop()

    def check_ports(self) -> None:
        """Raise ConflictError when a part's port is in use."""
        for name, part in PARTS.items():
            host = self._options.get(part.host, HOST)
            if ":" not in host:
                require_free(name, int(self._options[part.port]), host)

    def _describe(self, name: str, part: _Part) -> Process:
        own = {f"{ENV_PREFIX}{key.upper()}": value for key, value in self._options.items()}
        return Process(
            self._supervisor,
            name,
            # -P: modules in the current folder must not be imported in place of kcm's
            [sys.executable, "-P", "-m", "kcm", part.verb],
            env=without_settings() | own,
            health=self._not_live if name == "stream" else None,
            ready_deadline_s=READY_DEADLINE_S,
            stop_deadline_s=PART_STOP_DEADLINE_S,
        )

    def _not_live(self) -> str | None:
        seen = self.seen()
        return None if isinstance(seen, ClusterSeen) and seen.live else str(seen)
