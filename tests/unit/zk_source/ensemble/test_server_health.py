"""A server's figures become metrics while they are fresh."""

from __future__ import annotations

import dataclasses
import threading
from types import SimpleNamespace

import pytest
from prometheus_client import CollectorRegistry
from prometheus_client.exposition import generate_latest

from kcm.servers.ports import free_port
from tests.support.waiting import wait_until
from tests.support.zookeeper_socket import HOST
from zk_source.ensemble import server_health
from zk_source.ensemble.server_figures import ServerFigures
from zk_source.ensemble.server_health import ASK_INTERVAL_S, STALE_S, ServerMetrics, watched_health

SERVER = "zk1:2181"


FIGURES = ServerFigures(
    server=SERVER, role="standalone", version="3.4.14", latency_highest_seconds=0.02
)


def _shown(registry: CollectorRegistry) -> str:
    lines = generate_latest(registry).decode().splitlines()
    return "\n".join(line for line in lines if not line.startswith("#"))


def test_server_metrics_disappear_when_the_last_answer_is_stale() -> None:
    """It is shown with the server's role; after three missed answers there are no samples."""
    now = [1000.0]
    registry = CollectorRegistry()
    metrics = ServerMetrics(registry, "prod", lambda: now[0])
    assert _shown(registry) == ""
    metrics.show(FIGURES)
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
    metrics.show(dataclasses.replace(FIGURES, sessions=5))
    assert 'kcm_watcher_zookeeper_sessions{cluster="prod"} 5.0' in _shown(registry)
    metrics.show(None)
    assert _shown(registry) == ""


def test_figures_disappear_with_the_session(monkeypatch: pytest.MonkeyPatch) -> None:
    """They are those of the session's server: without one, nothing is known, however fresh the answer was."""
    monkeypatch.setattr(server_health, "CHECK_INTERVAL_S", 0.01)
    monkeypatch.setattr(server_health, "ask_server", lambda *_: FIGURES)
    registry, server = CollectorRegistry(), SERVER
    with watched_health(lambda: server, ServerMetrics(registry, "prod")):
        (thread,) = [each for each in threading.enumerate() if each.name == "server-health"]
        for server in (SERVER, "", SERVER):
            wait_until(lambda: bool(_shown(registry)) is bool(server), deadline_s=10)  # noqa: B023
    assert _shown(registry) == "", "nor are they known after the watcher's term"
    assert not thread.is_alive(), "and nobody is asked any more"


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


def test_a_server_is_asked_at_intervals_and_another_one_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The server logs each question; it is asked again soon only after a time without a session."""
    now_s, looks, asked = [1000.0], list[str](), list[str]()
    other = "zk2:2181"

    def ask(server: str, _refused: object) -> ServerFigures:
        asked.append(server)
        return FIGURES

    def look() -> str:
        looks.append(server)
        return server

    def look_again() -> list[str]:
        seen = len(looks)
        wait_until(lambda: len(looks) > seen + 1, deadline_s=10)
        return asked

    monkeypatch.setattr(server_health, "CHECK_INTERVAL_S", 0.01)
    monkeypatch.setattr(server_health, "time", SimpleNamespace(monotonic=lambda: now_s[0]))
    monkeypatch.setattr(server_health, "ask_server", ask)
    server = SERVER
    with watched_health(look, ServerMetrics(CollectorRegistry(), "prod")):
        assert look_again() == [SERVER]
        now_s[0] += ASK_INTERVAL_S - 1
        assert look_again() == [SERVER]
        now_s[0] += 1
        assert look_again() == [SERVER] * 2
        server = other
        assert look_again() == [SERVER, SERVER, other]
        server = ""
        look_again()
        server = other
        assert look_again() == [SERVER, SERVER, other, other]


def test_a_server_that_answers_mntr_is_asked_nothing_else(monkeypatch: pytest.MonkeyPatch) -> None:
    """It has all figures; `srvr` has no sessions of the ensemble."""
    asked: list[str] = []

    def answer(_host: str, _port: int, word: str) -> str:
        asked.append(word)
        return "zk_server_state\tleader\nzk_global_sessions\t5"

    monkeypatch.setattr(server_health, "four_letter_word", answer)
    refused: dict[str, float] = {}
    for _ in range(2):
        figures = server_health.ask_server(SERVER, refused)
        assert figures is not None
        assert (figures.role, figures.sessions) == ("leader", 5)
    assert asked == ["mntr"] * 2


def test_a_server_that_does_not_answer_reports_nothing() -> None:
    """Nor does one whose address has no port; both are asked again later."""
    assert server_health.ask_server(f"{HOST}:{free_port()}", {}) is None
    assert server_health.ask_server("zk1", {}) is None


def test_a_command_that_is_refused_is_not_asked_again_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """The server logs each refusal; `srvr` is asked in its place."""
    asked: list[str] = []

    def answer(_host: str, _port: int, word: str) -> str:
        asked.append(word)
        return "Mode: leader" if word == "srvr" else "mntr is not executed"

    monkeypatch.setattr(server_health, "four_letter_word", answer)
    refused: dict[str, float] = {}
    for _ in range(2):
        figures = server_health.ask_server(SERVER, refused)
        assert figures is not None
        assert (figures.role, figures.answer_seconds is None) == ("leader", False)
    assert asked == ["mntr", "srvr", "srvr"]
