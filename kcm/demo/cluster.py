"""The cluster of the demo: a ZooKeeper, three Kafka brokers in ZooKeeper mode, and their load.

It is tuned so that effects show soon: a session ends seconds after a kill instead of 18, a follower
that stalls leaves the ISR after about two seconds instead of 30, and Kafka does not rebalance
leaders by itself.
"""

import time
from pathlib import Path

from confluent_kafka import ElectionType, KafkaException
from confluent_kafka.admin import NewTopic

from kcm.demo.load import Load
from kcm.demo.truth_reader import KafkaTruth, ZooKeeperTruth
from kcm.elect.admin import NOT_NEEDED, error_name
from kcm.servers.controller_handle import ControllerHandle
from kcm.servers.jars import Jars
from kcm.servers.kafka import ZooKeeperModeBroker
from kcm.servers.supervisor import Supervisor
from kcm.servers.zookeeper import ZooKeeper

BROKER_IDS = (0, 1, 2)  # with 0: careless code takes this id for "none"
SESSION_TIMEOUT_MS = 4000  # a kill shows 2.7-4 s later; shorter ones expire by themselves when busy
LONG_SESSION_TIMEOUT_MS = 30_000  # a pause as long as the step takes must not end the session
REPLICA_LAG_MS = 1500  # a follower that stalls leaves the ISR 1.5-2.3 s later; less flaps when busy
REQUEST_DEADLINE_S = 15.0  # for AdminClient requests: one is sometimes lost when a broker dies
ELECTION_DEADLINE_S = 45.0  # a broker that has just come back may be slow to follow, or to elect
ELECTION_POLL_S = 0.2  # when asked again, the controller still works on the earlier request

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

    def bring_back(self) -> list[int]:
        """Start all brokers that are down at once, wait for them, and return their ids.

        Their sessions are long from now on, so that a pause does not expire them.
        """
        down = [broker for broker in self.brokers.values() if not broker.running]
        for broker in down:
            broker.session_timeout_ms = LONG_SESSION_TIMEOUT_MS
            broker.start(wait=False)
        for broker in down:
            broker.wait_ready()
        return [broker.broker_id for broker in down]

    def elect_preferred(self) -> None:
        """Run the preferred-replica election for all partitions, as kafka-leader-election does.

        The request is repeated while a partition cannot be elected and while no answer arrives.
        Where the controller took a request and did not answer in time, the next answer is that no
        election is needed. Each time, the brokers are asked which of them is the controller, because
        the client keeps using a former one. Raises TimeoutError when that does not help.
        """
        deadline = time.monotonic() + ELECTION_DEADLINE_S
        while error := self._ask_for_preferred():
            if time.monotonic() >= deadline:
                raise TimeoutError(f"not elected: {error}, for {ELECTION_DEADLINE_S:g} s")
            time.sleep(ELECTION_POLL_S)

    def _ask_for_preferred(self) -> str:
        """Ask once; return why a needed election did not happen, empty when each did."""
        self.kafka.read()
        # no timeouts here: confluent-kafka 2.16 raises SystemError when it is given any
        asked = self.kafka.admin.elect_leaders(ElectionType.PREFERRED)
        try:
            answers = asked.result().values()
        except KafkaException as error:
            return error_name(error)
        errors = (error_name(answer) for answer in answers if answer is not None)
        return next((error for error in errors if error != NOT_NEEDED), "")
