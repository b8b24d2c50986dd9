"""ZooKeeper's serialization: what is sent, and what becomes of damaged replies."""

from __future__ import annotations

import struct

import pytest

from zk_source.wire.jute import BadReplyError, EncodedRequest, decode, decode_event, encode
from zk_source.wire.operations import (
    AddWatch,
    Children,
    MultiRead,
    Op,
    Refused,
    Request,
    SingleRead,
    Sync,
    ZnodeData,
)

ROOT = ""
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
    request = encode(AddWatch("/brokers"), ROOT)
    assert request == EncodedRequest(106, string("/brokers") + b"\0\0\0\1")


@pytest.mark.parametrize(
    ("request_", "path"),
    [
        (AddWatch("/brokers"), "/kafka/brokers"),
        (Sync("/"), "/kafka"),
        (MultiRead([(Op.GET_DATA, "/controller")]), "/kafka/controller"),
        (SingleRead(Op.GET_CHILDREN, "/"), "/kafka"),
    ],
)
def test_every_path_is_sent_with_its_chroot(request_: Request, path: str) -> None:
    """The server knows whole paths only, and the root of a cluster is the chroot itself."""
    assert string(path) in encode(request_, "/kafka").serialize()


def test_only_single_reads_may_leave_together() -> None:
    """Others are larger, or must be answered first."""
    read = SingleRead(Op.EXISTS, "/a")
    assert encode(read, ROOT).is_single_read
    assert not any(
        encode(other, ROOT).is_single_read
        for other in (AddWatch("/a"), Sync("/"), MultiRead(read.reads))
    )


@pytest.mark.parametrize("request_", [AddWatch("/a"), Sync("/")])
def test_a_reply_without_values_gives_none(request_: Request) -> None:
    """It contains an error code, or repeats the path."""
    assert decode(request_, string("/a"), 0) == ()


def test_a_multi_read_is_headers_paths_and_an_end() -> None:
    """Each read is a header with its code, the path and no watch; a done header ends them."""
    expected = b"".join(
        struct.pack("!i?i", op, False, -1) + string(path) + b"\0" for op, path in READS
    )
    assert encode(MultiRead(READS), ROOT) == EncodedRequest(22, expected + END)


def test_a_multi_reads_reply_gives_one_result_for_each_read() -> None:
    """Data with its Stat, children, and an error in its place."""
    assert decode(MultiRead(READS), b"header" + REPLY, 6) == (
        ZnodeData(b"payload", 11, 12, 13, 14, 5, 18, 2),
        Children(("x", "y")),
        Refused(-101),
    )


def test_a_null_payload_is_empty() -> None:
    """A znode made with Java's null has length -1."""
    (result,) = decode(MultiRead(READS[:1]), data_result(None) + END, 0)
    assert isinstance(result, ZnodeData)
    assert result.data == b""


@pytest.mark.parametrize("length", range(len(REPLY) - 1))
def test_a_reply_cut_short_is_refused(length: int) -> None:
    """Whatever is missing at the end, the reply is refused, and nothing worse happens."""
    with pytest.raises(BadReplyError):
        decode(MultiRead(READS), REPLY[:length], 0)


def test_a_reply_of_another_length_is_refused() -> None:
    """One result too few could be taken for another path's."""
    with pytest.raises(BadReplyError, match="answered 3 of 2"):
        decode(MultiRead(READS[:2]), REPLY, 0)


def test_a_result_of_an_operation_that_was_not_asked_for_is_refused() -> None:
    """Its length is not known, so that whatever follows could be taken for a result."""
    other = struct.pack("!i?i", Op.EXISTS, False, 0)
    with pytest.raises(BadReplyError, match="holds operation 3 "):
        decode(MultiRead(READS), other + REPLY, 0)


def test_an_event_is_its_type_and_path() -> None:
    """The session state in between is left to kazoo."""
    assert decode_event(b"xx" + struct.pack("!ii", 3, 3) + string("/a"), 2, ROOT) == (3, "/a")


@pytest.mark.parametrize("chroot", ["", "/kafka", "/kafka/prod"])
@pytest.mark.parametrize("path", ["/brokers/ids", "/kafka/ids"])
def test_a_path_with_chroot_is_returned_without_it(chroot: str, path: str) -> None:
    """Also where the path itself begins like the chroot."""
    sent = encode(Sync(path), chroot).serialize()
    assert sent == string(chroot + path)
    assert decode_event(struct.pack("!ii", 3, 3) + sent, 0, chroot) == (3, path)


def test_the_root_of_a_cluster_is_its_chroot() -> None:
    """ZooKeeper accepts no path that ends with a slash."""
    assert encode(Sync("/"), "/kafka").serialize() == string("/kafka")
    assert encode(Sync("/"), ROOT).serialize() == string("/")


def test_a_single_read_is_its_path_and_the_watch_flag() -> None:
    """The operation's code is the request's type."""
    request = encode(SingleRead(Op.GET_CHILDREN, "/b"), ROOT)
    assert request == EncodedRequest(8, string("/b") + b"\1")


def test_a_single_reads_reply_equals_that_of_a_multi_read() -> None:
    """Data with its Stat, children; of a znode that exists, the Stat alone."""
    body = data_result(b"payload")[9:]
    znode = ZnodeData(b"payload", 11, 12, 13, 14, 5, 18, 2)
    assert decode(SingleRead(Op.GET_DATA, "/a"), b"x" + body, 1) == (znode,)
    stat = body[4 + len(b"payload") :]
    exists = decode(SingleRead(Op.EXISTS, "/a"), stat, 0)
    assert exists == (znode._replace(data=b""),)
    children = struct.pack("!i", 2) + string("x") + string("y")
    assert decode(SingleRead(Op.GET_CHILDREN, "/b"), children, 0) == (Children(("x", "y")),)


@pytest.mark.parametrize("op", list(Op))
def test_a_single_reads_damaged_reply_is_refused(op: Op) -> None:
    """Whatever is missing at the end, the reply is refused."""
    with pytest.raises(BadReplyError):
        decode(SingleRead(op, "/a"), b"\0\0\0", 0)
