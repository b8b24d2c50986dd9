"""Brokers by protocol alone: they register with real controllers, send heartbeats, and change the ISRs of what they lead.

A controller knows of a broker only what the broker tells it, so thousands of changes a second and hundreds of
thousands of partitions need no JVM but the controllers' own. The requests' tables are made from the JSON in the release's jars.
"""

from __future__ import annotations

import socket
import struct
import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, NamedTuple, Self

from kcm.servers.kraft_cluster import KraftCluster
from kcm.servers.ports import HOST
from kcm.servers.quorum import random_id
from kraft_source.wire.codec import READ_ERRORS, Values, reader, write
from kraft_source.wire.schema import Message
from pipeline.runtime import UnreachableError
from tests.support.release_jars import jars_of
from tests.support.releases import Release
from tests.support.waiting import wait_until
from tools.kraft.generate import message, read_definitions

VERSIONS = {
    "ApiVersions": 3,
    "BrokerRegistration": 4,
    "BrokerHeartbeat": 1,
    "AlterPartition": 3,
    "AssignReplicasToDirs": 0,
    "CreateTopics": 7,
    "DeleteTopics": 6,
    "ElectLeaders": 2,
    "UnregisterBroker": 0,
    "IncrementalAlterConfigs": 1,
    "AlterPartitionReassignments": 0,
}
"""The requests and their versions, which Kafka 3.9 and 4 know alike."""
MAX_PARTITIONS = 5_000
"""Partitions of one request: the controller takes at most 10,000 records (QuorumController.MAX_RECORDS_PER_USER_OP)."""

_TIMEOUT_S = 30.0
_HEARTBEAT_S = 0.3
_OFFSET_OF_ALL = 1 << 40
"""The metadata offset that each heartbeat claims to have applied: the controller unfences who is caught up."""
_SIZE = struct.Struct(">i")
_NOT_CONTROLLER = 41
_BROKEN = (OSError, UnreachableError, *READ_ERRORS)


class Tables(NamedTuple):
    """Tables of requests and answers, by their names in Kafka."""

    messages: Mapping[str, Message]

    @classmethod
    def of(cls, release: Release) -> Tables:
        """Return those of a release."""
        definitions = read_definitions(jars_of(release))
        names = [f"{name}{half}" for name in VERSIONS for half in ("Request", "Response")]
        made = {
            name: message(
                definitions[name],
                *2 * (VERSIONS[name.removesuffix("Request").removesuffix("Response")],),
            )
            for name in names
        }
        heads = {name: message(definitions[name]) for name in ("RequestHeader", "ResponseHeader")}
        return cls({**made, **heads})


class ControllerClient:
    """Asks the active controller, whichever that is."""

    def __init__(self, cluster: KraftCluster, tables: Tables) -> None:
        self._cluster = cluster
        self._tables = tables.messages
        self._socket: socket.socket | None = None
        self._correlation_id = 0

    def call(self, name: str, values: Values) -> Values:
        """Return the answer of the active controller; waits for one while the quorum has none."""
        deadline = time.monotonic() + _TIMEOUT_S
        while True:
            try:
                answer = self._exchange(name, values)
            except _BROKEN:
                answer = {"error_code": _NOT_CONTROLLER}
            if answer.get("error_code", 0) != _NOT_CONTROLLER:
                return answer
            self.close()
            assert time.monotonic() < deadline, f"no controller answered {name} in {_TIMEOUT_S} s"
            time.sleep(0.1)

    def close(self) -> None:
        """Close the connection; the next call opens one to the leader of that moment."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def _exchange(self, name: str, values: Values) -> Values:
        if self._socket is None:
            leader = self._cluster.await_leader()
            address = (HOST, self._cluster.quorum.ports[leader.id])
            self._socket = socket.create_connection(address, timeout=_TIMEOUT_S)
        version = VERSIONS[name]
        request, response = self._tables[f"{name}Request"], self._tables[f"{name}Response"]
        self._correlation_id += 1
        header = {
            "request_api_key": request.api_key,
            "request_api_version": version,
            "correlation_id": self._correlation_id,
            "client_id": "imitated",
        }
        data = write(self._tables["RequestHeader"], 2, header) + write(request, version, values)
        self._socket.sendall(_SIZE.pack(len(data)) + data)
        answer = self._receive(self._receive_size())
        # The answer to ApiVersions has the oldest header.
        form = 0 if name == "ApiVersions" else 1
        _, at = reader(self._tables["ResponseHeader"], form)(answer, 0)
        return reader(response, version)(answer, at)[0]

    def _receive_size(self) -> int:
        return int(_SIZE.unpack(self._receive(_SIZE.size))[0])

    def _receive(self, size: int) -> bytes:
        assert self._socket is not None
        data = bytearray()
        while len(data) < size:
            part = self._socket.recv(size - len(data))
            if not part:
                raise ConnectionResetError("closed")
            data += part
        return bytes(data)


@dataclass
class ImitatedPartition:
    """A partition as its leader knows it; the controller's answers renew it."""

    topic_id: str
    number: int
    replicas: tuple[int, ...]
    leader: int
    isr: tuple[int, ...]
    leader_epoch: int = 0
    partition_epoch: int = 0


@dataclass
class ImitatedBroker:
    """What a broker tells the controller of itself; change it, and the next heartbeat says so."""

    id: int
    epoch: int
    log_dirs: tuple[str, ...]
    is_alive: bool = True
    """Whether it sends heartbeats."""
    shuts_down: bool = False
    offline_log_dirs: tuple[str, ...] = ()
    partitions: list[ImitatedPartition] = field(default_factory=list)


class ImitatedBrokers:
    """Brokers of one cluster, which live until the context ends."""

    def __init__(self, cluster: KraftCluster, release: Release) -> None:
        self._tables = Tables.of(release)
        self._cluster = cluster
        self.client = ControllerClient(cluster, self._tables)
        self.brokers: dict[int, ImitatedBroker] = {}
        self._ended = threading.Event()
        self._heartbeats = threading.Thread(target=self._beat, name="heartbeats", daemon=True)

    def __enter__(self) -> Self:
        self._heartbeats.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        self._ended.set()
        self._heartbeats.join(_TIMEOUT_S)
        self.client.close()

    def register(
        self, broker_id: int, *, rack: str | None = None, log_dirs: int = 1
    ) -> ImitatedBroker:
        """Register a broker, or register it again, as a new process of the same id."""
        finalized = wait_until(self._finalized_features)
        directories = tuple(random_id() for _ in range(log_dirs))
        answer = self.client.call(
            "BrokerRegistration",
            {
                "broker_id": broker_id,
                "cluster_id": self._cluster.quorum.cluster_id,
                "incarnation_id": random_id(),
                "listeners": [
                    {
                        "name": "PLAINTEXT",
                        "host": HOST,
                        "port": 9000 + broker_id,
                        "security_protocol": 0,
                    }
                ],
                "features": [
                    {
                        "name": name,
                        "min_supported_version": level,
                        "max_supported_version": level,
                    }
                    for name, level in finalized.items()
                ],
                "rack": rack,
                "log_dirs": directories,
                "previous_broker_epoch": -1,
            },
        )
        assert answer["error_code"] == 0, answer
        broker = ImitatedBroker(broker_id, answer["broker_epoch"], directories)
        self.brokers[broker_id] = broker
        return broker

    def create_topic(
        self, name: str, assignment: Sequence[Sequence[int]]
    ) -> list[ImitatedPartition]:
        """Create a topic whose brokers are all unfenced, and return its partitions."""
        assert len(assignment) <= MAX_PARTITIONS
        answer = self.client.call(
            "CreateTopics",
            {
                "topics": [
                    {
                        "name": name,
                        "num_partitions": -1,
                        "replication_factor": -1,
                        "assignments": [
                            {"partition_index": number, "broker_ids": replicas}
                            for number, replicas in enumerate(assignment)
                        ],
                        "configs": [],
                    }
                ],
                "timeout_ms": 30_000,
            },
        )
        (topic,) = answer["topics"]
        assert topic["error_code"] == 0, topic
        made = [
            ImitatedPartition(
                topic["topic_id"], number, tuple(replicas), replicas[0], tuple(replicas)
            )
            for number, replicas in enumerate(assignment)
        ]
        for each in made:
            self.brokers[each.leader].partitions.append(each)
        return made

    def alter_isr(self, partitions: Iterable[ImitatedPartition], isr: Sequence[int]) -> int:
        """Set the ISR of partitions, as their leaders would; return how many the controller changed."""
        by_leader: dict[int, list[ImitatedPartition]] = {}
        for each in partitions:
            by_leader.setdefault(each.leader, []).append(each)
        return sum(self._alter(self.brokers[leader], led, isr) for leader, led in by_leader.items())

    def _alter(
        self, leader: ImitatedBroker, partitions: Sequence[ImitatedPartition], isr: Sequence[int]
    ) -> int:
        known = {(each.topic_id, each.number): each for each in partitions}
        topics: dict[str, list[Values]] = {}
        for each in partitions:
            in_sync = [
                {"broker_id": broker, "broker_epoch": self.brokers[broker].epoch} for broker in isr
            ]
            topics.setdefault(each.topic_id, []).append(
                {
                    "partition_index": each.number,
                    "leader_epoch": each.leader_epoch,
                    "new_isr_with_epochs": in_sync,
                    "leader_recovery_state": 0,
                    "partition_epoch": each.partition_epoch,
                }
            )
        answer = self.client.call(
            "AlterPartition",
            {
                "broker_id": leader.id,
                "broker_epoch": leader.epoch,
                "topics": [{"topic_id": each, "partitions": its} for each, its in topics.items()],
            },
        )
        assert answer["error_code"] == 0, answer
        changed = 0
        for topic in answer["topics"]:
            for its in topic["partitions"]:
                if its["error_code"]:
                    continue
                partition = known[topic["topic_id"], its["partition_index"]]
                partition.isr, partition.leader = its["isr"], its["leader_id"]
                partition.leader_epoch = its["leader_epoch"]
                partition.partition_epoch = its["partition_epoch"]
                changed += 1
        return changed

    def _finalized_features(self) -> dict[str, int]:
        answer = self.client.call(
            "ApiVersions", {"client_software_name": "kcm", "client_software_version": "1"}
        )
        found = answer.get("finalized_features", ())
        return {each["name"]: each["max_version_level"] for each in found}

    def _beat(self) -> None:
        """Send every living broker's heartbeats until the context ends."""
        client = ControllerClient(self._cluster, self._tables)
        while not self._ended.wait(_HEARTBEAT_S):
            for broker in list(self.brokers.values()):
                if broker.is_alive and not self._ended.is_set():
                    with suppress(*_BROKEN, AssertionError):
                        client.call("BrokerHeartbeat", self._heartbeat_of(broker))
        client.close()

    def _heartbeat_of(self, broker: ImitatedBroker) -> dict[str, Any]:
        return {
            "broker_id": broker.id,
            "broker_epoch": broker.epoch,
            "current_metadata_offset": _OFFSET_OF_ALL,
            "want_fence": False,
            "want_shut_down": broker.shuts_down,
            "offline_log_dirs": broker.offline_log_dirs,
        }
