"""Measures the health of the ZooKeeper server of our session: its role, latency and sessions.

A separate thread asks the server, rarely, with four-letter words that change nothing
(`mntr`, or `srvr` where that is refused, as it is by default since 3.5). A figure that the server
does not report, or reported too long ago, has no sample. Watching never waits for this.
"""

import dataclasses
import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from prometheus_client import CollectorRegistry
from prometheus_client.metrics_core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from pipeline.supervised_thread import SupervisedThread
from zk_source.ensemble.four_letter_words import ANSWER_DEADLINE_S, four_letter_word, host_and_port
from zk_source.ensemble.server_figures import ServerFigures, read_mntr, read_srvr

ASK_INTERVAL_S = 15.0
"""The interval between questions, a usual scrape interval: the server logs a line for each of these connections."""

CHECK_INTERVAL_S = 1.0
"""How soon the thread notices that the session moved to another server, or to none."""

STALE_S = 3 * ASK_INTERVAL_S
"""How long figures are shown after an answer: two answers may be missed, after that nothing is known."""

REFUSED_FOR_S = 600.0
"""How long `mntr` is not asked again after a refusal, which the server also logs."""


class ServerMetrics(Collector):
    """The newest figures as metrics, while they are fresh."""

    def __init__(
        self, registry: CollectorRegistry, cluster: str, now_s: Callable[[], float] = time.monotonic
    ) -> None:
        self._cluster = cluster
        self._now_s = now_s
        self._newest: tuple[float, ServerFigures] | None = None
        registry.register(self)

    def show(self, figures: ServerFigures | None) -> None:
        """Store what a server reported; None when it reported nothing."""
        self._newest = None if figures is None else (self._now_s(), figures)

    def describe(self) -> Iterator[Metric]:
        """Yield the metrics without samples."""
        yield from self._families(None)

    def collect(self) -> Iterator[Metric]:
        """Yield the metrics; a figure that is not known has no sample."""
        newest = self._newest
        is_fresh = newest is not None and self._now_s() - newest[0] <= STALE_S
        yield from self._families(newest[1] if newest is not None and is_fresh else None)

    def _families(self, figures: ServerFigures | None) -> Iterator[Metric]:
        info = GaugeMetricFamily(
            "kcm_watcher_zookeeper_info",
            "1 for the ZooKeeper server that the session is on, with its role (leader, follower, "
            "standalone, observer) and release; absent where the server does not report them.",
            labels=["cluster", "zookeeper", "role", "version"],
        )
        if figures is not None:
            labels = (self._cluster, figures.server, figures.role, figures.version)
            info.add_metric(labels, 1)
        yield info
        for name, text in _HELP.items():
            family = GaugeMetricFamily(f"kcm_watcher_zookeeper_{name}", text, labels=["cluster"])
            value: float | None = None if figures is None else getattr(figures, name)
            if value is not None:
                family.add_metric([self._cluster], value)
            yield family


_HELP = {
    "answer_seconds": "Seconds that the session's ZooKeeper server took to answer a four-letter "
    "word; normally milliseconds.",
    "latency_average_seconds": "Average request latency that the session's ZooKeeper server "
    "reports, since its start or the last srst.",
    "latency_highest_seconds": "Highest request latency that the session's ZooKeeper server "
    "reports, since its start or the last srst.",
    "connections": "Client connections of the session's ZooKeeper server.",
    "sessions": "Sessions of the ensemble; absent where mntr is not allowed, or before ZooKeeper 3.6.",
    "outstanding_requests": "Requests that wait in the queue of the session's ZooKeeper server; "
    "normally near 0.",
}
"""HELP of kcm_watcher_zookeeper_<name>; the names are those of the figures."""


@contextmanager
def watched_health(
    server: Callable[[], str], metrics: ServerMetrics
) -> Iterator[Callable[[], None]]:
    """Ask the server that `server` names, at intervals, while the context lasts; no server if that is empty.

    Yield a function that raises the error that ended the thread, or an error when the thread hangs.
    """
    asking = _Asking(server, metrics)
    thread = SupervisedThread("server-health", asking.poll, every_s=CHECK_INTERVAL_S)
    thread.start()
    try:
        yield thread.check
    finally:
        thread.close(2 * ANSWER_DEADLINE_S)
        metrics.show(None)


class _Asking:
    """Asks one server after the other."""

    def __init__(self, server: Callable[[], str], metrics: ServerMetrics) -> None:
        self._server = server
        self._metrics = metrics
        self._refused: dict[str, float] = {}
        self._asked, self._next_at = "", 0.0

    def poll(self) -> None:
        """Ask the server if that is due."""
        name, now = self._server(), time.monotonic()
        if not name:
            self._metrics.show(None)
        elif name != self._asked or now >= self._next_at:
            self._metrics.show(ask_server(name, self._refused))
            self._next_at = now + ASK_INTERVAL_S
        self._asked = name


def ask_server(server: str, refused: dict[str, float]) -> ServerFigures | None:
    """Return what a server reports, None for nothing; note in `refused` when it refuses `mntr`."""
    began = time.monotonic()
    if refused.get(server, -math.inf) + REFUSED_FOR_S < began:
        if (figures := _read_word(server, "mntr", read_mntr)) is not None:
            return figures
        refused[server] = began
    return _read_word(server, "srvr", read_srvr)


def _read_word(
    server: str, word: str, read: Callable[[str, str], ServerFigures | None]
) -> ServerFigures | None:
    began = time.monotonic()
    try:
        figures = read(server, four_letter_word(*host_and_port(server), word))
    except (OSError, ValueError):
        return None
    took_s = time.monotonic() - began
    return None if figures is None else dataclasses.replace(figures, answer_seconds=took_s)
