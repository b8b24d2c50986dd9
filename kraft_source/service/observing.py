"""Runs an observer on a thread, and hands what it releases to the main loop, as fast as that takes it.

The controllers hold the metadata log, so nothing is dropped: while the main loop does not take more, no more is fetched.
"""

import threading
import time
from collections.abc import Callable
from typing import NamedTuple

from kraft_source.config import KraftSettings
from kraft_source.observer.observer import Observer, ObserverStatus
from kraft_source.observer.released import Released
from kraft_source.runner import ObserverRunner
from kraft_source.service.quorum_sampler import QuorumSampler
from kraft_source.wire.messages import EpochEnd
from pipeline.clock import steady_ms

MAX_WAITING = 8
"""What may wait to be taken: one answer to Fetch holds at most some MiB."""
_CHECK_S = 0.5


class Observed(NamedTuple):
    """Something that an observer has released."""

    run: int
    """Which observer: one that was replaced may have released more."""
    released: Released
    asked_ms: int
    """When the controller was asked for it, in ms of the monotonic clock: it is what was committed then, or more."""


class Observing:
    """The observer of one cluster, which may be told to begin anew at another place."""

    def __init__(self, settings: KraftSettings, put: Callable[[Observed], None]) -> None:
        """`put` takes what is released; `taken` says that it was handled."""
        self._settings = settings
        self._put = put
        self.sampler = QuorumSampler(time.monotonic, settings.controller_cluster_id or None)
        self.run = 0
        self._stopping = threading.Event()
        self._slots = threading.Semaphore(MAX_WAITING)
        self._runner: ObserverRunner | None = None
        self._thread: threading.Thread | None = None
        self._failure: BaseException | None = None
        self._requests_before = self._failures_before = 0

    def begin(self, place: EpochEnd) -> None:
        """Observe from a place on; an earlier observer is told to end, and what it still releases does not count."""
        self._stopping.set()
        self._requests_before, self._failures_before = self.requests, self.connection_failures
        self.run += 1
        self._stopping = stopping = threading.Event()
        self._slots = slots = threading.Semaphore(MAX_WAITING)
        run = self.run

        def deliver(released: Released) -> None:
            while not stopping.is_set():
                if slots.acquire(timeout=_CHECK_S):
                    ago_ms = int((time.monotonic() - runner.asked_at) * 1000)
                    self._put(Observed(run, released, steady_ms() - ago_ms))
                    return

        observer = Observer(self._settings.endpoints, place)
        runner = ObserverRunner(
            observer,
            self._settings.access(),
            deliver,
            lambda connection: self.sampler.ask(connection, observer.status.leader),
        )
        self._runner = runner

        def work() -> None:
            try:
                runner.run(stopping)
            except BaseException as error:  # noqa: BLE001  # the main loop raises it
                self._failure = error

        self._thread = threading.Thread(target=work, name="observer", daemon=True)
        self._thread.start()

    def taken(self, item: Observed) -> None:
        """Note that something released was handled: more may be fetched."""
        if item.run == self.run:
            self._slots.release()

    def check(self) -> None:
        """Raise the error that ended the thread."""
        if self._failure is not None:
            raise self._failure

    @property
    def status(self) -> ObserverStatus | None:
        """What the observer knows of its own sight; None before it began."""
        return None if self._runner is None else self._runner.observer.status

    @property
    def requests(self) -> int:
        """Requests to controllers."""
        own = 0 if self._runner is None else self._runner.requests
        return self._requests_before + own

    @property
    def connection_failures(self) -> int:
        """Connections and requests that failed."""
        own = 0 if self._runner is None else self._runner.connection_failures
        return self._failures_before + own

    def close(self, timeout_s: float) -> None:
        """Tell the observer to end, and wait for that up to a time."""
        self._stopping.set()
        if self._thread is not None:
            self._thread.join(timeout_s)
