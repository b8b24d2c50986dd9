"""Sends four-letter words to a ZooKeeper server, which answers in text (`srvr`, `mntr`, `dump`).

The rule: one connection for each command, closed by the server after its answer. A server answers
only what its 4lw.commands.whitelist allows, and refuses in a sentence; `server_figures` reads both.
"""

import socket
import ssl
import time
from contextlib import ExitStack

ANSWER_DEADLINE_S = 2.0
"""How long to wait for an answer: a healthy server answers within milliseconds."""

MAX_ANSWER_BYTES = 1 << 20
"""Bytes of the longest answer: ZooKeeper's have some kilobytes, anything longer is not from a ZooKeeper."""


def four_letter_word(
    host: str,
    port: int,
    word: str,
    *,
    deadline_s: float = ANSWER_DEADLINE_S,
    tls: ssl.SSLContext | None = None,
) -> str:
    """Return a server's answer to a command such as `mntr`; raise OSError if there is none."""
    ends_at = time.monotonic() + deadline_s
    with ExitStack() as stack:
        connection = stack.enter_context(socket.create_connection((host, port), deadline_s))
        if tls is not None:
            connection = stack.enter_context(tls.wrap_socket(connection, server_hostname=host))
        connection.sendall(word.encode())
        answer = b""
        while len(answer) < MAX_ANSWER_BYTES and (more := connection.recv(65_536)):
            answer += more
            if time.monotonic() > ends_at:
                raise TimeoutError(f"{host}:{port} answers {word} too slowly")
    return answer.decode(errors="replace")


def host_and_port(address: str) -> tuple[str, int]:
    """Return the host and the port of an address; raise ValueError if it has no port.

    >>> host_and_port("[::1]:2181")
    ('::1', 2181)
    """
    host, _, port = address.rpartition(":")
    return host.strip("[]"), int(port)
