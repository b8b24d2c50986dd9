"""The health of the ZooKeeper server that our session is on: its role, latency and sessions.

The rule: the server is asked rarely, by a thread of its own, with four-letter words that change
nothing (`mntr`, or `srvr` where that is refused, as it is by default since 3.5). What it does not
report, or reported too long ago, has no sample. The watching never waits for it.
"""

from __future__ import annotations

import dataclasses
import math
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from prometheus_client import CollectorRegistry
from prometheus_client.metrics_core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from zk_source.zookeeper.four_letter_words import (
    ANSWER_DEADLINE_S,
    four_letter_word,
    host_and_port,
)
from zk_source.zookeeper.server_figures import ServerFigures, read_mntr, read_srvr

ASK_EVERY_S = 15.0
"""A usual scrape interval; the server logs a line for each of these connections."""

CHECK_EVERY_S = 1.0
"""How soon it is noticed that the session is on another server, or on none."""

STALE_S = 3 * ASK_EVERY_S
"""Two answers may be missed; after that nothing is known."""

REFUSED_FOR_S = 600.0
"""How long `mntr` is not asked again after a refusal, which the server logs, too."""

_MS_PER_S = 1000


class ServerMetrics(Collector):
    """The newest figures as metrics, while they are young enough."""

    def __init__(
        self,
        registry: CollectorRegistry,
        cluster: str,
        now_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self._cluster = cluster
        self._now_s = now_s
        self._held: tuple[float, ServerFigures] | None = None
        registry.register(self)

    def show(self, figures: ServerFigures | None) -> None:
        """Hold what a server reported; None when it reported nothing."""
        self._held = None if figures is None else (self._now_s(), figures)

    def describe(self) -> Iterator[Metric]:
        """Yield the metrics without samples."""
        yield from self._families(None)

    def collect(self) -> Iterator[Metric]:
        """Yield the metrics; what is not known has no sample."""
        held = self._held
        young = held is not None and self._now_s() - held[0] <= STALE_S
        yield from self._families(held[1] if held is not None and young else None)

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
        for name, text, read in _GAUGES:
            family = GaugeMetricFamily(f"kcm_watcher_zookeeper_{name}", text, labels=["cluster"])
            value = None if figures is None else read(figures)
            if value is not None:
                family.add_metric([self._cluster], value)
            yield family


_GAUGES: tuple[tuple[str, str, Callable[[ServerFigures], float | None]], ...] = (
    (
        "answer_seconds",
        "Seconds that server took to answer a four-letter word; milliseconds in health.",
        lambda figures: figures.answered_s,
    ),
    (
        "latency_average_seconds",
        "Average latency of requests that server reports, since its start or the last srst.",
        lambda figures: _in_seconds(figures.latency_avg_ms),
    ),
    (
        "latency_highest_seconds",
        "Highest latency of a request that server reports, since its start or the last srst.",
        lambda figures: _in_seconds(figures.latency_max_ms),
    ),
    ("connections", "Client connections of that server.", lambda figures: figures.connections),
    (
        "sessions",
        "Sessions of the ensemble; absent where mntr is not allowed, or before ZooKeeper 3.6.",
        lambda figures: figures.sessions,
    ),
    (
        "outstanding_requests",
        "Requests that wait in that server's queue; near 0 in health.",
        lambda figures: figures.outstanding,
    ),
)


@contextmanager
def watched_health(server: Callable[[], str], metrics: ServerMetrics) -> Iterator[None]:
    """Ask the server that `server` names, now and then, while the context lasts; empty: none."""
    stop = threading.Event()
    thread = threading.Thread(
        target=_ask_regularly, args=(server, metrics, stop), name="server-health", daemon=True
    )
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join(2 * ANSWER_DEADLINE_S)
        metrics.show(None)


def _ask_regularly(
    server: Callable[[], str], metrics: ServerMetrics, stop: threading.Event
) -> None:
    refused: dict[str, float] = {}
    asked, next_at = "", 0.0
    while not stop.is_set():
        name, now = server(), time.monotonic()
        if not name:
            metrics.show(None)
        elif name != asked or now >= next_at:
            metrics.show(ask_server(name, refused))
            next_at = now + ASK_EVERY_S
        asked = name
        stop.wait(CHECK_EVERY_S)


def ask_server(server: str, refused: dict[str, float]) -> ServerFigures | None:
    """Return what a server reports, None for nothing; `refused` remembers who refuses `mntr`."""
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
        answer = four_letter_word(*host_and_port(server), word)
    except (OSError, ValueError):
        return None
    figures = read(server, answer)
    took_s = time.monotonic() - began
    return None if figures is None else dataclasses.replace(figures, answered_s=took_s)


def _in_seconds(milliseconds: float | None) -> float | None:
    return None if milliseconds is None else milliseconds / _MS_PER_S
