"""How many connections one client may hold, what hostile ones do, and that others get answers."""

from __future__ import annotations

import asyncio
import gc
import resource
import socket
import ssl
import sys
import time
from collections import Counter
from contextlib import ExitStack
from pathlib import Path

import pytest
import structlog
from hypothesis import given, settings
from hypothesis import strategies as st
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from tests.support.certificates import NEEDS_OPENSSL, make_authority, make_certificate
from tests.support.waiting import DEADLINE_S, wait_until
from tests.support.web import connected, exchange, page, request, serving, status, write_config
from web import connections
from web import server as web_server
from web.server import WebOptions, WebServer

OTHER = "127.0.0.2"
"""Another client."""
MAX_GROWN = 64 * 1024 * 1024


REFUSED_TIMEOUT_S = connections.REQUEST_TIMEOUT_S / 2
"""A connection that is one too many is closed by then; any other later, without a request."""


def _is_closed(client: socket.socket) -> bool:
    client.settimeout(REFUSED_TIMEOUT_S)
    try:
        return client.recv(1) == b""
    except ConnectionResetError:
        return True
    except TimeoutError:
        return False


def test_one_client_has_a_limited_number_of_connections(caplog: pytest.LogCaptureFixture) -> None:
    """Further ones are closed at once. Another client gets an answer, and this one again when it closes one.

    The log names the client once, however many were refused.
    """
    options = WebOptions(connections_per_client=3)
    with structlog.testing.capture_logs() as logs, serving(options) as server, ExitStack() as stack:
        held = [stack.enter_context(connected(server)) for _ in range(3)]
        for _ in range(2):
            with connected(server) as one_too_many:
                assert _is_closed(one_too_many)
        assert status(exchange(server, request(), of=OTHER)) == 200
        held[0].close()
        _until_answered(server)
    named = [(each["client"], each["of_client"], each["of_all"]) for each in logs]
    assert named == [("127.0.0.1", 3, 3)]
    assert not caplog.records, "a refusal is no error of the loop"


@pytest.mark.parametrize(
    ("one", "other", "is_one_client"),
    [
        ("2001:db8::7", "2001:db8::ffff:1", True),
        ("2001:db8::7", "2001:db8:0:1::7", False),
        ("::ffff:10.0.0.7", "10.0.0.7", True),
        ("::ffff:10.0.0.7", "::ffff:10.0.0.8", False),
        ("unknown", "_hidden", False),
    ],
)
def test_a_client_has_a_network_of_ipv6_or_an_address_of_ipv4(
    one: str, other: str, *, is_one_client: bool
) -> None:
    """An address of IPv4 may be mapped to IPv6; what a proxy passes on may be none at all."""
    keys = connections.client_network(one), connections.client_network(other)
    assert (keys[0] == keys[1]) is is_one_client


def test_a_trusted_proxy_has_no_limit_of_connections_per_client() -> None:
    """Its connections belong to many clients."""
    options = WebOptions(connections_per_client=2, trusted_proxies=("127.0.0.0/30",))
    with serving(options) as server, ExitStack() as stack:
        for _ in range(5):
            stack.enter_context(connected(server))
        assert status(exchange(server, request())) == 200


def _until_answered(server: WebServer) -> None:
    for _ in range(100):
        if status(exchange(server, request())) == 200:
            return
        time.sleep(0.05)
    raise AssertionError


@NEEDS_OPENSSL
def test_connections_without_a_tls_handshake_count_for_the_limit(tmp_path: Path) -> None:
    """A connection costs most before anything is known about the client."""
    make_authority(tmp_path)
    make_certificate(tmp_path, "server", "localhost")
    config = "tls_server_config: {cert_file: server.pem, key_file: server.key}"
    options = WebOptions(write_config(tmp_path, config), connections_per_client=2)
    tls = ssl.create_default_context(cafile=str(tmp_path / "ca.pem"))
    with serving(options) as server, ExitStack() as stack:
        for _ in range(2):
            stack.enter_context(connected(server))
        with connected(server) as one_too_many:
            assert _is_closed(one_too_many)
        assert status(exchange(server, request(), of=OTHER, tls=tls)) == 200


@NEEDS_OPENSSL
@pytest.mark.parametrize("sent", [b"", b"\x16\x03\x01\x02\x00\x01"])
def test_a_handshake_that_does_not_end_is_dropped_after_a_timeout(
    sent: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without that limit, asyncio waits for a minute."""
    monkeypatch.setattr(connections, "REQUEST_TIMEOUT_S", 0.3)
    make_authority(tmp_path)
    make_certificate(tmp_path, "server", "localhost")
    config = "tls_server_config: {cert_file: server.pem, key_file: server.key}"
    with serving(WebOptions(write_config(tmp_path, config))) as server:
        began = time.monotonic()
        exchange(server, sent)
        assert time.monotonic() - began < DEADLINE_S


@pytest.mark.parametrize(
    "sent",
    [
        b"",
        b"GET / HT",
        b"GET / HTTP/1.1\r\nHost: localhost\r\nX-Slow: ",
        b"GET / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\nx",
        request().replace(b"Connection: close\r\n", b"") + b"GET ",
    ],
)
def test_an_incomplete_request_is_dropped_after_a_timeout(
    sent: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither its head nor its body may take for ever, nor those of the second request on a connection."""
    monkeypatch.setattr(connections, "REQUEST_TIMEOUT_S", 0.3)
    monkeypatch.setattr(web_server, "_IDLE_S", 2 * DEADLINE_S)
    with serving() as server:
        began = time.monotonic()
        exchange(server, sent)
        assert time.monotonic() - began < DEADLINE_S, "before an idle connection is closed"


@pytest.mark.parametrize(
    "begun",
    [b"GET / HTTP/1.1\r\nX-Slow: ", b"GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 900\r\n\r\n"],
)
def test_a_request_that_arrives_byte_by_byte_gets_no_more_time(
    begun: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither its head nor its body: the time runs from the first byte to the last."""
    monkeypatch.setattr(connections, "REQUEST_TIMEOUT_S", 0.5)
    with serving() as server, connected(server) as client:
        client.sendall(begun)
        client.settimeout(0.05)
        for _ in range(200):
            try:
                client.send(b"x")
                if client.recv(65_536) == b"":
                    return
            except TimeoutError:
                continue
            except (ConnectionResetError, BrokenPipeError):
                return
    raise AssertionError("it is still open after twenty times as long")


def test_an_answer_may_take_longer_than_a_request(monkeypatch: pytest.MonkeyPatch) -> None:
    """The deadline is for the client, and ends when its request has arrived."""
    monkeypatch.setattr(connections, "REQUEST_TIMEOUT_S", 0.5)

    async def slow(_request: Request) -> Response:
        await asyncio.sleep(0.8)
        return PlainTextResponse("late")

    with serving(app=Starlette(routes=[Route("/", slow)])) as server:
        assert exchange(server, request()).endswith(b"late")


def test_nothing_is_kept_of_a_connection_that_has_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise a client that connects and leaves without a pause would fill the memory until the deadlines."""
    monkeypatch.setattr(connections, "REQUEST_TIMEOUT_S", 2 * DEADLINE_S)

    def kept() -> int:
        gc.collect()
        return sum(type(each) is connections._Connection for each in gc.get_objects())

    with serving() as server:
        with connected(server):
            wait_until(kept)
        wait_until(kept, lambda count: count == 0, deadline_s=10)


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere TCP has no such limit")
def test_a_client_that_acknowledges_nothing_gives_its_place_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its machine may have vanished: the kernel ends the connection, sooner than the server drops a slow client."""
    monkeypatch.setattr(connections, "_UNACKNOWLEDGED_MS", 100)
    options = WebOptions(connections_per_client=1)
    with serving(options, page(bytes(1 << 24))) as server, connected(server) as client:
        client.sendall(request(path="/big"))
        _until_answered(server)


def _resident() -> int:
    """Return how many bytes of memory this process holds."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize()


@pytest.mark.skipif(sys.platform != "linux", reason="memory is read from /proc")
def test_a_thousand_connections_block_no_client_and_need_little_memory() -> None:
    """One client opens a thousand and sends slowly: others get answers, and memory stays bounded."""
    with serving() as server, ExitStack() as stack:
        assert status(exchange(server, request(), of=OTHER)) == 200
        before = _resident()
        held = [stack.enter_context(connected(server)) for _ in range(1000)]
        for client in held:
            try:
                client.sendall(b"GET / HTTP/1.1\r\nX: " + bytes(30_000).replace(b"\0", b"x"))
            except (ConnectionResetError, BrokenPipeError):
                continue
        assert status(exchange(server, request(), of=OTHER)) == 200
        grown = _resident() - before
    assert grown < MAX_GROWN


def test_all_clients_together_have_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    """Many addresses do not use up the files that the process may open."""
    monkeypatch.setattr(connections, "MAX_CONNECTIONS", 4)
    with serving() as server, ExitStack() as stack:
        for number in range(4):
            stack.enter_context(connected(server, of=f"127.0.1.{number + 1}"))
        with connected(server, of=OTHER) as one_too_many:
            assert _is_closed(one_too_many)


def test_connections_of_proxies_count_among_all(monkeypatch: pytest.MonkeyPatch) -> None:
    """A proxy has no limit of its own, but takes no more than all clients may; what it closes is free again."""
    monkeypatch.setattr(connections, "MAX_CONNECTIONS", 4)
    options = WebOptions(connections_per_client=2, trusted_proxies=("127.0.0.1/32",))
    with serving(options) as server, ExitStack() as stack:
        held = [stack.enter_context(connected(server)) for _ in range(4)]
        for of in ("127.0.0.1", OTHER):
            with connected(server, of=of) as one_too_many:
                assert _is_closed(one_too_many)
        held[0].close()
        wait_until(lambda: status(exchange(server, request(), of=OTHER)) == 200)


TOO_LARGE = (
    b"GET / HTTP/1.1\r\nHost: localhost\r\nX: " + b"x" * 400_000 + b"\r\n\r\n",
    b"GET /" + b"x" * 400_000 + b" HTTP/1.1\r\nHost: localhost\r\n\r\n",
    b"GET / HTTP/1.1\r\nHost: localhost\r\n" + b"X: y\r\n" * 80_000 + b"\r\n",
    b"GET / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9000000000\r\n\r\n" + b"x" * 4_000_000,
)
HOSTILE = (
    (b"\0" * 100 + b"\r\n\r\n", 400),
    (b"GET / HTTP/1.1\r\n\r\n", 400),
    (b"GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", 400),
    (b"GET / HTTP/1.1\r\nHost: localhost\r\nContent-Length: -1\r\n\r\n", 400),
    (b"GET / HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: gzip\r\n\r\n", 400),
    (request(method="POST"), 405),
    (request(method="BREW"), 405),
    (request("Upgrade: websocket"), 200),
    (request(path="/%ff%00"), 404),
    (request(path="/?%ff=%ff&name[]="), 200),
    (request("Accept: \xff\xfe"), 200),
    (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 404),
    (b"\x16\x03\x01\x02\x00\x01\x00", 400),
)


def test_hostile_requests_are_refused_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each gets its status and ends; the next client gets an answer as before."""
    monkeypatch.setattr(connections, "REQUEST_TIMEOUT_S", 0.5)
    with serving() as server:
        for sent, wanted in HOSTILE:
            assert status(exchange(server, sent)) == wanted, sent[:80]
            assert status(exchange(server, request())) == 200
        for sent in TOO_LARGE:
            # A client that still sends when it is refused may only see the end of the connection.
            assert status(exchange(server, sent)) in {0, 200, 400}, sent[:80]
            assert status(exchange(server, request())) == 200


def test_after_arbitrary_bytes_the_next_client_is_answered(
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    capfd: pytest.CaptureFixture[str],
) -> None:
    """None of it is logged, by uvicorn neither: otherwise anybody could fill the log."""
    monkeypatch.setattr(connections, "REQUEST_TIMEOUT_S", 0.05)
    heads = st.sampled_from([b"", b"GET / HTTP/1.1\r\nHost: localhost\r\n", b"GET /", b"POST "])
    with serving() as server:

        @settings(max_examples=60, deadline=None, database=None)
        @given(heads, st.binary(max_size=300), st.sampled_from([b"", b"\r\n\r\n"]))
        def check(head: bytes, middle: bytes, end: bytes) -> None:
            exchange(server, head + middle + end)
            # On a busy machine even a good request may not arrive within that time.
            wait_until(lambda: status(exchange(server, request())) == 200)

        check()
    assert (caplog.text, capfd.readouterr().err) == ("", "")


LENGTHS = st.lists(
    st.sampled_from(
        (b"Content-Length: %d", b"Content-Length: 0", b"transfer-encoding:chunked", b"X: y")
    ),
    max_size=4,
)


def test_no_request_is_answered_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    """A body that looks like a request stays a body, however many lengths its request has."""
    monkeypatch.setattr(web_server, "_IDLE_S", 0.1)
    monkeypatch.setattr(connections, "REQUEST_TIMEOUT_S", 0.5)
    inner = request(path="/healthz")
    body = b"0\r\n\r\n" + inner
    with serving() as server:

        @settings(max_examples=60, deadline=None, database=None)
        @given(st.sampled_from([b"1.0", b"1.1"]), LENGTHS)
        def check(version: bytes, lengths: list[bytes]) -> None:
            named = [each % len(body) if b"%d" in each else each for each in lengths]
            head = (b"GET / HTTP/" + version, b"Host: localhost", *named, b"", b"")
            answer = exchange(server, b"\r\n".join(head) + body)
            kinds = {each.partition(b":")[0].lower() for each in named}
            if b"transfer-encoding" in kinds and (b"content-length" in kinds or version == b"1.0"):
                assert (status(answer), answer.count(b"HTTP/1.1 ")) == (400, 1)
            elif b"Content-Length: %d" in lengths and b"Content-Length: 0" not in lengths:
                assert (status(answer), answer.count(b"HTTP/1.1 ")) == (200, 1)

        check()


def test_a_connection_that_is_closed_twice_is_counted_off_once() -> None:
    """Otherwise its client would have more connections than the limit."""
    connection = connections._Connection()
    connection.client, connection.clients = "a", Counter(a=2)
    connection.close()
    connection.close()
    assert connection.clients == Counter(a=1)
