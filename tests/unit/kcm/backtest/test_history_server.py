"""The options and queries of a Prometheus that serves the past, and how its answers are read."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from kcm.backtest.history_server import MAX_STEPS, HistoryServer, QueryError
from kcm.servers.supervisor import Supervisor
from pipeline.runtime import EnvironmentProblemError, UnreachableError

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


def played(
    monkeypatch: pytest.MonkeyPatch, *answers: tuple[int, bytes] | Exception
) -> list[dict[str, str]]:
    """Replace a server's answers by these; return what it will be asked."""
    left, asked = list(answers), []

    def post(address: str, *, data: dict[str, str], **_options: Any) -> httpx.Response:
        assert address.endswith("/api/v1/query_range")
        asked.append(data)
        answer = left.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return httpx.Response(answer[0], content=answer[1])

    monkeypatch.setattr(httpx, "post", post)
    return asked


def test_an_answer_becomes_values_by_labels_and_milliseconds(
    server: HistoryServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Labels are in the order of their names; values stay as they are written."""
    asked = played(monkeypatch, matrix((LABELS, [(15.0, "1"), (30.001, "+Inf")])))
    assert server.evaluate("m > 0", range(15_000, 45_001, 15_001)) == {
        SORTED: {15_000: "1", 30_001: "+Inf"}
    }
    assert asked == [{"query": "m > 0", "start": "15.000", "end": "30.001", "step": "15001ms"}]


def test_a_long_range_is_queried_in_parts(
    server: HistoryServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each part ends one step before the next; a series continues across them."""
    moments = range(0, (MAX_STEPS + 2) * 1000, 1000)
    asked = played(
        monkeypatch,
        matrix((LABELS, [(1.0, "1")])),
        matrix((LABELS, [(10_000.0, "2")]), ({}, [(10_001.0, "3")])),
    )
    assert server.evaluate("m", moments) == {
        SORTED: {1000: "1", 10_000_000: "2"},
        (): {10_001_000: "3"},
    }
    assert [(body["start"], body["end"]) for body in asked] == [
        ("0.000", "9999.000"),
        ("10000.000", "10001.000"),
    ]


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


def test_a_server_that_does_not_answer_is_named(
    server: HistoryServer, programs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The error has its address and what was seen; where its process has ended, that is the error."""
    answers: list[tuple[int, bytes] | Exception] = [
        httpx.ConnectError("refused"),
        (200, b"["),
        (200, b"[" * 100_000),
    ]
    played(monkeypatch, *answers)
    with pytest.raises(EnvironmentProblemError, match="prometheus was never started"):
        server.evaluate("m", range(1))
    (programs / "prometheus").write_text("#!/bin/sh\nexec sleep 60\n")
    server.start()
    played(monkeypatch, *answers)
    for _ in answers:
        with pytest.raises(UnreachableError, match=f"Prometheus at {server.url} does not answer: "):
            server.evaluate("m", range(1))
    server.kill()


def test_a_missing_prometheus_is_reported_before_the_log_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A missing program is reported before a long log is read."""
    monkeypatch.setenv("PATH", str(tmp_path / "nowhere"))
    with pytest.raises(EnvironmentProblemError, match="program prometheus"):
        HistoryServer(Supervisor(tmp_path), tmp_path, lookback_ms=14_999)
