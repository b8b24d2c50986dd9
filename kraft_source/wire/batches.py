"""Reads record batches of Kafka's format 2, in which the metadata log and its snapshots consist of.

A batch is checked before anything in it is read: its size, format, checksum (CRC-32C), and that it
is not compressed, which the metadata log never is (RecordBatch, DefaultRecordBatch). The last batch of an answer
may be cut off, because the leader cuts by size; it is asked for again.
"""

import struct
from collections.abc import Iterator
from typing import NamedTuple

import google_crc32c

HEADER_BYTES = 61
"""Bytes of a batch before its first record."""

MAX_BATCH_BYTES = 16 * 2**20
"""A larger batch is damage: the active controller writes 8 MiB at most (KafkaRaftClient.MAX_BATCH_SIZE_BYTES)."""

_PREFIX = struct.Struct(">qii")
_PREFIX_BYTES = 12
"""The base offset and the length, which the length itself does not count."""
_BODY = struct.Struct(">iBIhiqqqhii")
_CHECKED_FROM = 21
"""What the checksum covers begins behind the checksum itself."""
_FORMAT = 2
_COMPRESSION = 0x07
_CONTROL = 0x20


class CorruptBatchError(ValueError):
    """A record batch is not what its own header says, or is none of the metadata log."""


class RecordBatch(NamedTuple):
    """One record batch: an atomic append of the active controller, with all its bytes."""

    offset: int
    """The offset of its first record."""
    last_offset: int
    epoch: int
    """The leader epoch of the controller that appended it."""
    at: int
    """When it was appended, in ms since 1970 by that controller's clock."""
    is_control: bool
    record_count: int
    """How many records it has."""
    data: bytes


def split_batches(data: bytes, start: int = 0) -> Iterator[RecordBatch]:
    """Yield the complete batches in `data`, from `start` on; raise CorruptBatchError at the first that is damaged."""
    while len(data) - start >= HEADER_BYTES:
        end = start + _PREFIX_BYTES + _PREFIX.unpack_from(data, start)[1]
        if not HEADER_BYTES <= end - start <= MAX_BATCH_BYTES:
            raise CorruptBatchError(
                f"a batch of {end - start} bytes, and not {HEADER_BYTES} to {MAX_BATCH_BYTES}: the log is damaged"
            )
        if end > len(data):
            return
        yield _checked(data[start:end])
        start = end


def _checked(data: bytes) -> RecordBatch:
    offset, _, epoch = _PREFIX.unpack_from(data)
    _, form, crc, attributes, last, at, _, _, _, _, count = _BODY.unpack_from(data, _PREFIX_BYTES)
    where = f"the batch at offset {offset}"
    if form != _FORMAT:
        raise CorruptBatchError(f"{where} has format {form}, and not {_FORMAT}")
    if google_crc32c.value(data[_CHECKED_FROM:]) != crc:
        raise CorruptBatchError(f"{where} does not have its checksum: it was damaged on the way")
    if attributes & _COMPRESSION:
        raise CorruptBatchError(f"{where} is compressed, which a metadata log never is")
    if count < 0 or last != count - 1:
        raise CorruptBatchError(f"{where} has {count} records, but its last is number {last}")
    return RecordBatch(offset, offset + last, epoch, at, bool(attributes & _CONTROL), count, data)
