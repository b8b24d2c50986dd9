"""The part of ZooKeeper's tree that a cluster lives in.

The rule: a chroot is added to a path when it leaves for the server and taken away when it comes
back, both on the connection. Nothing else of the watcher knows of it.
"""

from __future__ import annotations


class Chroot:
    """The path that stands before every path of a cluster; empty for a cluster at the root.

    >>> Chroot("/kafka").whole("/brokers"), Chroot("/kafka").whole("/"), Chroot("").whole("/")
    ('/kafka/brokers', '/kafka', '/')
    >>> Chroot("/kafka").within("/kafka/brokers"), Chroot("").within("/brokers")
    ('/brokers', '/brokers')
    """

    __slots__ = ("_prefix",)

    def __init__(self, prefix: str) -> None:
        self._prefix = prefix

    def whole(self, path: str) -> str:
        """Return the path that the server knows."""
        if path == "/":
            return self._prefix or path
        return self._prefix + path

    def within(self, path: str) -> str:
        """Return the cluster's own path."""
        return path.removeprefix(self._prefix)
