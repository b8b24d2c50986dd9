"""Check whether a process still answers on its port, and what a part says of its own health.

A process hangs that is silent for long, or a part whose /healthz answers 503: then only its main loop hangs. A process
that refuses a connection, closes it or gives any other answer works, and one that does not listen yet is not silent.
Nothing here waits: `step` first looks at what has arrived since the last step, and only then counts the time as
silent. Time between steps counts only up to a limit: where this program stood still, the whole machine may have.
"""

import errno
import re
import socket
import ssl
from typing import Any

SILENT_S = 45.0
"""A process that is silent for so long hangs.

The time is longer than any pause from which each part has been shown to recover by itself
(docs/reliability.md), and longer than a garbage collection or a swapped-out start takes.
"""
FIRST_ANSWER_S = 600.0
"""How long a Kafka may be silent before its first answer: after a crash it reads its logs first."""
REFUSALS = 2
"""How often in a row a part says that it hangs: it says so after a minute, and nothing but a restart helps."""
EVERY_S = 5.0
"""How often a process is asked; parts answer from memory."""
ANSWER_TIMEOUT_S = 15.0
"""After this it is asked again, on another connection: a bug may lose a single request."""
_MAX_STEP_S = 5.0
"""The most time that one step may count: its caller may wait two seconds for an answer of the exporter."""

HEALTH_REQUEST = f"GET /healthz HTTP/1.0\r\nHost: {socket.gethostname()}\r\n\r\n".encode()
KAFKA_REQUEST = b"\0\0\0\x0d\0\x12\0\0\0\0\0\x01\0\x03kcm"
"""ApiVersions, version 0, from client kcm: every broker answers it, and asks for no password before."""

_REFUSAL = re.compile(rb"HTTP/1\.[01] 503 ")
_LATER = (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError)
_UNDER_WAY = {0, errno.EINPROGRESS, errno.EAGAIN}


class HealthWatch:
    """Sends one process the same request repeatedly; `step` is called a few times a second."""

    def __init__(
        self,
        host: str,
        port: int,
        request: bytes = HEALTH_REQUEST,
        *,
        tls: bool = False,
        first_answer_s: float = SILENT_S,
    ) -> None:
        """Take the address, and how long the first answer of each run may take; times are of a monotonic clock."""
        self._address = _resolved(host, port)
        self._request = request
        self._tls = _any_server() if tls else None
        self._first_answer_s = first_answer_s
        self._asked: socket.socket | None = None
        self._asked_at = 0.0
        self._is_sent = False
        self._next_at = 0.0
        self._stepped_at: float | None = None
        self._has_answered = False
        self._refusals = 0
        self.silent_s = 0.0
        """For how long it has been asked without an answer."""

    @property
    def problem(self) -> str:
        """What shows that the process hangs, to follow its name; empty while it works."""
        limit_s = SILENT_S if self._has_answered else self._first_answer_s
        if self.silent_s >= limit_s:
            return f"has not answered for {limit_s:g} s"
        if self._refusals >= REFUSALS:
            return "answers that its main loop does not turn"
        return ""

    def step(self, now: float) -> None:
        """Look for an answer, and send a request when one is due."""
        passed_s = 0.0 if self._stepped_at is None else now - self._stepped_at
        self._stepped_at = now
        if self._asked is None:
            if now >= self._next_at:
                self._ask(now)
            return
        answer = self._answer(self._asked)
        if answer is not None:
            self._close()
            # A refusal, as while it starts, shows that it works, but it has not begun to answer.
            self._has_answered = self._has_answered or bool(answer)
            self._refusals = self._refusals + 1 if _REFUSAL.match(answer) else 0
            self._next_at = now + EVERY_S
            return
        self.silent_s += min(passed_s, _MAX_STEP_S)
        if now - self._asked_at >= ANSWER_TIMEOUT_S:
            self._asked.close()
            self._ask(now)

    def forget(self) -> None:
        """Reset: the process is a new one."""
        self._close()
        self._has_answered = False
        self._refusals = 0

    def _close(self) -> None:
        self.silent_s = 0.0
        if self._asked is not None:
            self._asked.close()
            self._asked = None

    def _ask(self, now: float) -> None:
        self._next_at = now + EVERY_S
        if self._address is None:
            return
        family, address = self._address
        self._asked_at, self._is_sent = now, False
        self._asked = socket.socket(family, socket.SOCK_STREAM)
        self._asked.setblocking(False)
        if self._tls is not None:
            self._asked = self._tls.wrap_socket(self._asked, do_handshake_on_connect=False)
        if self._asked.connect_ex(address) not in _UNDER_WAY:
            self._close()

    def _answer(self, asked: socket.socket) -> bytes | None:
        """Return what has arrived, empty for the end or a refusal; None for nothing yet."""
        try:
            if not self._is_sent:
                if isinstance(asked, ssl.SSLSocket):
                    asked.do_handshake()
                asked.sendall(self._request)
                self._is_sent = True
            return asked.recv(1024)
        except _LATER:
            return None
        except OSError as error:
            return None if error.errno == errno.ENOTCONN else b""


def _resolved(host: str, port: int) -> tuple[int, tuple[Any, ...]] | None:
    """Return the family and the address of a host, resolved once because DNS may be slow. None: no address."""
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except OSError:
        return None
    family, _type, _protocol, _name, address = found[0]
    return family, address


def _any_server() -> ssl.SSLContext:
    """Return a TLS client that asks for no certificate: nothing secret is sent, and only a status is read."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context
