"""The decisions made since the service looked last, in order, and the requests not yet answered.

The rule: a token is used once, and a reply counts only while its request is known here; so replies
that belong to an earlier connection, or to a walk that was given up, fall away by themselves.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from zk_source.watcher.commands import Command, Send, Tell
from zk_source.wire.protocol import Request


class Sent(NamedTuple):
    """A request that waits for its reply, and the walk that it belongs to, if to any."""

    request: Request
    walk: object | None


class Outbox:
    """Commands to be carried out, and requests in flight."""

    def __init__(self) -> None:
        self._commands: list[Command] = []
        self._in_flight: dict[int, Sent] = {}
        self._token = 0

    def __len__(self) -> int:
        return len(self._in_flight)

    def add(self, command: Command) -> None:
        """Add something to be done."""
        self._commands.append(command)

    def tell(self, text: str, **about: str | int) -> None:
        """Add a warning to be logged."""
        self._commands.append(Tell(text, about))

    def send(self, request: Request, *, walk: object | None = None) -> None:
        """Add a request to be sent."""
        self._token += 1
        self._in_flight[self._token] = Sent(request, walk)
        self._commands.append(Send(self._token, request))

    def take(self) -> list[Command]:
        """Return what is to be done, and forget it."""
        commands, self._commands = self._commands, []
        return commands

    def answered(self, token: int) -> Sent | None:
        """Return the request that a reply belongs to; None when it does not matter any more."""
        return self._in_flight.pop(token, None)

    def count(self, matches: Callable[[Sent], bool]) -> int:
        """Return how many such requests are in flight."""
        return sum(1 for sent in self._in_flight.values() if matches(sent))

    def forget(self, matches: Callable[[Sent], bool]) -> None:
        """Ignore the replies to such requests."""
        self._in_flight = {t: sent for t, sent in self._in_flight.items() if not matches(sent)}
