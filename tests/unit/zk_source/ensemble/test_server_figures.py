"""A ZooKeeper server's answers become figures, and what it does not report stays unknown."""

from __future__ import annotations

import pytest

from zk_source.ensemble.server_figures import ServerFigures, read_mntr, read_srvr

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


def test_mntr_reports_every_figure() -> None:
    """It reads role, release, latency, connections, sessions and queued requests."""
    assert read_mntr(SERVER, MNTR) == ServerFigures(
        server=SERVER,
        role="follower",
        version="3.8.4",
        latency_average_seconds=0.0004321,
        latency_highest_seconds=0.027,
        connections=6,
        sessions=5,
        outstanding_requests=2,
    )


def test_srvr_reports_no_sessions() -> None:
    """What `srvr` does not report is None, not 0."""
    assert read_srvr(SERVER, SRVR) == ServerFigures(
        server=SERVER,
        role="standalone",
        version="3.4.14",
        latency_average_seconds=0.001,
        latency_highest_seconds=0.02,
        connections=3,
        sessions=None,
        outstanding_requests=0,
    )


@pytest.mark.parametrize(
    "answer", ["", NOT_ALLOWED, "HTTP/1.1 400 Bad Request\r\n\r\n", "\x15\x03\x01\x00\x02", "\t\n:"]
)
def test_a_refused_command_gives_no_figures(answer: str) -> None:
    """Text that is not an answer to the command gives no figures at all."""
    assert read_mntr(SERVER, answer) is None
    assert read_srvr(SERVER, answer) is None


@pytest.mark.parametrize("text", ["", "NaN", "inf", "many", "1/2"])
def test_a_figure_that_is_not_a_number_is_unknown(text: str) -> None:
    """One damaged line does not affect the others."""
    figures = read_mntr(SERVER, MNTR.replace("zk_max_latency\t27", f"zk_max_latency\t{text}"))
    assert figures is not None
    assert figures.latency_highest_seconds is None
    assert figures.connections == 6  # as in the answer above
