"""Steady changes: the leader and ISR of a partition change several times a second, during all faults.

The rule: they are written to ZooKeeper as a controller writes them, on connections that no fault
affects. Their replicas are brokers that do not run, so the real controller leaves them alone except
in a failover.
"""

from __future__ import annotations

import itertools
import json
import threading
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager

from kazoo.client import KazooClient
from kazoo.exceptions import KazooException, NoNodeError

from kcm.demo.truth import quiet_logger, state_path
from tests.support.waiting import DEADLINE_S, wait_until

BROKERS = (101, 102, 103)
TOPICS = 4
PARTITIONS = 5
EVERY_S = 0.25
CONNECT_DEADLINE_S = 30.0


class SteadyWriter(ABC):
    """Writes one change after another in a thread of its own, except within `held`."""

    go_on_deadline_s = CONNECT_DEADLINE_S
    stop_deadline_s = DEADLINE_S

    def __init__(self) -> None:
        self.written = 0
        self._stop = threading.Event()
        self._allowed = threading.Event()
        self._idle = threading.Event()
        self._allowed.set()
        self._thread = threading.Thread(target=self._run, name="steady changes", daemon=True)

    @abstractmethod
    def write(self, number: int) -> int:
        """Try to write the change of this number; return how many were written."""

    def start(self) -> None:
        """Start to write."""
        self._thread.start()

    def close(self) -> None:
        """Stop writing."""
        self._stop.set()
        self._allowed.set()
        self._thread.join(self.stop_deadline_s)

    def go_on(self) -> None:
        """Wait for a write after now: an idle environment proves little."""
        before = self.written
        wait_until(lambda: self.written > before, deadline_s=self.go_on_deadline_s)

    @contextmanager
    def held(self) -> Iterator[None]:
        """Write nothing within the block."""
        self._idle.clear()
        self._allowed.clear()
        is_idle = self._idle.wait(self.stop_deadline_s)
        assert is_idle, f"a change is under way for {self.stop_deadline_s:g} s"
        try:
            yield
        finally:
            self._allowed.set()

    def _run(self) -> None:
        for number in itertools.count():
            if not self._allowed.is_set():
                self._idle.set()
                self._allowed.wait()
            if self._stop.wait(EVERY_S):
                return
            self.written += self.write(number)


class SteadyChanges(SteadyWriter):
    """Writes partition states to ZooKeeper."""

    def __init__(self, hosts: str) -> None:
        """Describe the writer; `start` creates its topics and then changes them."""
        super().__init__()
        self._client = KazooClient(hosts=hosts, logger=quiet_logger(), timeout=4.0)

    def start(self) -> None:
        """Create the topics and start."""
        self._client.start(timeout=CONNECT_DEADLINE_S)
        self.make_topics()
        super().start()

    def make_topics(self) -> None:
        """Write the topics' znodes; existing ones are kept."""
        replicas = {str(partition): list(BROKERS) for partition in range(PARTITIONS)}
        assigned = {"version": 3, "partitions": replicas, "adding_replicas": {}}
        payload = json.dumps({**assigned, "removing_replicas": {}}).encode()
        for topic in range(TOPICS):
            name = f"steady-{topic}"
            path = f"/brokers/topics/{name}"
            if self._client.exists(path):
                continue
            # The states are created with them: the real controller then has no new partitions to
            # bring online.
            making = self._client.transaction()
            making.create(path, payload)
            making.create(f"{path}/partitions")
            for partition in range(PARTITIONS):
                making.create(f"{path}/partitions/{partition}")
                making.create(state_path(name, partition), self._state(0))
            made = making.commit()
            assert not any(isinstance(each, Exception) for each in made), made

    def close(self) -> None:
        """Stop writing and disconnect."""
        super().close()
        self._client.stop()
        self._client.close()

    def write(self, number: int) -> int:
        """Write a partition's next state."""
        partition, topic = divmod(number % (TOPICS * PARTITIONS), TOPICS)
        try:
            self._client.set(state_path(f"steady-{topic}", partition), self._state(number))
        except (KazooException, ConnectionError, TimeoutError, NoNodeError):
            return 0
        return 1

    def _state(self, number: int) -> bytes:
        turn = number // (TOPICS * PARTITIONS)
        leader = BROKERS[turn % len(BROKERS)]
        state = {
            "controller_epoch": self._epoch(),
            "leader": leader,
            "version": 1,
            "leader_epoch": turn,
            "isr": [leader, *(each for each in BROKERS if each != leader)][: 2 + turn % 2],
        }
        return json.dumps(state).encode()

    def _epoch(self) -> int:
        try:
            return int(self._client.get("/controller_epoch")[0])
        except NoNodeError:
            return 0
