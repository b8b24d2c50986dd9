"""Read the truth as it changes: ZooKeeper by a plain kazoo client, Kafka by the AdminClient.

Every znode that counts has a one-shot watch. When a watch fires, everything is read again (it is a
small cluster). A change gets the time at which the watch fired, not the later one at which the
reading ended, so that the monitor gets no advantage.
"""

import logging
import threading
import time
from collections.abc import Iterable

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient
from kazoo.client import KazooClient
from kazoo.exceptions import KazooException, NoNodeError

from kcm.demo.observations import Observations
from kcm.demo.truth import (
    TrueFigures,
    assignment,
    figures_of_metadata,
    figures_of_znodes,
    state_path,
)
from kcm.servers.kafka import QUIET_LIBRDKAFKA

CONNECT_DEADLINE_S = 20.0  # the server is already up when this client starts
READ_PAUSE_S = 0.005  # between two readings, so that many events do not occupy a processor
RETRY_PAUSE_S = 0.1  # after a failed reading, before the next
STOP_DEADLINE_S = 5.0  # a reading takes milliseconds
METADATA_DEADLINE_S = 1.0  # a live broker answers in milliseconds; ask again rather than wait
REQUEST_TIMEOUT_MS = 10_000  # a request that a dying broker lost is given up after this


def quiet_logger() -> logging.Logger:
    """Return a logger that drops everything: lost connections are part of the story."""
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

    def begin(self, epoch: int | None) -> None:
        """Count elections from this epoch on."""
        self._base_epoch = epoch
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
        brokers = self._children("/brokers/ids")
        topics = self._children("/brokers/topics")
        znodes = {f"/brokers/ids/{broker}": b"" for broker in brokers}
        assigned = self._payloads(f"/brokers/topics/{topic}" for topic in topics)
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
            children: list[str] = self.client.get_children(path, watch=self._on_event)
        except NoNodeError:
            if self.client.exists(path, watch=self._on_event) is not None:
                self._on_event(None)
            return []
        return children

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
