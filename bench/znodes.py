"""Clusters of znodes on a real ZooKeeper, of any size: Kafka's paths and payloads, without Kafka.

Brokers 1 to 3 hold the partitions whose leaders move; brokers 4 to 6 hold those that do not change,
if there are any. A leader moves along the replicas: 1, 2, 3, 1.
"""

from __future__ import annotations

import json
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

from kazoo.client import KazooClient
from kazoo.protocol.states import ZnodeStat

from controller_model.kafka.ids import TopicPartition
from pipeline.runtime import EnvironmentProblemError

MOVING, STAYING = (1, 2, 3), (4, 5, 6)
"""Replicas of a partition of each kind."""
CREATES_AT_ONCE = 500
"""Znodes in one transaction: far below the 1 MiB that ZooKeeper takes in a request."""
ZOOKEEPER_BYTES_PER_PARTITION = 2_048
"""Bytes of ZooKeeper's heap for a partition's directory and its state: twice what they take."""
UNDER_WAY = 2_000
"""Requests that wait for their replies: enough to fill the connection."""
PACE_S = 0.01
"""Writes are sent in bursts of this interval: a sleep for each write would not reach 3,000 a second."""
CONNECT_DEADLINE_S = 20.0


class Size(NamedTuple):
    """A cluster's topics, and the partitions of each."""

    topics: int
    per_topic: int

    @property
    def partitions(self) -> int:
        """The number of all partitions."""
        return self.topics * self.per_topic


class Written(NamedTuple):
    """A write of a partition's state, as ZooKeeper stamped it."""

    at: float
    """Unix time in seconds by ZooKeeper's clock: mtime, which is no later than the reply."""
    version: int
    """The state's partition epoch after the write."""


class ZnodeCluster:
    """The znodes of a cluster; its brokers live as long as the client's session."""

    def __init__(
        self,
        client: KazooClient,
        size: Size,
        *,
        moves: Callable[[int], bool] = lambda _number: True,
    ) -> None:
        """Describe the cluster; `moves` returns whether the leader of the partition of this number moves."""
        self.size = size
        self._client = client
        self._moves = moves
        self._steps = [0] * size.partitions

    def make(self) -> int:
        """Write all znodes; return their number."""
        stay = not all(map(self._moves, range(self.size.partitions)))
        brokers = MOVING + STAYING if stay else MOVING
        registration = {"version": 5, "host": "localhost", "port": 9092, "endpoints": []}
        controller = {"version": 2, "brokerid": 3, "timestamp": "0", "kraftControllerEpoch": -1}
        nodes: list[tuple[str, bytes, bool]] = [
            ("/controller_epoch", b"1", False),
            ("/controller", json.dumps(controller).encode(), True),
            ("/brokers", b"", False),
            ("/brokers/ids", b"", False),
            ("/brokers/topics", b"", False),
        ]
        live = json.dumps(registration | {"timestamp": "0"}).encode()
        nodes += [(f"/brokers/ids/{broker}", live, True) for broker in brokers]
        count = len(nodes)
        requests: deque[Any] = deque()
        requests.append(self._create(nodes))
        for topic in range(self.size.topics):
            nodes = self._topic(topic)
            count += len(nodes)
            for begin in range(0, len(nodes), CREATES_AT_ONCE):
                requests.append(self._create(nodes[begin : begin + CREATES_AT_ONCE]))
            while len(requests) > UNDER_WAY // CREATES_AT_ONCE:
                _check(requests.popleft().get())
        for request in requests:
            _check(request.get())
        return count

    def make_chroot(self, name: str) -> None:
        """Make the root of another cluster on the same ZooKeeper."""
        self._client.create(f"/{name}")

    def path(self, number: int) -> str:
        """Return the path of the state of the partition of that number."""
        topic, partition = divmod(number, self.size.per_topic)
        return f"/brokers/topics/topic-{topic}/partitions/{partition}/state"

    def id_of(self, number: int) -> TopicPartition:
        """Return the topic and partition of that number."""
        topic, partition = divmod(number, self.size.per_topic)
        return TopicPartition(f"topic-{topic}", partition)

    def leader(self, number: int) -> int:
        """Return the current leader of the partition of that number."""
        return self._replicas(number)[self._steps[number] % len(MOVING)]

    def move(self, number: int) -> Written:
        """Write a state with the next leader, and wait for the reply."""
        self._steps[number] += 1
        return stamp(self._client.set(self.path(number), self._state(number)))

    def shrink(self, number: int) -> Written:
        """Write a state whose ISR lacks the replica after the leader, and wait for the reply."""
        replicas = self._replicas(number)
        lost = replicas[(self._steps[number] + 1) % len(replicas)]
        isr = [replica for replica in replicas if replica != lost]
        return stamp(self._client.set(self.path(number), self._state(number, isr)))

    def move_all(
        self, numbers: Sequence[int], *, rate_per_s: float
    ) -> dict[TopicPartition, Written]:
        """Move the leaders of these partitions, in this order, at no more than this rate."""
        under_way: deque[tuple[int, Any]] = deque()
        written = {}
        began = time.monotonic()
        for index, number in enumerate(numbers):
            while len(under_way) >= UNDER_WAY or (under_way and under_way[0][1].ready()):
                done, request = under_way.popleft()
                written[self.id_of(done)] = stamp(request.get())
            ahead_s = began + index / rate_per_s - time.monotonic()
            if ahead_s > PACE_S:
                time.sleep(ahead_s)
            self._steps[number] += 1
            request = self._client.set_async(self.path(number), self._state(number))
            under_way.append((number, request))
        for done, request in under_way:
            written[self.id_of(done)] = stamp(request.get())
        return written

    def _topic(self, topic: int) -> list[tuple[str, bytes, bool]]:
        numbers = range(topic * self.size.per_topic, (topic + 1) * self.size.per_topic)
        replicas = {str(p): self._replicas(number) for p, number in enumerate(numbers)}
        assignment = json.dumps({"version": 2, "partitions": replicas}).encode()
        path = f"/brokers/topics/topic-{topic}"
        nodes = [(path, assignment, False), (f"{path}/partitions", b"", False)]
        for number in numbers:
            state = self.path(number)
            nodes += [(state.removesuffix("/state"), b"", False)]
            nodes += [(state, self._state(number), False)]
        return nodes

    def _replicas(self, number: int) -> tuple[int, ...]:
        return MOVING if self._moves(number) else STAYING

    def _state(self, number: int, isr: Sequence[int] = ()) -> bytes:
        listed = b",".join(b"%d" % replica for replica in isr or self._replicas(number))
        return b'{"controller_epoch":1,"leader":%d,"version":1,"leader_epoch":%d,"isr":[%b]}' % (
            self.leader(number),
            self._steps[number],
            listed,
        )

    def _create(self, nodes: list[tuple[str, bytes, bool]]) -> Any:
        transaction = self._client.transaction()
        for path, value, ephemeral in nodes:
            transaction.create(path, value, ephemeral=ephemeral)
        return transaction.commit_async()


def connect(hosts: str) -> KazooClient:
    """Return a connected client; the caller stops and closes it."""
    client = KazooClient(hosts, timeout=60.0)
    client.start(timeout=CONNECT_DEADLINE_S)
    return client


@contextmanager
def connected(hosts: str) -> Iterator[KazooClient]:
    """Yield a connected client; stop and close it at the end."""
    client = connect(hosts)
    try:
        yield client
    finally:
        client.stop()
        client.close()


def stamp(stat: ZnodeStat) -> Written:
    """Return a write, from the znode's Stat afterwards."""
    return Written(stat.mtime / 1000, stat.version)


def _check(results: list[Any]) -> None:
    failed = [result for result in results if isinstance(result, Exception)]
    if failed:
        raise EnvironmentProblemError(f"ZooKeeper made no cluster: {failed[0]!r}")
