"""What was true when: every znode that counts, with each value and the time at which it was written.

The rule: nothing here uses the monitor's code. A value's time is ZooKeeper's own (mtime), by the
clock of this machine (`note_step`), so that a late notification to the test is no advantage to the monitor.
ZooKeeper keeps no time of a deletion. A deletion that is seen while no connection was lost has just
happened; any other may have happened at any time since the connection was lost. A znode with another
czxid was deleted and created again.
"""

from __future__ import annotations

import json
import queue
import threading
import time
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from kazoo.client import KazooClient
from kazoo.exceptions import KazooException, NoNodeError
from kazoo.protocol.states import KazooState

from kcm.demo.figures import TrueFigures
from kcm.demo.truth import assignment, figures_of_znodes, quiet_logger, state_path

CONNECT_DEADLINE_S = 30.0
RETRY_S = 0.1
SESSION_TIMEOUT_S = 4.0
"""A lost connection may go unnoticed for so long."""
NOTIFIED_S = 1.0
"""How late a notification may arrive."""
QUIET_S = 0.3
LISTS = ("/brokers/ids", "/brokers/topics")
PLAIN = ("/controller", "/controller_epoch", *LISTS)
VACANT = "no controller"
"""In place of a path: from when on until when a KRaft quorum may have had no leader."""


class Written(NamedTuple):
    """The content of a znode from a moment on; `data` is None while it does not exist."""

    at: float
    """Seconds since 1970."""
    version: int
    data: bytes | None
    earliest: float = 0.0
    """It cannot have happened before this time, where that is not `at`, as of a deletion; 0: it is."""


Known = Mapping[str, Sequence[Written]]
"""Values by path, the oldest first."""


class Truth:
    """Each znode's history, kept current by watches in a separate thread."""

    def __init__(self, hosts: str) -> None:
        """Describe the reader; `start` connects it."""
        self.client = KazooClient(hosts=hosts, logger=quiet_logger(), timeout=SESSION_TIMEOUT_S)
        self._history: dict[str, list[Written]] = {}
        self._lock = threading.Lock()
        self._due: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        self._read_at: dict[str, float] = {}
        """When each path was last read."""
        self._czxids: dict[str, int] = {}
        self._disconnected_at = 0.0
        self._steps: list[tuple[int, float]] = [(0, 0.0)]
        """After which zxid ZooKeeper's clock was how far ahead of this machine's."""
        self._thread = threading.Thread(target=self._run, name="truth", daemon=True)

    def start(self) -> None:
        """Connect and read everything."""
        self.client.add_listener(self._on_state)
        self.client.start(timeout=CONNECT_DEADLINE_S)
        self._thread.start()

    def close(self) -> None:
        """Stop reading and disconnect."""
        self._due.put(None)
        self.client.stop()
        self.client.close()

    def note_step(self, ahead_s: float) -> None:
        """Note that ZooKeeper's clock is now so far ahead, negative behind; nothing is written meanwhile."""
        self.client.sync("/")
        self._steps.append((self.client.last_zxid, ahead_s))

    def forget(self, before: float) -> None:
        """Drop values that were replaced before a time."""
        with self._lock:
            for path, history in self._history.items():
                newer = [each for each in history[1:] if each.at >= before]
                self._history[path] = [*history[: len(history) - len(newer)][-1:], *newer]

    def known(self) -> Known:
        """Return each znode's values, the oldest first."""
        with self._lock:
            return {path: list(history) for path, history in self._history.items()}

    def now(self) -> dict[str, bytes]:
        """Return the payloads of all existing znodes."""
        with self._lock:
            newest = {path: history[-1] for path, history in self._history.items()}
        return {path: each.data for path, each in newest.items() if each.data is not None}

    def figures(self) -> TrueFigures:
        """Count what exists now."""
        return figures_of_znodes(self.now())

    def changes(self, since: float, until: float) -> int:
        """Return how many values were written between two times."""
        with self._lock:
            every = [each.at for history in self._history.values() for each in history]
        return sum(since <= at < until for at in every)

    def settled(self, deadline_s: float = 30.0) -> None:
        """Wait until everything has been read, also after a lost connection."""
        deadline = time.monotonic() + deadline_s
        while not (self.client.connected and self._due.empty()) and time.monotonic() < deadline:
            time.sleep(RETRY_S / 2)
        time.sleep(QUIET_S)  # for the read in progress, and for a notification in flight

    def _on_state(self, state: str) -> None:
        # A client that has reconnected has no watches any more.
        if state == KazooState.CONNECTED:
            self._read_again()
        elif state == KazooState.SUSPENDED:
            self._disconnected_at = time.time()

    def _read_again(self) -> None:
        with self._lock:
            known = list(self._history)
        for path in dict.fromkeys((*PLAIN, *known)):
            self._due.put(path)

    def _on_event(self, event: Any) -> None:
        if event.path:
            self._due.put(event.path)

    def _run(self) -> None:
        while (path := self._due.get()) is not None:
            try:
                self._read(path)
            except (KazooException, ConnectionError, TimeoutError):
                time.sleep(RETRY_S)
                self._due.put(path)

    def _read(self, path: str) -> None:
        try:
            data, stat = self.client.get(path, watch=self._on_event)
        except NoNodeError:
            if self.client.exists(path, watch=self._on_event) is not None:
                self._due.put(path)
            self._note_deletion(path)
            return
        for below in self._below(path, data):
            with self._lock:
                known = self._history.get(below, ())
            if not known or known[-1].data is None:
                self._due.put(below)
        read_before, self._read_at[path] = self._read_at.get(path, 0.0), time.time()
        if path not in LISTS:
            before = self._czxids.get(path, stat.czxid)
            self._czxids[path] = stat.czxid
            if stat.czxid != before:  # it was deleted since it was last read
                at = self._right(stat.ctime, stat.czxid)
                self._note(path, Written(at, -1, None, read_before))
            at = self._right(stat.mtime, stat.mzxid)
            self._note(path, Written(at, stat.version, data))

    def _right(self, time_ms: int, zxid: int) -> float:
        """Return a time of ZooKeeper by this machine's clock, in seconds since 1970."""
        ahead_s = next(ahead_s for since, ahead_s in reversed(self._steps) if since < zxid)
        return time_ms / 1000 - ahead_s

    def _below(self, path: str, data: bytes) -> list[str]:
        """Return the znodes that exist because of this one, and watch for more of them."""
        if path in LISTS:
            names = self.client.get_children(path, watch=self._on_event)
            return [f"{path}/{name}" for name in names]
        if _is_topic(path):
            topic = path.rpartition("/")[2]
            return [state_path(topic, number) for number in assignment(data)]
        return []

    def _note_deletion(self, path: str) -> None:
        now = time.time()
        is_watched = self._read_at.get(path, 0.0) > self._disconnected_at
        earliest = now - NOTIFIED_S if is_watched else self._disconnected_at - SESSION_TIMEOUT_S
        self._note(path, Written(now, -1, None, earliest))

    def _note(self, path: str, written: Written) -> None:
        with self._lock:
            history = self._history.setdefault(path, [])
            if not history and written.data is None:
                return
            if not history or history[-1][1:3] != written[1:3]:
                history.append(written)


def _is_topic(path: str) -> bool:
    return path.startswith("/brokers/topics/") and path.count("/") == "/brokers/topics/t".count("/")


def leader_and_isr(data: bytes) -> tuple[int, tuple[int, ...]]:
    """Return the leader and the ISR in a partition's state.

    >>> leader_and_isr(b'{"leader":1,"isr":[1,2]}')
    (1, (1, 2))
    """
    state = json.loads(data)
    return state["leader"], tuple(state["isr"])
