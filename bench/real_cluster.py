"""A real cluster of three brokers in ZooKeeper mode with thousands of partitions, whose brokers are killed.

Broker 3 is started first, so that it is the controller. A third of the partitions, or a given
number, prefer broker 1. The topics are empty: their leaders cost as much as those of others.
"""

from __future__ import annotations

import random
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
from confluent_kafka import ElectionType, KafkaException
from confluent_kafka.admin import AdminClient, NewTopic
from kazoo.client import KazooClient
from kazoo.protocol.states import ZnodeStat

from bench.znodes import UNDER_WAY, Written, connect, stamp
from controller_model.kafka.ids import TopicPartition
from kcm.servers.controller_handle import ControllerHandle
from kcm.servers.jars import Jars, ensure_jars
from kcm.servers.kafka import QUIET_LIBRDKAFKA, ZooKeeperModeBroker
from kcm.servers.supervisor import Supervisor
from kcm.servers.zookeeper import ZooKeeper
from pipeline.runtime import EnvironmentProblemError

LEADER, FOLLOWER, CONTROLLER = BROKERS = (1, 2, 3)
"""Broker 1 leads the given number, and is killed; broker 3 is the controller at first."""
PARTITIONS = 10_000
PER_TOPIC = 10
SEED = 1  # the same placement every time
HEAP_MIB = 1_024  # with 384 a broker of 10,000 replicas collects garbage all the time
SESSION_TIMEOUT_MS = 9_000  # brokers that start together on two cores pause for seconds
TOPICS_AT_ONCE = 50  # in one request: idle cores answer it within seconds
DEADLINE_S = (
    600.0  # creating 1,000 topics takes two minutes, a restart one; on busy cores minutes more
)
POLL_S = 1.0
SAMPLES = 50
ELECTION_POLL_S = 0.05
PROPERTIES: dict[str, str | int] = {
    "log.index.size.max.bytes": 4_096,  # the topics are empty
    "num.recovery.threads.per.data.dir": 2,
}


class State(NamedTuple):
    """The content of a partition's state znode."""

    leader: int
    isr: tuple[int, ...]
    written: Written


class RealCluster:
    """The servers and their topics; the supervisor stops the servers."""

    def __init__(self, supervisor: Supervisor, jars: Jars, folder: Path) -> None:
        """Describe the servers; nothing is started yet."""
        self.supervisor, self.jars, self.folder = supervisor, jars, folder
        self.zookeeper = ZooKeeper(supervisor, jars, folder / "zookeeper")
        self.brokers = {
            broker: ZooKeeperModeBroker(
                broker,
                supervisor,
                jars,
                folder / f"kafka-{broker}",
                zookeeper_connect=self.zookeeper.connect_string,
                session_timeout_ms=SESSION_TIMEOUT_MS,
                properties=PROPERTIES,
            )
            for broker in BROKERS
        }
        self.preferred: dict[TopicPartition, int] = {}
        """Each partition's preferred replica."""
        self._client: KazooClient | None = None

    @property
    def client(self) -> KazooClient:
        """The benchmark's own client, once it is started."""
        if self._client is None:
            raise EnvironmentProblemError("the cluster is not started")
        return self._client

    @property
    def bootstrap_servers(self) -> str:
        """The brokers' addresses for clients."""
        return ",".join(broker.bootstrap_servers for broker in self.brokers.values())

    def start(self) -> None:
        """Start ZooKeeper and the brokers, the controller first."""
        self.zookeeper.start()
        for broker in (CONTROLLER, LEADER, FOLLOWER):
            self.brokers[broker].heap_mib = HEAP_MIB
            self.brokers[broker].start()
        self._client = connect(self.zookeeper.connect_string)

    def close(self) -> None:
        """Close the benchmark's own client."""
        if self._client is not None:
            self._client.stop()
            self._client.close()

    def create(self, partitions: int, led: int) -> None:
        """Create topics; broker 1 leads `led` of their partitions, the others share the rest."""
        admin = AdminClient({"bootstrap.servers": self.bootstrap_servers, **QUIET_LIBRDKAFKA})
        topics, self.preferred = placed(partitions, led)
        for begin in range(0, len(topics), TOPICS_AT_ONCE):
            created = admin.create_topics(
                topics[begin : begin + TOPICS_AT_ONCE],
                operation_timeout=DEADLINE_S,
                request_timeout=DEADLINE_S,
            )
            for future in created.values():
                future.result()
        self.await_states(self._settled, "every replica in its ISR")

    def states(self) -> dict[TopicPartition, State]:
        """Read the state of every partition that has one."""
        partitions = list(self.preferred)
        states = {}
        for begin in range(0, len(partitions), UNDER_WAY):
            asked = {p: self._ask(p) for p in partitions[begin : begin + UNDER_WAY]}
            for partition, request in asked.items():
                request.wait()
                if request.successful():
                    states[partition] = _state(*request.get())
        return states

    def kill(self, broker: int) -> None:
        """Kill a broker; its session expires by itself."""
        self.brokers[broker].kill()

    def bring_back(self, broker: int) -> None:
        """Restart it and wait until it is in every ISR and leads the partitions that prefer it."""
        self.brokers[broker].ready_deadline_s = DEADLINE_S
        self.brokers[broker].start()
        self.await_states(_whole, "every replica in its ISR")
        admin = AdminClient({"bootstrap.servers": self.bootstrap_servers, **QUIET_LIBRDKAFKA})
        with suppress(KafkaException):  # no answer in time: the effect is checked below
            admin.elect_leaders(ElectionType.PREFERRED).result()
        self.await_states(self._settled, "every partition led by its preferred replica")

    def await_led_by_others(self, broker: int) -> dict[TopicPartition, State]:
        """Wait until the broker leads nothing, and return all states.

        Only a few are polled until they have moved: reading ten thousand repeatedly would delay
        what is measured.
        """
        led = [partition for partition, leader in self.preferred.items() if leader == broker]
        some = led[:: max(1, len(led) // SAMPLES)]
        deadline = time.monotonic() + DEADLINE_S
        while any(_state(*self._ask(p).get()).leader == broker for p in some):
            if time.monotonic() >= deadline:
                raise EnvironmentProblemError(f"broker {broker} leads after {DEADLINE_S:.0f} s")
            time.sleep(POLL_S)
        return self.await_states(
            lambda states: all(state.leader != broker for state in states.values()),
            "new leaders for what the killed broker led",
        )

    def await_states(
        self, reached: Callable[[dict[TopicPartition, State]], bool], what: str
    ) -> dict[TopicPartition, State]:
        """Read the states until they are as wanted, and return them."""
        deadline = time.monotonic() + DEADLINE_S
        while not reached(states := self.states()):
            if time.monotonic() >= deadline:
                raise EnvironmentProblemError(f"not reached within {DEADLINE_S:.0f} s: {what}")
            time.sleep(POLL_S)
        return states

    @property
    def controller(self) -> ControllerHandle:
        """The cluster's /controller."""
        return ControllerHandle(self.client, self.zookeeper.port, poll_s=ELECTION_POLL_S)

    def _settled(self, states: Mapping[TopicPartition, State]) -> bool:
        leaders = {partition: state.leader for partition, state in states.items()}
        return leaders == self.preferred and _whole(states)

    def _ask(self, partition: TopicPartition) -> Any:
        topic, number = partition
        return self.client.get_async(f"/brokers/topics/{topic}/partitions/{number}/state")


@contextmanager
def real_cluster() -> Iterator[RealCluster]:
    """Start it in its own folder; at the end, stop it and all that its supervisor has started."""
    with (
        tempfile.TemporaryDirectory(prefix="kcm-bench-") as folder,
        Supervisor(Path(folder), kill_on_exit=True) as supervisor,
    ):
        cluster = RealCluster(supervisor, ensure_jars(), Path(folder))
        try:
            cluster.start()
            yield cluster
        finally:
            cluster.close()


def _whole(states: Mapping[TopicPartition, State]) -> bool:
    return all(len(state.isr) == len(BROKERS) for state in states.values())


def _state(payload: bytes, stat: ZnodeStat) -> State:
    state = msgspec.json.decode(payload)
    return State(state["leader"], tuple(state["isr"]), stamp(stat))


def placed(partitions: int, led: int) -> tuple[list[NewTopic], dict[TopicPartition, int]]:
    """Return topics to create, and each partition's preferred replica, in random order."""
    places = [_replicas(number, led) for number in range(partitions)]
    random.Random(SEED).shuffle(places)  # noqa: S311  # a load, no secret
    topics, preferred = [], {}
    for begin in range(0, partitions, PER_TOPIC):
        name, replicas = f"topic-{begin // PER_TOPIC}", places[begin : begin + PER_TOPIC]
        topics.append(NewTopic(name, len(replicas), replica_assignment=replicas))
        for number, (first, *_) in enumerate(replicas):
            preferred[TopicPartition(name, number)] = first
    return topics, preferred


def _replicas(number: int, led: int) -> list[int]:
    if number < led:
        return [LEADER, FOLLOWER, CONTROLLER] if number % 2 else [LEADER, CONTROLLER, FOLLOWER]
    return [FOLLOWER, CONTROLLER, LEADER] if number % 2 else [CONTROLLER, LEADER, FOLLOWER]
