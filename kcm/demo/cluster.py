"""The cluster of the demo: a ZooKeeper, three Kafka brokers in ZooKeeper mode, and their load.

It is tuned so that effects show soon: a session ends seconds after a kill instead of 18, a follower
that stalls leaves the ISR after about two seconds instead of 30, and Kafka does not rebalance
leaders by itself.
"""

import threading
import time
from pathlib import Path

from confluent_kafka import ElectionType, KafkaError, KafkaException, Message, Producer
from confluent_kafka.admin import NewTopic

from kcm.demo.truth import KafkaTruth, ZooKeeperTruth
from kcm.elect.admin import NOT_NEEDED, error_name
from kcm.servers.controller_handle import ControllerHandle
from kcm.servers.jars import Jars
from kcm.servers.kafka import QUIET_LIBRDKAFKA, ZooKeeperModeBroker
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


class WatchedCluster:
    """The cluster that the demo breaks, and the operations that break and repair it."""

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
        self.truth = ZooKeeperTruth(self.zookeeper.connect_string)
        self.kafka = KafkaTruth(self.bootstrap_servers)
        self.load = Load(self.bootstrap_servers)
        self.stalled: ZooKeeperModeBroker | None = None
        """The broker that was paused, for the step that resumes it."""

    @property
    def bootstrap_servers(self) -> str:
        """Where clients reach the cluster, `host:port,…`."""
        return ",".join(broker.bootstrap_servers for broker in self.brokers.values())

    def close(self) -> None:
        """Stop the load and the demo's own clients; the supervisor stops the servers."""
        self.load.close()
        self.truth.close()

    def create_topic(self, name: str, *, partitions: int, replication_factor: int) -> None:
        """Create a topic and put load on it."""
        new = NewTopic(name, num_partitions=partitions, replication_factor=replication_factor)
        created = self.kafka.admin.create_topics([new], request_timeout=REQUEST_DEADLINE_S)
        created[name].result()
        self.load.write_to(name, partitions)

    @property
    def controller(self) -> ControllerHandle:
        """The cluster's /controller, read by a client of the demo's own."""
        return ControllerHandle(self.truth.client, self.zookeeper.port)

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
