"""A part's HTTP server: its address, the client address behind a proxy, and its metrics."""

from __future__ import annotations

import asyncio
import gzip
import socket
from collections.abc import AsyncIterator
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest
import structlog
from prometheus_client import CollectorRegistry, Counter
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route

from kcm.servers.ports import free_port
from pipeline.runtime import ConflictError, UsageError
from pipeline.settings import PipelineSettings, load
from tests.support.garbage import left_open
from tests.support.waiting import wait_until
from tests.support.web import (
    connected,
    exchange,
    hashed,
    page,
    request,
    serving,
    status,
    write_config,
)
from web.health import PartHealth
from web.server import UNGUARDED, WebOptions, WebServer, metrics_server

FREE = 0


@pytest.mark.usefixtures("no_settings_of_the_machine")
def test_web_options_are_read_from_the_settings(tmp_path: Path) -> None:
    """Lists are separated by commas; blanks and empty elements are ignored."""
    loaded = load(
        PipelineSettings,
        None,
        web_config_file=tmp_path / "web.yaml",
        allowed_hosts=" kcm.example.com, ,*.lan,",
        trusted_proxies="10.0.0.0/8,::1",
        connections_per_client=7,
        access_log=True,
    )
    assert WebOptions.of(loaded) == (
        tmp_path / "web.yaml",
        ("kcm.example.com", "*.lan"),
        ("10.0.0.0/8", "::1"),
        7,
        True,
    )
    assert WebOptions.of(load(PipelineSettings, None)) == UNGUARDED


def test_the_port_is_taken_before_anything_runs() -> None:
    """A second server on it gets one clear line, and the first one continues."""
    with serving() as server:
        with pytest.raises(ConflictError, match=str(server.port)):
            WebServer(page(), "127.0.0.1", server.port)
        assert status(exchange(server, request())) == 200


def test_a_bad_configuration_takes_no_port(tmp_path: Path) -> None:
    """It is refused first, so after it is fixed the port is free."""
    port = free_port()
    bad = WebOptions(write_config(tmp_path, "no_such_key: 1"))
    with pytest.raises(UsageError):
        WebServer(page(), "127.0.0.1", port, bad)
    with WebServer(page(), "127.0.0.1", port) as server:
        assert server.port == port


def test_a_server_is_there_while_its_context_is() -> None:
    """Its thread ends with the context, and the port is free again."""
    server = WebServer(page(), "127.0.0.1", free_port())
    assert not server.alive
    with server:
        assert server.alive
        assert status(exchange(server, request())) == 200
    assert not server.alive
    with WebServer(page(), "127.0.0.1", server.port):
        pass


def test_connections_that_are_accepted_at_the_end_are_closed() -> None:
    """One comes in each turn of the loop, so also in the last: the end waits for none, and leaves none open."""

    async def answer(_request: Request) -> Response:
        loop, is_refused = asyncio.get_running_loop(), asyncio.Event()

        def connect() -> None:
            try:
                opened.append(sockets.enter_context(connected(server)))
            except ConnectionRefusedError:
                is_refused.set()
                return
            if len(opened) > 10:
                opened.pop(0).close()
            loop.call_later(0, connect)  # not call_soon: after this turn has accepted the last one

        connect()
        await is_refused.wait()
        return PlainTextResponse("")

    opened: list[socket.socket] = []
    app = Starlette(routes=[Route("/", answer)])
    with ExitStack() as sockets, structlog.testing.capture_logs() as logs:
        with serving(app=app) as server:
            asking = sockets.enter_context(connected(server))
            asking.sendall(request())
            wait_until(lambda: len(opened) >= 10)
        assert not server.alive
        for last in opened:
            with suppress(ConnectionResetError):
                assert last.recv(1) == b""
    assert logs == [], "none had to be cut off"
    assert left_open() == []


def test_an_exception_of_a_page_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    """The client gets only the status."""

    async def broken(_request: Request) -> Response:
        raise ArithmeticError

    with serving(app=Starlette(routes=[Route("/", broken)])) as server:
        assert status(exchange(server, request())) == 500
    (entry,) = caplog.records
    assert entry.exc_info is not None
    assert entry.exc_info[0] is ArithmeticError


def test_the_end_cuts_off_a_client_that_does_not_read(caplog: pytest.LogCaptureFixture) -> None:
    """That is one line of the log, and no exception of the answer that it ends."""

    async def endless() -> AsyncIterator[bytes]:
        while True:
            yield bytes(1 << 16)

    async def answer(_request: Request) -> Response:
        return StreamingResponse(endless())

    with ExitStack() as sockets, structlog.testing.capture_logs() as logs:
        with serving(app=Starlette(routes=[Route("/", answer)])) as server:
            client = sockets.enter_context(connected(server))
            client.sendall(request())
            assert client.recv(1)
        assert not server.alive
        with suppress(ConnectionResetError):
            while client.recv(1 << 20):
                pass
    assert left_open() == []
    assert [(entry["log_level"], entry["clients"]) for entry in logs] == [("warning", 1)]
    assert not caplog.records, "uvicorn logs nothing of its own"


def test_a_url_has_its_scheme_and_brackets_around_ipv6() -> None:
    """As a browser accepts it."""
    with serving() as server:
        assert server.url == f"http://127.0.0.1:{server.port}"
    with serving(host="::1") as server:
        assert server.url == f"http://[::1]:{server.port}"
    with serving(host="0.0.0.0") as server:  # noqa: S104  # the URL for all addresses is what is tested
        assert server.url == f"http://0.0.0.0:{server.port}"
        assert server.local_url == f"http://127.0.0.1:{server.port}"


def test_refused_requests_are_counted_by_status() -> None:
    """With the status of its answer; a request that a page answers is not counted."""
    refused: list[int] = []
    with WebServer(page(), "127.0.0.1", FREE, refused=refused.append) as server:
        exchange(server, request())
        exchange(server, request("Host: elsewhere.example.com"))
    assert refused == [421]


def test_the_size_of_a_request_head_is_limited() -> None:
    """A request with many steps of a rehearsal fits; an endless one is refused, not kept."""
    with serving() as server:
        assert status(exchange(server, request(f"X-Long: {'x' * 28_000}"))) == 200
        assert status(exchange(server, request(f"X-Long: {'x' * 400_000}"))) == 400


def test_clients_are_known_through_trusted_proxies_only() -> None:
    """Anybody may send X-Forwarded-For; it only counts from proxies that are named."""
    forwarded = request("X-Forwarded-For: 10.1.2.3")
    with serving(WebOptions(trusted_proxies=("127.0.0.0/24",))) as server:
        assert exchange(server, forwarded).endswith(b"10.1.2.3")
        assert exchange(server, forwarded, of="127.0.1.1").endswith(b"127.0.1.1")
    with serving() as server:
        assert exchange(server, forwarded).endswith(b"127.0.0.1")


def test_a_proxy_of_ipv4_is_known_where_ipv6_is_listened_on() -> None:
    """There its address is mapped to IPv6, and it is the same proxy."""
    forwarded = request("X-Forwarded-For: 10.1.2.3")
    options = WebOptions(trusted_proxies=("127.0.0.0/24",), connections_per_client=1)
    with serving(options, host="::") as server, connected(server):
        assert exchange(server, forwarded).endswith(b"10.1.2.3")


@pytest.mark.usefixtures("no_settings_of_the_machine")
def test_all_metrics_paths_require_the_password(tmp_path: Path) -> None:
    """Text and OpenMetrics, single families, and a probe's path require the same password."""
    registry = CollectorRegistry()
    Counter("rain", "Drops.", registry=registry).inc()
    Counter("snow", "Flakes.", registry=registry).inc()
    health = PartHealth(registry, lambda: 0.0)
    config = write_config(tmp_path, f'basic_auth_users: {{alice: "{hashed()}"}}')
    for file in (None, config):
        settings = load(PipelineSettings, web_config_file=file)
        with metrics_server(registry, health, settings, FREE) as server:
            answer = exchange(server, request(path="/metrics"))
            assert status(answer) == (401 if file else 200)
            assert (b"rain_total 1.0" in answer) is (file is None)
            if file is None:
                one = exchange(server, request(path="/metrics?name[]=snow_total"))
                assert b"snow_total 1.0" in one
                assert b"rain" not in one
                asked = request("Accept: application/openmetrics-text", path="/metrics")
                assert exchange(server, asked).endswith(b"# EOF\n")
                assert status(exchange(server, request(method="PUT"))) == 405
            assert status(exchange(server, request(path="/healthz"))) == 200


@pytest.mark.usefixtures("no_settings_of_the_machine")
def test_metrics_are_served_at_every_path_and_compressed_on_request() -> None:
    """As in prometheus_client's own server; the port is free once it is closed."""
    registry = CollectorRegistry()
    for number in range(20):
        Counter(f"rain_{number}", "Drops. " * 20, registry=registry).inc()
    health = PartHealth(registry, lambda: 0.0)
    with metrics_server(registry, health, load(PipelineSettings), FREE) as server:
        assert server.url == f"http://127.0.0.1:{server.port}"
        plain = exchange(server, request(path="/any/where")).partition(b"\r\n\r\n")[2]
        assert b"rain_0_total 1.0" in plain
        packed = exchange(server, request("Accept-Encoding: gzip"))
        head, _, body = packed.partition(b"\r\n\r\n")
        assert b"content-encoding: gzip" in head
        assert gzip.decompress(body) == plain
    assert not server.alive
    with metrics_server(registry, health, load(PipelineSettings), server.port):
        pass
