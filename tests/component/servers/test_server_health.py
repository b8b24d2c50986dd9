"""Health requests to a real ZooKeeper: with all four-letter words allowed, some, and none."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from prometheus_client import CollectorRegistry

from kcm.servers.jars import Jars
from kcm.servers.supervisor import Supervisor
from kcm.servers.zookeeper import ZooKeeper
from tests.support.waiting import wait_until
from zk_source.ensemble.server_health import ServerMetrics, ask_server, watched_health


@contextmanager
def _server(supervisor: Supervisor, jars: Jars, folder: Path, allowed: str) -> Iterator[ZooKeeper]:
    """Run a server that allows these words only (and `srvr`, which the stack itself asks for)."""
    server = ZooKeeper(
        supervisor,
        jars,
        folder,
        name="zookeeper-words",
        properties={"4lw.commands.whitelist": allowed},
    )
    server.start(wait=True)
    try:
        yield server
    finally:
        server.kill()


def test_a_server_that_allows_mntr_reports_its_sessions(zookeeper: ZooKeeper) -> None:
    """Role, release, sessions and latency come with one word."""
    began = time.monotonic()
    figures = wait_until(lambda: ask_server(zookeeper.connect_string, {}))  # None when it is late
    assert figures is not None
    assert figures.role == "standalone"
    assert figures.version.startswith("3.")
    assert figures.sessions is not None
    assert figures.latency_highest_seconds is not None
    assert figures.answer_seconds is not None
    assert 0 < figures.answer_seconds < time.monotonic() - began


def test_a_server_that_refuses_mntr_is_not_asked_for_it_again_soon(
    supervisor: Supervisor, jars: Jars, tmp_path: Path
) -> None:
    """By default only srvr is allowed: it reports the role, sessions stay unknown."""
    refused: dict[str, float] = {}
    with _server(supervisor, jars, tmp_path, "srvr") as server:
        figures = wait_until(lambda: ask_server(server.connect_string, refused))
        assert figures is not None
        assert (figures.role, figures.sessions) == ("standalone", None)
        noted = dict(refused)
        assert noted
        wait_until(lambda: ask_server(server.connect_string, refused))
        assert refused == noted


def test_a_server_without_an_answer_has_no_figures(
    supervisor: Supervisor, jars: Jars, tmp_path: Path
) -> None:
    """A server that hangs, one that is gone, and a name that is none have no figures."""
    with _server(supervisor, jars, tmp_path, "*") as server:
        server.pause()
        wait_until(lambda: ask_server(server.connect_string, {}), lambda figures: figures is None)
        server.resume()
    assert ask_server(server.connect_string, {}) is None
    assert ask_server("nowhere", {}) is None


def test_the_figures_follow_the_session(zookeeper: ZooKeeper) -> None:
    """They are there while there is a session, and the thread ends with the watching."""
    registry = CollectorRegistry()
    metrics = ServerMetrics(registry, "prod")

    def role() -> float | None:
        labels = {"cluster": "prod", "zookeeper": zookeeper.connect_string, "role": "standalone"}
        families = [f for f in registry.collect() if f.name == "kcm_watcher_zookeeper_info"]
        found = [s.value for s in families[0].samples if labels.items() <= s.labels.items()]
        return found[0] if found else None

    on = [zookeeper.connect_string]
    with watched_health(lambda: on[0], metrics):
        wait_until(role)
        on[0] = ""
        wait_until(role, lambda seen: seen is None)
        on[0] = zookeeper.connect_string
        wait_until(role)
    assert role() is None
    assert "server-health" not in {thread.name for thread in threading.enumerate()}
