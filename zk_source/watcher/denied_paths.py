"""Znodes that ZooKeeper's ACLs keep from the watcher, and the bounded list of them in the log.

The rule: the list covers every one of them. Where they are too many to be named, one path above
stands for those below it, so that no reader takes what is denied for deleted; how many are not named
goes with it. All are held: one znode is denied or published, so this is bounded as `published` is.
"""

from collections import Counter
from collections.abc import Collection, Iterator
from collections.abc import Set as AbstractSet

MOST_NAMED = 100
"""Paths in the list: it goes with every heartbeat."""

MOST_CHARACTERS = 64 * 1024
"""Of all paths in the list: some of ZooKeeper's longest, of almost a megabyte each, would fit into no message."""


class DeniedPaths:
    """The paths that were denied last time they were read."""

    def __init__(self) -> None:
        self._paths: set[str] = set()
        self._below: Counter[str] = Counter()
        """How many of them are below a path, where any are."""
        self._named: tuple[str, ...] | None = None
        """The list, once it was asked for."""

    def __len__(self) -> int:
        return len(self._paths)

    def add(self, path: str) -> bool:
        """Note a path; return whether that is new."""
        if path in self._paths:
            return False
        self._paths.add(path)
        self._below.update(_all_above(path))
        self._named = None
        return True

    def discard(self, path: str) -> None:
        """Note that a path could be read, or is not there."""
        if path in self._paths:
            self._paths.discard(path)
            for above in _all_above(path):
                self._below[above] -= 1
                if not self._below[above]:
                    del self._below[above]
            self._named = None

    def discard_all(self, path: str) -> None:
        """Note that a path is not there: ZooKeeper lets no znode go before those below it."""
        self.discard(path)
        if self._below[path]:
            for each in [each for each in self._paths if each.startswith(f"{path}/")]:
                self.discard(each)

    def missing_from(self, seen: AbstractSet[str]) -> tuple[str, ...]:
        """Return the paths that a walk of the tree has not met."""
        return tuple(path for path in self._paths if path not in seen)

    def clear(self) -> None:
        """Forget all: a resync reads them again."""
        self._paths.clear()
        self._below.clear()
        self._named = None

    @property
    def named(self) -> tuple[str, ...]:
        """The list that covers all, sorted."""
        if self._named is None:
            self._named = covering(self._paths)
        return self._named


def covering(paths: Collection[str], most: int = MOST_NAMED) -> tuple[str, ...]:
    """Return at most so many paths and characters, or those of one level, that all of these are or are below of.

    >>> covering(["/brokers/topics/a", "/brokers/topics/b", "/controller"], most=2)
    ('/brokers/topics', '/controller')
    """
    named = set(paths)
    while _are_too_many(named, most) and (deepest := max(map(_depth, named))) > 1:
        named = {_above(path) if _depth(path) == deepest else path for path in named}
    return tuple(sorted(path for path in named if not _is_covered(path, named)))


def _are_too_many(paths: Collection[str], most: int) -> bool:
    return len(paths) > most or sum(map(len, paths)) > MOST_CHARACTERS


def _is_covered(path: str, named: set[str]) -> bool:
    return any(above in named for above in _all_above(path))


def _all_above(path: str) -> Iterator[str]:
    while path := _above(path):
        yield path


def _above(path: str) -> str:
    return path.rpartition("/")[0]


def _depth(path: str) -> int:
    return path.count("/")
