"""A program that blocks, in the simulation: it runs only while the clock waits for it.

The rule: the program and the clock take turns, never both at once, so a seed always gives the same
run. The program has its own thread because its waits are deep in its calls; each wait gives control
to the clock.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

from tests.simulation.clock import Clock

_TIMEOUT_S = 60.0
"""In real time: what runs between two waits takes milliseconds."""


class KilledError(BaseException):
    """The process is killed: no handler of the program may stop this."""


class Process:
    """One run of a program."""

    def __init__(
        self, clock: Clock, body: Callable[[], None], on_end: Callable[[BaseException | None], None]
    ) -> None:
        """Take what to run, and the callback for its end: it gets the error that ended it, None without one."""
        self.has_ended = False
        self._clock = clock
        self._body = body
        self._on_end = on_end
        self._error: BaseException | None = None
        self._is_killed = False
        self._to_raise: BaseException | None = None
        self._waits = 0
        self._given = threading.Semaphore(0)
        self._back = threading.Semaphore(0)
        self._thread = threading.Thread(target=self._run, name="played-process", daemon=True)

    # --- called by the clock ----------------------------------------------------------------

    def start(self) -> None:
        """Run it up to its first wait."""
        self._thread.start()
        self._let_run()

    def wake(self) -> None:
        """End the current wait now."""
        self._go_on_after(0)

    def interrupt(self, error: BaseException) -> None:
        """Raise an error in place of the current wait."""
        if not self.has_ended:
            self._to_raise = error
            self._let_run()

    def kill(self) -> None:
        """End it where it waits."""
        self._is_killed = True
        if not self.has_ended:
            self._let_run()
            self._thread.join()

    def _let_run(self) -> None:
        self._given.release()
        if not self._back.acquire(timeout=_TIMEOUT_S):
            raise TimeoutError("a played process waits for something else than the clock")
        if self.has_ended:
            self._on_end(self._error)

    def _go_on(self, wait: int) -> None:
        if wait == self._waits and not self.has_ended:
            self._let_run()

    # --- called by the program --------------------------------------------------------------

    def sleep(self, wait_s: float) -> None:
        """Let this time pass, or less if it is woken."""
        self._waits += 1
        self._go_on_after(round(wait_s * 1000))
        self._hand_over()

    def wait(self) -> None:
        """Wait until it is woken."""
        self._waits += 1
        self._hand_over()

    def _hand_over(self) -> None:
        if not self._is_killed:
            self._back.release()
            self._given.acquire()
        if self._is_killed:
            raise KilledError
        if self._to_raise is not None:
            error, self._to_raise = self._to_raise, None
            raise error

    def _go_on_after(self, ms: int) -> None:
        wait = self._waits
        self._clock.after(ms, lambda: self._go_on(wait))

    def _run(self) -> None:
        self._given.acquire()
        try:
            self._body()
        except BaseException as error:  # noqa: BLE001  # the caller of the process judges it
            self._error = error
        self.has_ended = True
        self._back.release()
