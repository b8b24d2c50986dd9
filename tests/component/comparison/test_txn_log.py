"""The reader of ZooKeeper's transaction logs, on logs that are written out here byte by byte."""

from __future__ import annotations

import struct
import zlib
from pathlib import Path

import pytest

from controller_simulator.zookeeper.transactions import Changed, Commit, Created, Removed
from tests.support.txn_log import TxnLogError, read_txn_log, read_txn_logs

HEADER = b"ZKLG" + struct.pack(">iq", 2, 0)
ACL = struct.pack(">ii", 1, 31) + b"\0\0\0\x05world" + b"\0\0\0\x06anyone"


def text(value: str) -> bytes:
    """Return a string as jute has it."""
    return struct.pack(">i", len(value)) + value.encode()


def created(path: str, data: str, *, ephemeral: bool = False) -> bytes:
    """Return the body of a CreateTxn."""
    return text(path) + text(data) + ACL + struct.pack(">bi", ephemeral, 1)


def record(zxid: int, kind: int, body: bytes = b"", *, session: int = 9) -> bytes:
    """Return a transaction as the file holds it."""
    data = struct.pack(">qiqqi", session, 1, zxid, 1000 + zxid, kind) + body
    return struct.pack(">qi", zlib.adler32(data), len(data)) + data + b"B"


def multi(*parts: tuple[int, bytes]) -> bytes:
    """Return the body of a MultiTxn."""
    packed = (struct.pack(">ii", kind, len(body)) + body for kind, body in parts)
    return struct.pack(">i", len(parts)) + b"".join(packed)


def test_every_kind_of_transaction_is_read() -> None:
    """Sessions, creates, sets, deletes and transactions of several; refused ones are left out."""
    set_body = text("/a") + text("y") + struct.pack(">i", 4)
    log = HEADER + b"".join(
        [
            record(1, -10, struct.pack(">i", 6000)),
            record(2, 1, created("/a", "x")),
            record(3, 15, created("/e", "", ephemeral=True)),
            record(4, 5, set_body),
            record(5, -1, struct.pack(">i", -110)),
            record(6, 14, multi((13, text("/v") + struct.pack(">i", 1)), (2, text("/a")))),
            record(7, 14, multi((-1, struct.pack(">i", 0)), (-1, struct.pack(">i", -110)))),
            record(8, 13, text("/v") + struct.pack(">i", 1)),
            record(9, -11, struct.pack(">i", 1) + text("/e")),
        ]
    )
    assert list(read_txn_log(log + bytes(4096))) == [
        Commit(1, 9, 1001, opens=True),
        Commit(2, 9, 1002, (Created("/a", "x"),)),
        Commit(3, 9, 1003, (Created("/e", "", 9),)),
        Commit(4, 9, 1004, (Changed("/a", "y", 4),)),
        Commit(6, 9, 1006, (Removed("/a"),)),
        Commit(9, 9, 1009, (Removed("/e"),), closes=True),
    ]


def test_a_log_that_is_written_right_now_ends_where_it_is_cut() -> None:
    """What is not complete yet is not read, wherever the cut is; an empty file holds nothing."""
    whole = HEADER + record(1, 2, text("/a"))
    assert len(list(read_txn_log(whole))) == 1
    assert all(list(read_txn_log(whole[:cut])) == [] for cut in range(16, len(whole)))
    assert list(read_txn_log(b"")) == []


def test_damage_is_reported() -> None:
    """Another file, a wrong checksum and an unknown transaction are errors, not an end."""
    broken = bytearray(HEADER + record(1, 2, text("/a")))
    broken[-2] ^= 1
    for log, message in [
        (b"ZKSN" + bytes(12), "begins with b'ZKSN'"),
        (bytes(broken), "wrong checksum at byte 16"),
        (HEADER + record(1, 99), "unknown transaction type 99"),
    ]:
        with pytest.raises(TxnLogError, match=message):
            list(read_txn_log(log))


def test_close_session_before_zookeeper_3_6_lists_no_znodes(tmp_path: Path) -> None:
    """What went with it is known from what it created and did not delete, itself or another."""
    (tmp_path / "log.1").write_bytes(
        HEADER
        + record(1, -10, struct.pack(">i", 6000))
        + record(2, 1, created("/stays", ""))
        + record(3, 1, created("/b", "", ephemeral=True))
        + record(4, 1, created("/of-another", "", ephemeral=True), session=8)
    )
    (tmp_path / "log.5").write_bytes(
        HEADER
        + record(5, 14, multi((1, created("/a", "", ephemeral=True))))
        + record(6, 1, created("/gone", "", ephemeral=True))
        + record(7, 2, text("/gone"), session=8)
        + record(8, -11)
        + record(9, -11)
    )
    *_, ended, again = read_txn_logs(tmp_path)
    assert ended == Commit(8, 9, 1008, (Removed("/a"), Removed("/b")), closes=True)
    assert again == Commit(9, 9, 1009, closes=True)


def test_files_are_read_in_the_order_of_their_zxids(tmp_path: Path) -> None:
    """Their names are hexadecimal numbers of no fixed width."""
    (tmp_path / "log.9").write_bytes(HEADER + record(9, 2, text("/a")))
    (tmp_path / "log.10").write_bytes(HEADER + record(16, 2, text("/b")))
    assert [commit.zxid for commit in read_txn_logs(tmp_path)] == [9, 16]
