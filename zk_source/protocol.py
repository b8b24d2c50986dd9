"""ZooKeeper's wire format where kazoo has none: addWatch, multiRead, and our own way of sync.

The rule: encode and decode only. A request knows its bytes and how to read its reply's body; what
it means is decided elsewhere. Paths here are whole paths, chroot included. Sources:
org.apache.zookeeper.{ZooDefs, MultiOperationRecord, MultiResponse} (ZooKeeper 3.8).
"""

from __future__ import annotations

import enum
import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

_INT = struct.Struct("!i")
_INT_INT = struct.Struct("!ii")
_MULTI_HEADER = struct.Struct("!i?i")
_STAT = struct.Struct("!qqqqiiiqiiq")
_END_OF_MULTI = _MULTI_HEADER.pack(-1, True, -1)

READ_OVERHEAD_BYTES = 14
"""What one read adds to a multiRead besides its path: header, length and the watch flag."""

PERSISTENT_RECURSIVE = 1
"""addWatch's mode for events of a whole subtree that stay armed (AddWatchMode.java)."""


class Op(enum.IntEnum):
    """The reads that a multiRead can hold, by ZooKeeper's operation codes."""

    GET_DATA = 4
    GET_CHILDREN = 8


class EventType(enum.IntEnum):
    """What happened to a znode (Watcher.Event.EventType)."""

    CREATED = 1
    DELETED = 2
    DATA_CHANGED = 3
    CHILDREN_CHANGED = 4


class Err(enum.IntEnum):
    """The error codes that we tell apart (KeeperException.Code)."""

    OK = 0
    CONNECTION_LOSS = -4
    MARSHALLING = -5
    UNIMPLEMENTED = -6
    NO_NODE = -101
    NO_AUTH = -102


class ZnodeData(NamedTuple):
    """A znode's payload and the fields of its Stat that the log carries."""

    data: bytes
    czxid: int
    mzxid: int
    ctime: int
    mtime: int
    version: int
    ephemeral_owner: int
    num_children: int


class Children(NamedTuple):
    """The names of a znode's children, in no order."""

    names: tuple[str, ...]


class Refused(NamedTuple):
    """A read that gave no value: NoNode, NoAuth or another error code."""

    code: int


Result = ZnodeData | Children | Refused
Read = tuple[Op, str]
"""One read: what of which path."""


class BadReplyError(ValueError):
    """A server's reply is not what its protocol says."""


@dataclass(frozen=True, slots=True)
class AddWatch:
    """Ask for a persistent recursive watch (ZooKeeper 3.6 and later)."""

    path: str
    type: ClassVar[int] = 106

    def serialize(self) -> bytes:
        """Return the request's body."""
        return _string(self.path) + _INT.pack(PERSISTENT_RECURSIVE)

    def decode(self, _buffer: bytes, _offset: int) -> tuple[Result, ...]:
        """Return nothing: the reply has only an error code."""
        return ()


@dataclass(frozen=True, slots=True)
class Sync:
    """Ask a server to catch up with its leader; the reply's header tells up to which zxid."""

    path: str
    type: ClassVar[int] = 9

    def serialize(self) -> bytes:
        """Return the request's body."""
        return _string(self.path)

    def decode(self, _buffer: bytes, _offset: int) -> tuple[Result, ...]:
        """Return nothing: the reply repeats the path."""
        return ()


@dataclass(frozen=True, slots=True)
class MultiRead:
    """Read many znodes in one request (ZooKeeper 3.6 and later); results come in its order."""

    reads: Sequence[Read]
    type: ClassVar[int] = 22

    def serialize(self) -> bytes:
        """Return the request's body."""
        parts: list[bytes] = []
        for op, path in self.reads:
            parts += (_MULTI_HEADER.pack(op, False, -1), _string(path), b"\0")
        return b"".join((*parts, _END_OF_MULTI))

    def decode(self, buffer: bytes, offset: int) -> tuple[Result, ...]:
        """Return one result for each read; raises BadReplyError when the reply is not that."""
        try:
            results = tuple(_multi_results(buffer, offset))
        except (struct.error, IndexError) as error:
            raise BadReplyError(f"multiRead's reply is damaged: {error}") from None
        if len(results) != len(self.reads):
            raise BadReplyError(f"multiRead answered {len(results)} of {len(self.reads)} reads")
        return results


Request = AddWatch | Sync | MultiRead


def decode_event(buffer: bytes, offset: int) -> tuple[int, str]:
    """Return a notification's type and path; the type may be one that `EventType` lacks."""
    kind, _state = _INT_INT.unpack_from(buffer, offset)
    path, _ = _read_string(buffer, offset + _INT_INT.size)
    return kind, path


def _multi_results(buffer: bytes, offset: int) -> Iterable[Result]:
    while True:
        op, done, error = _MULTI_HEADER.unpack_from(buffer, offset)
        offset += _MULTI_HEADER.size
        if done:
            return
        if op == Op.GET_DATA:
            result, offset = _read_data(buffer, offset)
            yield result
        elif op == Op.GET_CHILDREN:
            names, offset = _read_children(buffer, offset)
            yield names
        elif op == -1:
            yield Refused(_INT.unpack_from(buffer, offset)[0])
            offset += _INT.size
        else:
            raise BadReplyError(f"multiRead's reply holds operation {op} (error {error})")


def _read_data(buffer: bytes, offset: int) -> tuple[ZnodeData, int]:
    (length,) = _INT.unpack_from(buffer, offset)
    start = offset + _INT.size
    end = start + max(length, 0)  # -1 is Java's null: a znode without payload
    stat = _STAT.unpack_from(buffer, end)
    czxid, mzxid, ctime, mtime, version, _cversion, _aversion, owner, _length, children, _ = stat
    data = bytes(buffer[start:end])
    znode = ZnodeData(data, czxid, mzxid, ctime, mtime, version, owner, children)
    return znode, end + _STAT.size


def _read_children(buffer: bytes, offset: int) -> tuple[Children, int]:
    (count,) = _INT.unpack_from(buffer, offset)
    offset += _INT.size
    names = []
    for _ in range(max(count, 0)):
        name, offset = _read_string(buffer, offset)
        names.append(name)
    return Children(tuple(names)), offset


def _string(text: str) -> bytes:
    data = text.encode()
    return _INT.pack(len(data)) + data


def _read_string(buffer: bytes, offset: int) -> tuple[str, int]:
    (length,) = _INT.unpack_from(buffer, offset)
    start = offset + _INT.size
    end = start + max(length, 0)
    # Java strings are always valid UTF-8 on the wire; a damaged one must not end the connection.
    return buffer[start:end].decode(errors="replace"), end
