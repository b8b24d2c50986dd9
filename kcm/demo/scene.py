"""Everything that runs during the demo: the watched cluster, the pipeline, and the readers of both.

All processes start at once, because Spark, the slowest, takes as long when it starts alone. While
something is awaited, a server or a part that dies is reported at once, with the end of its log.
"""

import time
from pathlib import Path
from typing import Self

from kcm.demo.cluster import WatchedCluster
from kcm.demo.comparison import Comparison
from kcm.demo.monitor import Monitor
from kcm.demo.story_state import Component, StoryState
from kcm.run.pipeline_processes import READY_DEADLINE_S, Pipeline
from kcm.servers.jars import Jars
from kcm.servers.process import Process
from kcm.servers.prometheus import Prometheus
from kcm.servers.supervisor import Supervisor

CLUSTER_NAME = "demo"
POLL_S = 0.1  # how often starting processes are asked whether they are ready


class Scene:
    """The cluster and the pipeline of one demo; leaving the context closes the demo's own clients."""

    def __init__(
        self, supervisor: Supervisor, jars: Jars, data_dir: Path, story: StoryState
    ) -> None:
        self.supervisor = supervisor
        self.cluster = WatchedCluster(supervisor, jars, data_dir)
        self.pipeline = Pipeline(
            supervisor=supervisor,
            jars=jars,
            data_dir=data_dir / "pipeline",
            cluster=CLUSTER_NAME,
            zookeeper=self.cluster.zookeeper.connect_string,
            # What the brokers' own files set, or leave at Kafka's default.
            options={
                "min_insync_replicas": f"{CLUSTER_NAME}=1",
                "auto_leader_rebalance": f"{CLUSTER_NAME}=false",
            },
        )
        self.monitor = Monitor(self.pipeline.exporter_url, CLUSTER_NAME)
        self.prometheus: Prometheus | None = None
        self._data_dir = data_dir
        self.story = story
        self._waiting: list[tuple[Component, Process]] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        """Disconnect the demo's own clients; the supervisor stops the processes."""
        self.monitor.close()
        self.cluster.close()

    def start(self, *, prometheus: bool) -> None:
        """Start everything and wait until the monitor shows the cluster, verified and live.

        Raises KcmError when something does not start.
        """
        story, cluster = self.story, self.cluster
        zookeeper = story.starting("ZooKeeper 3.8")
        cluster.zookeeper.start()
        story.ready(zookeeper)
        for broker in cluster.brokers.values():
            broker.start(wait=False)
            self._starting(f"Kafka 3.9 broker {broker.broker_id}", broker)
        self.pipeline.start()
        if self.pipeline.broker is not None:
            self._starting("the pipeline's own Kafka", self.pipeline.broker)
        self._starting("watcher, Spark, exporter", self.pipeline.processes["stream"])
        if prometheus:
            targets = {"kcm": self.pipeline.metrics_addresses}
            folder = self._data_dir / "prometheus"
            self.prometheus = Prometheus(self.supervisor, folder, targets=targets)
            self.prometheus.start(wait=False)
            self._starting("Prometheus", self.prometheus)
        cluster.truth.start()
        self.monitor.start()
        self._await_all()

    def comparison(self, *, quiet_s: float, deadline_s: float) -> Comparison:
        """Return the comparison of what the monitor shows with the cluster's truth."""
        return Comparison(
            truth=self.cluster.truth.observations,
            shown=self.monitor.observations,
            kafka=self.cluster.kafka.read,
            status=lambda: self.monitor.status,
            check=self.supervisor.check,
            quiet_s=quiet_s,
            deadline_s=deadline_s,
        )

    def places(self) -> dict[str, str]:
        """Return the addresses and folders of everything that runs, by name, for people."""
        url = self.pipeline.exporter_url
        own = {"Prometheus": self.prometheus.url} if self.prometheus else {}
        return {
            "metrics": f"{url}/metrics",
            "API": f"{url}/api/v1/clusters/{CLUSTER_NAME}",
            **own,
            "watched ZooKeeper": self.cluster.zookeeper.connect_string,
            "watched brokers": self.cluster.bootstrap_servers,
            "pipeline's own Kafka": self.pipeline.bootstrap_servers,
            "logs": str(self.supervisor.folder / "logs"),
        }

    def _starting(self, name: str, process: Process) -> None:
        self._waiting.append((self.story.starting(name), process))

    def _await_all(self) -> None:
        """Wait until everything is ready; at the deadline, raise an error with what was seen last."""
        deadline = time.monotonic() + READY_DEADLINE_S
        while self._waiting:
            self.supervisor.check()
            for component, process in list(self._waiting):
                seen = process.seen()
                if seen is None:
                    self.story.ready(component)
                    self._waiting.remove((component, process))
                elif time.monotonic() >= deadline:
                    raise process.not_ready(component.name, READY_DEADLINE_S, seen)
            time.sleep(POLL_S)
