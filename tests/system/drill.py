"""Failures of the demo's cluster and monitor that are too rare, too long or too harsh for the demo.

Real servers, real failures. Broker 0 keeps its ZooKeeper session for long, so that it may
hang and stay what it is; broker 1 for half a minute; broker 2 loses it within seconds. The monitor's
intervals are shorter than the shipped ones, so that what takes minutes shows within seconds.
"""

from __future__ import annotations

import json
import os
import re
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from confluent_kafka import KafkaException
from confluent_kafka.admin import NewTopic
from kazoo.client import KazooClient
from kazoo.exceptions import NoNodeError

from kcm.demo.cluster import BROKER_PROPERTIES, ELECTION_DEADLINE_S, Load
from kcm.demo.figures import TrueFigures
from kcm.demo.truth import ZooKeeperTruth
from kcm.servers.guard import process_table
from kcm.servers.jars import Jars
from kcm.servers.kafka import ZooKeeperModeBroker
from kcm.servers.prometheus import Prometheus
from kcm.servers.zookeeper import ZooKeeper
from pipeline.runtime import ENV_PREFIX
from tests.support.prometheus_answers import ask, firing
from tests.support.waiting import wait_until
from tests.system.hasty_rules import write_rules
from tests.system.noted_story import ZooKeeperRun

SESSION_MS = {0: 100_000, 1: 30_000, 2: 4_000}
"""Broker 0 hangs for longer than a zombie needs to be reported; broker 2 is the one that dies."""

RACKS = {0: "a", 1: "b", 2: "b"}
"""Two brokers share one, so that a topic can be lost with it."""

TWO_DISKS = 2
"""The broker with two log directories, of which it may lose one."""

CANNOT_LEAD_ON = re.compile(
    rb"ReplicaStateMachine .* Controller moved to another broker when moving some replicas"
)
"""A controller was deposed while it sent requests for replicas. What it had not sent by then it never
sends, and never drops: elected again, it moves no replica any more (KAFKA-12315)."""

SCRAPE_S = 0.5
DEADLINE_S = 90.0
QUIET_S = 3 * DEADLINE_S

CONDITIONS = (
    "kcm_cluster_up == 1",
    "kcm_cluster_incomplete == 0",
    "kcm_cluster_divergent == 0",
    "kafka_cluster_offline_partitions == 0",
    "kafka_cluster_under_replicated_partitions == 0",
    "kafka_cluster_preferred_replica_imbalance == 0",
)
WELL = " and on (cluster) ".join(CONDITIONS)

OPTIONS = {
    "reconciliation_interval_s": "5",
    "heartbeat_s": "3",
    "resync_reads_per_s": "60",
    "buffer_changes": "30",
}
"""A resync of 150 znodes takes seconds and can be seen; a burst while Kafka is away overflows."""


class Drill:
    """The demo's servers after its story has ended, and the failures that can be caused on them."""

    def __init__(self, scene: ZooKeeperRun, jars: Jars) -> None:
        """Describe what the drill needs beside the scene; nothing is changed yet."""
        self._deposed_at_work: Counter[int] = Counter()
        """How often each broker was, of which it was restarted: see `CANNOT_LEAD_ON`."""
        self._jars = jars
        self.supervisor = scene.supervisor
        self._scene = scene
        self.cluster = scene.cluster
        self.pipeline = scene.pipeline
        folder = scene.supervisor.folder / "drill"
        folder.mkdir()
        self.prometheus = Prometheus(
            self.supervisor,
            folder / "prometheus",
            targets={"kcm": self.pipeline.metrics_addresses},
            rule_files=[write_rules(folder / "rules")],
            scrape_interval_s=SCRAPE_S,
        )

    @property
    def brokers(self) -> dict[int, ZooKeeperModeBroker]:
        """The watched brokers by id."""
        return self.cluster.brokers

    @property
    def zookeeper(self) -> KazooClient:
        """A client of the watched ZooKeeper; a step may have killed that, and with it the client's session."""
        client = self.cluster.truth.client
        wait_until(lambda: client.connected)
        return client

    def start(self) -> None:
        """Begin with an empty cluster, and servers and a watcher that have the drill's settings."""
        self._scene.monitor.close()
        self.cluster.close()
        self._forget_topics()
        self.supervisor.stop(self.brokers.values())
        self.cluster.zookeeper.stop()
        self._describe_servers()
        self.cluster.zookeeper.start()
        watcher = self.pipeline.processes["watcher"]
        watcher.env.update({f"{ENV_PREFIX}{name.upper()}": OPTIONS[name] for name in OPTIONS})
        watcher.stop()
        watcher.start()
        self.brokers[0].start()
        for broker_id in (1, 2):
            self.brokers[broker_id].start(wait=False)
        for broker in self.brokers.values():
            broker.wait_ready()
            # Depositions before the drill do not count.
            self._deposed_at_work[broker.broker_id] = self._times_deposed_at_work(broker)
        self.cluster.truth = ZooKeeperTruth(self.cluster.zookeeper.connect_string)
        self.cluster.load = Load(self.cluster.bootstrap_servers)
        self.cluster.truth.client.start(timeout=DEADLINE_S)
        self._await_no_topics()
        self.prometheus.start()
        self.pipeline.processes["stream"].wait_ready()
        self.await_true("kcm_cluster_up == 1 and on (cluster) kafka_cluster_brokers == 3")
        self.await_well()

    def _forget_topics(self) -> None:
        """Delete the story's topics, so that each step finds what it made and nothing else."""
        admin = self.cluster.kafka.admin
        topics = [name for name in admin.list_topics(timeout=DEADLINE_S).topics if name[0] != "_"]
        for deleted in admin.delete_topics(topics).values() if topics else ():
            deleted.result()
        wait_until(
            lambda: [
                name for name in admin.list_topics(timeout=DEADLINE_S).topics if name[0] != "_"
            ],
            lambda left: left == [],
            deadline_s=DEADLINE_S,
        )

    def _await_no_topics(self) -> None:
        """Wait until all brokers are there and nothing of the story's topics is left.

        Kafka's metadata forgets a topic when its deletion begins; until it has ended, no topic of that
        name can be created. A controller that was deposed at work does not end it (`CANNOT_LEAD_ON`).
        """
        wait_until(self._true_figures, self._is_complete, deadline_s=DEADLINE_S)
        topics, deletions = "/brokers/topics", "/admin/delete_topics"
        wait_until(
            lambda: [
                name
                for path in (topics, deletions)
                for name in self.zookeeper.get_children(path)
                if name[0] != "_"
            ],
            lambda left: left == [],
            deadline_s=DEADLINE_S,
        )

    def _describe_servers(self) -> None:
        """Describe the servers again, with the drill's sessions, racks and log directories."""
        cluster = self.cluster
        old = cluster.zookeeper
        cluster.zookeeper = ZooKeeper(
            self.supervisor,
            self._jars,
            old.data_dir,
            port=old.port,
            properties={"maxSessionTimeout": "120000"},
        )
        for broker_id, former in cluster.brokers.items():
            cluster.brokers[broker_id] = ZooKeeperModeBroker(
                broker_id,
                self.supervisor,
                self._jars,
                former.data_dir,
                zookeeper_connect=old.connect_string,
                port=former.port,
                session_timeout_ms=SESSION_MS[broker_id],
                properties=_properties(broker_id, former.data_dir),
            )

    def close(self) -> None:
        """Stop the drill's own clients."""
        self.cluster.load.close()
        self.cluster.truth.client.stop()
        self.cluster.truth.client.close()

    def seen(self, query: str) -> list[str]:
        """Return what Prometheus answers now, one line for each series."""
        found = ask(self.prometheus.url, "query", query=query)
        return [f"{each['metric']} {each['value'][1]}" for each in found]

    def figure(self, query: str) -> float:
        """Return what Prometheus answers as soon as it answers: one value, of one series."""
        answers = wait_until(
            lambda: ask(self.prometheus.url, "query", query=query), deadline_s=DEADLINE_S
        )
        return float(answers[0]["value"][1])

    def await_true(self, query: str, *, deadline_s: float = DEADLINE_S) -> None:
        """Wait until the query has an answer."""
        try:
            wait_until(lambda: self.seen(query), deadline_s=deadline_s)
        except AssertionError as error:
            raise AssertionError(f"{query}: {error}") from error

    def await_firing(self, *alerts: str, deadline_s: float = DEADLINE_S) -> None:
        """Wait until each of the alerts has been seen firing."""
        for alert in alerts:
            self.await_true(firing(alert), deadline_s=deadline_s)

    def await_silent(self, *alerts: str, deadline_s: float) -> None:
        """Wait until none of the alerts fires: an alert of an earlier failure proves nothing."""
        for alert in alerts:
            self.await_true(f"absent({firing(alert)})", deadline_s=deadline_s)

    def await_quiet(self) -> None:
        """Let the cluster recover and wait until the monitor reports it as healthy.

        Kafka must be healthy first, and moves the leaders back: brokers that hung and
        controllers that were deposed leave them elsewhere, more of them the busier the machine is.
        A broker may lose its session at any time, then all of that is done again. While Kafka is
        healthy the monitor must follow.
        """
        deadline = time.monotonic() + QUIET_S
        while True:
            self._recover()
            if self.await_well(until=lambda: not self._is_balanced(self._true_figures())):
                return
            assert time.monotonic() < deadline, f"Kafka is not healthy for long in {QUIET_S:g} s"

    def _recover(self) -> None:
        """Wait until Kafka is healthy, and let it move the leaders back.

        A controller that does not finish is deposed: the next one reads the whole state again.
        A controller that was deposed during its work is restarted.
        """
        try:
            self._recover_once()
        except (AssertionError, TimeoutError):
            self.depose()
            self._recover_once()

    def _recover_once(self) -> None:
        wait_until(self._true_figures, self._is_complete, deadline_s=DEADLINE_S)
        self.cluster.elect_preferred()

    def _true_figures(self) -> TrueFigures | None:
        """Return Kafka's figures; first restart brokers that could not work as controllers."""
        for broker_id, broker in self.brokers.items():
            times = self._times_deposed_at_work(broker)
            if times > self._deposed_at_work[broker_id]:
                broker.stop()
                broker.start()
            self._deposed_at_work[broker_id] = times
        return self.cluster.kafka.read()

    @staticmethod
    def _times_deposed_at_work(broker: ZooKeeperModeBroker) -> int:
        return len(CANNOT_LEAD_ON.findall(broker.log_path.read_bytes()))

    def _is_complete(self, now: TrueFigures | None) -> bool:
        """Return whether every broker is there and every replica in sync, as Kafka says."""
        if now is None or now.controller < 0 or len(now.brokers) < len(self.brokers):
            return False
        return now.offline == now.under_replicated == 0

    def _is_balanced(self, now: TrueFigures | None) -> bool:
        """Return whether Kafka is healthy and all leaders are the preferred ones; True while Kafka does not say it."""
        return now is None or (self._is_complete(now) and now.imbalance == 0)

    def bring_back(self) -> None:
        """Start servers that an aborted step left dead, and resume those it left paused."""
        parts = self.pipeline.processes.values()
        own = [] if self.pipeline.broker is None else [self.pipeline.broker]
        for server in (self.cluster.zookeeper, *self.brokers.values(), *own, *parts):
            if server.running:
                server.resume()
            else:
                server.start()

    def await_well(self, until: Callable[[], bool] = lambda: False) -> bool:
        """Wait until figures are live and only alerts over a time window are left, or `until` is true; return whether they are."""
        try:
            well, _ = wait_until(
                lambda: (bool(self.seen(WELL)), until()), any, deadline_s=2 * DEADLINE_S
            )
        except AssertionError as error:
            unmet = [each for each in CONDITIONS if not self.seen(each)]
            raise AssertionError(f"{error}; not met: {', '.join(unmet)}") from error
        return well

    def create_topic(
        self,
        name: str,
        assignment: Sequence[Sequence[int]],
        config: Mapping[str, str] | None = None,
    ) -> None:
        """Create a topic with these replicas for its partitions, and write to it.

        Kafka is asked again until it is there: the client holds on to a controller that was, and an
        answer can be lost with the broker that it was expected from.
        """
        new = NewTopic(
            name,
            num_partitions=len(assignment),
            replica_assignment=[list(replicas) for replicas in assignment],
            config=dict(config or {}),
        )
        wait_until(lambda: self._ask_for(new), lambda why: why == "", deadline_s=DEADLINE_S)
        self.cluster.load.write_to(name, len(assignment))

    def _ask_for(self, new: NewTopic) -> str:
        """Return why the topic is not there yet; empty when it is."""
        admin = self.cluster.kafka.admin
        try:
            # Requested first: it also updates the client's controller.
            found = admin.list_topics(timeout=15).topics.get(new.topic)
            if found is None or len(found.partitions) != new.num_partitions:
                admin.create_topics([new], request_timeout=15)[new.topic].result()
        except KafkaException as error:
            return str(error)
        return ""

    def controller(self) -> int:
        """Return the broker id in /controller; -1 without a controller."""
        try:
            data, _ = self.zookeeper.get("/controller")
        except NoNodeError:
            return -1
        return int(json.loads(data)["brokerid"])

    def isr(self, topic: str, partition: int = 0) -> list[int]:
        """Return the ISR as it is written."""
        data, _ = self.zookeeper.get(f"/brokers/topics/{topic}/partitions/{partition}/state")
        members: list[int] = json.loads(data)["isr"]
        return members

    def registered(self, broker_id: int) -> bool:
        """Return whether the broker's znode is there."""
        return self.zookeeper.exists(f"/brokers/ids/{broker_id}") is not None

    def delete_controller(self) -> None:
        """Delete /controller once every live broker watches it: otherwise none would be elected."""
        self._await_watches()
        self.zookeeper.delete("/controller")

    def depose(self) -> None:
        """Delete /controller and wait until a broker has taken it again."""
        self._await_watches()
        self.cluster.controller.depose(ELECTION_DEADLINE_S)

    def _await_watches(self) -> None:
        # A registration may outlive its broker's connection for as long as its session lasts.
        wait_until(
            self.cluster.controller.watched_by_all,
            deadline_s=max(SESSION_MS.values()) / 1000 + DEADLINE_S,
        )

    def hang_spark(self) -> None:
        """Let the fold's JVM hang (SIGSTOP) until it is killed; the fold itself still serves."""
        fold = self.pipeline.processes["stream"].pid
        for pid, parent, _, _ in process_table():
            if parent == fold:
                os.kill(pid, signal.SIGSTOP)

    def make_controller(self, broker_id: int) -> None:
        """Make a broker the controller: all others are paused while /controller is free."""
        if self.controller() == broker_id:
            return
        with self.paused(*(set(self.brokers) - {broker_id})):
            self.delete_controller()
            wait_until(self.controller, lambda now: now == broker_id)

    @contextmanager
    def paused(self, *broker_ids: int) -> Iterator[None]:
        """Pause brokers (SIGSTOP), and resume them afterwards."""
        for broker_id in broker_ids:
            self.brokers[broker_id].pause()
        try:
            yield
        finally:
            for broker_id in broker_ids:
                self.brokers[broker_id].resume()

    @contextmanager
    def controller_znode_taken(self, broker_id: int) -> Iterator[None]:
        """Create /controller in a broker's name, by the same transaction as Kafka.

        A real broker cannot be made to hang right after its election.
        """
        client = KazooClient(hosts=self.cluster.zookeeper.connect_string)
        client.start(timeout=20)
        epoch = int(client.get("/controller_epoch")[0])
        held = {"version": 1, "brokerid": broker_id, "timestamp": str(round(time.time() * 1000))}
        taking = client.transaction()
        taking.delete("/controller")
        taking.create("/controller", json.dumps(held).encode(), ephemeral=True)
        taking.set_data("/controller_epoch", str(epoch + 1).encode())
        try:
            done = taking.commit()
            assert not any(isinstance(each, Exception) for each in done), done
            yield
        finally:
            client.stop()
            client.close()


def _properties(broker_id: int, data_dir: Path) -> dict[str, str | int]:
    properties = {**BROKER_PROPERTIES, "broker.rack": RACKS[broker_id]}
    if broker_id == TWO_DISKS:
        properties["log.dirs"] = ",".join(map(str, disks(data_dir)))
    return properties


def disks(data_dir: Path) -> list[Path]:
    """Return the log directories of the broker that has two."""
    return [data_dir / "disk-a", data_dir / "disk-b"]
