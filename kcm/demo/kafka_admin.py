"""Asks a KRaft cluster by Kafka's own Java client, which knows what librdkafka does not.

That is the quorum as `kafka-metadata-quorum` prints it (Admin.describeMetadataQuorum), eligible leader replicas and
fenced brokers. The client runs in a JVM of its own, and py4j, which Spark brings, calls it there. Its gateway runs
whatever it is told: it listens on the loopback address, and wants a token that only its log holds.
"""

import importlib.util
import os
from pathlib import Path
from typing import Any, NamedTuple

from py4j.java_gateway import GatewayParameters, JavaGateway
from py4j.protocol import Py4JError

from kcm.servers.jars import Jars
from kcm.servers.ports import HOST
from kcm.servers.process import Process
from kcm.servers.server import JVM_ENV, JVM_OPTIONS
from kcm.servers.supervisor import Supervisor
from pipeline.java import find_java
from pipeline.runtime import EnvironmentProblemError

HEAP_MIB = 64
ANSWER_DEADLINE_MS = 4000  # a live broker answers in milliseconds; ask again rather than wait
MANY_RECORDS = 10  # what no-ops add in five seconds: a replica that lacks more does not follow


class Described(NamedTuple):
    """What Kafka's client says of a cluster."""

    leader: int
    epoch: int
    voters: tuple[int, ...]
    observers: tuple[int, ...]
    """Brokers, while they fetch the metadata log and for some minutes after."""
    behind: tuple[int, ...]
    """Replicas of the metadata log that lack many records, or are not known to have any."""
    fetched: dict[int, int]
    """When voters fetched it last, by the leader's clock, in ms since 1970."""
    brokers: tuple[int, ...]
    fenced: tuple[int, ...]
    elr: int
    """Partitions with eligible leader replicas."""


class KafkaAdmin(Process):
    """The JVM with Kafka's client."""

    def __init__(self, supervisor: Supervisor, jars: Jars) -> None:
        """Describe it; `jars` are those of the release whose client it is."""
        super().__init__(supervisor, "kafka-admin", env=JVM_ENV)
        self._jars = jars
        self._gateway: JavaGateway | None = None

    def start(self) -> None:
        """Start it; `wait_ready` waits until it takes calls."""
        classpath = [_py4j_jar(), *self._jars.broker]
        self.argv = [
            os.fspath(find_java(os.environ).path),
            f"-Xmx{HEAP_MIB}m",
            *JVM_OPTIONS,
            "-cp",
            os.pathsep.join(map(os.fspath, classpath)),
            *("py4j.GatewayServer", "--enable-auth", "0"),
        ]
        super().start()

    def seen(self) -> str | None:
        """Return None once it has written its port and its token, else what it wrote."""
        port, _, token = self.log_tail().partition("\n")
        if not (port.isdigit() and token.strip()):
            return f"the gateway wrote {port!r}"
        if self._gateway is None:
            self._gateway = JavaGateway(
                gateway_parameters=GatewayParameters(
                    address=HOST, port=int(port), auth_token=token.split()[0]
                )
            )
        return None

    def close(self) -> None:
        """Close the connection to the JVM."""
        if self._gateway is not None:
            self._gateway.close()

    def describe(self, bootstrap_servers: str) -> Described | str:
        """Return what these brokers, or the controllers that they ask, say; or why they do not."""
        if self._gateway is None:
            return "Kafka's client is not ready"
        java = self._gateway.jvm
        try:
            properties = java.java.util.HashMap()
            properties.put("bootstrap.servers", bootstrap_servers)
            for name in ("request.timeout.ms", "default.api.timeout.ms"):
                properties.put(name, str(ANSWER_DEADLINE_MS))
            package = java.org.apache.kafka.clients.admin
            admin = package.AdminClient.create(properties)
            try:
                fenced_as_well = package.DescribeClusterOptions().includeFencedBrokers(True)
                return _described(
                    admin.describeMetadataQuorum().quorumInfo().get(),
                    java.java.util.ArrayList(admin.describeCluster(fenced_as_well).nodes().get()),
                    admin.describeTopics(admin.listTopics().names().get()).allTopicNames().get(),
                )
            finally:
                admin.close()
        except (Py4JError, OSError) as error:
            return f"Kafka's client: {_first_line(error)}"


def _described(quorum: Any, nodes: Any, topics: Any) -> Described:
    ends = {each.replicaId(): each.logEndOffset() for each in quorum.voters()}
    voters = tuple(sorted(ends))
    observers = {each.replicaId(): each.logEndOffset() for each in quorum.observers()}
    ends |= observers
    end = ends[quorum.leaderId()]
    fetched = {each.replicaId(): each.lastFetchTimestamp() for each in quorum.voters()}
    fenced = {node.id(): bool(node.isFenced()) for node in nodes}
    partitions = [each for topic in topics.values() for each in topic.partitions()]
    return Described(
        quorum.leaderId(),
        quorum.leaderEpoch(),
        voters,
        tuple(sorted(observers)),
        tuple(sorted(id_ for id_, own in ends.items() if is_behind(own, end))),
        {id_: at.getAsLong() for id_, at in fetched.items() if at.isPresent()},
        tuple(sorted(id_ for id_, is_fenced in fenced.items() if not is_fenced)),
        tuple(sorted(id_ for id_, is_fenced in fenced.items() if is_fenced)),
        sum(bool(each.elr()) for each in partitions),
    )


def is_behind(own_end: int, end: int) -> bool:
    """Return whether a replica of the metadata log whose end is there lacks many records; -1: not known."""
    return own_end < 0 or end - own_end > MANY_RECORDS


def _first_line(error: Exception) -> str:
    lines = str(error).splitlines()
    causes = [line for line in lines if line.startswith(": ")]
    return (causes or lines or [type(error).__name__])[0].removeprefix(": ")


def _py4j_jar() -> Path:
    spec = importlib.util.find_spec("pyspark")
    folder = Path((spec and spec.origin) or "").parent / "jars"
    found = sorted(folder.glob("py4j-*.jar"))
    if not found:
        raise EnvironmentProblemError(
            f"no py4j-*.jar in {folder}: install pyspark again, as kcm[local]"
        )
    return found[-1]
