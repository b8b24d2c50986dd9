"""Runs a thread that works in turns, whose owner learns when it died or hangs.

The owner calls `check` from its own loop, which raises the exception that ended the
thread. A turn takes seconds at most, so `close` waits for the current one, within its limit.
"""

import sys
import threading
import time
import traceback
from collections.abc import Callable
from pathlib import Path

from pipeline.runtime import KcmError

STANDSTILL_S = 60.0
"""After how long without a finished turn a thread counts as hanging: a turn may send several
requests to Kafka, with time-outs of some seconds each."""

_MAX_BETWEEN_CHECKS_S = 5.0
"""The most that counts of the time between two checks: in a process that was paused the owner did not watch either."""


class StandstillError(KcmError):
    """A thread does nothing any more."""


class Standstill:
    """For how long a thread has finished no turn, counting only time in which its owner watched."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self._turns_seen = 0
        self._checked_at = time.monotonic()

    def check(self, turns: int, now_s: float | None = None) -> None:
        """Note how many turns have ended; call this regularly."""
        now_s = time.monotonic() if now_s is None else now_s
        passed_s, self._checked_at = now_s - self._checked_at, now_s
        moved = turns != self._turns_seen
        self._turns_seen = turns
        self.seconds = 0.0 if moved else self.seconds + min(passed_s, _MAX_BETWEEN_CHECKS_S)


def where(thread: threading.Thread) -> str:
    """Return the functions that a thread is in, the innermost first; empty when it does not run."""
    frame = sys._current_frames().get(thread.ident or 0)  # noqa: SLF001  # named so, and documented
    calls = reversed(traceback.extract_stack(frame)) if frame is not None else ()
    return ", ".join(f"{call.name} ({Path(call.filename).name}:{call.lineno})" for call in calls)


class SupervisedThread:
    """Calls `turn` again and again; turns start at least `every_s` apart."""

    def __init__(self, name: str, turn: Callable[[], None], *, every_s: float = 0.0) -> None:
        self._name = name
        self._turn = turn
        self._every_s = every_s
        self._failure: BaseException | None = None
        self.turns = 0
        """How many turns have ended."""
        self._standstill = Standstill()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    @property
    def alive(self) -> bool:
        """Whether the thread runs."""
        return self._thread.is_alive()

    @property
    def still_s(self) -> float:
        """For how long no turn has ended, as of the last check."""
        return self._standstill.seconds

    def start(self) -> None:
        """Begin the first turn."""
        self._thread.start()

    def check(self, now_s: float | None = None) -> None:
        """Raise the exception that ended the thread, or StandstillError; return while it works."""
        if self._failure is not None:
            raise self._failure
        self._standstill.check(self.turns, now_s)
        if self._standstill.seconds > STANDSTILL_S + self._every_s:
            raise StandstillError(
                f"the thread {self._name} has stood still for {STANDSTILL_S:.0f} s, "
                f"in {where(self._thread)}"
            )

    @property
    def closed(self) -> bool:
        """Whether `close` was called."""
        return self._stop.is_set()

    def close(self, wait_s: float) -> None:
        """Ask the thread to end, and wait up to this long for the current turn; 0 does not wait."""
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join(wait_s)

    def _run(self) -> None:
        try:
            while not self._stop.is_set():
                began_at = time.monotonic()
                self._turn()
                self.turns += 1
                self._stop.wait(max(0.0, self._every_s - (time.monotonic() - began_at)))
        except BaseException as error:  # noqa: BLE001  # the owner raises it
            self._failure = error
