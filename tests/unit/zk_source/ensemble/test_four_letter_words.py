"""Which host and port a four-letter word is sent to, and how long its answer may take."""

from __future__ import annotations

import socket
import socketserver
import ssl
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.support.certificates import NEEDS_OPENSSL, make_authority, make_certificate
from zk_source.ensemble.four_letter_words import ANSWER_DEADLINE_S, four_letter_word, host_and_port

HOST = "127.0.0.1"


@pytest.mark.parametrize(
    ("address", "parts"),
    [("zk1:2181", ("zk1", 2181)), ("10.0.0.1:2281", ("10.0.0.1", 2281)), ("[::1]:1", ("::1", 1))],
)
def test_an_address_is_a_host_and_a_port(address: str, parts: tuple[str, int]) -> None:
    """The brackets of an IPv6 address are not part of the host."""
    assert host_and_port(address) == parts


@pytest.mark.parametrize("address", ["", "zk1", "zk1:", "zk1:client"])
def test_an_address_without_a_port_is_refused(address: str) -> None:
    """No server is asked at a guessed port."""
    with pytest.raises(ValueError, match="invalid literal"):
        host_and_port(address)


@contextmanager
def answering(
    pieces: Iterable[bytes], pause_s: float, tls: ssl.SSLContext | None = None
) -> Iterator[int]:
    """Serve an answer to `mntr` piece by piece; return the port."""

    class Answer(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            try:
                with self.secured() as connection:
                    assert connection.recv(4) == b"mntr"
                    for piece in pieces:
                        connection.sendall(piece)
                        time.sleep(pause_s)
            except OSError:
                pass  # the client has gone

        def secured(self) -> socket.socket:
            given: socket.socket = self.request
            return given if tls is None else tls.wrap_socket(given, server_side=True)

    with socketserver.TCPServer((HOST, 0), Answer) as server:
        thread = threading.Thread(target=server.handle_request, daemon=True)
        thread.start()
        yield server.server_address[1]
        thread.join()


def test_an_answer_is_all_that_the_server_sends_before_it_closes() -> None:
    """However it is split, and whatever bytes it has."""
    with answering([b"zk_version\t3.8.4\n", b"\xff"], 0.01) as port:
        assert four_letter_word(HOST, port, "mntr") == "zk_version\t3.8.4\n\ufffd"


def test_a_server_that_never_ends_its_answer_is_given_up() -> None:
    """Each piece comes in time, but not all of them: the thread that asks would never ask again."""
    endless = [b"."] * int(2 * ANSWER_DEADLINE_S / 0.01)
    with (
        answering(endless, 0.01) as port,
        pytest.raises(TimeoutError, match=f"{HOST}:{port} answers mntr too slowly"),
    ):
        four_letter_word(HOST, port, "mntr", deadline_s=0.2)


@NEEDS_OPENSSL
def test_with_tls_only_a_server_whose_certificate_names_it_is_asked(tmp_path: Path) -> None:
    """The word and its answer go through TLS."""
    answer = b"zk_version\t3.8.4\n"
    make_authority(tmp_path)
    trusted = ssl.create_default_context(cafile=str(tmp_path / "ca.pem"))

    def showing(host: str) -> ssl.SSLContext:
        make_certificate(tmp_path, "server", host)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(tmp_path / "server.pem", tmp_path / "server.key")
        return context

    with answering([answer], 0.0, showing(HOST)) as port:
        assert four_letter_word(HOST, port, "mntr", tls=trusted) == answer.decode()
    with (
        answering([answer], 0.0, showing("10.0.0.1")) as port,
        pytest.raises(ssl.SSLCertVerificationError, match=HOST),
    ):
        four_letter_word(HOST, port, "mntr", tls=trusted)
