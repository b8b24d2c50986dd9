"""Holds the watcher's one queue: notifications, replies and session states in socket order.

One thread puts what the socket brings, in the order of its arrival, and one thread pops
it. Bounded: at most `most_events` notifications wait. Further ones are dropped and counted, with
one `Overflow` in their place; the watcher then resyncs. Replies are bounded by the reads that the
watcher has in flight.
"""

import queue
import threading
import time
from typing import NamedTuple

from source_log.readback import ReadBack

MAX_EVENTS = 200_000
"""Notifications that may wait: about 30 MB, and more than any burst that the watcher keeps up with."""


class Notification(NamedTuple):
    """A watch fired."""

    type: int
    path: str


class Reply(NamedTuple):
    """The reply to a request; with an error and no body, the request failed, for example with its connection."""

    token: int
    zxid: int
    err: int
    body: bytes
    offset: int


class SessionChanged(NamedTuple):
    """A client's session is now CONNECTED, SUSPENDED or LOST; clients are numbered."""

    client: int
    state: str
    server: str


class Overflow(NamedTuple):
    """Notifications were dropped here; their number is known when it is popped."""

    dropped: int


Item = Notification | Reply | SessionChanged | Overflow | ReadBack
"""What the queue holds."""


class Inbox:
    """A queue with a bound on notifications."""

    def __init__(self, most_events: int = MAX_EVENTS) -> None:
        self._queue: queue.SimpleQueue[Item] = queue.SimpleQueue()
        self._most_events = most_events
        self._lock = threading.Lock()
        self._dropped = 0

    def __len__(self) -> int:
        return self._queue.qsize()

    def put(self, item: Item) -> None:
        """Add an item that must not be lost."""
        self._queue.put(item)

    def put_notification(self, type_: int, path: str) -> None:
        """Add a notification; while the queue is full, drop and count it."""
        if not self._dropped and self._queue.qsize() < self._most_events:
            self._queue.put(Notification(type_, path))
            return
        with self._lock:
            self._dropped += 1
            if self._dropped == 1:
                self._queue.put(Overflow(0))

    def pop(self, timeout_s: float, *, pause_s: float = 0.0) -> Item | None:
        """Return the next item, None when none arrives in time. `pause_s`: wait that long before."""
        if pause_s:
            time.sleep(pause_s)
        try:
            item = self._queue.get(timeout=timeout_s) if timeout_s > 0 else self._queue.get_nowait()
        except queue.Empty:
            return None
        if not isinstance(item, Overflow):
            return item
        with self._lock:
            dropped, self._dropped = self._dropped, 0
        return Overflow(dropped)
