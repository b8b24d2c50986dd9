"""The commands that the watcher decides on, in order, and the requests that wait for a reply.

A decision is data that the service carries out. Nothing here acts, so decisions can be
driven and checked without ZooKeeper, Kafka or a clock. A `ZnodeChange` is the command to publish
it. A token is used once. A reply counts only while its request is known here: replies of an earlier
connection, or to a walk that was given up, are dropped.
"""

from collections.abc import Callable
from typing import NamedTuple

from controller_model.records.changes import ZnodeChange
from zk_source.wire.operations import Request


class Send(NamedTuple):
    """Send a request; its reply carries the token."""

    token: int
    request: Request


class ReplaceClient(NamedTuple):
    """Give up the ZooKeeper client and its session, and create a new one."""

    reason: str


class NoBrokers(NamedTuple):
    """Report that there is no /brokers under the chroot."""


class GiveUp(NamedTuple):
    """End with one line for the user: the environment does not allow the watcher to continue."""

    message: str


class GiveWay(NamedTuple):
    """End with one line for the user: another watcher continues."""

    message: str


class Warn(NamedTuple):
    """Log a warning."""

    text: str
    about: dict[str, str | int]


Command = ZnodeChange | Send | ReplaceClient | NoBrokers | GiveUp | GiveWay | Warn


class Sent(NamedTuple):
    """A request that waits for its reply, and the walk that it belongs to, if any."""

    request: Request
    walk: object | None


class Outbox:
    """Commands to carry out, and requests in flight."""

    def __init__(self) -> None:
        self._commands: list[Command] = []
        self._in_flight: dict[int, Sent] = {}
        self._token = 0

    def add(self, command: Command) -> None:
        """Add a command."""
        self._commands.append(command)

    def warn(self, text: str, **about: str | int) -> None:
        """Add a warning to be logged."""
        self._commands.append(Warn(text, about))

    def send(self, request: Request, *, walk: object | None = None) -> None:
        """Add a request to be sent."""
        self._token += 1
        self._in_flight[self._token] = Sent(request, walk)
        self._commands.append(Send(self._token, request))

    def pop_commands(self) -> list[Command]:
        """Return the commands and forget them."""
        commands, self._commands = self._commands, []
        return commands

    def request(self, token: int) -> Request | None:
        """Return a request in flight; None when its reply no longer matters."""
        sent = self._in_flight.get(token)
        return None if sent is None else sent.request

    def pop_request(self, token: int) -> Sent | None:
        """Remove and return the request that a reply belongs to; None when the reply no longer matters."""
        return self._in_flight.pop(token, None)

    def count(self, matches: Callable[[Sent], bool]) -> int:
        """Return how many of the requests in flight meet the condition."""
        return sum(1 for sent in self._in_flight.values() if matches(sent))

    def forget(self, matches: Callable[[Sent], bool]) -> None:
        """Ignore the replies to the requests that meet the condition."""
        self._in_flight = {t: sent for t, sent in self._in_flight.items() if not matches(sent)}
