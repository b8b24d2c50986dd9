"""Real controllers, and brokers that speak the brokers' protocol to them and hold nothing.

A quorum elects leaders, keeps ISRs and fences brokers for whoever registers and sends heartbeats. So clusters of any
size are made in seconds, and thousands of changes a second come from one process. What the controllers write is
what they write for real brokers. What a broker must know of its partitions (leader epoch, partition epoch) is kept here
by the controller's own rules (PartitionRegistration.merge); a request that the controller refuses ends the benchmark.
"""

from __future__ import annotations

import socket
import struct
import tempfile
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from controller_model.kafka.ids import TopicPartition
from kcm.servers.jars import KAFKA_4, Jars, ensure_jars, ensure_set
from kcm.servers.kraft_cluster import KraftCluster
from kcm.servers.ports import HOST
from kcm.servers.supervisor import Supervisor
from kraft_source.wire.codec import Values, read_uvarint, reader, write
from kraft_source.wire.schema import Message
from pipeline.runtime import EnvironmentProblemError, KcmError
from tests.support.metadata_log import uuid_of
from tools.kraft.generate import message, read_definitions

REQUESTS = {
    "BrokerRegistration": 4,
    "BrokerHeartbeat": 1,
    "CreateTopics": 7,
    "AlterPartition": 3,
    "ElectLeaders": 2,
}
"""The version of each request: the newest of Kafka 3.9, which Kafka 4 has as well."""
FEATURES = (
    *("metadata.version", "kraft.version", "transaction.version", "group.version"),
    *("eligible.leader.replicas.version", "share.version", "streams.version"),
)
MAX_LEVEL = 100
HEARTBEAT_S = 0.5
ANSWER_S = 120.0
SETTLED_S = 60.0
RECORDS_AT_ONCE = 5_000
"""Partitions of one request: a batch of the metadata log has 10,000 records at most."""
NOT_CONTROLLER = 41
_PREFERRED = 0
_NOT_NEEDED = 84  # ELECTION_NOT_NEEDED
SESSION_MS = 6_000
PROPERTIES: dict[str, str | int] = {
    "auto.leader.rebalance.enable": "false",  # elections are asked for here
}


@cache
def _messages() -> Mapping[str, Message]:
    definitions = read_definitions(ensure_set(KAFKA_4)["broker"])
    return {
        name: message(definitions[name], version, version)
        for request, version in REQUESTS.items()
        for name in (f"{request}Request", f"{request}Response")
    } | {"RequestHeader": message(definitions["RequestHeader"], 2, 2)}


class Client:
    """A connection to a controller, for the requests of brokers and admin clients."""

    def __init__(self, port: int) -> None:
        self._socket = socket.create_connection((HOST, port), timeout=ANSWER_S)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._number = 0

    def call(self, name: str, values: Values) -> Values:
        """Return the answer to a request; raise OSError when the connection ends."""
        request, response = _messages()[f"{name}Request"], _messages()[f"{name}Response"]
        self._number += 1
        header = {
            "request_api_key": request.api_key,
            "request_api_version": REQUESTS[name],
            "correlation_id": self._number,
            "client_id": "bench",
        }
        data = write(_messages()["RequestHeader"], 2, header) + write(
            request, REQUESTS[name], values
        )
        self._socket.sendall(struct.pack(">i", len(data)) + data)
        (size,) = struct.unpack(">i", self._receive(4))
        answer = self._receive(size)
        tags, at = read_uvarint(answer, 4)
        if tags:
            raise EnvironmentProblemError(f"the header of {name}'s answer has {tags} tags")
        return reader(response, REQUESTS[name])(answer, at)[0]

    def _receive(self, size: int) -> bytes:
        data = b""
        while len(data) < size:
            part = self._socket.recv(size - len(data))
            if not part:
                raise ConnectionResetError("the controller closed the connection")
            data += part
        return data

    def close(self) -> None:
        """Close the connection."""
        self._socket.close()


@dataclass
class Partition:
    """What a partition's leader knows of it."""

    topic_id: str
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    leader: int
    leader_epoch: int = 0
    partition_epoch: int = 0

    def elect(self, leader: int) -> None:
        """Let another replica lead."""
        self.leader = leader
        self.leader_epoch += 1


class FakeBroker:
    """A registration, and the thread that sends its heartbeats."""

    def __init__(self, broker_id: int, leader_port: Callable[[], int]) -> None:
        self.id = broker_id
        self.epoch = -1
        self.is_fenced = True
        self._leader_port = leader_port
        self._incarnation = 0
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self, cluster_id: str) -> None:
        """Register as a new process, and send heartbeats until `stop`."""
        self._incarnation += 1
        client = Client(self._leader_port())
        answer = client.call(
            "BrokerRegistration",
            {
                "broker_id": self.id,
                "cluster_id": cluster_id,
                "incarnation_id": uuid_of(10**9 + 1_000 * self.id + self._incarnation),
                "listeners": [
                    {
                        "name": "PLAINTEXT",
                        "host": HOST,
                        "port": 9_000 + self.id,
                        "security_protocol": 0,
                    }
                ],
                "features": [
                    {
                        "name": name,
                        "min_supported_version": 0,
                        "max_supported_version": MAX_LEVEL,
                    }
                    for name in FEATURES
                ],
                "log_dirs": [uuid_of(10**6 + self.id)],
                "previous_broker_epoch": -1,
            },
        )
        client.close()
        if answer["error_code"]:
            raise EnvironmentProblemError(f"broker {self.id} is refused: {answer['error_code']}")
        self.epoch = answer["broker_epoch"]
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._beat, args=(self._stopping,), daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Send no more heartbeats, as a process that was killed."""
        self._stopping.set()
        if self._thread is not None:
            self._thread.join()

    def _beat(self, stopping: threading.Event) -> None:
        client: Client | None = None
        values = {
            "broker_id": self.id,
            "broker_epoch": self.epoch,
            "current_metadata_offset": 2**40,
            "want_fence": False,
            "want_shut_down": False,
        }
        while not stopping.is_set():
            try:
                client = client or Client(self._leader_port())
                answer = client.call("BrokerHeartbeat", values)
                self.is_fenced = answer["is_fenced"]
                is_refused = bool(answer["error_code"])
            except (OSError, KcmError):
                is_refused = True
            if is_refused and client is not None:
                client.close()
                client = None
            stopping.wait(HEARTBEAT_S if client else 0.1)
        if client is not None:
            client.close()


class FakeCluster:
    """Controllers that are real, and brokers that are not."""

    def __init__(
        self, kraft: KraftCluster, supervisor: Supervisor, jars: Jars, folder: Path
    ) -> None:
        """Describe it; `jars` are those of the pipeline."""
        self.kraft, self.supervisor, self.jars, self.folder = kraft, supervisor, jars, folder
        self.brokers: dict[int, FakeBroker] = {}
        self.partitions: dict[TopicPartition, Partition] = {}
        self._client: Client | None = None

    @property
    def controllers(self) -> str:
        """The controllers' addresses."""
        return self.kraft.quorum.bootstrap_controllers

    @property
    def controller_pids(self) -> list[int]:
        """The processes of the controllers."""
        return [each.pid for each in self.kraft.controllers.values() if each.pid is not None]

    def leader_port(self) -> int:
        """Return where the active controller listens."""
        return self.kraft.quorum.ports[self.kraft.await_leader().id]

    def call(self, name: str, values: Values) -> Values:
        """Ask the active controller; again where another has become active."""
        deadline = time.monotonic() + ANSWER_S
        while True:
            try:
                self._client = self._client or Client(self.leader_port())
                answer = self._client.call(name, values)
            except OSError:
                answer = {"error_code": NOT_CONTROLLER}
            if answer.get("error_code") != NOT_CONTROLLER:
                return answer
            if time.monotonic() > deadline:
                raise EnvironmentProblemError(f"no controller answers {name} within {ANSWER_S:g} s")
            if self._client is not None:
                self._client.close()
                self._client = None
            time.sleep(0.1)

    def register(self, *brokers: int) -> None:
        """Start brokers, and wait until the controller has unfenced them."""
        for each in brokers:
            fake = self.brokers.setdefault(each, FakeBroker(each, self.leader_port))
            fake.start(self.kraft.quorum.cluster_id)
        deadline = time.monotonic() + SETTLED_S
        while any(self.brokers[each].is_fenced for each in brokers):
            if time.monotonic() > deadline:
                raise EnvironmentProblemError(f"the brokers {brokers} stay fenced")
            time.sleep(0.05)

    def create(self, prefix: str, count: int, per_topic: int, brokers: Sequence[int]) -> None:
        """Create topics; each of the brokers leads as many of their partitions, and has a replica of all (three)."""
        made = 0
        while made < count:
            topics: dict[str, list[tuple[int, ...]]] = {}
            while made < count and len(topics) * per_topic < RECORDS_AT_ONCE:
                numbers = range(made, min(count, made + per_topic))
                topics[f"{prefix}-{made // per_topic}"] = [
                    tuple(brokers[(number + each) % len(brokers)] for each in range(3))
                    for number in numbers
                ]
                made += len(numbers)
            self._create(topics)

    def _create(self, topics: Mapping[str, Sequence[tuple[int, ...]]]) -> None:
        answer = self.call(
            "CreateTopics",
            {
                "topics": [
                    {
                        "name": name,
                        "num_partitions": -1,
                        "replication_factor": -1,
                        "assignments": [
                            {"partition_index": index, "broker_ids": list(replicas)}
                            for index, replicas in enumerate(placed)
                        ],
                    }
                    for name, placed in topics.items()
                ],
                "timeout_ms": int(ANSWER_S * 1000),
            },
        )
        for each in answer["topics"]:
            if each["error_code"]:
                raise EnvironmentProblemError(f"{each['name']}: {each['error_message']}")
            for index, replicas in enumerate(topics[each["name"]]):
                made = Partition(each["topic_id"], replicas, replicas, replicas[0])
                self.partitions[TopicPartition(each["name"], index)] = made

    def alter(self, isrs: Mapping[TopicPartition, tuple[int, ...]]) -> None:
        """Let leaders state ISRs, in one request for each leader."""
        by_leader: dict[int, dict[str, list[tuple[TopicPartition, tuple[int, ...]]]]] = {}
        for partition, isr in isrs.items():
            held = self.partitions[partition]
            topics = by_leader.setdefault(held.leader, defaultdict(list))
            topics[held.topic_id].append((partition, isr))
        for leader, topics in by_leader.items():
            answer = self.call(
                "AlterPartition",
                {
                    "broker_id": leader,
                    "broker_epoch": self.brokers[leader].epoch,
                    "topics": [
                        {
                            "topic_id": topic_id,
                            "partitions": [self._stated(*each) for each in stated],
                        }
                        for topic_id, stated in topics.items()
                    ],
                },
            )
            errors = [answer["error_code"]] + [
                each["error_code"] for topic in answer["topics"] for each in topic["partitions"]
            ]
            if any(errors):
                raise EnvironmentProblemError(f"AlterPartition of broker {leader}: {set(errors)}")
        for partition, isr in isrs.items():
            held = self.partitions[partition]
            held.isr = isr
            held.partition_epoch += 1

    def _stated(self, partition: TopicPartition, isr: Iterable[int]) -> Values:
        held = self.partitions[partition]
        return {
            "partition_index": partition.partition,
            "leader_epoch": held.leader_epoch,
            "new_isr_with_epochs": [
                {"broker_id": each, "broker_epoch": self.brokers[each].epoch} for each in isr
            ],
            "leader_recovery_state": 0,
            "partition_epoch": held.partition_epoch,
        }

    def fence(self, broker: int) -> None:
        """Stop a broker's heartbeats, and note what its controller will do when the session ends."""
        self.brokers[broker].stop()
        for held in self.partitions.values():
            if broker in held.isr and len(held.isr) > 1:
                held.isr = tuple(each for each in held.isr if each != broker)
                held.partition_epoch += 1
                if held.leader == broker:
                    held.elect(next(each for each in held.replicas if each in held.isr))

    def bring_back(self, broker: int, *, elect: bool = True) -> None:
        """Start a broker, let leaders take it into their ISRs, and, with `elect`, let the preferred replicas lead."""
        self.register(broker)
        lacking = [
            partition
            for partition, held in self.partitions.items()
            if broker in held.replicas and broker not in held.isr
        ]
        for begin in range(0, len(lacking), RECORDS_AT_ONCE):
            chunk = lacking[begin : begin + RECORDS_AT_ONCE]
            self.alter({each: (*self.partitions[each].isr, broker) for each in chunk})
        if elect:
            self.elect_preferred(lacking)

    def elect_preferred(self, partitions: Iterable[TopicPartition]) -> None:
        """Let the first replica of each of these lead."""
        waiting = [
            each
            for each in partitions
            if self.partitions[each].leader != self.partitions[each].replicas[0]
        ]
        for begin in range(0, len(waiting), RECORDS_AT_ONCE):
            topics: dict[str, list[int]] = defaultdict(list)
            for name, number in waiting[begin : begin + RECORDS_AT_ONCE]:
                topics[name].append(number)
            answer = self.call(
                "ElectLeaders",
                {
                    "election_type": _PREFERRED,
                    "topic_partitions": [
                        {"topic": name, "partitions": numbers} for name, numbers in topics.items()
                    ],
                    "timeout_ms": int(ANSWER_S * 1000),
                },
            )
            errors = {
                each["error_code"]
                for topic in answer["replica_election_results"]
                for each in topic["partition_result"]
            } - {0, _NOT_NEEDED}
            if errors:
                raise EnvironmentProblemError(f"ElectLeaders: {errors}")
        for each in waiting:
            held = self.partitions[each]
            held.elect(held.replicas[0])
            held.partition_epoch += 1


@contextmanager
def fake_cluster(
    *,
    controllers: int = 3,
    brokers: Sequence[int] = (),
    heap_mib: int = 384,
    properties: Mapping[str, str | int] | None = None,
) -> Iterator[FakeCluster]:
    """Start controllers of the newest Kafka, and the real brokers with these ids; everything ends with the block."""
    jars = ensure_jars()
    newest = Jars(connector=jars.connector, broker=ensure_set(KAFKA_4)["broker"])
    with (
        tempfile.TemporaryDirectory(prefix="kcm-bench-") as name,
        Supervisor(Path(name), kill_on_exit=True) as supervisor,
    ):
        folder = Path(name)
        kraft = KraftCluster(
            supervisor,
            newest,
            folder,
            controllers=[3001 + each for each in range(controllers)],
            brokers=brokers,
            session_timeout_ms=SESSION_MS,
            properties={**PROPERTIES, **(properties or {})},
        )
        for node in kraft.controllers.values():
            node.heap_mib = heap_mib
        kraft.start()
        cluster = FakeCluster(kraft, supervisor, jars, folder)
        try:
            yield cluster
        finally:
            for each in cluster.brokers.values():
                each.stop()
