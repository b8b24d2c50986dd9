"""Real Kafka 3.9 brokers: in ZooKeeper mode to be watched, in KRaft mode for the pipeline's own topics.

All listen on the loopback address only. A broker is ready when it answers a metadata request and
counts itself among the live brokers of a cluster that has a controller.
"""

import base64
import time
import uuid
from abc import abstractmethod
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from kcm.servers.jars import Jars
from kcm.servers.ports import HOST, free_port
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
KRAFT_SESSION_MS = 2000  # the default of 9 s is what a restart after a crash would take
READY_DEADLINE_S = 60.0  # three brokers at once on two busy cores take 9 s
ANSWER_DEADLINE_S = 0.5  # a healthy broker answers within 0.06 s
QUIET_LIBRDKAFKA: dict[str, Any] = {"log_level": 0, "error_cb": lambda _error: None}
"""Brokers start, hang and die on purpose here, so librdkafka's complaints are dropped."""

Properties = Mapping[str, str | int]

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
    "zookeeper.connection.timeout.ms": 30_000,
    "offsets.topic.num.partitions": 3,
    "transaction.state.log.num.partitions": 3,
    "controlled.shutdown.max.retries": 2,
    "controlled.shutdown.retry.backoff.ms": 1000,
}


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
        port: int | None = None,
        properties: Properties | None = None,
    ) -> None:
        """Describe a broker; `properties` override the defaults of this class."""
        super().__init__(supervisor, name, data_dir, port=port, ready_deadline_s=READY_DEADLINE_S)
        self.broker_id = broker_id
        self._jars = jars
        self._extra = dict(properties or {})

    @property
    def bootstrap_servers(self) -> str:
        """The address for clients, `host:port`."""
        return f"{HOST}:{self.port}"

    @abstractmethod
    def config(self) -> Properties:
        """Return the properties of this kind of broker."""

    def prepare(self) -> list[str]:
        """Write server.properties and return the command line."""
        return jvm_command(
            MAIN_CLASS,
            self.data_dir / "server.properties",
            {**FRUGAL, **self.config(), **self._extra},
            classpath=self._jars.broker,
            heap_mib=self.heap_mib,
        )

    def seen(self) -> str | None:
        """Return None when it serves, else its answer to a metadata request."""
        client = AdminClient({"bootstrap.servers": self.bootstrap_servers, **QUIET_LIBRDKAFKA})
        try:
            answer = client.list_topics(timeout=ANSWER_DEADLINE_S)
        except KafkaException as error:
            return f"{self.bootstrap_servers}: {reason_of(error)}"
        if self.broker_id in answer.brokers and answer.controller_id >= 0:
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
            except OSError:
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
            "zookeeper.connect": self._zookeeper_connect,
            "zookeeper.session.timeout.ms": self.session_timeout_ms,
            "auto.leader.rebalance.enable": "false",
            "listeners": f"PLAINTEXT://{HOST}:{self.port}",
            "log.dirs": str(self.data_dir / "logs"),
        }


class KraftBroker(Broker):
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
        super().__init__(1, supervisor, jars, data_dir, name=name, properties=properties)
        self.controller_port = free_port()
        self.ports.append(self.controller_port)

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
            "log.dirs": str(self.data_dir / "logs"),
            # after a crash the node refuses its own registration until this time has passed
            "broker.session.timeout.ms": KRAFT_SESSION_MS,
            "broker.heartbeat.interval.ms": KRAFT_SESSION_MS // 4,
            "offsets.topic.num.partitions": 1,
            "transaction.state.log.num.partitions": 1,
            "message.max.bytes": MESSAGE_MAX_BYTES,
            "replica.fetch.max.bytes": MESSAGE_MAX_BYTES,
        }

    def _format(self) -> None:
        """Write what Kafka's storage tool would write; the tool needs the start of a JVM for it."""
        path = self.data_dir / "logs" / "meta.properties"
        if path.exists():
            return
        path.parent.mkdir(parents=True, exist_ok=True)
        partial = path.with_suffix(".partial")
        partial.write_text(
            f"version=1\ncluster.id={random_id()}\nnode.id={self.broker_id}\n"
            f"directory.id={random_id()}\n"
        )
        partial.rename(path)


def random_id() -> str:
    """Return a new id in Kafka's form: 22 characters that do not begin with a hyphen."""
    while True:
        text = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        if not text.startswith("-"):
            return text
