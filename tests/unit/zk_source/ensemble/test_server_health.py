"""A server's figures become metrics while they are fresh."""

from __future__ import annotations

import pytest
from prometheus_client import CollectorRegistry
from prometheus_client.exposition import generate_latest

from tests.support.waiting import wait_until
from zk_source.ensemble import server_health
from zk_source.ensemble.server_figures import read_mntr, read_srvr
from zk_source.ensemble.server_health import STALE_S, ServerMetrics, watched_health

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


def _shown(registry: CollectorRegistry) -> str:
    lines = generate_latest(registry).decode().splitlines()
    return "\n".join(line for line in lines if not line.startswith("#"))


def test_server_metrics_disappear_when_the_last_answer_is_stale() -> None:
    """It is shown with the server's role; after three missed answers there are no samples."""
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


def test_a_server_that_reports_nothing_any_more_has_no_figures() -> None:
    """A refusal removes the figures at once."""
    registry = CollectorRegistry()
    metrics = ServerMetrics(registry, "prod")
    metrics.show(read_mntr(SERVER, MNTR))
    assert 'kcm_watcher_zookeeper_sessions{cluster="prod"} 5.0' in _shown(registry)
    metrics.show(None)
    assert _shown(registry) == ""


def test_check_raises_the_error_that_ended_the_polling_thread(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Otherwise a thread that died silently would leave the figures missing for ever."""

    def ask(_server: str, _refused: object) -> None:
        raise LookupError(SERVER)

    def raised() -> bool:
        try:
            check()
        except LookupError:
            return True
        return False

    monkeypatch.setattr(server_health, "ask_server", ask)
    with watched_health(lambda: SERVER, ServerMetrics(CollectorRegistry(), "prod")) as check:
        wait_until(raised, deadline_s=10)
