"""Encodes requests in ZooKeeper's serialization (jute), and decodes their replies.

Encode and decode only; what a value means is decided elsewhere. The chroot is added to
each path here and removed again; no other part of the watcher knows it. Sources:
org.apache.zookeeper.{ZooDefs, MultiOperationRecord, MultiResponse} (ZooKeeper 3.8), and
zookeeper.jute, whose single reads are the same in 3.4.
"""

import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from zk_source.wire.operations import (
    AddWatch,
    Children,
    MultiRead,
    Op,
    Read,
    Refused,
    Request,
    Result,
    SingleRead,
    Sync,
    ZnodeData,
)

SYNC = 9
MULTI_READ = 22
ADD_WATCH = 106
"""Operation codes (ZooDefs.OpCode) other than those of single reads, which are in `Op`."""

PERSISTENT_RECURSIVE = 1
"""addWatch's mode for a persistent recursive watch (AddWatchMode.java)."""

_WATCH = b"\1"
_INT = struct.Struct("!i")
_INT_INT = struct.Struct("!ii")
_MULTI_HEADER = struct.Struct("!i?i")
_STAT = struct.Struct("!qqqqiiiqiiq")
_END_OF_MULTI = _MULTI_HEADER.pack(-1, True, -1)


class BadReplyError(ValueError):
    """A server's reply does not follow the protocol."""


@dataclass(frozen=True, slots=True)
class EncodedRequest:
    """A request in bytes, with the attributes that kazoo expects of a request."""

    type: int
    body: bytes

    @property
    def is_single_read(self) -> bool:
        """Whether this is a small request, of which many can be sent in one write."""
        return self.type in {Op.EXISTS, Op.GET_DATA, Op.GET_CHILDREN}

    def serialize(self) -> bytes:
        """Return the request's body."""
        return self.body


def encode(request: Request, chroot: str) -> EncodedRequest:
    """Return a request in bytes, its paths below the chroot (empty where there is none)."""
    match request:
        case AddWatch(path=path):
            body = _path(chroot, path) + _INT.pack(PERSISTENT_RECURSIVE)
            return EncodedRequest(ADD_WATCH, body)
        case Sync(path=path):
            return EncodedRequest(SYNC, _path(chroot, path))
        case MultiRead(reads=reads):
            return EncodedRequest(MULTI_READ, _multi_read(reads, chroot))
        case SingleRead(op=op, path=path):
            return EncodedRequest(op, _path(chroot, path) + _WATCH)


def decode(request: Request, buffer: bytes, offset: int) -> tuple[Result, ...]:
    """Return the results in a request's reply, one for each of its reads; raise BadReplyError if it has other ones."""
    try:
        match request:
            case MultiRead(reads=reads):
                results = tuple(_multi_results(buffer, offset))
                if len(results) != len(reads):
                    raise BadReplyError(f"multiRead answered {len(results)} of {len(reads)} reads")
                return results
            case SingleRead(op=Op.GET_CHILDREN):
                return (_read_children(buffer, offset)[0],)
            case SingleRead(op=Op.GET_DATA):
                return (_read_data(buffer, offset)[0],)
            case SingleRead():
                return (_znode(b"", buffer, offset),)
            case AddWatch() | Sync():
                return ()  # only an error code, and the path again
    except (struct.error, IndexError) as error:
        raise BadReplyError(f"the reply to {type(request).__name__} is damaged: {error}") from None


def decode_event(buffer: bytes, offset: int, chroot: str) -> tuple[int, str]:
    """Return a notification's type and its path below the chroot. The type may be one that `EventType` lacks."""
    kind, _state = _INT_INT.unpack_from(buffer, offset)
    path, _ = _read_string(buffer, offset + _INT_INT.size)
    return kind, path.removeprefix(chroot)


def _multi_read(reads: Sequence[Read], chroot: str) -> bytes:
    parts: list[bytes] = []
    for op, path in reads:
        parts += (_MULTI_HEADER.pack(op, False, -1), _path(chroot, path), b"\0")
    return b"".join((*parts, _END_OF_MULTI))


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


def _path(chroot: str, path: str) -> bytes:
    """Return the path as the server knows it: ZooKeeper accepts none that ends with a slash."""
    data = ((chroot or path) if path == "/" else chroot + path).encode()
    return _INT.pack(len(data)) + data


def _read_string(buffer: bytes, offset: int) -> tuple[str, int]:
    (length,) = _INT.unpack_from(buffer, offset)
    start = offset + _INT.size
    end = start + max(length, 0)
    # Java strings are always valid UTF-8 on the wire; a damaged one must not end the connection.
    return buffer[start:end].decode(errors="replace"), end
