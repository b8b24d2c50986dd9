"""Where a held value came from: stored with the value, and read by its source alone."""

import msgspec

UNKNOWN_VERSION = -1
"""Stands for a version that the record did not carry."""


class Origin(msgspec.Struct, array_like=True, gc=False):
    """The numbers by which a source compares a held value with a new one; their meaning is the source's.

    In ZooKeeper it is the znode's stat: `order` is its mzxid, `created` its czxid, `version` its data version.
    """

    order: int
    """The place of the value's last change in the source's own order."""
    created: int
    """The place at which it was created, in the same order; 0: not known."""
    version: int
    """UNKNOWN_VERSION if the log did not hold it."""
    reading: int
    """The ordinal of the last complete reading that held it; a source may mark other cases by numbers below 0."""
    unreadable: bool = False
    """The newest value cannot be read: the last good one is kept, if there was one."""
