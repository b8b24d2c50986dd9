"""The options and queries of a Prometheus that serves the past, and how its answers are read."""

from __future__ import annotations

import http.client
import json
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kcm.backtest import history_server
from kcm.backtest.history_server import MAX_STEPS, HistoryServer, QueryError
from kcm.servers.supervisor import Supervisor
from pipeline.runtime import EnvironmentProblemError, KcmError, UnreachableError
from tests.support.fake_http import FakeServer

LABELS = {"b": "2", "__name__": "m", "a": "1"}
SORTED = (("__name__", "m"), ("a", "1"), ("b", "2"))


def matrix(*series: tuple[dict[str, str], list[tuple[float, str]]]) -> tuple[int, bytes]:
    """Return an answer with these series."""
    result = [{"metric": labels, "values": values} for labels, values in series]
    return 200, json.dumps({"status": "success", "data": {"result": result}}).encode()


@pytest.fixture
def server(programs: Path, tmp_path: Path) -> Iterator[HistoryServer]:
    """A server that is not started."""
    assert programs
    with Supervisor(tmp_path) as supervisor:
        yield HistoryServer(supervisor, tmp_path, lookback_ms=14_999)


def played(monkeypatch: pytest.MonkeyPatch, *answers: Any) -> FakeServer:
    """Replace a server's answers by these."""
    handler = FakeServer(*answers)
    monkeypatch.setattr(history_server, "DIRECTLY", urllib.request.build_opener(handler))
    return handler


def test_prometheus_serves_the_blocks_on_loopback_and_scrapes_nothing(
    server: HistoryServer, programs: Path, tmp_path: Path
) -> None:
    """It listens on this machine only, looks back less than a scrape interval, and drops no old block."""
    assert server.argv[0] == str(programs / "prometheus")
    options = dict(str(each).split("=", 1) for each in server.argv[1:])
    assert options["--storage.tsdb.path"] == str(server.blocks)
    assert server.blocks.is_dir()
    assert options["--query.lookback-delta"] == "14999ms"
    assert options["--storage.tsdb.retention.time"] == "100y"
    assert options["--web.listen-address"].startswith("127.0.0.1:")
    assert server.url == f"http://{options['--web.listen-address']}"
    assert (tmp_path / "prometheus.yml").read_text() == "{}\n"


def test_an_answer_becomes_values_by_labels_and_milliseconds(
    server: HistoryServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Labels are in the order of their names; values stay as they are written."""
    handler = played(monkeypatch, matrix((LABELS, [(15.0, "1"), (30.001, "+Inf")])))
    assert server.evaluate("m > 0", range(15_000, 45_001, 15_001)) == {
        SORTED: {15_000: "1", 30_001: "+Inf"}
    }
    assert handler.asked == [
        (
            f"{server.url}/api/v1/query_range",
            {"query": "m > 0", "start": "15.000", "end": "30.001", "step": "15001ms"},
        )
    ]


def test_a_long_range_is_queried_in_parts(
    server: HistoryServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each part ends one step before the next; a series continues across them."""
    moments = range(0, (MAX_STEPS + 2) * 1000, 1000)
    handler = played(
        monkeypatch,
        matrix((LABELS, [(1.0, "1")])),
        matrix((LABELS, [(10_000.0, "2")]), ({}, [(10_001.0, "3")])),
    )
    assert server.evaluate("m", moments) == {
        SORTED: {1000: "1", 10_000_000: "2"},
        (): {10_001_000: "3"},
    }
    assert [(body["start"], body["end"]) for _, body in handler.asked] == [
        ("0.000", "9999.000"),
        ("10000.000", "10001.000"),
    ]


def test_no_query_is_sent_for_an_empty_range(
    server: HistoryServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A group whose interval is longer than the history is never evaluated."""
    handler = played(monkeypatch)
    assert server.evaluate("m", range(0)) == {}
    assert handler.asked == []


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (b'{"status":"error","error":"parse error: x"}', "parse error: x"),
        (b"gone\n", "gone"),
        (b" \n", "no reason given"),
        (b"\xff", "\N{REPLACEMENT CHARACTER}"),
    ],
)
def test_a_query_error_has_the_message_of_prometheus(
    body: bytes, said: str, server: HistoryServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The error is in Prometheus's words, whether it answers with JSON or not."""
    played(monkeypatch, (422, body))
    with pytest.raises(QueryError) as caught:
        server.evaluate("m", range(1))
    assert str(caught.value) == said


UNREADABLE = [
    ConnectionResetError("reset"),
    http.client.BadStatusLine("x"),
    (200, b"["),
    (200, b"[" * 100_000),
]


@pytest.mark.parametrize("answer", UNREADABLE)
def test_an_unanswered_query_reports_that_the_server_has_ended(
    answer: Any, server: HistoryServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The end of its process says more than a socket's error."""
    played(monkeypatch, answer)
    with pytest.raises(EnvironmentProblemError, match="prometheus was never started"):
        server.evaluate("m", range(1))


def test_a_server_that_runs_and_does_not_answer_is_named(
    server: HistoryServer, programs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The error has its address and what was seen."""
    (programs / "prometheus").write_text("#!/bin/sh\nexec sleep 60\n")
    server.start()
    played(monkeypatch, *UNREADABLE)
    for _ in UNREADABLE:
        with pytest.raises(UnreachableError, match=f"Prometheus at {server.url} does not answer: "):
            server.evaluate("m", range(1))
    server.kill()


def test_a_restart_waits_until_a_new_prometheus_is_ready(
    server: HistoryServer, programs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It waits for a new process: Prometheus looks for new blocks when it starts."""
    (programs / "prometheus").write_text("#!/bin/sh\nexec sleep 60\n")
    ready = FakeServer((503, b""), (200, b""), (200, b""))
    opener = urllib.request.build_opener(ready)
    monkeypatch.setattr("kcm.servers.prometheus.DIRECTLY", opener)
    server.restart()
    first = server.pid
    assert len(ready.left) == 1
    server.restart()
    assert server.pid not in {first, None}
    assert {url for url, _ in ready.asked} == {f"{server.url}/-/ready"}
    server.kill()


def test_a_query_error_is_a_kcm_error() -> None:
    """It is a KcmError: an unhandled one ends a command in one line."""
    assert issubclass(QueryError, KcmError)


def test_a_missing_prometheus_is_reported_before_the_log_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A missing program is reported before a long log is read."""
    monkeypatch.setenv("PATH", str(tmp_path / "nowhere"))
    with pytest.raises(EnvironmentProblemError, match="program prometheus"):
        HistoryServer(Supervisor(tmp_path), tmp_path, lookback_ms=14_999)
