"""Tracks what exists according to the log: the znodes published in this generation, and their digest.

The rule: a `set` or `deleted` is noted here in the step that publishes it, so that count and digest
are always those of the log up to its last change. Bounded by the number of znodes published: about
200 bytes each.
"""

from collections.abc import Iterator

from controller_model.records.changes import digest_text, znode_digest


class Published:
    """Paths, each with the mzxid that it was last published with."""

    def __init__(self) -> None:
        self._mzxids: dict[str, int] = {}
        self._digest = 0

    def __len__(self) -> int:
        return len(self._mzxids)

    def __iter__(self) -> Iterator[str]:
        return iter(self._mzxids)

    def __contains__(self, path: str) -> bool:
        return path in self._mzxids

    @property
    def digest(self) -> str:
        """The digest over all znodes, as the log carries it."""
        return digest_text(self._digest)

    def mzxid(self, path: str) -> int | None:
        """Return the mzxid that the path was published with; None when it does not exist."""
        return self._mzxids.get(path)

    def add(self, path: str, mzxid: int) -> None:
        """Note a `set`."""
        self.remove(path)
        self._mzxids[path] = mzxid
        self._digest ^= znode_digest(path, mzxid)

    def remove(self, path: str) -> None:
        """Note a `deleted`; an unknown path changes nothing."""
        mzxid = self._mzxids.pop(path, None)
        if mzxid is not None:
            self._digest ^= znode_digest(path, mzxid)
