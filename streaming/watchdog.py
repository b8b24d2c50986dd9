"""Kills Spark's JVM when it hangs: when a call into it does not return, or a batch never ends.

A thread that waits for the JVM cannot end the wait. So a separate thread counts the time,
and acts without an answer from anyone: it kills the JVM by its process id. The call then fails, and
the service starts another JVM. Time counts only as it passes for the watchdog's thread, so that a
machine that slept does not look like a JVM that hung.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from pipeline.supervised_thread import SupervisedThread

POLL_S = 0.5
"""How often the time is counted."""

_MAX_COUNTED_S = 2 * POLL_S
"""The most that counts of the time between two counts."""

ANSWER_S = 15.0
"""How long the JVM may take to answer: it takes milliseconds, and a second or two while it collects garbage."""

START_S = 120.0
"""How long a session and a query may take to start: 5 s on an idle machine."""

BATCH_S = 60.0
"""How long a batch may take at first: some hundred times what it normally takes."""

FIRST_BATCH_S = 360.0
"""How long the first batch of a query may take: it waits for executors and their Python, and
compiles. With two executors and a load of 15 on two processors it was still at work after three
minutes, and a JVM that is killed for that starts from nothing."""

MAX_BATCH_S = 3600.0


class _Call:
    """A call into the JVM, and what is left of its time."""

    def __init__(self, limit_s: float) -> None:
        self.limit_s = limit_s
        self.left_s = limit_s


class Watchdog:
    """Counts the time of one call after the other, and calls `kill` when one takes too long.

    `on_wait` is called while a call still has time: who waits for it does not hang.
    """

    def __init__(
        self, kill: Callable[[], None], *, on_wait: Callable[[], None] = lambda: None
    ) -> None:
        self.reason: str | None = None
        """Why the JVM was killed; None while it was not. The owner clears it."""
        self.thread = SupervisedThread("watchdog", self.poll, every_s=POLL_S)
        self._kill = kill
        self._on_wait = on_wait
        self._call: _Call | None = None
        self._counted_at = time.monotonic()

    @contextmanager
    def allow(self, limit_s: float) -> Iterator[None]:
        """Give the JVM this many seconds for what the context does."""
        self._call = _Call(limit_s)
        try:
            yield
        finally:
            self._call = None

    def end(self, reason: str) -> None:
        """Kill the JVM for this reason."""
        self.reason = reason
        self._kill()

    def poll(self, now_s: float | None = None) -> None:
        """Count the time since the last call."""
        now_s = time.monotonic() if now_s is None else now_s
        passed_s, self._counted_at = now_s - self._counted_at, now_s
        call = self._call
        if call is None:
            return
        call.left_s -= min(passed_s, _MAX_COUNTED_S)
        if call.left_s > 0:
            self._on_wait()
        # The call may have ended in the meantime: then nobody waits any more.
        if call.left_s <= 0 and self._call is call:
            self._call = None
            self.end(f"Spark's JVM has not answered for {call.limit_s:.0f} s")


class BatchClock:
    """How long the log has held something new without a batch that ended, while Kafka answers.

    After a batch that takes too long, the next one may take twice as long.
    """

    def __init__(self) -> None:
        self._limit_s = BATCH_S
        self._counted_at = time.monotonic()
        self.begin()

    def begin(self) -> None:
        """Begin with another query."""
        self._folded_to: int | None = None
        self._waited_s = 0.0
        self._limit_s = max(self._limit_s, FIRST_BATCH_S)

    def moved(self, end_offset: int) -> None:
        """Note that a batch has ended, and how far it folded the log."""
        self._folded_to = end_offset
        self._waited_s = 0.0
        self._limit_s = BATCH_S

    def hang_reason(self, log_end: int | None, now_s: float | None = None) -> str | None:
        """Return why the query counts as hanging; None while it does not.

        `log_end` is where the log ends; None while Kafka does not answer, when the query is not to
        blame.
        """
        now_s = time.monotonic() if now_s is None else now_s
        passed_s, self._counted_at = now_s - self._counted_at, now_s
        if log_end is not None and self._folded_to is None:
            self._folded_to = log_end
        if log_end is None or self._folded_to is None or log_end <= self._folded_to:
            self._waited_s = 0.0
            return None
        self._waited_s += min(passed_s, _MAX_COUNTED_S)
        if self._waited_s <= self._limit_s:
            return None
        waited_s, self._limit_s = self._limit_s, min(2 * self._limit_s, MAX_BATCH_S)
        self._waited_s = 0.0
        return f"no batch has ended for {waited_s:.0f} s, though the log has grown"
