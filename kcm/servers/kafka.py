"""Real Kafka nodes: brokers in ZooKeeper mode, brokers and controllers in KRaft mode, and the pipeline's own broker.

All listen on the loopback address only. A broker is ready when it answers a metadata request and
counts itself among the live brokers of a cluster that has a controller; a controller when its
listener takes connections, for alone it leads no quorum.
"""

import socket
import time
from abc import abstractmethod
from collections.abc import Collection
from pathlib import Path
from typing import Any

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from kcm.servers.jars import Jars
from kcm.servers.ports import HOST
from kcm.servers.quorum import Leader, Properties, Quorum, random_id, read_leader, write_ids
from kcm.servers.server import Server, jvm_command
from kcm.servers.supervisor import Supervisor
from pipeline.kafka_errors import reason_of
from pipeline.runtime import EnvironmentProblemError
from zk_source.ensemble.four_letter_words import four_letter_word, host_and_port

MAIN_CLASS = "kafka.Kafka"
MIB = 1 << 20
MESSAGE_MAX_BYTES = 8 * MIB + MIB // 2  # a message of 8 MiB and its batch's overhead
CLEANER_BUFFER_BYTES = 16 * MIB  # the default of 128 MiB is half of the heap
EXPIRY_MARGIN_S = 10.0  # ZooKeeper expires sessions at its next tick; a busy one is late
EXPIRY_POLL_S = 0.05  # how often to check whether a session has expired
PIPELINE_SESSION_MS = 2000  # the default of 9 s is what a restart after a crash would take
READY_DEADLINE_S = 60.0  # three brokers at once on two busy cores take 9 s
CONNECT_DEADLINE_S = 0.5  # it is local: the system takes connections, or refuses them, at once
ANSWER_DEADLINE_S = 5.0  # a healthy broker answers within 0.06 s, beside JVMs that start later
QUIET_LIBRDKAFKA: dict[str, Any] = {"log_level": 0, "error_cb": lambda _error: None}
"""Brokers start, hang and die on purpose here, so librdkafka's complaints are dropped."""

FRUGAL: Properties = {
    "num.network.threads": 2,
    "num.io.threads": 4,
    "background.threads": 4,
    "num.recovery.threads.per.data.dir": 1,
    "log.cleaner.dedupe.buffer.size": CLEANER_BUFFER_BYTES,
    "auto.create.topics.enable": "false",
    "group.initial.rebalance.delay.ms": 0,
    "offsets.topic.replication.factor": 1,
    "transaction.state.log.replication.factor": 1,
    "transaction.state.log.min.isr": 1,
}
SMALL_CLUSTER: Properties = {
    "offsets.topic.num.partitions": 3,
    "transaction.state.log.num.partitions": 3,
    "controlled.shutdown.max.retries": 2,
    "controlled.shutdown.retry.backoff.ms": 1000,
}


def refusal(port: int) -> str | None:
    """Return None when something here takes connections on a port, else why there is none."""
    try:
        socket.create_connection((HOST, port), timeout=CONNECT_DEADLINE_S).close()
    except OSError as error:
        return f"{HOST}:{port}: {error}"
    return None


class Node(Server):
    """What brokers and controllers have in common."""

    def __init__(
        self,
        supervisor: Supervisor,
        jars: Jars,
        data_dir: Path,
        *,
        name: str,
        port: int | None = None,
        properties: Properties | None = None,
    ) -> None:
        """Describe a node; `properties` override the defaults of its class."""
        super().__init__(supervisor, name, data_dir, port=port, ready_deadline_s=READY_DEADLINE_S)
        self._jars = jars
        self.properties = dict(properties or {})
        """What overrides the defaults of its class, from the next start on."""

    @property
    def log_dir(self) -> Path:
        """The folder of its logs."""
        return self.data_dir / "logs"

    @abstractmethod
    def config(self) -> Properties:
        """Return the properties of this kind of node."""

    def prepare(self) -> list[str]:
        """Write server.properties and return the command line."""
        return jvm_command(
            MAIN_CLASS,
            self.data_dir / "server.properties",
            {**FRUGAL, "log.dirs": str(self.log_dir), **self.config(), **self.properties},
            classpath=self._jars.broker,
            heap_mib=self.heap_mib,
            options=self.jvm_options,
        )

    def known_leader(self) -> Leader | None:
        """Return the leader of its quorum that it last wrote down; None while it knows none."""
        return read_leader(self.log_dir)


class Broker(Node):
    """What all kinds of brokers have in common."""

    def __init__(
        self,
        broker_id: int,
        supervisor: Supervisor,
        jars: Jars,
        data_dir: Path,
        *,
        name: str,
        port: int | None = None,
        properties: Properties | None = None,
    ) -> None:
        super().__init__(supervisor, jars, data_dir, name=name, port=port, properties=properties)
        self.broker_id = broker_id

    @property
    def bootstrap_servers(self) -> str:
        """The address for clients, `host:port`."""
        return f"{HOST}:{self.port}"

    def seen(self) -> str | None:
        """Return None when it serves, else its answer to a metadata request."""
        return self.lacks({self.broker_id})

    def lacks(self, brokers: Collection[int]) -> str | None:
        """Return None when its metadata names all these brokers and a controller, else what it answers."""
        refused = refusal(self.port)
        if refused is not None:  # a client would wait for the whole deadline
            return refused
        client = AdminClient({"bootstrap.servers": self.bootstrap_servers, **QUIET_LIBRDKAFKA})
        try:
            answer = client.list_topics(timeout=ANSWER_DEADLINE_S)
        except KafkaException as error:
            return f"{self.bootstrap_servers}: {reason_of(error)}"
        if answer.brokers.keys() >= set(brokers) and answer.controller_id >= 0:
            return None
        return (
            f"{self.bootstrap_servers} knows brokers {sorted(answer.brokers)} "
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
        session_timeout_ms: int,
        name: str | None = None,
        port: int | None = None,
        properties: Properties | None = None,
    ) -> None:
        """Describe the broker; `zookeeper_connect` is an address and an optional chroot, which it creates.

        None for `name` is `kafka-<id>`.
        """
        name = name or f"kafka-{broker_id}"
        super().__init__(
            broker_id, supervisor, jars, data_dir, name=name, port=port, properties=properties
        )
        self._zookeeper_connect = zookeeper_connect
        self.session_timeout_ms = session_timeout_ms
        """Takes effect at the next start."""

    def start(self, *, wait: bool = True) -> None:
        """Start it like any server, after ZooKeeper has expired the session of its last run.

        Kafka refuses to start while the znode of a killed broker exists, which is until that
        session expires. Raises EnvironmentProblemError when it does not.
        """
        if not self.running:
            self._await_expiry()
        super().start(wait=wait)

    def _await_expiry(self) -> None:
        address, slash, chroot = self._zookeeper_connect.partition("/")
        host, port = host_and_port(address)
        znode = f"{slash}{chroot}/brokers/ids/{self.broker_id}"
        limit_s = self.session_timeout_ms / 1000 + EXPIRY_MARGIN_S
        deadline = time.monotonic() + limit_s
        while True:
            try:
                sessions = four_letter_word(host, port, "dump")
            except OSError as error:
                if isinstance(error, TimeoutError) and time.monotonic() < deadline:
                    continue  # it is busy: the session may last
                return  # no ZooKeeper there, or one that does not answer: the broker will report it
            if znode not in sessions.split():
                return
            if time.monotonic() >= deadline:
                raise EnvironmentProblemError(
                    f"{self.name}: {znode} at {host}:{port} is still held after {limit_s:g} s"
                )
            time.sleep(EXPIRY_POLL_S)

    def config(self) -> Properties:
        """Return the properties of a broker in ZooKeeper mode."""
        return {
            **SMALL_CLUSTER,
            "broker.id": self.broker_id,
            "zookeeper.connection.timeout.ms": 30_000,
            "zookeeper.connect": self._zookeeper_connect,
            "zookeeper.session.timeout.ms": self.session_timeout_ms,
            "auto.leader.rebalance.enable": "false",
            "listeners": f"PLAINTEXT://{HOST}:{self.port}",
        }


class KraftController(Node):
    """A controller that is no broker."""

    def __init__(
        self,
        node_id: int,
        quorum: Quorum,
        supervisor: Supervisor,
        jars: Jars,
        data_dir: Path,
        *,
        name: str | None = None,
        properties: Properties | None = None,
    ) -> None:
        """Describe a voter of the quorum; None for `name` is `controller-<id>`."""
        super().__init__(
            supervisor,
            jars,
            data_dir,
            name=name or f"controller-{node_id}",
            port=quorum.ports[node_id],
            properties=properties,
        )
        self.node_id = node_id
        self._quorum = quorum

    def config(self) -> Properties:
        """Return the properties of a controller."""
        return {
            **self._quorum.properties(),
            "process.roles": "controller",
            "node.id": self.node_id,
            "listeners": self._quorum.listener_of(self.node_id),
            **self._quorum.advertised(self.node_id),
        }

    def prepare(self) -> list[str]:
        """Format the folder if it is new, and return the command line."""
        *java, _main, config = command = super().prepare()
        self._quorum.format(self._supervisor, java, Path(config), self.node_id)
        return command

    def seen(self) -> str | None:
        """Return None when its listener takes connections, else why it does not."""
        return refusal(self.port)


class KraftModeBroker(Broker):
    """A broker whose metadata is in a quorum's log; it is a controller as well if the quorum has its id as a voter."""

    def __init__(
        self,
        broker_id: int,
        quorum: Quorum,
        supervisor: Supervisor,
        jars: Jars,
        data_dir: Path,
        *,
        session_timeout_ms: int,
        name: str | None = None,
        properties: Properties | None = None,
    ) -> None:
        """Describe the broker; it is fenced `session_timeout_ms` after its last heartbeat.

        None for `name` is `kafka-<id>`.
        """
        name = name or f"kafka-{broker_id}"
        super().__init__(broker_id, supervisor, jars, data_dir, name=name, properties=properties)
        self.session_timeout_ms = session_timeout_ms
        """Takes effect at the next start; that of the active controller counts."""
        self._quorum = quorum
        if self.is_voter:
            self.ports.append(quorum.ports[broker_id])

    @property
    def is_voter(self) -> bool:
        """Whether this node is a controller, too."""
        return self.broker_id in self._quorum.ports

    def config(self) -> Properties:
        """Return the properties of a broker in KRaft mode."""
        own = f"PLAINTEXT://{HOST}:{self.port}"
        listeners = [own, self._quorum.listener_of(self.broker_id)] if self.is_voter else [own]
        return {
            **SMALL_CLUSTER,
            **self._quorum.properties(),
            "process.roles": "broker,controller" if self.is_voter else "broker",
            "node.id": self.broker_id,
            "listeners": ",".join(listeners),
            "advertised.listeners": own,
            "broker.session.timeout.ms": self.session_timeout_ms,
            "broker.heartbeat.interval.ms": self.session_timeout_ms // 4,
            "auto.leader.rebalance.enable": "false",
        }

    def prepare(self) -> list[str]:
        """Format the folder if it is new, and return the command line."""
        *java, _main, config = command = super().prepare()
        if self.is_voter:
            self._quorum.format(self._supervisor, java, Path(config), self.broker_id)
        else:
            write_ids(self.log_dir, self._quorum.cluster_id, self.broker_id, random_id())
        return command


class KraftBroker(KraftModeBroker):
    """A single node that is broker and controller: it keeps the pipeline's own topics.

    Its topics and cluster id are in `data_dir` and survive restarts.
    """

    def __init__(
        self,
        supervisor: Supervisor,
        jars: Jars,
        data_dir: Path,
        *,
        name: str = "pipeline-kafka",
        properties: Properties | None = None,
    ) -> None:
        super().__init__(
            1,
            Quorum([1]),
            supervisor,
            jars,
            data_dir,
            session_timeout_ms=PIPELINE_SESSION_MS,
            name=name,
            properties=properties,
        )

    def config(self) -> Properties:
        """Return the properties of a node that keeps large messages."""
        return {
            **super().config(),
            "offsets.topic.num.partitions": 1,
            "transaction.state.log.num.partitions": 1,
            "message.max.bytes": MESSAGE_MAX_BYTES,
            "replica.fetch.max.bytes": MESSAGE_MAX_BYTES,
        }

    def prepare(self) -> list[str]:
        """Write the ids alone, for which Kafka's storage tool needs the start of a JVM, and return the command line."""
        write_ids(self.log_dir, self._quorum.cluster_id, self.broker_id, random_id())
        return super().prepare()
