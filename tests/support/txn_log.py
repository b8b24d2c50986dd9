"""Read ZooKeeper's own transaction log: every write, with its zxid, session and transaction.

The rule: nothing is merged and nothing is missed, because this is what the server itself would
recover from. Source: org.apache.zookeeper.server.persistence.FileTxnLog, TxnHeader, CreateTxn,
SetDataTxn, DeleteTxn, MultiTxn and CloseSessionTxn of ZooKeeper 3.8 (jute: big-endian numbers,
strings and buffers behind their length). A log that is still written ends in zeros. Before 3.6 the
end of a session does not name its ephemeral znodes (CloseSessionTxn is new there).
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import msgspec

from controller_simulator.zookeeper.transactions import Changed, Commit, Committed, Created, Removed

MAGIC = b"ZKLG"
HEADER_BYTES = 16  # magic, version of the format, id of the database
END_OF_RECORD = 0x42  # 'B', written after each transaction

CREATE_SESSION = -10
CLOSE_SESSION = -11
ERROR = -1
DELETE = 2
SET_DATA = 5
CHECK = 13
MULTI = 14
CREATES = {1: "create", 15: "create2"}


class TxnLogError(Exception):
    """Not a transaction log that we can read."""


@dataclass
class _Jute:
    """A cursor over jute-encoded bytes."""

    data: bytes
    position: int = 0

    def read(self, layout: str) -> int:
        """Return one number."""
        value: int
        (value,) = struct.unpack_from(">" + layout, self.data, self.position)
        self.position += struct.calcsize(">" + layout)
        return value

    def buffer(self) -> bytes:
        """Return the bytes behind a length; null (-1) as empty."""
        size = max(self.read("i"), 0)
        start, self.position = self.position, self.position + size
        return self.data[start : self.position]

    def text(self) -> str:
        """Return a string."""
        return self.buffer().decode()


def read_txn_logs(folder: Path) -> list[Commit]:
    """Return all commits of a server's `version-2` folder, in order; failed requests left out."""
    files = sorted(folder.glob("log.*"), key=lambda file: int(file.suffix[1:], 16))
    return list(_with_ephemerals(c for file in files for c in read_txn_log(file.read_bytes())))


def _with_ephemerals(commits: Iterable[Commit]) -> Iterator[Commit]:
    """Yield the commits, the end of each session with all that went with it, by path."""
    owners: dict[str, int] = {}
    for commit in commits:
        ended = commit
        if commit.closes and not commit.writes:
            owned = sorted(path for path, owner in owners.items() if owner == commit.session)
            ended = msgspec.structs.replace(commit, writes=tuple(map(Removed, owned)))
        for write in ended.writes:
            if isinstance(write, Created) and write.owner:
                owners[write.path] = write.owner
            elif isinstance(write, Removed):
                owners.pop(write.path, None)
        yield ended


def read_txn_log(log: bytes) -> Iterator[Commit]:
    """Yield the commits of one file, up to the zeros or the cut at its end."""
    if not log:
        return
    if log[:4] != MAGIC:
        raise TxnLogError(f"begins with {log[:4]!r}")
    position = HEADER_BYTES
    while position + 12 <= len(log):
        checksum, size = struct.unpack_from(">qi", log, position)
        end = position + 12 + size
        if size <= 0 or end >= len(log) or log[end] != END_OF_RECORD:
            return
        record = log[position + 12 : end]
        if zlib.adler32(record) != checksum:
            raise TxnLogError(f"wrong checksum at byte {position}")
        commit = _commit(_Jute(record))
        if commit is not None:
            yield commit
        position = end + 1


def _commit(record: _Jute) -> Commit | None:
    session = record.read("q")
    record.read("i")  # the client's own number of the request
    zxid, time_ms, kind = record.read("q"), record.read("q"), record.read("i")
    if kind == CREATE_SESSION:
        return Commit(zxid, session, time_ms, opens=True)
    if kind == CLOSE_SESSION:
        named = record.position < len(record.data)
        paths = [record.text() for _ in range(record.read("i"))] if named else []
        return Commit(zxid, session, time_ms, tuple(map(Removed, paths)), closes=True)
    if kind == MULTI:
        parts = [(record.read("i"), record.buffer()) for _ in range(record.read("i"))]
        if any(part == ERROR for part, _ in parts):
            return None
        read = (_write(part, _Jute(data), session) for part, data in parts)
        return Commit(zxid, session, time_ms, tuple(w for w in read if w is not None))
    if kind == ERROR:
        return None
    write = _write(kind, record, session)
    return None if write is None else Commit(zxid, session, time_ms, (write,))


def _write(kind: int, body: _Jute, session: int) -> Committed | None:
    """Return one write; None for a check, which writes nothing."""
    if kind in CREATES:
        path, data = body.text(), body.text()
        for _ in range(body.read("i")):
            body.read("i")
            body.text()
            body.text()
        return Created(path, data, session if body.read("b") else 0)
    if kind == SET_DATA:
        return Changed(body.text(), body.text(), body.read("i"))
    if kind == DELETE:
        return Removed(body.text())
    if kind == CHECK:
        return None
    raise TxnLogError(f"unknown transaction type {kind}")
