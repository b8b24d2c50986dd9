"""The truth of a cluster: ZooKeeper's raw JSON by a plain kazoo client, Kafka's metadata by the AdminClient.

The rule: this module uses none of the monitor's code, so that an error in the monitor cannot hide
in the code that checks it. The definitions are Kafka's, as simple as they can be for a cluster in
which no topic is being deleted and no partition reassigned.

Every znode that counts has a one-shot watch. When a watch fires, everything is read again (it is a
small cluster). A change gets the time at which the watch fired, not the later one at which the
reading ended, so that the monitor gets no advantage.
"""

import json
import logging
import threading
import time
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from typing import Any, NamedTuple

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient
from kazoo.client import KazooClient
from kazoo.exceptions import KazooException, NoNodeError

from kcm.demo.figures import Counts, Observations, TrueFigures
from kcm.servers.kafka import QUIET_LIBRDKAFKA

TOPICS = "/brokers/topics"
CONNECT_DEADLINE_S = 20.0  # the server is already up when this client starts
READ_PAUSE_S = 0.005  # between two readings, so that many events do not occupy a processor
RETRY_PAUSE_S = 0.1  # after a failed reading, before the next
STOP_DEADLINE_S = 5.0  # a reading takes milliseconds
METADATA_DEADLINE_S = 1.0  # a live broker answers in milliseconds; ask again rather than wait
REQUEST_TIMEOUT_MS = 10_000  # a request that a dying broker lost is given up after this


class TruePartition(NamedTuple):
    """One partition as ZooKeeper or a broker describes it; the first replica is the preferred one."""

    replicas: Collection[int]
    leader: int | None
    """-1: no leader; None: the controller has not created its state yet."""
    isr: Collection[int]


def figures_of_znodes(znodes: Mapping[str, bytes], *, base_epoch: int | None = None) -> TrueFigures:
    """Count everything from payloads by path; a broker is live if `/brokers/ids/N` is there.

    `base_epoch` is the epoch before the first step; None before that.
    """
    controller = json.loads(znodes.get("/controller", b'{"brokerid":-1}'))["brokerid"]
    epoch = int(znodes["/controller_epoch"]) if "/controller_epoch" in znodes else None
    topics = [p for p in znodes if p.startswith(f"{TOPICS}/") and p.count("/") == 3]  # noqa: PLR2004  # a topic's own
    partitions = []
    for path in topics:
        topic = path.rpartition("/")[2]
        for number, replicas in assignment(znodes[path]).items():
            state = json.loads(znodes.get(state_path(topic, number), b'{"leader":null,"isr":[]}'))
            partitions.append(TruePartition(replicas, state["leader"], state["isr"]))
    return count_figures(
        partitions,
        topics=len(topics),
        controller=int(controller),
        epoch=epoch,
        elections=None if epoch is None or base_epoch is None else epoch - base_epoch,
        brokers={int(p.rpartition("/")[2]) for p in znodes if p.startswith("/brokers/ids/")},
    )


def figures_of_metadata(metadata: Any) -> TrueFigures:
    """Count from a broker's answer to a metadata request, which has no epochs."""
    partitions = [
        TruePartition(partition.replicas, partition.leader, partition.isrs)
        for topic in metadata.topics.values()
        for partition in topic.partitions.values()
    ]
    return count_figures(
        partitions,
        topics=len(metadata.topics),
        controller=metadata.controller_id,
        epoch=None,
        elections=None,
        brokers=set(metadata.brokers),
    )


def state_path(topic: str, partition: int) -> str:
    """Return the path of the znode with a partition's leader and ISR."""
    return f"{TOPICS}/{topic}/partitions/{partition}/state"


def assignment(payload: bytes) -> dict[int, tuple[int, ...]]:
    """Return a topic's replicas by partition, from the payload of its znode.

    >>> assignment(b'{"version":1,"partitions":{"0":[2,0]}}')
    {0: (2, 0)}
    """
    partitions = json.loads(payload)["partitions"]
    return {int(number): tuple(replicas) for number, replicas in partitions.items()}


def count_figures(
    partitions: list[TruePartition],
    *,
    topics: int,
    controller: int,
    epoch: int | None,
    elections: int | None,
    brokers: set[int],
) -> TrueFigures:
    """Count the partitions; one without a state only adds to the number of partitions."""
    states = [partition for partition in partitions if partition.leader is not None]
    away = [partition for partition in states if partition.leader != next(iter(partition.replicas))]
    return TrueFigures(
        controller=controller,
        epoch=epoch,
        elections=elections,
        brokers=tuple(sorted(brokers)),
        leaders=_by_broker(partition.leader for partition in states),
        not_led=_by_broker(next(iter(partition.replicas)) for partition in away),
        topics=topics,
        partitions=len(partitions),
        offline=sum(partition.leader not in brokers for partition in states),
        under_replicated=sum(len(p.isr) < len(p.replicas) for p in states),
        imbalance=len(away),
    )


def _by_broker(brokers: Iterable[int | None]) -> Counts:
    return tuple(sorted(Counter(b for b in brokers if b is not None and b >= 0).items()))


def quiet_logger() -> logging.Logger:
    """Return a logger that drops everything: the demo kills the servers of its clients."""
    logger = logging.getLogger("kcm.demo.client")
    logger.propagate = False
    if not logger.handlers:
        logger.addHandler(logging.NullHandler())
    return logger


class ZooKeeperTruth:
    """ZooKeeper's truth, kept current by watches in a separate thread."""

    def __init__(self, hosts: str) -> None:
        self.observations = Observations()
        self.client = KazooClient(hosts=hosts, logger=quiet_logger())
        self._base_epoch: int | None = None
        self._fired_at: float | None = None
        self._fired = threading.Event()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="truth", daemon=True)

    def start(self) -> None:
        """Connect, and read for the first time soon after."""
        self.client.start(timeout=CONNECT_DEADLINE_S)
        self._thread.start()
        self._on_event(None)

    def close(self) -> None:
        """Stop reading and disconnect."""
        self._stop.set()
        self._fired.set()
        if self._thread.is_alive():
            self._thread.join(STOP_DEADLINE_S)
        self.client.stop()
        self.client.close()

    def begin(self) -> None:
        """Count elections from the current epoch on."""
        figures = self.observations.figures
        self._base_epoch = figures.epoch if figures else None
        self._on_event(None)

    def _on_event(self, _event: object) -> None:
        """Record when the first watch fired since the last reading began."""
        if self._fired_at is None:
            self._fired_at = time.monotonic()
        self._fired.set()

    def _run(self) -> None:
        while self._fired.wait() and not self._stop.is_set():
            self._fired.clear()
            fired_at, self._fired_at = self._fired_at, None
            try:
                figures = self._read()
            except (KazooException, ConnectionError):
                self._fired_at = fired_at
                self._fired.set()
                self._stop.wait(RETRY_PAUSE_S)
                continue
            self.observations.add(fired_at or time.monotonic(), figures)
            self._stop.wait(READ_PAUSE_S)

    def _read(self) -> TrueFigures:
        """Read all znodes that count, with a watch on each."""
        znodes = {f"/brokers/ids/{broker}": b"" for broker in self._children("/brokers/ids")}
        assigned = self._payloads(f"{TOPICS}/{topic}" for topic in self._children(TOPICS))
        states = (
            state_path(path.rpartition("/")[2], partition)
            for path, payload in assigned.items()
            for partition in assignment(payload)
        )
        znodes |= assigned | self._payloads(states)
        # The epoch is read after the changes made under it, so the figures are never ahead of it.
        znodes |= self._payloads(["/controller", "/controller_epoch"])
        return figures_of_znodes(znodes, base_epoch=self._base_epoch)

    def _children(self, path: str) -> list[str]:
        try:
            return list(self.client.get_children(path, watch=self._on_event))
        except NoNodeError:
            if self.client.exists(path, watch=self._on_event) is not None:
                self._on_event(None)
            return []

    def _payloads(self, paths: Iterable[str]) -> dict[str, bytes]:
        """Return the payloads of those that exist, requested all at once; a missing one is watched, too."""
        asked = {path: self.client.get_async(path, watch=self._on_event) for path in paths}
        found = {}
        missing = {}
        for path, answer in asked.items():
            try:
                found[path] = answer.get()[0]
            except NoNodeError:
                missing[path] = self.client.exists_async(path, watch=self._on_event)
        for answer in missing.values():
            if answer.get() is not None:  # created between the two requests
                self._on_event(None)
        return found


class KafkaTruth:
    """What Kafka's brokers know of their cluster, read on demand."""

    def __init__(self, bootstrap_servers: str) -> None:
        self.admin = AdminClient(
            {
                "bootstrap.servers": bootstrap_servers,
                "socket.timeout.ms": REQUEST_TIMEOUT_MS,
                **QUIET_LIBRDKAFKA,
            }
        )

    def read(self) -> TrueFigures | None:
        """Return the answer of a live broker; None when none answers in time."""
        try:
            return figures_of_metadata(self.admin.list_topics(timeout=METADATA_DEADLINE_S))
        except KafkaException:
            return None
