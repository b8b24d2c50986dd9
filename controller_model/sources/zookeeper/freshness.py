"""Whether a znode's value is new, and the digest over all znodes that are held.

The rule: values are compared by ZooKeeper's own order (mzxid) and never by their time of arrival.
After a delete there is no mzxid to compare with, so the zxid of the read's reply decides. Every
change of the set of znodes changes the digest too.

Why one number is enough for deletes: within a generation, reads are answered in the order of the
log, so their read_zxid never falls. A new generation begins with a resync, which starts only when
the server has caught up with the largest read_zxid that the view holds. So a read below the
read_zxid of the newest delete is always an old one.
"""

import enum

from controller_model.facts.origin import UNKNOWN_VERSION, Origin
from controller_model.records.changes import ZnodeChange, moved_digest, znode_digest
from controller_model.records.views import LogView
from controller_model.sources.zookeeper.state import ZooKeeperState


class Freshness(enum.Enum):
    """What a `set` is, compared with the value that is held."""

    NEWS = enum.auto()
    CONFIRMED = enum.auto()
    """The same value, reported again."""
    STALE = enum.auto()
    """An older value, which must not win."""
    REPLACED = enum.auto()
    """A value of another history: ZooKeeper was restored from a backup, or rebuilt."""


_NEWS = Freshness.NEWS
"""Python 3.11 looks up a member of an Enum in Python code: once here, instead of for each change."""


def judge(held: ZooKeeperState, stat: Origin | None, change: ZnodeChange) -> Freshness:
    """Compare a `set` with the stat that is held; a field that the change lacks is not checked."""
    resync = held.resync
    rebase = resync is not None and resync.rebase
    if stat is None:
        late = change.read_zxid is not None and change.read_zxid < held.deletes_read_zxid
        return Freshness.STALE if late and not rebase else _NEWS
    mzxid = change.mzxid
    if mzxid is None or mzxid > stat.order:
        return _NEWS
    if rebase and stat.reading != held.resync_ordinal:
        # Another history: an equal zxid there says nothing about the value here.
        return _NEWS
    if mzxid == stat.order and change.czxid in {None, stat.created}:
        return Freshness.CONFIRMED
    # A server that has reached zxid R shows every write up to R. So a read at or after the held value
    # cannot show an older one, unless the held value belongs to a history that was replaced.
    impossible = change.read_zxid is not None and change.read_zxid >= stat.order
    return Freshness.REPLACED if impossible else Freshness.STALE


def steps_merged(stat: Origin, version: int | None) -> int:
    """Return how many updates of one znode were never seen; 0 if a version is not known.

    >>> steps_merged(Origin(order=9, created=3, version=4, reading=0), 7)
    2
    """
    if version is None or stat.version == UNKNOWN_VERSION:
        return 0
    return max(0, version - stat.version - 1)


def is_another(stat: Origin | None, change: ZnodeChange) -> bool:
    """Return whether a znode was deleted and created again between two reads."""
    if stat is None or stat.created == change.czxid:
        return False
    return bool(stat.created and change.czxid)


def confirm_znode(held: ZooKeeperState, path: str, stat: Origin) -> bool:
    """Count a znode as confirmed in the current resync; return whether the stat changed."""
    resync = held.resync
    if resync is None or stat.reading == held.resync_ordinal:
        return False
    stat.reading = held.resync_ordinal
    resync.znodes += 1
    resync.digest ^= znode_digest(path, stat.order)
    return True


def count_znode(
    held: ZooKeeperState, log: LogView, path: str, old: Origin | None, new: Origin
) -> None:
    """Change the digests from a znode's old stat to its new one."""
    if old is None:
        moved = znode_digest(path, new.order)
        log.znodes += 1
    else:
        moved = moved_digest(path, old.order, new.order)
    held.digest ^= moved
    resync = held.resync
    if resync is None:
        return
    if old is None:
        resync.znodes += 1
        resync.digest ^= moved
    elif old.reading == held.resync_ordinal:
        resync.digest ^= moved
    else:
        resync.znodes += 1
        resync.digest ^= znode_digest(path, new.order)


def uncount_znode(held: ZooKeeperState, log: LogView, path: str, stat: Origin) -> None:
    """Remove a deleted znode from the digests."""
    bits = znode_digest(path, stat.order)
    log.znodes -= 1
    held.digest ^= bits
    if held.resync is not None and stat.reading == held.resync_ordinal:
        held.resync.znodes -= 1
        held.resync.digest ^= bits
