"""A ZooKeeper server's answers become figures, and what it does not tell stays unknown."""

from __future__ import annotations

import pytest
from prometheus_client import CollectorRegistry
from prometheus_client.exposition import generate_latest

from zk_source.zookeeper.server_figures import ServerFigures, read_mntr, read_srvr
from zk_source.zookeeper.server_health import STALE_S, ServerMetrics

SERVER = "zk1:2181"

MNTR = """\
zk_version\t3.8.4-9316c2a7a97e1666d8f4593f34dd6fc36ecc436c, built on 2024-02-12 22:16 UTC
zk_server_state\tfollower
zk_avg_latency\t0.4321
zk_max_latency\t27
zk_num_alive_connections\t6
zk_outstanding_requests\t2
zk_global_sessions\t5
"""
SRVR = """\
Zookeeper version: 3.4.14-4c25d480e66aadd371de8bd2fd8da255ac140bcf, built on 03/06/2019 16:18 GMT
Latency min/avg/max: 0/1/20
Received: 100
Connections: 3
Outstanding: 0
Zxid: 0x1f
Mode: standalone
Node count: 150
"""
NOT_ALLOWED = "mntr is not executed because it is not in the whitelist.\n"


def test_mntr_tells_all() -> None:
    """Role, release, latency, connections, sessions and what waits are read from it."""
    assert read_mntr(SERVER, MNTR) == ServerFigures(
        server=SERVER,
        role="follower",
        version="3.8.4",
        latency_avg_ms=0.4321,
        latency_max_ms=27,
        connections=6,
        sessions=5,
        outstanding=2,
    )


def test_srvr_tells_no_sessions() -> None:
    """What the smaller word does not tell is None, not 0."""
    assert read_srvr(SERVER, SRVR) == ServerFigures(
        server=SERVER,
        role="standalone",
        version="3.4.14",
        latency_avg_ms=1,
        latency_max_ms=20,
        connections=3,
        sessions=None,
        outstanding=0,
    )


@pytest.mark.parametrize(
    "answer", ["", NOT_ALLOWED, "HTTP/1.1 400 Bad Request\r\n\r\n", "\x15\x03\x01\x00\x02", "\t\n:"]
)
def test_a_refusal_is_no_figure(answer: str) -> None:
    """Whatever is no answer to the word makes no figures at all."""
    assert read_mntr(SERVER, answer) is None
    assert read_srvr(SERVER, answer) is None


@pytest.mark.parametrize("text", ["", "NaN", "inf", "many", "1/2"])
def test_a_figure_that_is_no_number_is_unknown(text: str) -> None:
    """One damaged line takes nothing from the others."""
    told = read_mntr(SERVER, MNTR.replace("zk_max_latency\t27", f"zk_max_latency\t{text}"))
    assert told is not None
    assert told.latency_max_ms is None
    assert told.connections == 6  # as in the answer above


def _shown(registry: CollectorRegistry) -> str:
    lines = generate_latest(registry).decode().splitlines()
    return "\n".join(line for line in lines if not line.startswith("#"))


def test_what_is_told_is_shown_while_it_is_young() -> None:
    """An answer is shown with its role; after three missed ones nobody knows any more."""
    now = [1000.0]
    registry = CollectorRegistry()
    metrics = ServerMetrics(registry, "prod", lambda: now[0])
    assert _shown(registry) == ""
    metrics.show(read_srvr(SERVER, SRVR))
    assert 'role="standalone",version="3.4.14",zookeeper="zk1:2181"} 1.0' in _shown(registry)
    assert 'kcm_watcher_zookeeper_latency_highest_seconds{cluster="prod"} 0.02' in _shown(registry)
    assert "kcm_watcher_zookeeper_sessions" not in _shown(registry)
    now[0] += STALE_S
    assert _shown(registry)
    now[0] += 1
    assert _shown(registry) == ""


def test_a_server_that_tells_nothing_any_more_has_no_figures() -> None:
    """A refusal takes the figures away at once."""
    registry = CollectorRegistry()
    metrics = ServerMetrics(registry, "prod")
    metrics.show(read_mntr(SERVER, MNTR))
    assert 'kcm_watcher_zookeeper_sessions{cluster="prod"} 5.0' in _shown(registry)
    metrics.show(None)
    assert _shown(registry) == ""
