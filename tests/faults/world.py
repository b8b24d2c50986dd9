"""The servers that the faults hit: an ensemble, brokers, the whole pipeline, and the connections between them.

The rule: every connection that a cell may cut goes through its own proxy, and processes that end
are restarted as `kcm up` does it.
"""

from __future__ import annotations

import shutil
import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Self

import httpx
from confluent_kafka.admin import NewTopic

from kcm.demo.cluster import BROKER_PROPERTIES, Load
from kcm.demo.truth import KafkaTruth, figures_of_znodes
from kcm.run.exporter_client import ANSWER_DEADLINE_S, parse_scrape
from kcm.run.pipeline_processes import PARTS, Pipeline
from kcm.run.process_restarter import ProcessRestarter
from kcm.servers.guard import process_table
from kcm.servers.jars import Jars
from kcm.servers.kafka import KraftBroker, ZooKeeperModeBroker
from kcm.servers.ports import HOST, free_port
from kcm.servers.process import Process
from kcm.servers.quorum import Properties
from kcm.servers.supervisor import Supervisor
from kcm.servers.zookeeper import ZooKeeper
from pipeline.runtime import ENV_PREFIX
from tests.faults.changes import SteadyChanges
from tests.faults.clocks import Clock
from tests.faults.history import History
from tests.faults.sides import Changing, ReadTruth, Sides
from tests.faults.truth import Truth
from tests.support.hanging import command_line
from tests.support.tcp_proxy import Network, TcpProxy
from tests.support.waiting import wait_until
from zk_source.ensemble.four_letter_words import four_letter_word

CLUSTER = "faults"
MEMBERS = (1, 2, 3)
BROKER_IDS = (0, 1, 2)
BROKER_SESSION_MS = 4000
STANDBY = "standby"
LEADS = "kcm_watcher_leader"
METRICS_PORT = f"{ENV_PREFIX}WATCHER_METRICS_PORT"
ELECTION = f"{ENV_PREFIX}ELECTION_PATH"
REAL_TOPIC = "orders"
REAL_PARTITIONS = 6
STEP_S = 0.25
SYNC_LIMIT = "40"
"""Ticks of 250 ms for which a follower may be late before its leader drops it: 10 s, as in ZooKeeper's examples."""
READY_DEADLINE_S = 300.0
"""For a broker: while all start at once on busy cores each is slow."""


class _ClockedZooKeeper(ZooKeeper):
    """A ZooKeeper that may have a clock of its own, from its next start on."""

    prefix: Sequence[str] = ()

    def prepare(self) -> list[str]:
        """Write zoo.cfg and return the command line."""
        return [*self.prefix, *super().prepare()]


class Ensemble:
    """Three ZooKeeper servers whose links to each other are proxies."""

    def __init__(self, supervisor: Supervisor, jars: Jars, folder: Path, network: Network) -> None:
        """Describe the servers; nothing is started yet."""
        quorum = {member: free_port() for member in MEMBERS}
        election = {member: free_port() for member in MEMBERS}
        self.links: dict[tuple[int, int], TcpProxy] = {
            (member, other): network.proxy(quorum[other])
            for member in MEMBERS
            for other in MEMBERS
            if member != other
        }
        """From a member to the quorum port of another: only a follower connects to its leader."""
        self.members: dict[int, _ClockedZooKeeper] = {}
        for member in MEMBERS:
            servers = {
                f"server.{other}": f"{HOST}:{port}:{election[other]}"
                for other in MEMBERS
                for port in [self.links[member, other].port if other != member else quorum[member]]
            }
            limits = {"initLimit": "40", "syncLimit": SYNC_LIMIT}
            self.members[member] = _ClockedZooKeeper(
                supervisor,
                jars,
                folder / f"zookeeper-{member}",
                name=f"zookeeper-{member}",
                properties=servers | limits,
            )

    def start(self) -> None:
        """Start all members and wait until they serve."""
        for member in self.members:
            self.start_member(member, wait=False)
        for server in self.members.values():
            server.wait_ready()

    def start_member(self, member: int, *, wait: bool = True) -> None:
        """Start one member; its data is still there, or its disk is new."""
        data = self.members[member].data_dir / "data"
        data.mkdir(parents=True, exist_ok=True)
        (data / "myid").write_text(f"{member}\n")
        self.members[member].start(wait=wait)

    def wipe(self, member: int) -> None:
        """Delete all data of a member that does not run."""
        shutil.rmtree(self.members[member].data_dir / "data")

    def leader(self) -> int:
        """Return the member that leads."""
        return wait_until(self._leader, lambda found: found is not None) or 0

    def _leader(self) -> int | None:
        for member, server in self.members.items():
            try:
                if "Mode: leader" in four_letter_word(HOST, server.port, "srvr"):
                    return member
            except OSError:
                continue
        return None


class _WiredKafka(KraftBroker):
    """The pipeline's Kafka with a separate listener and proxy for each part."""

    def __init__(
        self, supervisor: Supervisor, jars: Jars, data_dir: Path, network: Network
    ) -> None:
        super().__init__(supervisor, jars, data_dir)
        self.prefix: Sequence[str] = ()
        """The beginning of its command line, from its next start on."""
        self._own_ports = {part: free_port() for part in (*PARTS, STANDBY)}
        self.wires = {part: network.proxy(port) for part, port in self._own_ports.items()}

    def prepare(self) -> list[str]:
        """Write server.properties and return the command line."""
        return [*self.prefix, *super().prepare()]

    def config(self) -> Properties:
        """Return a single node's properties, with one more listener for each part."""
        config = dict(super().config())
        for part, port in self._own_ports.items():
            name = part.upper()
            config["listeners"] = f"{config['listeners']},{name}://{HOST}:{port}"
            config["advertised.listeners"] = (
                f"{config['advertised.listeners']},{name}://{self.wires[part].address}"
            )
            known = config["listener.security.protocol.map"]
            config["listener.security.protocol.map"] = f"{known},{name}:PLAINTEXT"
        return config


class PipelineWorld(Sides):
    """The whole pipeline, each part with its own proxy to the pipeline's Kafka, and a second watcher; restarted as by `kcm up`."""

    def __init__(
        self,
        supervisor: Supervisor,
        jars: Jars,
        network: Network,
        truth: ReadTruth,
        changes: Changing,
        *,
        zookeeper: str | None,
        options: Mapping[str, str] | None,
        of_standby: Mapping[str, str],
    ) -> None:
        """Describe the parts; `of_standby` are the second watcher's own variables."""
        self.pipeline = Pipeline(
            supervisor=supervisor,
            jars=jars,
            data_dir=supervisor.folder / "data" / "pipeline",
            cluster=CLUSTER,
            zookeeper=zookeeper,
            options=options,
        )
        self.pipeline_kafka = _WiredKafka(
            supervisor, jars, self.pipeline.data_dir / "kafka", network
        )
        self.pipeline.broker = self.pipeline_kafka
        for part, process in self.pipeline.processes.items():
            address = self.pipeline_kafka.wires[part].address
            process.env[f"{ENV_PREFIX}BOOTSTRAP_SERVERS"] = address
            process.argv = command_line(PARTS[part].verb)
        self._standby = self._describe_standby(supervisor, of_standby)
        super().__init__(truth, changes, self.pipeline.exporter_url, CLUSTER)
        self._restarter = ProcessRestarter(self.pipeline, fail_fast=False)
        self._restarting = threading.Lock()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._restart, name="restarter", daemon=True)

    def _begin(self) -> None:
        """Watch the parts, and wait until the monitor is up to date."""
        self._thread.start()
        self.pipeline.processes["stream"].wait_ready()
        self._restarter.has_worked()
        self.wait_for_agreement()

    def _end(self) -> None:
        """Restart nothing any more."""
        self._stop.set()
        self._thread.join()
        self._restarter.close()

    def pids(self, part: str) -> list[int]:
        """Return the processes of a part of the pipeline: those that run its code, not its guard."""
        if part == "kafka":
            return _own(self.pipeline_kafka)
        driver = self.pipeline.processes["stream"].pid
        if part == "jvm":
            return [] if driver is None else _children([driver])
        if part == "worker":
            return _children(_children(self.pids("jvm")))
        return _own(self.pipeline.processes["stream" if part == "driver" else part])

    @contextmanager
    def hands_off(self) -> Iterator[None]:
        """Restart nothing within the block."""
        with self._restarting:
            yield

    def leading_watcher(self) -> str:
        """Return which watcher writes the log, "watcher" or "standby"; "" if none, or both, say so."""
        found = [name for name, port in self._watcher_ports.items() if _leads(port)]
        return found[0] if len(found) == 1 else ""

    @property
    def _watcher_ports(self) -> dict[str, int]:
        first = self.pipeline.listens_at["watcher"][1]
        return {"watcher": first, STANDBY: int(self._standby.env[METRICS_PORT])}

    def _describe_standby(self, supervisor: Supervisor, own: Mapping[str, str]) -> Process:
        """Return a second watcher, with connections of its own."""
        port = free_port()
        address = self.pipeline_kafka.wires[STANDBY].address
        own = {f"{ENV_PREFIX}BOOTSTRAP_SERVERS": address, METRICS_PORT: str(port), **own}
        return Process(
            supervisor,
            STANDBY,
            command_line(PARTS["watcher"].verb),
            env={**self.pipeline.processes["watcher"].env, **own},
            health=lambda: None if _leads(port) is False else "no answer, or it leads",
            ready_deadline_s=READY_DEADLINE_S,
        )

    def _restart_now(self, process: Process) -> None:
        """Restart a process of the pipeline, as `kcm up` does it."""
        before = process.pid
        process.stop()
        wait_until(lambda: process.pid not in {before, None}, deadline_s=READY_DEADLINE_S)

    def _restart(self) -> None:
        while not self._stop.wait(STEP_S):
            with self._restarting:
                now = time.strftime("%H:%M:%S")
                self.said += [f"{now} {line}" for line in self._restarter.step()]


class World(PipelineWorld):
    """All servers, the changes to them, and the readers of both sides."""

    truth: Truth

    def __init__(
        self, supervisor: Supervisor, jars: Jars, options: Mapping[str, str] | None = None
    ) -> None:
        """Describe everything; `options` are settings of the parts."""
        self._stack = ExitStack()
        folder = supervisor.folder / "data"
        network = self._stack.enter_context(Network())
        self.ensemble = Ensemble(supervisor, jars, folder, network)
        self.zookeeper_wires = {
            client: {
                member: network.proxy(server.port)
                for member, server in self.ensemble.members.items()
            }
            for client in ("watcher", STANDBY, "truth", *map(str, BROKER_IDS))
        }
        """By client, then by member: the paths of both watchers, the test and each broker to ZooKeeper."""
        self.brokers = {
            broker_id: ZooKeeperModeBroker(
                broker_id,
                supervisor,
                jars,
                folder / f"kafka-{broker_id}",
                zookeeper_connect=self.ensemble.members[MEMBERS[0]].connect_string,
                session_timeout_ms=BROKER_SESSION_MS,
                properties={**BROKER_PROPERTIES, "zookeeper.connect": self._wired(str(broker_id))},
            )
            for broker_id in BROKER_IDS
        }
        for broker in self.brokers.values():
            broker.ready_deadline_s = READY_DEADLINE_S
        hosts = self._wired("truth")
        super().__init__(
            supervisor,
            jars,
            network,
            Truth(hosts),
            SteadyChanges(hosts),
            zookeeper=self._wired("watcher"),
            options=options,
            of_standby={
                f"{ENV_PREFIX}ZOOKEEPER": self._wired(STANDBY),
                ELECTION: "/kcm/election",
            },
        )
        self.clock = Clock(supervisor.folder / "clock")
        """The clock of the part that `give_clock` named."""
        self._clocked = ""
        self.kafka = KafkaTruth(self._bootstrap_servers)
        self.load = Load(self._bootstrap_servers)
        self.history = History(
            [server.data_dir / "data" for server in self.ensemble.members.values()],
            lambda: self.pipeline_kafka.bootstrap_servers,
        )

    @property
    def _bootstrap_servers(self) -> str:
        return ",".join(broker.bootstrap_servers for broker in self.brokers.values())

    def _wired(self, client: str) -> str:
        return ",".join(wire.address for wire in self.zookeeper_wires[client].values())

    def __enter__(self) -> Self:
        """Start everything and wait until the monitor is up to date."""
        self.ensemble.start()
        for broker in self.brokers.values():
            broker.start(wait=False)
        self.pipeline.start()
        for broker in self.brokers.values():
            broker.wait_ready()
        new = NewTopic(REAL_TOPIC, num_partitions=REAL_PARTITIONS, replication_factor=3)
        self.kafka.admin.create_topics([new], request_timeout=60)[REAL_TOPIC].result()
        self.load.write_to(REAL_TOPIC, REAL_PARTITIONS)
        super().__enter__()
        self._begin()
        return self

    def __exit__(self, *error: object) -> None:
        """Stop the test's own clients; the supervisor stops the servers."""
        self._end()
        self.load.close()
        super().__exit__(*error)
        self._stack.close()

    def revive(self) -> None:
        """Start what nothing else starts, and wait until it serves."""
        for member, server in self.ensemble.members.items():
            if not server.running:
                self.ensemble.start_member(member, wait=False)
        for server in self.ensemble.members.values():
            server.wait_ready()
        down = [broker for broker in self.brokers.values() if not broker.running]
        for broker in down:
            broker.start(wait=False)
        for broker in down:
            broker.wait_ready()

    # What the cells do to the servers

    def give_clock(self, part: str) -> None:
        """Run a part on `clock` from now on, and the one that had it before on the machine's; "" is no part."""
        if part == self._clocked:
            return
        self.clock.step(0)
        for name, prefix in ((self._clocked, []), (part, self.clock.prefix)):
            if name == "ZooKeeper":
                for member, server in self.ensemble.members.items():
                    server.prefix = prefix
                    server.stop()
                    self.ensemble.start_member(member)
            elif name == "kafka":
                self.pipeline_kafka.prefix = prefix
                self._restart_now(self.pipeline_kafka)
            elif name:
                process = self.pipeline.processes[name]
                process.argv = [*prefix, *command_line(PARTS[name].verb)]
                self._restart_now(process)
        self._clocked = part

    def elect_watchers(self, *, several: bool) -> None:
        """Run one of two watchers, which an election chooses, or a single watcher without an election."""
        if self._standby.running == several:
            return
        self._standby.stop()
        watcher = self.pipeline.processes["watcher"]
        watcher.env[ELECTION] = "/kcm/election" if several else ""
        self._restart_now(watcher)
        if several:
            wait_until(lambda: self.leading_watcher() == "watcher", deadline_s=READY_DEADLINE_S)
            self._standby.start()
            self._standby.wait_ready()

    def wires_of_watcher(self, name: str, *, to: str) -> list[TcpProxy]:
        """Return the connections of one of two watchers to "kafka" or to "zookeeper"."""
        if to == "kafka":
            return [self.pipeline_kafka.wires[name]]
        return list(self.zookeeper_wires[name].values())

    def controller(self) -> int:
        """Return which real broker is the controller."""
        return wait_until(
            lambda: figures_of_znodes(self.truth.now()).controller, lambda id_: id_ >= 0
        )


def _leads(port: int) -> bool | None:
    """Return whether a watcher says that it leads; None if it does not answer."""
    try:
        answer = httpx.get(f"http://{HOST}:{port}/metrics", timeout=ANSWER_DEADLINE_S)
    except httpx.HTTPError:
        return None
    return parse_scrape(answer.text, CLUSTER, {LEADS}).get((LEADS, "")) == 1


def _own(process: Process) -> list[int]:
    return [] if process.pid is None else [process.pid]


def _children(pids: Iterable[int]) -> list[int]:
    wanted = set(pids)
    return [pid for pid, parent, _, state in process_table() if parent in wanted and state != "Z"]
