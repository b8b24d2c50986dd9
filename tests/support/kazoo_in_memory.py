"""A kazoo client whose ZooKeeper is a dictionary, with one-shot watches and without a server.

The rule: each call is complete before the next one, as on a server; threads may read and write
concurrently.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

from kazoo.exceptions import NoNodeError

Watch = Callable[[Any], None]


class Answer:
    """An answer that has already arrived, or an error."""

    def __init__(self, value: Any) -> None:
        self._value = value

    def get(self) -> Any:
        """Return it, or raise it."""
        if isinstance(self._value, Exception):
            raise self._value
        return self._value


class KazooInMemory:
    """Replaces KazooClient, as far as the demo's readers use it.

    `before_exists` is called before each check whether a znode exists, to make changes between two
    requests. Errors in `fails` are raised by the next readings of children, one each.
    """

    def __init__(self) -> None:
        self.znodes: dict[str, tuple[bytes, Any]] = {}
        self.watches: dict[tuple[str, bool], list[Watch]] = {}
        """By path, and whether they are on its children."""
        self.before_exists: Callable[[str], None] = lambda _path: None
        self.fails: list[Exception] = []
        self.did: list[str] = []
        self._zxid = 0
        self._lock = threading.RLock()

    # --- what happens in ZooKeeper ------------------------------------------------------------

    def put(self, path: str, data: bytes = b"", *, owner: int = 0) -> None:
        """Create or change a znode; each of its watches fires once."""
        with self._lock:
            self._zxid += 1
            is_new = path not in self.znodes
            czxid = self._zxid if is_new else self.znodes[path][1].czxid
            stat = SimpleNamespace(czxid=czxid, ctime=1_000 + self._zxid, ephemeralOwner=owner)
            self.znodes[path] = (data, stat)
            self._fire((path, False))
            if is_new:
                self._fire((path.rpartition("/")[0], True))

    def remove(self, path: str) -> None:
        """Delete a znode."""
        with self._lock:
            del self.znodes[path]
            self._fire((path, False), (path.rpartition("/")[0], True))

    # --- what a client asks -------------------------------------------------------------------

    def start(self, timeout: float) -> None:
        """Connect."""
        assert timeout > 0
        self.did.append("start")

    def stop(self) -> None:
        """Disconnect."""
        self.did.append("stop")

    def close(self) -> None:
        """Release everything."""
        self.did.append("close")

    def get(self, path: str, watch: Watch | None = None) -> tuple[bytes, Any]:
        """Return data and Stat; a missing znode leaves no watch."""
        with self._lock:
            if path not in self.znodes:
                raise NoNodeError
            self._watch((path, False), watch)
            return self.znodes[path]

    def get_children(self, path: str, watch: Watch | None = None) -> list[str]:
        """Return the names below a znode, in no particular order."""
        with self._lock:
            if self.fails:
                raise self.fails.pop(0)
            below = [each.rpartition("/") for each in self.znodes]
            names = [name for parent, _, name in below if parent == path]
            if not names and path not in self.znodes:
                raise NoNodeError
            self._watch((path, True), watch)
            return names

    def exists(self, path: str, watch: Watch | None = None) -> Any:
        """Return the Stat, or None; the watch is set in both cases."""
        with self._lock:
            self.before_exists(path)
            self._watch((path, False), watch)
            found = self.znodes.get(path)
            return None if found is None else found[1]

    def delete(self, path: str) -> None:
        """Delete a znode."""
        with self._lock:
            if path not in self.znodes:
                raise NoNodeError
            self.did.append(f"delete {path}")
            self.remove(path)

    def get_async(self, path: str, watch: Watch | None = None) -> Answer:
        """Return `get` as a future answer."""
        try:
            return Answer(self.get(path, watch))
        except NoNodeError as error:
            return Answer(error)

    def exists_async(self, path: str, watch: Watch | None = None) -> Answer:
        """Return `exists` as a future answer."""
        return Answer(self.exists(path, watch))

    def _fire(self, *watched: tuple[str, bool]) -> None:
        for each in watched:
            for watch in self.watches.pop(each, ()):
                watch(SimpleNamespace(path=each[0]))

    def _watch(self, watched: tuple[str, bool], watch: Watch | None) -> None:
        if watch is not None:
            self.watches.setdefault(watched, []).append(watch)
