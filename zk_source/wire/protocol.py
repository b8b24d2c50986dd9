"""ZooKeeper's wire format for what we ask: addWatch, multiRead, single reads with watches, sync.

The rule: encode and decode only. A request knows its bytes and how to read its reply's body; what
it means is decided elsewhere. Paths here are whole paths, chroot included. Sources:
org.apache.zookeeper.{ZooDefs, MultiOperationRecord, MultiResponse} (ZooKeeper 3.8), and
zookeeper.jute, whose single reads are the same in 3.4.
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
    """Reads, by ZooKeeper's operation codes; a multiRead can hold all but EXISTS."""

    EXISTS = 3
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


@dataclass(frozen=True, slots=True)
class SingleRead:
    """Read one znode, as every ZooKeeper can; with `watch`, its next change brings one event.

    GET_DATA watches the znode itself, GET_CHILDREN the names of its children, EXISTS a znode that
    may be still to come. A read that finds no znode leaves no watch, unless it is EXISTS.
    """

    op: Op
    path: str
    watch: bool

    @property
    def type(self) -> int:
        """The operation's code."""
        return self.op

    @property
    def reads(self) -> tuple[Read, ...]:
        """What is read, as a multiRead names it."""
        return ((self.op, self.path),)

    def serialize(self) -> bytes:
        """Return the request's body."""
        return _string(self.path) + (b"\1" if self.watch else b"\0")

    def decode(self, buffer: bytes, offset: int) -> tuple[Result, ...]:
        """Return the one result; raises BadReplyError when the reply is not that."""
        try:
            if self.op is Op.GET_CHILDREN:
                return (_read_children(buffer, offset)[0],)
            if self.op is Op.GET_DATA:
                return (_read_data(buffer, offset)[0],)
            return (_znode(b"", buffer, offset),)
        except (struct.error, IndexError) as error:
            raise BadReplyError(f"the reply to a read is damaged: {error}") from None


ReadRequest = MultiRead | SingleRead
Request = AddWatch | Sync | ReadRequest


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
    return _znode(bytes(buffer[start:end]), buffer, end), end + _STAT.size


def _znode(data: bytes, buffer: bytes, offset: int) -> ZnodeData:
    stat = _STAT.unpack_from(buffer, offset)
    czxid, mzxid, ctime, mtime, version, _cversion, _aversion, owner, _length, children, _ = stat
    return ZnodeData(data, czxid, mzxid, ctime, mtime, version, owner, children)


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
