"""Code that blocks, such as a command's, as a thread that the clock resumes.

The rule: either it runs or the clock does, never both; so a seed always plays the same.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

from tests.simulation.clock import Clock

_WITHIN_S = 60.0
"""Of real time: what runs between two waits takes milliseconds."""


class StoppedError(BaseException):
    """The play is over, and with it what runs in the thread."""


class PlayedThread:
    """A piece of work that waits for the clock, and for nothing else."""

    def __init__(self, clock: Clock, work: Callable[[], None]) -> None:
        self._clock = clock
        self._work = work
        self._go, self._back = threading.Semaphore(0), threading.Semaphore(0)
        self._raised: BaseException | None = None
        self._to_raise: BaseException | None = None
        self.is_over = False
        self._thread = threading.Thread(target=self._run, name="played", daemon=True)
        self._thread.start()
        clock.after(0, self._resume)

    def wait(self, ms: int) -> None:
        """Let the clock run for a while; called by the work."""
        waited: list[bool] = []

        def wake() -> None:
            waited.append(True)
            self._resume()

        self._clock.after(ms, wake)
        while not waited:
            self._hand_back()

    def interrupt(self, error: BaseException) -> None:
        """Let the work find an error in the place of what it waits for; an error that ends it is raised here."""
        if not self.is_over:
            self._to_raise = error
            self._resume()

    def _resume(self) -> None:
        if self.is_over:
            return
        self._go.release()
        if not self._back.acquire(timeout=_WITHIN_S):
            raise TimeoutError(
                "what runs in a played thread waits for something else than the clock"
            )
        if self._raised is not None:
            error, self._raised = self._raised, None
            raise error

    def _hand_back(self) -> None:
        self._back.release()
        self._go.acquire()
        if self._to_raise is not None:
            error, self._to_raise = self._to_raise, None
            raise error

    def _run(self) -> None:
        self._go.acquire()
        try:
            if self._to_raise is None:
                self._work()
        except StoppedError:
            pass
        except BaseException as error:  # noqa: BLE001  # whoever moves the clock raises it
            self._raised = error
        self.is_over = True
        self._back.release()
