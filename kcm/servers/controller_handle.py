"""/controller of a cluster that runs here: who holds it, and how to make it change hands.

The rule: it is deleted only once every live broker watches it. When it disappears while no broker
has a watch on it, Kafka elects nobody, and stays without a controller.
"""

import time
from collections.abc import Callable
from contextlib import suppress
from typing import NamedTuple

import msgspec
from kazoo.client import KazooClient
from kazoo.exceptions import ConnectionLoss, NoNodeError, SessionExpiredError

from kcm.servers.ports import HOST
from zk_source.ensemble.four_letter_words import four_letter_word

_PATH = "/controller"
_UNANSWERED = (ConnectionLoss, SessionExpiredError)
_POLL_S = 0.005  # as fast as brokers are, so that deletions follow each other closely


class Holder(NamedTuple):
    """The holder of /controller, and since when."""

    broker: int
    czxid: int
    elected_ms: int
    """By ZooKeeper's clock."""


class ControllerHandle:
    """/controller as a client of ZooKeeper sees it."""

    def __init__(self, client: KazooClient, port: int, *, poll_s: float = _POLL_S) -> None:
        """Use a started client; `port` is where that ZooKeeper answers four-letter words."""
        self._client = client
        self._port = port
        self._poll_s = poll_s

    def holder(self) -> Holder | None:
        """Return the holder; None while there is none, and while ZooKeeper does not say."""
        try:
            payload, stat = self._client.get(_PATH)
        except (NoNodeError, *_UNANSWERED):
            return None
        return Holder(int(msgspec.json.decode(payload)["brokerid"]), stat.czxid, stat.ctime)

    def watched_by_all(self) -> bool:
        """Return whether /controller exists and each live broker's session has a watch on it.

        False while a broker starts or stops, as its registration may disappear between two requests, and while a
        busy ZooKeeper does not say, or a restarted one ends the client's session.
        """
        try:
            registered = self._client.get_children("/brokers/ids")
            paths = [f"/brokers/ids/{broker}" for broker in registered]
            stats = [self._client.exists(path) for path in (_PATH, *paths)]
            answer = four_letter_word(HOST, self._port, "wchp")
        except (TimeoutError, *_UNANSWERED):
            return False
        if None in stats:
            return False
        owners = {stat.ephemeralOwner for stat in stats[1:]}
        return owners <= watchers(answer, _PATH)

    def depose(self, deadline_s: float) -> Holder:
        """Delete it, wait until a broker has taken it again, and return the new holder.

        Raises TimeoutError when no broker takes it.
        """
        deadline = time.monotonic() + deadline_s
        while not self.watched_by_all():
            self._wait("the brokers do not watch /controller", deadline, deadline_s)
        deleted = self._client.get(_PATH)[1].czxid
        with suppress(NoNodeError):
            self._client.delete(_PATH)
        return self.await_holder(lambda holder: holder.czxid > deleted, deadline_s)

    def await_holder(self, is_wanted: Callable[[Holder], bool], deadline_s: float) -> Holder:
        """Wait for a holder for which `is_wanted` is true, and return it.

        Raises TimeoutError when there is none in time.
        """
        deadline = time.monotonic() + deadline_s
        while True:
            holder = self.holder()
            if holder is not None and is_wanted(holder):
                return holder
            self._wait("nobody takes /controller", deadline, deadline_s)

    def _wait(self, problem: str, deadline: float, deadline_s: float) -> None:
        if time.monotonic() >= deadline:
            raise TimeoutError(f"{problem}, for {deadline_s:g} s")
        time.sleep(self._poll_s)


def watchers(wchp: str, path: str) -> set[int]:
    r"""Return the sessions that watch a path, from ZooKeeper's answer to `wchp`.

    >>> sorted(watchers("/a\n\t0x10\n\t0x11\n/b\n\t0x12\n", "/a"))
    [16, 17]
    """
    sessions = set()
    here = ""
    for line in wchp.splitlines():
        if not line.startswith("\t"):
            here = line
        elif here == path:
            sessions.add(int(line, 16))
    return sessions
