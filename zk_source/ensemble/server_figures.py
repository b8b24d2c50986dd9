"""Parses a ZooKeeper server's answers to `mntr` and `srvr` into figures.

A figure that the server does not report is None, never 0. Text in any other form counts
as no answer.
"""

import dataclasses
import math


@dataclasses.dataclass(frozen=True, slots=True)
class ServerFigures:
    """What a server reported; None where it reported nothing."""

    server: str
    role: str
    version: str
    latency_average_seconds: float | None = None
    latency_highest_seconds: float | None = None
    connections: float | None = None
    sessions: float | None = None
    outstanding_requests: float | None = None
    answer_seconds: float | None = None
    """How long the server took to answer."""


def read_mntr(server: str, answer: str) -> ServerFigures | None:
    r"""Return the figures of an answer to `mntr`; None when it is a refusal or anything else.

    >>> read_mntr("zk1:2181", "zk_version\t3.8.4-x, built\nzk_server_state\tfollower\n").role
    'follower'
    """
    fields = dict(line.split("\t", 1) for line in answer.splitlines() if "\t" in line)
    if "zk_server_state" not in fields:
        return None
    return ServerFigures(
        server=server,
        role=fields["zk_server_state"],
        version=_version(fields.get("zk_version", "")),
        latency_average_seconds=_seconds(fields.get("zk_avg_latency")),
        latency_highest_seconds=_seconds(fields.get("zk_max_latency")),
        connections=_number(fields.get("zk_num_alive_connections")),
        sessions=_number(fields.get("zk_global_sessions")),
        outstanding_requests=_number(fields.get("zk_outstanding_requests")),
    )


def read_srvr(server: str, answer: str) -> ServerFigures | None:
    r"""Return the figures of an answer to `srvr`; None when it is a refusal or anything else.

    >>> read_srvr("zk1:2181", "Latency min/avg/max: 0/0.5/20\nMode: leader\n").latency_highest_seconds
    0.02
    """
    fields = dict(line.split(": ", 1) for line in answer.splitlines() if ": " in line)
    if "Mode" not in fields:
        return None
    latency = fields.get("Latency min/avg/max", "").split("/")
    _, average, most = latency if len(latency) == len(("min", "avg", "max")) else ("", "", "")
    return ServerFigures(
        server=server,
        role=fields["Mode"],
        version=_version(fields.get("Zookeeper version", "")),
        latency_average_seconds=_seconds(average),
        latency_highest_seconds=_seconds(most),
        connections=_number(fields.get("Connections")),
        outstanding_requests=_number(fields.get("Outstanding")),
    )


def _number(text: str | None) -> float | None:
    """Return a figure; None when it is missing or not a number."""
    try:
        value = float(text or "")
    except ValueError:
        return None
    return value if math.isfinite(value) else None


def _seconds(milliseconds: str | None) -> float | None:
    number = _number(milliseconds)
    return None if number is None else number / 1000


def _version(text: str) -> str:
    """Return the release without its build.

    >>> _version("3.8.4-9316c2a7a97e1666d8f4593f34dd6fc36ecc436c, built on 2024-02-12")
    '3.8.4'
    """
    return text.split(",", maxsplit=1)[0].split("-", maxsplit=1)[0].strip()
