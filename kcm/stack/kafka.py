"""Real Kafka 3.9 brokers: in ZooKeeper mode to be watched, in KRaft mode for our own topics.

All listen on the loopback address only. A broker is ready when it answers a metadata request and
counts itself among the live brokers of a cluster that has a controller.
"""

from __future__ import annotations

import base64
import time
import uuid
from typing import TYPE_CHECKING, TypedDict, Unpack

from kcm.jars.java import find_java, server_command
from kcm.processes.errors import StackError
from kcm.processes.ports import HOST, free_port
from kcm.stack.kafka_probe import ProbeError, ask_brokers
from kcm.stack.server import LOG_PROPERTIES, Server
from zk_source.zookeeper.four_letter_words import four_letter_word

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from kcm.jars.jars import Jars
    from kcm.processes.supervisor import Supervisor
    from pipeline.java import Java

MAIN_CLASS = "kafka.Kafka"
MIB = 1 << 20
MESSAGE_MAX_BYTES = 8 * MIB + MIB // 2  # a message of 8 MiB and its batch's overhead
CLEANER_BUFFER_BYTES = 16 * MIB  # the default of 128 MiB is half of our heap
DEFAULT_ZOOKEEPER_PORT = 2181  # ZooKeeper's own
EXPIRY_MARGIN_S = 10.0  # ZooKeeper expires sessions at its next tick; a busy one is late
EXPIRY_POLL_S = 0.05  # how often to look whether a session has expired
KRAFT_SESSION_MS = 2000  # the default of 9 s is what a restart after a crash would take
READY_DEADLINE_S = 60.0  # three brokers at once on two busy cores take 9 s

Properties = dict[str, str | int]

FRUGAL: Properties = {
    "num.network.threads": 2,
    "num.io.threads": 4,
    "background.threads": 4,
    "num.recovery.threads.per.data.dir": 1,
    "log.cleaner.dedupe.buffer.size": CLEANER_BUFFER_BYTES,
    "auto.create.topics.enable": "false",
    "group.initial.rebalance.delay.ms": 0,
}
SMALL_CLUSTER: Properties = {
    "zookeeper.connection.timeout.ms": 30_000,
    "offsets.topic.num.partitions": 3,
    "offsets.topic.replication.factor": 1,
    "transaction.state.log.min.isr": 1,
    "transaction.state.log.num.partitions": 3,
    "transaction.state.log.replication.factor": 1,
    "controlled.shutdown.max.retries": 2,
    "controlled.shutdown.retry.backoff.ms": 1000,
}


class BrokerOptions(TypedDict, total=False):
    """What both kinds of brokers may be given."""

    port: int | None
    """None takes a free one."""
    java: Java | None
    """None takes the one found."""
    properties: Mapping[str, str | int] | None
    """Win over ours."""
    ready_deadline_s: float


class Broker(Server):
    """What both kinds of brokers have in common."""

    def __init__(
        self,
        broker_id: int,
        supervisor: Supervisor,
        jars: Jars,
        data_dir: Path,
        *,
        name: str,
        **options: Unpack[BrokerOptions],
    ) -> None:
        """Describe a broker."""
        deadline_s = options.get("ready_deadline_s", READY_DEADLINE_S)
        super().__init__(name, supervisor, data_dir, ready_deadline_s=deadline_s)
        self.broker_id = broker_id
        port = options.get("port")
        self.port = free_port() if port is None else port
        self._jars = jars
        self._java = options.get("java") or find_java()
        self._extra = dict(options.get("properties") or {})

    @property
    def bootstrap_servers(self) -> str:
        """Where clients find it, `host:port`."""
        return f"{HOST}:{self.port}"

    def ports(self) -> list[int]:
        """Return the port for clients."""
        return [self.port]

    def config(self) -> Properties:
        """Return this kind of broker's own properties."""
        raise NotImplementedError

    def prepare(self) -> list[str]:
        """Write server.properties and return the command line."""
        config = {**FRUGAL, **self.config(), **self._extra}
        path = self.data_dir / "server.properties"
        path.write_text("".join(f"{key}={value}\n" for key, value in config.items()))
        return server_command(
            self._java,
            MAIN_CLASS,
            path,
            classpath=self._jars.broker,
            properties=LOG_PROPERTIES,
        )

    def seen(self) -> str | None:
        """Return None when it serves, else what its answer to a metadata request was."""
        try:
            answer = ask_brokers(HOST, self.port)
        except (OSError, ProbeError) as error:
            return f"{self.bootstrap_servers}: {error}"
        if self.broker_id in answer.broker_ids and answer.controller_id >= 0:
            return None
        return (
            f"{self.bootstrap_servers} knows brokers {sorted(answer.broker_ids)} "
            f"and controller {answer.controller_id}"
        )


class ZooKeeperModeBroker(Broker):
    """A broker that keeps its metadata in ZooKeeper: what `kcm` watches."""

    def __init__(
        self,
        broker_id: int,
        supervisor: Supervisor,
        jars: Jars,
        data_dir: Path,
        *,
        zookeeper_connect: str,
        name: str | None = None,
        rack: str | None = None,
        session_timeout_ms: int = 6000,
        auto_leader_rebalance: bool = False,
        **options: Unpack[BrokerOptions],
    ) -> None:
        """Describe the broker; `zookeeper_connect` may end in a chroot, which it creates.

        None for `name` is `kafka-<id>`, for `rack` no rack.
        """
        name = name or f"kafka-{broker_id}"
        super().__init__(broker_id, supervisor, jars, data_dir, name=name, **options)
        self._own: Properties = {
            **SMALL_CLUSTER,
            "broker.id": broker_id,
            "zookeeper.connect": zookeeper_connect,
            "zookeeper.session.timeout.ms": session_timeout_ms,
            "auto.leader.rebalance.enable": str(auto_leader_rebalance).lower(),
        }
        if rack:
            self._own["broker.rack"] = rack

    def start(self, *, wait: bool = True) -> None:
        """Start it as every server, once ZooKeeper has forgotten its last run.

        Kafka refuses to start while the znode of a killed broker is still there, until that
        session expires. Raises StackError when it does not.
        """
        if not self.running:
            self._await_expiry()
        super().start(wait=wait)

    def _await_expiry(self) -> None:
        host, port, chroot = split_connect(str(self._own["zookeeper.connect"]))
        znode = f"{chroot}/brokers/ids/{self.broker_id}"
        limit_s = int(self._own["zookeeper.session.timeout.ms"]) / 1000 + EXPIRY_MARGIN_S
        deadline = time.monotonic() + limit_s
        while True:
            try:
                sessions = four_letter_word(host, port, "dump")
            except OSError:
                return  # no ZooKeeper there, or one that does not answer: the broker will say so
            if znode not in sessions.split():
                return
            if time.monotonic() >= deadline:
                message = f"{self.name}: {znode} at {host}:{port} is still held after {limit_s:g} s"
                raise StackError(message)
            time.sleep(EXPIRY_POLL_S)

    def config(self) -> Properties:
        """Return the properties of a broker in ZooKeeper mode."""
        return {
            **self._own,
            "listeners": f"PLAINTEXT://{HOST}:{self.port}",
            "log.dirs": str(self.data_dir / "logs"),
        }


class KraftBroker(Broker):
    """A single node that is broker and controller: it keeps the pipeline's own topics.

    It keeps its topics and cluster id in `data_dir`, over restarts.
    """

    def __init__(
        self,
        supervisor: Supervisor,
        jars: Jars,
        data_dir: Path,
        *,
        name: str = "pipeline-kafka",
        **options: Unpack[BrokerOptions],
    ) -> None:
        """Describe the broker."""
        super().__init__(1, supervisor, jars, data_dir, name=name, **options)
        self.controller_port = free_port()

    def ports(self) -> list[int]:
        """Return the ports for clients and for the controller."""
        return [self.port, self.controller_port]

    @property
    def cluster_id(self) -> str | None:
        """The id given to the cluster when its folder was formatted; None before."""
        try:
            lines = (self._log_dir / "meta.properties").read_text().splitlines()
        except FileNotFoundError:
            return None
        return next((line[11:] for line in lines if line.startswith("cluster.id=")), None)

    @property
    def _log_dir(self) -> Path:
        return self.data_dir / "logs"

    def prepare(self) -> list[str]:
        """Format the folder if it is new, and return the command line."""
        self._format()
        return super().prepare()

    def config(self) -> Properties:
        """Return the properties of a single node in KRaft mode."""
        return {
            "process.roles": "broker,controller",
            "node.id": self.broker_id,
            "controller.quorum.voters": f"{self.broker_id}@{HOST}:{self.controller_port}",
            "controller.listener.names": "CONTROLLER",
            "listeners": f"PLAINTEXT://{HOST}:{self.port},CONTROLLER://{HOST}:{self.controller_port}",
            "advertised.listeners": f"PLAINTEXT://{HOST}:{self.port}",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
            "log.dirs": str(self._log_dir),
            # after a crash the node refuses its own registration until this time has passed
            "broker.session.timeout.ms": KRAFT_SESSION_MS,
            "broker.heartbeat.interval.ms": KRAFT_SESSION_MS // 4,
            "offsets.topic.replication.factor": 1,
            "offsets.topic.num.partitions": 1,
            "transaction.state.log.replication.factor": 1,
            "transaction.state.log.min.isr": 1,
            "transaction.state.log.num.partitions": 1,
            "message.max.bytes": MESSAGE_MAX_BYTES,
            "replica.fetch.max.bytes": MESSAGE_MAX_BYTES,
        }

    def _format(self) -> None:
        """Write what Kafka's storage tool would, which takes it a JVM's start."""
        path = self._log_dir / "meta.properties"
        if path.exists():
            return
        self._log_dir.mkdir(parents=True, exist_ok=True)
        partial = path.with_suffix(".partial")
        partial.write_text(
            f"version=1\ncluster.id={random_id()}\nnode.id={self.broker_id}\n"
            f"directory.id={random_id()}\n"
        )
        partial.rename(path)


def split_connect(connect: str) -> tuple[str, int, str]:
    """Return the first host, its port and the chroot of a ZooKeeper connect string.

    >>> split_connect("127.0.0.1:2181,127.0.0.1:2182/kafka/a")
    ('127.0.0.1', 2181, '/kafka/a')
    >>> split_connect("zoo")
    ('zoo', 2181, '')
    """
    hosts, slash, chroot = connect.partition("/")
    host, _, port = hosts.partition(",")[0].partition(":")
    return host, int(port or DEFAULT_ZOOKEEPER_PORT), slash + chroot if chroot else ""


def random_id() -> str:
    """Return a new id in Kafka's form: 22 characters, and no hyphen in front, as Kafka wants it."""
    while True:
        text = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        if not text.startswith("-"):
            return text
