"""Check whether a part still answers over HTTP: a part that hangs runs, but does nothing.

Only silence counts. A part that refuses a connection, closes it or gives any answer shows
that it works, and a part that does not listen yet is not silent. Nothing here waits: `step` first
looks at what has arrived since the last step, and only then counts the time as silent. Time between
steps counts only up to a limit: where this program stood still, the whole machine may have.
"""

import errno
import select
import socket
from typing import Any

HANGS_AFTER_S = 45.0
"""A part that is silent for so long is killed.

The time is longer than any pause from which each part has been shown to recover by itself
(docs/reliability.md), and longer than a garbage collection or a swapped-out start takes.
"""
EVERY_S = 5.0
"""How often a part is asked; its metrics are in memory."""
ANSWER_TIMEOUT_S = 15.0
"""After this it is asked again, on another connection: a bug may lose a single request."""
_MAX_STEP_S = 5.0
"""The most time that one step may count: its caller may wait two seconds for an answer of the exporter."""

_UNDER_WAY = {0, errno.EINPROGRESS, errno.EAGAIN}


class HealthWatch:
    """Requests one part's health repeatedly; `step` is called a few times a second."""

    def __init__(self, host: str, port: int) -> None:
        """Take the part's address; times are seconds of a monotonic clock."""
        self._address = _resolved(host, port)
        self._request = f"GET /healthz HTTP/1.0\r\nHost: {socket.gethostname()}\r\n\r\n".encode()
        self._asked: socket.socket | None = None
        self._asked_at = 0.0
        self._is_sent = False
        self._next_at = 0.0
        self._stepped_at: float | None = None
        self.silent_s = 0.0
        """For how long it has been asked without an answer."""

    def step(self, now: float) -> None:
        """Look for an answer, and send a request when one is due."""
        passed_s = 0.0 if self._stepped_at is None else now - self._stepped_at
        self._stepped_at = now
        if self._asked is None:
            if now >= self._next_at:
                self._ask(now)
            return
        if self._has_answered(self._asked):
            self.forget()
            self._next_at = now + EVERY_S
            return
        self.silent_s += min(passed_s, _MAX_STEP_S)
        if now - self._asked_at >= ANSWER_TIMEOUT_S:
            self._asked.close()
            self._ask(now)

    def forget(self) -> None:
        """Reset: the part has answered, or its process is a new one."""
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
        if self._asked.connect_ex(address) not in _UNDER_WAY:
            self.forget()

    def _has_answered(self, asked: socket.socket) -> bool:
        """Return whether anything has arrived: bytes, the end, or a refusal."""
        poll = select.poll()
        poll.register(asked, select.POLLIN | (0 if self._is_sent else select.POLLOUT))
        events = dict(poll.poll(0)).get(asked.fileno(), 0)
        if events & ~select.POLLOUT:
            return True
        if events and not self._is_sent:
            try:
                asked.sendall(self._request)
            except OSError:
                return True
            self._is_sent = True
        return False


def _resolved(host: str, port: int) -> tuple[int, tuple[Any, ...]] | None:
    """Return the family and the address of a host, resolved once because DNS may be slow. None: no address."""
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except OSError:
        return None
    family, _type, _protocol, _name, address = found[0]
    return family, address
