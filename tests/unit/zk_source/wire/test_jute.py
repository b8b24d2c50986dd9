"""ZooKeeper's wire format: what is sent, and what damaged replies become."""

from __future__ import annotations

import struct

import pytest

from zk_source.wire.protocol import (
    AddWatch,
    BadReplyError,
    Children,
    MultiRead,
    Op,
    Refused,
    SingleRead,
    ZnodeData,
    decode_event,
)

READS = ((Op.GET_DATA, "/a"), (Op.GET_CHILDREN, "/b"), (Op.GET_DATA, "/gone"))
END = struct.pack("!i?i", -1, True, -1)


def string(text: str) -> bytes:
    """Return a string as ZooKeeper sends it."""
    data = text.encode()
    return struct.pack("!i", len(data)) + data


def data_result(data: bytes | None) -> bytes:
    """Return a getData result inside a multiRead's reply."""
    length = -1 if data is None else len(data)
    stat = struct.pack("!qqqqiiiqiiq", 11, 12, 13, 14, 5, 6, 7, 18, length, 2, 21)
    return struct.pack("!i?i", 4, False, 0) + struct.pack("!i", length) + (data or b"") + stat


REPLY = (
    data_result(b"payload")
    + struct.pack("!i?i", 8, False, 0)
    + struct.pack("!i", 2)
    + string("x")
    + string("y")
    + struct.pack("!i?i", -1, False, -101)
    + struct.pack("!i", -101)
    + END
)


def test_add_watch_asks_for_a_persistent_recursive_watch() -> None:
    """The body is the path and mode 1."""
    assert AddWatch("/brokers").serialize() == string("/brokers") + b"\0\0\0\1"
    assert AddWatch.type == 106


def test_a_multi_read_is_headers_paths_and_an_end() -> None:
    """Each read is a header with its code, the path and no watch; a done header ends them."""
    expected = b"".join(
        struct.pack("!i?i", op, False, -1) + string(path) + b"\0" for op, path in READS
    )
    assert MultiRead(READS).serialize() == expected + END
    assert MultiRead.type == 22


def test_a_multi_reads_reply_gives_one_result_for_each_read() -> None:
    """Data with its Stat, children, and an error in its place."""
    assert MultiRead(READS).decode(b"header" + REPLY, 6) == (
        ZnodeData(b"payload", 11, 12, 13, 14, 5, 18, 2),
        Children(("x", "y")),
        Refused(-101),
    )


def test_a_null_payload_is_empty() -> None:
    """A znode made with Java's null has length -1."""
    (result,) = MultiRead(READS[:1]).decode(data_result(None) + END, 0)
    assert isinstance(result, ZnodeData)
    assert result.data == b""


@pytest.mark.parametrize("length", range(len(REPLY) - 1))
def test_a_reply_cut_short_is_refused(length: int) -> None:
    """Whatever is missing at the end, the reply is no reply, and nothing worse happens."""
    with pytest.raises(BadReplyError):
        MultiRead(READS).decode(REPLY[:length], 0)


def test_a_reply_of_another_length_is_refused() -> None:
    """One result too few could be taken for another path's."""
    with pytest.raises(BadReplyError, match="answered 3 of 2"):
        MultiRead(READS[:2]).decode(REPLY, 0)


def test_an_event_is_its_type_and_path() -> None:
    """The session state in between is kazoo's to know."""
    assert decode_event(b"xx" + struct.pack("!ii", 3, 3) + string("/a"), 2) == (3, "/a")


@pytest.mark.parametrize(("watch", "flag"), [(True, b"\1"), (False, b"\0")])
def test_a_single_read_is_its_path_and_the_watch_flag(watch: bool, flag: bytes) -> None:
    """The operation's code is the request's type."""
    request = SingleRead(Op.GET_CHILDREN, "/b", watch)
    assert (request.type, request.serialize()) == (8, string("/b") + flag)


def test_a_single_reads_reply_gives_what_a_multi_read_would() -> None:
    """Data with its Stat, children; of a znode that exists, the Stat alone."""
    body = data_result(b"payload")[9:]
    znode = ZnodeData(b"payload", 11, 12, 13, 14, 5, 18, 2)
    assert SingleRead(Op.GET_DATA, "/a", watch=True).decode(b"x" + body, 1) == (znode,)
    stat = body[4 + len(b"payload") :]
    exists = SingleRead(Op.EXISTS, "/a", watch=True).decode(stat, 0)
    assert exists == (znode._replace(data=b""),)
    children = struct.pack("!i", 2) + string("x") + string("y")
    assert SingleRead(Op.GET_CHILDREN, "/b", watch=True).decode(children, 0) == (
        Children(("x", "y")),
    )


@pytest.mark.parametrize("op", list(Op))
def test_a_single_reads_damaged_reply_is_refused(op: Op) -> None:
    """Whatever is missing at the end, the reply is no reply."""
    with pytest.raises(BadReplyError):
        SingleRead(op, "/a", watch=True).decode(b"\0\0\0", 0)
