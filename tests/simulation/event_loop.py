"""The event loop of a played process: what asyncio plans in it, the clock calls.

The rule: it serves tasks, futures, timeouts and sleeps, and knows no sockets. What
becomes ready at one moment runs in the order in which it was planned, so a seed always plays the same.
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


class PlayedLoop(asyncio.BaseEventLoop):
    """A loop without a thread of its own."""

    def __init__(self, clock: Clock) -> None:
        self._is_over = False
        super().__init__()
        self._clock = clock
        self._waiting: deque[asyncio.Handle] = deque()
        self.stands_until = 0
        """Until then nothing runs in it: something in the process blocks its thread."""

    def run(self, coroutine: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        """Run a coroutine as a task; an error that ends it is raised by who moves the clock."""
        task = self.create_task(coroutine)
        task.add_done_callback(_raise_error)
        return task

    def stand_still(self, ms: int) -> None:
        """Run nothing for a while."""
        self.stands_until = self._clock.now + ms
        self._clock.after(ms, self._run_ready)

    def go_on(self) -> None:
        """Run again what is ready."""
        self.stands_until = min(self.stands_until, self._clock.now)
        self._clock.after(0, self._run_ready)

    def end(self) -> None:
        """Run what is ready, and nothing more: the process has ended."""
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
        """Raise an error that nobody has taken, unless the process has died: then tasks end anywhere."""
        if not self._is_over:
            _raise(context.get("exception") or RuntimeError(context["message"]))


def _raise_error(task: asyncio.Task[Any]) -> None:
    if not task.cancelled() and (error := task.exception()) is not None:
        _raise(error)


def _raise(error: BaseException) -> NoReturn:
    raise error
