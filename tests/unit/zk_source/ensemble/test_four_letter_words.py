"""Which host and port a four-letter word is sent to, and how long its answer may take."""

from __future__ import annotations

import socketserver
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

import pytest

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
def answering(pieces: Iterable[bytes], pause_s: float) -> Iterator[int]:
    """Serve an answer to `mntr` piece by piece; return the port."""

    class Answer(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            assert self.request.recv(4) == b"mntr"
            try:
                for piece in pieces:
                    self.request.sendall(piece)
                    time.sleep(pause_s)
            except OSError:
                pass  # the client has gone

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
