"""The stat of a znode, as ZooKeeper calls it: what is held of a znode in addition to its meaning."""

import msgspec

UNKNOWN_VERSION = -1
"""Stands for a version in a stat: the record did not carry it, so merged updates cannot be counted."""


class ZnodeStat(msgspec.Struct, array_like=True, gc=False):
    """What is held of a znode in addition to its meaning."""

    mzxid: int
    czxid: int
    version: int
    """UNKNOWN_VERSION if the log did not hold it."""
    resync: int
    """The ordinal of the last resync that held this znode."""
    held_version: int | None = None
    """The version of the last good value, which is kept while the newest one cannot be read."""

    @property
    def value_version(self) -> int:
        """The version of the value that is held; UNKNOWN_VERSION if the log did not hold it."""
        return self.version if self.held_version is None else self.held_version

    @property
    def is_unreadable(self) -> bool:
        """Whether the newest value cannot be read: the last good one is kept, if there was one."""
        return self.held_version is not None
