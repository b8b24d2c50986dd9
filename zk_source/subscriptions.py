"""How the watcher comes to hear of changes: what to ask for, and what an event means.

The rule: a way of subscribing knows no socket. It says which requests arm it on a new connection,
and which paths an event makes worth reading; the watcher does the rest. Servers from 3.6 on keep
one persistent recursive watch for each subtree: created, deleted and changed znodes each bring an
event of their own, so a deleted parent needs no walk, and nothing has to be armed again.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from controller_model.znodes import WATCHED_SUBTREES, is_published
from zk_source.protocol import EventType


class Subscription(Protocol):
    """A way to hear of changes under the watched subtrees."""

    roots: Sequence[str]
    """The subtrees."""

    def arm(self) -> Sequence[str]:
        """Return the paths to put a watch on when a connection has come up."""

    def to_read(self, type_: int, path: str) -> str | None:
        """Return the path whose value an event makes worth reading; None for none."""


class RecursiveWatches:
    """One persistent recursive watch on each subtree (ZooKeeper 3.6 and later)."""

    def __init__(self, roots: Sequence[str] = WATCHED_SUBTREES) -> None:
        self.roots = roots

    def arm(self) -> Sequence[str]:
        """Return the subtrees; a watch may be put on what does not exist yet."""
        return self.roots

    def to_read(self, type_: int, path: str) -> str | None:
        """Return the event's path, unless it is a container or its own children changed.

        >>> RecursiveWatches().to_read(EventType.CREATED, "/brokers/ids/0")
        '/brokers/ids/0'
        >>> RecursiveWatches().to_read(EventType.DELETED, "/brokers/topics/t/partitions")
        """
        if type_ == EventType.CHILDREN_CHANGED or not is_published(path):
            return None
        return path
