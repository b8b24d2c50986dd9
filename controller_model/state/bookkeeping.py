"""The znodes that the fold holds: whether a change is new, and the digest over all of them.

The rule: values are compared by ZooKeeper's own order (mzxid) and never by their time of arrival.
After a delete there is no mzxid to compare with, so the zxid of the read's reply decides. Every
change of the set of znodes changes the digest too.

Why one number is enough for deletes: within a generation, reads are answered in the order of the
log, so their read_zxid never falls. A new generation begins with a resync, which starts only when
the server has caught up with the largest read_zxid that the view holds. So a read below the
read_zxid of the newest delete is always an old one.
"""

import enum

from controller_model.records.changes import ZnodeChange, moved_digest, znode_digest
from controller_model.state.log_state import LogState
from controller_model.state.znode_stat import UNKNOWN_VERSION, ZnodeStat


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


def judge(log: LogState, stat: ZnodeStat | None, change: ZnodeChange) -> Freshness:
    """Compare a `set` with the stat that is held; a field that the change lacks is not checked."""
    rebase = log.resync is not None and log.resync.rebase
    if stat is None:
        late = change.read_zxid is not None and change.read_zxid < log.deletes_read_zxid
        return Freshness.STALE if late and not rebase else _NEWS
    mzxid = change.mzxid
    if mzxid is None or mzxid > stat.mzxid:
        return _NEWS
    if rebase and stat.resync != log.resync_ordinal:
        # Another history: an equal zxid there says nothing about the value here.
        return _NEWS
    if mzxid == stat.mzxid and change.czxid in {None, stat.czxid}:
        return Freshness.CONFIRMED
    # A server that has reached zxid R shows every write up to R. So a read at or after the held value
    # cannot show an older one, unless the held value belongs to a history that was replaced.
    impossible = change.read_zxid is not None and change.read_zxid >= stat.mzxid
    return Freshness.REPLACED if impossible else Freshness.STALE


def steps_merged(stat: ZnodeStat, version: int | None) -> int:
    """Return how many updates of one znode were never seen; 0 if a version is not known.

    >>> steps_merged(ZnodeStat(mzxid=9, czxid=3, version=4, resync=0), 7)
    2
    """
    if version is None or stat.version == UNKNOWN_VERSION:
        return 0
    return max(0, version - stat.version - 1)


def confirm(log: LogState, path: str, stat: ZnodeStat) -> bool:
    """Count a znode as confirmed in the current resync; return whether the stat changed."""
    if log.resync is None or stat.resync == log.resync_ordinal:
        return False
    stat.resync = log.resync_ordinal
    log.resync.znodes += 1
    log.resync.digest ^= znode_digest(path, stat.mzxid)
    return True


def keep(log: LogState, path: str, old: ZnodeStat | None, new: ZnodeStat) -> None:
    """Change the digests from a znode's old stat to its new one."""
    if old is None:
        moved = znode_digest(path, new.mzxid)
        log.znodes += 1
    else:
        moved = moved_digest(path, old.mzxid, new.mzxid)
    log.digest ^= moved
    resync = log.resync
    if resync is None:
        return
    if old is None:
        resync.znodes += 1
        resync.digest ^= moved
    elif old.resync == log.resync_ordinal:
        resync.digest ^= moved
    else:
        resync.znodes += 1
        resync.digest ^= znode_digest(path, new.mzxid)


def forget(log: LogState, path: str, stat: ZnodeStat) -> None:
    """Remove a deleted znode from the digests."""
    bits = znode_digest(path, stat.mzxid)
    log.znodes -= 1
    log.digest ^= bits
    if log.resync is not None and stat.resync == log.resync_ordinal:
        log.resync.znodes -= 1
        log.resync.digest ^= bits
