"""What is held of a znode besides its meaning: its stat, as ZooKeeper calls it."""

import msgspec

UNKNOWN_VERSION = -1
"""In a stat: the record did not carry the znode's version, so merged updates cannot be counted."""


class ZnodeStat(msgspec.Struct, array_like=True, gc=False):
    """What is remembered of a znode besides its meaning."""

    mzxid: int
    czxid: int
    version: int
    """UNKNOWN_VERSION where the log did not hold it."""
    resync: int
    """The ordinal of the last resync that held this znode."""
    held_version: int | None = None
    """The version of the good value that stays, while the newest one cannot be read."""

    @property
    def value_version(self) -> int:
        """The version of the value that is held; UNKNOWN_VERSION where the log did not hold it."""
        return self.version if self.held_version is None else self.held_version

    @property
    def is_unreadable(self) -> bool:
        """Whether the newest value cannot be read: the last good one stays, if there was one."""
        return self.held_version is not None
