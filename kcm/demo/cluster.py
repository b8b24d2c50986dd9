"""The clusters of the demo: what both have in common, the one in ZooKeeper mode, and the load.

They are tuned so that effects show soon: a session ends seconds after a kill instead of 18, a follower
that stalls leaves the ISR after about two seconds instead of 30, and Kafka does not rebalance
leaders by itself.
"""

import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Protocol

from confluent_kafka import ElectionType, KafkaError, KafkaException, Message, Producer
from confluent_kafka.admin import NewTopic

from kcm.demo.figures import Observations, TrueFigures, differences
from kcm.demo.truth import KafkaTruth, ZooKeeperTruth
from kcm.elect.admin import NOT_NEEDED, error_name
from kcm.run.exporter_client import Scrape
from kcm.servers.controller_handle import ControllerHandle
from kcm.servers.jars import Jars
from kcm.servers.kafka import QUIET_LIBRDKAFKA, Broker, ZooKeeperModeBroker
from kcm.servers.process import Process
from kcm.servers.supervisor import Supervisor
from kcm.servers.zookeeper import ZooKeeper

BROKER_IDS = (0, 1, 2)  # with 0: careless code takes this id for "none"
SESSION_TIMEOUT_MS = 4000  # a kill shows 2.7-4 s later; shorter ones expire by themselves when busy
REPLICA_LAG_MS = 1500  # a follower that stalls leaves the ISR 1.5-2.3 s later; less flaps when busy
REQUEST_DEADLINE_S = 15.0  # for AdminClient requests: one is sometimes lost when a broker dies
ELECTION_DEADLINE_S = 45.0  # a broker that has just come back may be slow to follow, or to elect
ELECTION_POLL_S = 0.2  # when asked again, the controller still works on the earlier request
WRITE_INTERVAL_S = 0.1  # each partition gets a record this often: several within the allowed lag
MESSAGE_TIMEOUT_MS = 2000  # records for dead brokers are given up, not kept
STOP_DEADLINE_S = 3.0

BROKER_PROPERTIES: dict[str, str | int] = {
    "replica.lag.time.max.ms": REPLICA_LAG_MS,
    "replica.fetch.wait.max.ms": 300,  # Kafka wants it below the lag
    "replica.socket.timeout.ms": 5000,  # a fetch from a paused leader is given up before 30 s
    "controller.socket.timeout.ms": 5000,
    "log.flush.offset.checkpoint.interval.ms": 5000,
}


class Truth(Protocol):
    """The truth of a cluster, which a thread of its own keeps current."""

    observations: Observations

    def start(self) -> None:
        """Start to read."""

    def close(self) -> None:
        """Stop reading."""

    def begin(self) -> None:
        """Count elections from now on."""


class WatchedCluster(ABC):
    """A cluster that the demo breaks, its truth, and the operations that break and repair it.

    A subclass has the properties `truth` and `brokers`.
    """

    truth: Truth

    def __init__(self, brokers: Mapping[int, Broker]) -> None:
        """Describe the load and the clients; nothing is started yet."""
        self.bootstrap_servers = ",".join(each.bootstrap_servers for each in brokers.values())
        """Where clients reach the cluster, `host:port,…`."""
        self.kafka = KafkaTruth(self.bootstrap_servers)
        self.load = Load(self.bootstrap_servers)
        self.broker_ids = tuple(brokers)
        self.places: dict[str, str] = {}
        """Addresses to look at, by what is there."""

    @abstractmethod
    def start(self) -> tuple[str, dict[str, Process]]:
        """Start all servers; return what is ready, and what is started by what it is called."""

    @abstractmethod
    def contradiction(self, truth: TrueFigures, scrape: Scrape) -> str:
        """Return how Kafka itself contradicts the truth that was read, or what is served; empty: it does not."""

    @abstractmethod
    def settings(self, name: str) -> Mapping[str, str]:
        """Return the watcher's settings for this cluster under a name, by field."""

    def check(self) -> None:  # noqa: B027  # the thread of some truths cannot end
        """Raise what ended the reading of the truth, if anything did."""

    def close(self) -> None:
        """Stop the load and the demo's own clients; the supervisor stops the servers."""
        self.load.close()
        self.truth.close()

    def create_topic(
        self,
        name: str,
        *,
        partitions: int,
        replication_factor: int,
        config: Mapping[str, str] | None = None,
    ) -> None:
        """Create a topic and put load on it."""
        new = NewTopic(
            name,
            num_partitions=partitions,
            replication_factor=replication_factor,
            config=dict(config or {}),
        )
        created = self.kafka.admin.create_topics([new], request_timeout=REQUEST_DEADLINE_S)
        created[name].result()
        self.load.write_to(name, partitions)

    def elect_preferred(self) -> None:
        """Run the preferred-replica election for all partitions, as kafka-leader-election does.

        The request is repeated while a partition cannot be elected and while no answer arrives.
        Where the controller took a request and did not answer in time, the next answer is that no
        election is needed. Each time, the brokers are asked which of them is the controller, because
        the client keeps using a former one. Raises TimeoutError when that does not help.
        """
        deadline = time.monotonic() + ELECTION_DEADLINE_S
        while True:
            self.kafka.read()
            try:
                # no timeouts here: confluent-kafka 2.16 raises SystemError when it is given any
                asked = self.kafka.admin.elect_leaders(ElectionType.PREFERRED)
                errors = {error_name(each) for each in asked.result().values() if each is not None}
            except KafkaException as error:
                errors = {error_name(error)}
            if not (left := sorted(errors - {NOT_NEEDED})):
                return
            if time.monotonic() >= deadline:
                raise TimeoutError(f"not elected: {left[0]}, for {ELECTION_DEADLINE_S:g} s")
            time.sleep(ELECTION_POLL_S)


class ZooKeeperCluster(WatchedCluster):
    """A ZooKeeper, and three brokers in ZooKeeper mode."""

    def __init__(self, supervisor: Supervisor, jars: Jars, data_dir: Path) -> None:
        self.zookeeper = ZooKeeper(supervisor, jars, data_dir / "zookeeper")
        self.brokers = {
            broker_id: ZooKeeperModeBroker(
                broker_id,
                supervisor,
                jars,
                data_dir / f"kafka-{broker_id}",
                zookeeper_connect=self.zookeeper.connect_string,
                session_timeout_ms=SESSION_TIMEOUT_MS,
                properties=BROKER_PROPERTIES,
            )
            for broker_id in BROKER_IDS
        }
        super().__init__(self.brokers)
        self.places = {"watched ZooKeeper": self.zookeeper.connect_string}
        self.truth: ZooKeeperTruth = ZooKeeperTruth(self.zookeeper.connect_string)
        self.stalled: ZooKeeperModeBroker | None = None
        """The broker that was paused, for the step that resumes it."""

    def settings(self, name: str) -> Mapping[str, str]:
        """Return them, with what the brokers' own files set, or leave at Kafka's default."""
        return {
            "zookeeper": self.zookeeper.connect_string,
            "min_insync_replicas": f"{name}=1",
            "auto_leader_rebalance": f"{name}=false",
        }

    def start(self) -> tuple[str, dict[str, Process]]:
        """Start ZooKeeper, and then the brokers."""
        self.zookeeper.start()
        for broker in self.brokers.values():
            broker.start(wait=False)
        return "ZooKeeper 3.8", {f"Kafka 3.9 broker {b}": each for b, each in self.brokers.items()}

    def contradiction(self, truth: TrueFigures, _scrape: Scrape) -> str:
        """Ask a broker for all that it knows: neither epoch nor elections."""
        kafka = self.kafka.read()
        if kafka is None:
            return "no broker answered a metadata request"
        known = replace(kafka, epoch=truth.epoch, elections=truth.elections)
        different = ", ".join(differences(truth, known))
        return f"brokers say otherwise than ZooKeeper: {different}" if different else ""

    @property
    def controller(self) -> ControllerHandle:
        """The cluster's /controller, read by a client of the demo's own."""
        return ControllerHandle(self.truth.client, self.zookeeper.port)


class Load:
    """A producer that writes to every partition all the time; `delivered` and `failed` count its records.

    A follower leaves the ISR only while there are records that it has not fetched. Records for a
    dead broker are lost; nobody reads them.
    """

    def __init__(self, bootstrap_servers: str) -> None:
        """Take the brokers' addresses; the first `write_to` starts the producer."""
        self.delivered = 0
        self.failed = 0
        self._bootstrap_servers = bootstrap_servers
        self._topics: dict[str, int] = {}
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="load", daemon=True)

    def write_to(self, topic: str, partitions: int) -> None:
        """Write to this topic as well."""
        self._topics = {**self._topics, topic: partitions}
        if not self._thread.is_alive() and not self._stop.is_set():
            self._thread.start()

    def stop_writing_to(self, topic: str) -> None:
        """Write to the other topics only."""
        self._topics = {name: count for name, count in self._topics.items() if name != topic}

    def close(self) -> None:
        """Stop writing and drop what was not delivered."""
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join(STOP_DEADLINE_S)

    def _run(self) -> None:
        producer = Producer(
            {
                "bootstrap.servers": self._bootstrap_servers,
                "acks": 1,
                "linger.ms": 5,
                "message.timeout.ms": MESSAGE_TIMEOUT_MS,
                "socket.timeout.ms": MESSAGE_TIMEOUT_MS,
                "request.timeout.ms": MESSAGE_TIMEOUT_MS,
                "reconnect.backoff.max.ms": 500,
                "topic.metadata.refresh.interval.ms": 1000,
                **QUIET_LIBRDKAFKA,
            }
        )
        while not self._stop.wait(WRITE_INTERVAL_S):
            for topic, partitions in self._topics.items():
                for number in range(partitions):
                    try:
                        producer.produce(
                            topic, b"x" * 100, partition=number, on_delivery=self._on_delivery
                        )
                    except (BufferError, KafkaException):  # a full queue; a partition not yet known
                        self.failed += 1
            producer.poll(0)
        producer.purge()

    def _on_delivery(self, error: KafkaError | None, _message: Message) -> None:
        if error is None:
            self.delivered += 1
        else:
            self.failed += 1
