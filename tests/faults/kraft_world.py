"""The servers of a KRaft cluster that the faults hit: three controllers, brokers by protocol, and the whole pipeline.

The rule: what others send to a controller goes through its own proxy: other controllers, watchers. The brokers are
`ImitatedBrokers`, so that the machine's time is left to the controllers and the pipeline.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from contextlib import ExitStack
from typing import Self

from kcm.servers.jars import Jars
from kcm.servers.kraft_cluster import KraftCluster
from kcm.servers.quorum import Leader
from kcm.servers.supervisor import Supervisor
from pipeline.runtime import KcmError
from tests.faults.changes import BROKERS, PARTITIONS, TOPICS, SteadyWriter
from tests.faults.metadata_history import MetadataHistory
from tests.faults.metadata_truth import MetadataTruth
from tests.faults.world import STANDBY, PipelineWorld
from tests.support.imitated_brokers import ImitatedBrokers, ImitatedPartition
from tests.support.release_jars import nodes_jars
from tests.support.releases import KAFKA_4_4, Release
from tests.support.tcp_proxy import Network, ports_of
from tests.support.waiting import wait_until

VOTERS = (3001, 3002, 3003)
SNAPSHOT_BYTES = 20_000
"""Of records after which each controller makes a snapshot: several in a run."""


class SteadyIsrChanges(SteadyWriter):
    """Leaders that change the ISR of a partition several times a second."""

    go_on_deadline_s = stop_deadline_s = 60.0
    """A request may be under way to a quorum that does not answer."""

    def __init__(self, cluster: KraftCluster, release: Release, truth: MetadataTruth) -> None:
        """Describe the brokers; `start` registers them."""
        super().__init__()
        self.brokers = ImitatedBrokers(cluster, release)
        self._truth = truth
        self._partitions: list[ImitatedPartition] = []

    def start(self) -> None:
        """Register the brokers, create the topics, and start."""
        self.brokers.__enter__()
        for broker in BROKERS:
            self.brokers.register(broker)
        wait_until(lambda: self._truth.figures().brokers, lambda live: live == BROKERS)
        for topic in range(TOPICS):
            turned = [BROKERS[n:] + BROKERS[:n] for n in range(len(BROKERS))]
            assignment = list(itertools.islice(itertools.cycle(turned), PARTITIONS))
            self._partitions += self.brokers.create_topic(f"steady-{topic}", assignment)
        super().start()

    def close(self) -> None:
        """Stop, and let the brokers go."""
        super().close()
        self.brokers.__exit__(None, None, None)

    def write(self, number: int) -> int:
        """Change the ISR of a partition, if it is led and somebody leads the quorum."""
        partition = self._partitions[number % len(self._partitions)]
        held = self._truth.led().get((partition.topic_id, partition.number))
        if held is None or held.leader < 0:
            return 0
        partition.leader, partition.leader_epoch, partition.partition_epoch = held
        others = [each for each in partition.replicas if each != partition.leader]
        isr = [partition.leader, *others[: 1 + number // len(self._partitions) % 2]]
        try:
            return self.brokers.alter_isr([partition], isr)
        except (AssertionError, KcmError, OSError):
            return 0


class KraftWorld(PipelineWorld):
    """A quorum, its brokers, the changes, and the readers of both sides."""

    truth: MetadataTruth
    changes: SteadyIsrChanges

    def __init__(
        self,
        supervisor: Supervisor,
        jars: Jars,
        options: Mapping[str, str] | None = None,
        *,
        release: Release = KAFKA_4_4,
    ) -> None:
        """Describe everything; `options` are settings of the parts."""
        self._stack = ExitStack()
        network = self._stack.enter_context(Network())
        self.cluster = KraftCluster(
            supervisor,
            nodes_jars(release),
            supervisor.folder / "data" / "kraft",
            controllers=VOTERS,
            brokers=(),
            properties={"metadata.log.max.record.bytes.between.snapshots": SNAPSHOT_BYTES},
        )
        quorum = self.cluster.quorum
        self.voter_wires = {voter: network.proxy(port) for voter, port in quorum.ports.items()}
        quorum.reached_at = {voter: wire.port for voter, wire in self.voter_wires.items()}
        log_dirs = [node.log_dir for node in self.cluster.controllers.values()]
        truth = MetadataTruth(log_dirs)
        controllers = {
            "controllers": quorum.bootstrap_controllers,
            "controller_cluster_id": quorum.cluster_id,
        }
        super().__init__(
            supervisor,
            jars,
            network,
            truth,
            SteadyIsrChanges(self.cluster, release, truth),
            zookeeper=None,
            options={**controllers, **(options or {})},
            of_standby={},
        )
        self.history = MetadataHistory(log_dirs, lambda: self.pipeline_kafka.bootstrap_servers)

    def __enter__(self) -> Self:
        """Start everything and wait until the monitor is up to date."""
        self.cluster.start()
        self.pipeline.start()
        super().__enter__()
        self._begin()
        return self

    def __exit__(self, *error: object) -> None:
        """Stop the test's own clients; the supervisor stops the servers."""
        self._end()
        super().__exit__(*error)
        self._stack.close()

    def revive(self) -> None:
        """Start each controller that does not run, and wait until one leads."""
        down = [node for node in self.cluster.controllers.values() if not node.running]
        for node in down:
            node.start(wait=False)
        for node in down:
            node.wait_ready()
        self.cluster.await_leader()

    def watchers(self, *, two: bool) -> None:
        """Run one watcher or two."""
        if two and not self._standby.running:
            self._standby.start()
            self._standby.wait_ready()
        elif not two:
            self._standby.stop()

    def shun_watcher(self, name: str) -> None:
        """Let no controller answer one of two watchers; the controllers reach each other and the other watcher."""
        pids = self.pids_of_watcher(name)
        for wire in self.voter_wires.values():
            wire.shun(lambda port: any(port in ports_of(pid) for pid in pids))

    def reach_watcher(self) -> None:
        """Let the controllers answer everybody again."""
        for wire in self.voter_wires.values():
            wire.accept()

    def status(self) -> str:
        """Return the status that is shown now."""
        return self.sampler.sample().status

    def dead(self) -> set[int]:
        """Return the controllers that do not run."""
        return {voter for voter, node in self.cluster.controllers.items() if not node.running}

    def leader(self) -> Leader:
        """Return the active controller."""
        return self.cluster.await_leader()

    def pids_of(self, *voters: int) -> list[int]:
        """Return the processes of controllers."""
        return [self.cluster.controllers[voter].pid or 0 for voter in voters]

    def pids_of_watcher(self, name: str) -> list[int]:
        """Return the process of one of two watchers."""
        return [self._standby.pid or 0] if name == STANDBY else self.pids("watcher")
