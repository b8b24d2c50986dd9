"""Tracks the znodes that ZooKeeper's ACLs deny to the watcher, and the bounded list of them in the log.

The rule: the list covers every denied znode. When there are too many to name, the list has a path
above them instead, so that no reader takes a denied znode for a deleted one. The heartbeat also
carries how many there are in all. This set is complete. It is bounded as `published` is, since a
znode is either denied or published.
"""

from collections import Counter
from collections.abc import Collection, Iterator

MAX_NAMED = 100
"""Paths in the list, which every heartbeat carries."""

MAX_CHARACTERS = 64 * 1024
"""Characters of all paths in the list: a few of ZooKeeper's longest paths, of almost a megabyte each, would fit into no message."""


class DeniedPaths:
    """The paths that were denied when they were last read."""

    def __init__(self) -> None:
        self._paths: dict[str, None] = {}
        """In the order in which they were denied."""
        self._below: Counter[str] = Counter()
        """By path, how many denied paths are below it."""
        self._named: tuple[str, ...] | None = None
        """The list, cached after it was asked for."""

    def __len__(self) -> int:
        return len(self._paths)

    def __iter__(self) -> Iterator[str]:
        return iter(self._paths)

    def add(self, path: str) -> bool:
        """Note a denied path; return whether it is new."""
        if path in self._paths:
            return False
        self._paths[path] = None
        self._below.update(_all_above(path))
        self._named = None
        return True

    def discard(self, path: str) -> None:
        """Note that a path could be read, or does not exist."""
        if path in self._paths:
            del self._paths[path]
            for above in _all_above(path):
                self._below[above] -= 1
                if not self._below[above]:
                    del self._below[above]
            self._named = None

    def discard_all(self, path: str) -> None:
        """Note that a path does not exist: ZooKeeper deletes no znode before those below it."""
        self.discard(path)
        if self._below[path]:
            for each in [each for each in self._paths if each.startswith(f"{path}/")]:
                self.discard(each)

    def clear(self) -> None:
        """Forget all paths: a resync reads them again."""
        self._paths.clear()
        self._below.clear()
        self._named = None

    @property
    def named(self) -> tuple[str, ...]:
        """The sorted list that covers all denied paths."""
        if self._named is None:
            self._named = covering(self._paths)
        return self._named


def covering(paths: Collection[str], most: int = MAX_NAMED) -> tuple[str, ...]:
    """Return a short sorted list of paths such that each given path is in it or below one of it.

    It has at most `most` paths and `MAX_CHARACTERS` characters, unless the paths of the top level
    alone are more.

    >>> covering(["/brokers/topics/a", "/brokers/topics/b", "/controller"], most=2)
    ('/brokers/topics', '/controller')
    """
    named = set(paths)
    while _are_too_many(named, most) and (deepest := max(map(_depth, named))) > 1:
        named = {_above(path) if _depth(path) == deepest else path for path in named}
    return tuple(sorted(path for path in named if named.isdisjoint(_all_above(path))))


def _are_too_many(paths: Collection[str], most: int) -> bool:
    return len(paths) > most or sum(map(len, paths)) > MAX_CHARACTERS


def _all_above(path: str) -> Iterator[str]:
    while path := _above(path):
        yield path


def _above(path: str) -> str:
    return path.rpartition("/")[0]


def _depth(path: str) -> int:
    return path.count("/")
