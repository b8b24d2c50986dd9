"""Runs an observer: carries out what it decides, one request after the other, on the thread that calls `run`."""

import threading
import time
from collections.abc import Callable

from kraft_source.observer.observer import Ask, Observer, Pause
from kraft_source.observer.released import Released
from kraft_source.wire.connection import Access, ControllerConnection
from kraft_source.wire.errors import LateAnswerError, RefusedError
from kraft_source.wire.messages import Answer, ControllerEndpoint
from pipeline.runtime import KcmError, UnreachableError


class ObserverRunner:
    """Connects an observer with its controllers; one connection is open at a time."""

    def __init__(
        self,
        observer: Observer,
        access: Access,
        deliver: Callable[[Released], None],
        on_answer: Callable[[ControllerConnection], None] = lambda _: None,
    ) -> None:
        """`deliver` takes what is released, in order, and delays the next request until it returns.

        `on_answer` is called after each answer, before what it releases, and may ask the same controller something else.
        """
        self.observer = observer
        self.connection_failures = 0
        """Attempts and requests that failed with their connection."""
        self.connections = 0
        """Connections that were made."""
        self.requests = 0
        self._access = access
        self._deliver = deliver
        self._on_answer = on_answer
        self.asked_at = 0.0
        """When the request was sent whose answer was the last to be handled, by the monotonic clock."""
        self._connection: ControllerConnection | None = None

    def run(self, stopping: threading.Event) -> None:
        """Observe until `stopping` is set; it may take as long as one answer."""
        try:
            while not stopping.is_set():
                step = self.observer.next_step(time.monotonic())
                if isinstance(step, Pause):
                    stopping.wait(step.until - time.monotonic())
                else:
                    self._carry_out(step)
        finally:
            self._disconnect()

    def _carry_out(self, ask: Ask) -> None:
        asked_at = time.monotonic()
        try:
            answer = self._ask(ask)
        except KcmError as error:
            self._disconnect()
            self.connection_failures += 1
            self.observer.handle_failure(
                ask.endpoint,
                str(error),
                time.monotonic(),
                # A file that cannot be read is no fault of the controller's either.
                is_refusal=isinstance(error, RefusedError)
                or not isinstance(error, UnreachableError),
                is_late=isinstance(error, LateAnswerError),
            )
            return
        self.asked_at = asked_at
        if self._connection is not None:
            self._on_answer(self._connection)
        for released in self.observer.handle_answer(ask.endpoint, answer, time.monotonic()):
            self._deliver(released)

    def _ask(self, ask: Ask) -> Answer:
        deadline = time.monotonic() + ask.timeout_s
        connection = self._connected(ask.endpoint, ask.timeout_s)
        self.requests += 1
        return connection.ask(ask.request, timeout_s=deadline - time.monotonic())

    def _connected(self, endpoint: ControllerEndpoint, timeout_s: float) -> ControllerConnection:
        connection = self._connection
        if connection is None or connection.endpoint != endpoint or connection.is_expiring:
            self._disconnect()
            connection = ControllerConnection(endpoint, self._access, timeout_s=timeout_s)
            self._connection = connection
            self.connections += 1
        return connection

    def _disconnect(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None
