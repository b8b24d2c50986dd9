"""The event loop of a simulated process: the clock runs what asyncio plans in it.

The rule: it supports tasks, futures, timeouts and sleeps, but no sockets. Callbacks that become
ready at one moment run in the order in which they were planned, so a seed always gives the same
run.
"""

from __future__ import annotations

import asyncio
import math
from collections import deque
from collections.abc import Callable, Coroutine
from contextvars import Context
from typing import Any, NoReturn, TypeVarTuple

from tests.simulation.clock import Clock

_Ts = TypeVarTuple("_Ts")


class SimulatedLoop(asyncio.BaseEventLoop):
    """A loop without its own thread."""

    def __init__(self, clock: Clock) -> None:
        self._is_over = False
        super().__init__()
        self._clock = clock
        self._waiting: deque[asyncio.Handle] = deque()
        self.stands_until = 0
        """Until this time nothing runs: something in the process blocks the thread."""

    def run(self, coroutine: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        """Run a coroutine as a task; an error that ends it is raised in the caller that advances the clock."""
        task = self.create_task(coroutine)
        task.add_done_callback(_raise_error)
        return task

    def stand_still(self, ms: int) -> None:
        """Block the loop for a while."""
        self.stands_until = self._clock.now + ms
        self._clock.after(ms, self._run_ready)

    def go_on(self) -> None:
        """Run again what is ready."""
        self.stands_until = min(self.stands_until, self._clock.now)
        self._clock.after(0, self._run_ready)

    def end(self) -> None:
        """Run what is ready, and nothing after that: the process has ended."""
        self.stands_until = 0
        self._run_ready()
        self._is_over = True

    def _add(self, handle: asyncio.Handle) -> None:
        self._waiting.append(handle)
        self._clock.after(0, self._run_ready)

    def _run_ready(self) -> None:
        while self._waiting and self._clock.now >= self.stands_until and not self._is_over:
            handle = self._waiting.popleft()
            if handle.cancelled():
                continue
            asyncio._set_running_loop(self)
            try:
                handle._run()
            finally:
                asyncio._set_running_loop(None)

    # --- asyncio's interface ----------------------------------------------------------------

    def time(self) -> float:
        """Return the time in seconds."""
        return self._clock.now / 1000

    def call_soon(
        self, callback: Callable[[*_Ts], object], *args: *_Ts, context: Context | None = None
    ) -> asyncio.Handle:
        """Plan a call for now."""
        handle = asyncio.Handle(callback, args, self, context)
        self._add(handle)
        return handle

    def call_at(
        self,
        when: float,
        callback: Callable[[*_Ts], object],
        *args: *_Ts,
        context: Context | None = None,
    ) -> asyncio.TimerHandle:
        """Plan a call for a time."""
        handle = asyncio.TimerHandle(when, callback, args, self, context)
        self._clock.at(math.ceil(round(when * 1000, 3)), lambda: self._add(handle))
        return handle

    def is_closed(self) -> bool:
        """Return whether its process has died."""
        return self._is_over

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        """Raise an unhandled error, unless the process has died: then tasks may end anywhere."""
        if not self._is_over:
            _raise(context.get("exception") or RuntimeError(context["message"]))


def _raise_error(task: asyncio.Task[Any]) -> None:
    if not task.cancelled() and (error := task.exception()) is not None:
        _raise(error)


def _raise(error: BaseException) -> NoReturn:
    raise error
