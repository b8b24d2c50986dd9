"""Everything that runs during the story: the watched cluster, the pipeline, and who reads both.

All of it starts at once, because the slowest to start (Spark) is slow alone, too. While somebody
waits, a server or a part that dies on its own is an error at once, with the end of its log.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Self

from kcm.demo.cluster import WatchedCluster
from kcm.demo.comparison import LIVE
from kcm.demo.monitor import Monitor
from kcm.local.pipeline_processes import Pipeline
from kcm.processes.errors import NotReadyError
from kcm.stack.prometheus import Prometheus

if TYPE_CHECKING:
    from pathlib import Path

    from kcm.demo.story_state import Component, StoryState
    from kcm.jars.jars import Jars
    from kcm.processes.process import HealthCheck, Process
    from kcm.processes.supervisor import Supervisor

CLUSTER_NAME = "demo"
READY_DEADLINE_S = 240.0  # on two idle cores everything is up in about 30 s, on busy ones in 120
POLL_S = 0.1  # how often what starts is asked whether it is ready
WATCH_OVER_S = 1.0  # how often, after the story, it is checked that all still runs


class Scene:
    """The cluster and the pipeline of one demo; leaving the context closes our own clients."""

    def __init__(
        self, supervisor: Supervisor, jars: Jars, data_dir: Path, story: StoryState
    ) -> None:
        """Describe everything; nothing is started yet."""
        self.supervisor = supervisor
        self.cluster = WatchedCluster(supervisor, jars, data_dir)
        self.pipeline = Pipeline(
            supervisor=supervisor,
            jars=jars,
            data_dir=data_dir / "pipeline",
            cluster=CLUSTER_NAME,
            zookeeper=self.cluster.zookeeper.connect_string,
        )
        self.monitor = Monitor(self.pipeline.exporter_url, CLUSTER_NAME)
        self.prometheus: Prometheus | None = None
        self._data_dir = data_dir
        self._story = story
        self._waiting: list[tuple[Component, Process, HealthCheck]] = []

    def __enter__(self) -> Self:
        """Return the scene itself; `start` starts it."""
        return self

    def __exit__(self, *_error: object) -> None:
        """Disconnect our own clients; the processes are the supervisor's."""
        self.monitor.close()
        self.cluster.close()

    def start(self, *, prometheus: bool) -> None:
        """Start everything and wait until the monitor shows the cluster, proven and live.

        Raises StackError when something does not start.
        """
        story, cluster = self._story, self.cluster
        zookeeper = story.starting("ZooKeeper 3.8")
        cluster.zookeeper.start()
        zookeeper.ready_s = time.monotonic() - zookeeper.began
        for broker in cluster.brokers.values():
            broker.start(wait=False)
            self._starting(f"Kafka 3.9 broker {broker.broker_id}", broker.process, broker.seen)
        self.pipeline.start(wait_broker=False)
        if (own := self.pipeline.broker) is not None:
            self._starting("the pipeline's own Kafka", own.process, own.seen)
        stream = self.pipeline.processes["stream"]
        self._starting("watcher, Spark, exporter", stream, self._monitor_seen)
        if prometheus:
            self.prometheus = self._describe_prometheus()
            self.prometheus.start(wait=False)
            self._starting("Prometheus", self.prometheus.process, self.prometheus.seen)
        cluster.truth.start()
        self.monitor.start()
        story.cluster, story.monitor = cluster, self.monitor
        self._await_all()

    def check(self) -> None:
        """Raise ProcessFailedError when a process has died that nobody killed."""
        self.supervisor.check()

    def places(self) -> list[tuple[str, str]]:
        """Return what runs where, for people."""
        url = self.pipeline.exporter_url
        places = [("metrics", f"{url}/metrics"), ("API", f"{url}/api/v1/clusters/{CLUSTER_NAME}")]
        if self.prometheus is not None:
            places.append(("Prometheus", self.prometheus.url))
        places.append(("watched ZooKeeper", self.cluster.zookeeper.connect_string))
        places.append(("watched brokers", self.cluster.bootstrap_servers))
        places.append(("pipeline's own Kafka", self.pipeline.bootstrap_servers))
        places.append(("logs", str(self.supervisor.folder / "logs")))
        return places

    def watch_over(self) -> None:
        """Return never; raise ProcessFailedError when something dies, KeyboardInterrupt on Ctrl-C."""
        while True:
            self.check()
            time.sleep(WATCH_OVER_S)

    def _starting(self, name: str, process: Process, seen: HealthCheck) -> None:
        self._waiting.append((self._story.starting(name), process, seen))

    def _monitor_seen(self) -> str | None:
        """Return None when the monitor shows the cluster, proven and live, else what it says."""
        return None if self.monitor.status == LIVE else f"the monitor says: {self.monitor.status}"

    def _await_all(self) -> None:
        """Wait until all that was started is ready; at the deadline the error says what was seen last."""
        deadline = time.monotonic() + READY_DEADLINE_S
        while self._waiting:
            self.check()
            for item in list(self._waiting):
                component, process, health = item
                seen = health()
                if seen is None:
                    component.ready_s = time.monotonic() - component.began
                    self._waiting.remove(item)
                elif time.monotonic() >= deadline:
                    log, tail = process.log_path, process.log_tail()
                    raise NotReadyError(component.name, READY_DEADLINE_S, seen, log, tail)
            time.sleep(POLL_S)

    def _describe_prometheus(self) -> Prometheus:
        targets = {"kcm": self.pipeline.metrics_addresses}
        return Prometheus(self.supervisor, self._data_dir / "prometheus", targets=targets)
