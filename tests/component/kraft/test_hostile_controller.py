"""A port that speaks something else, or badly: each request ends in time, in one line, and reads no more than it should."""

from __future__ import annotations

import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from kcm.servers.ports import HOST
from kraft_source.wire.codec import write
from kraft_source.wire.connection import MAX_ANSWER_BYTES, Access, ControllerConnection, Tls
from kraft_source.wire.errors import LateAnswerError, RefusedError
from kraft_source.wire.messages import ControllerEndpoint, Fetch
from kraft_source.wire.schemas import MESSAGES
from pipeline.runtime import UnreachableError

Serve = Callable[[socket.socket], None]
FETCH = Fetch(0, 0, 1, 0, -1)


@contextmanager
def server(serve: Serve) -> Iterator[ControllerEndpoint]:
    """Serve one client after the other on a port."""
    with socket.create_server((HOST, 0)) as listening:

        def accept() -> None:
            while True:
                try:
                    client, _ = listening.accept()
                except OSError:
                    return
                with client:
                    try:
                        serve(client)
                    except (OSError, struct.error):
                        continue

        thread = threading.Thread(target=accept, daemon=True)
        thread.start()
        yield ControllerEndpoint(HOST, listening.getsockname()[1])
        listening.shutdown(socket.SHUT_RDWR)
    thread.join(10)


def request(client: socket.socket) -> int:
    """Read one request, and return its correlation id."""
    (size,) = struct.unpack(">i", client.recv(4, socket.MSG_WAITALL))
    data = client.recv(size, socket.MSG_WAITALL)
    return int(struct.unpack_from(">i", data, 4)[0])


def framed(data: bytes) -> bytes:
    """Return an answer with its size."""
    return struct.pack(">i", len(data)) + data


def versions(correlation_id: int, **ranges: tuple[int, int]) -> bytes:
    """Return the answer to ApiVersions of a server with these requests."""
    keys = [
        {"api_key": MESSAGES[f"{name}Request"].api_key, "min_version": low, "max_version": high}
        for name, (low, high) in ranges.items()
    ]
    body = write(MESSAGES["ApiVersionsResponse"], 3, {"api_keys": keys})
    return framed(struct.pack(">i", correlation_id) + body)


CONTROLLER = {"Fetch": (4, 18), "FetchSnapshot": (0, 1)}


def controller(answer: bytes | Callable[[int], bytes]) -> Serve:
    """Return a controller that answers ApiVersions as one does, and then this."""

    def serve(client: socket.socket) -> None:
        client.sendall(versions(request(client), **CONTROLLER))
        correlation_id = request(client)
        client.sendall(answer if isinstance(answer, bytes) else answer(correlation_id))

    return serve


def closes(client: socket.socket) -> None:
    """Read a request, and close."""
    request(client)


@pytest.mark.parametrize(
    ("serve", "says"),
    [
        (closes, "it closed the connection without an answer"),
        (lambda client: client.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n"), "1213486160 bytes"),
        (lambda client: client.sendall(b"\x15\x03\x03\x00\x02\x02\x16"), "speaks TLS on this port"),
        (lambda client: client.sendall(struct.pack(">i", -1)), "an answer of -1 bytes"),
        (
            lambda client: client.sendall(struct.pack(">i", MAX_ANSWER_BYTES + 1)),
            f"an answer of {MAX_ANSWER_BYTES + 1} bytes",
        ),
        (lambda client: client.sendall(framed(b"")), "cannot be read"),
        (lambda client: client.sendall(versions(77, **CONTROLLER)), "belongs to another request"),
        (
            lambda client: client.sendall(versions(request(client), Fetch=(4, 18))),
            "is a broker's listener",
        ),
        (
            lambda client: client.sendall(
                versions(request(client), Fetch=(4, 15), FetchSnapshot=(0, 0))
            ),
            "kcm watches Kafka 3.7 and newer",
        ),
        (controller(b"\0"), "it closed the connection without an answer"),
        (controller(framed(bytes(8))), "belongs to another request"),
        (controller(lambda each: framed(struct.pack(">i", each) + b"\0\1")), "cannot be read"),
        (
            controller(
                lambda each: framed(
                    struct.pack(">ib", each, 0) + write(MESSAGES["FetchResponse"], 18, {})
                )
            ),
            "not about the one partition",
        ),
    ],
)
def test_what_is_no_controllers_answer_is_one_line(serve: Serve, says: str) -> None:
    """Whatever comes, the error names the address and what is wrong, and the connection is closed."""
    with server(serve) as there, pytest.raises(UnreachableError) as raised:
        ControllerConnection(there, Access()).ask(FETCH)
    text = str(raised.value)
    assert text.startswith(f"the controller at {there}")
    assert says in text
    assert "\n" not in text


@pytest.mark.parametrize("sent", [b"", b"\0\0", struct.pack(">i", 100) + bytes(50)])
def test_an_answer_that_does_not_end_is_late(sent: bytes) -> None:
    """A part of an answer, or one byte now and then, does not extend the time."""
    stopped = threading.Event()

    def serve(client: socket.socket) -> None:
        client.sendall(sent)
        while not stopped.wait(0.05):
            client.sendall(b"\0" if len(sent) > 4 and not stopped.is_set() else b"")

    with server(serve) as there:
        began = time.monotonic()
        with pytest.raises(LateAnswerError, match="no answer in time"):
            ControllerConnection(there, Access(), timeout_s=0.5)
        assert time.monotonic() - began < 20
        stopped.set()


@pytest.mark.parametrize("serve", [closes, lambda client: client.close()], ids=["waits", "closes"])
def test_tls_to_a_port_without_it_is_one_line(serve: Serve) -> None:
    """Where nothing answers TLS, the line says what the port may be."""
    with server(serve) as there, pytest.raises(UnreachableError, match="may speak no TLS"):
        ControllerConnection(there, Access(tls=Tls()), timeout_s=0.5)


def test_a_closed_connection_asks_nothing() -> None:
    """After an error a connection stays closed: another one has to be made."""
    with server(controller(framed(bytes(8)))) as there:
        connection = ControllerConnection(there, Access())
        for says in ("belongs to another request", "it closed the connection"):
            with pytest.raises(UnreachableError, match=says):
                connection.ask(FETCH)
        with pytest.raises(RefusedError, match="does not offer DescribeQuorum"):
            ControllerConnection(there, Access()).call("DescribeQuorum", {"topics": []})
