"""Write batches of a KRaft metadata log as Kafka's controller writes them: the opposite of kraft_source.wire."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import google_crc32c

from kraft_source.wire.codec import uuid_text, uvarint, write
from kraft_source.wire.schemas import CONTROL_RECORDS, RECORDS


class Written(NamedTuple):
    """A record to write: its name in Kafka, its fields, and its version (None: the newest)."""

    name: str
    values: Mapping[str, Any] = {}
    version: int | None = None


def written_value(record: Written | bytes) -> bytes:
    """Return a metadata record as the value of a log record; bytes stay as they are."""
    if isinstance(record, bytes):
        return record
    message = RECORDS[record.name]
    version = message.versions[1] if record.version is None else record.version
    assert message.api_key is not None
    head = uvarint(1) + uvarint(message.api_key) + uvarint(version)
    return head + write(message, version, record.values)


def raw_value(api_key: int, version: int, content: bytes) -> bytes:
    """Return the value of a metadata record of which kcm has no table."""
    return uvarint(1) + uvarint(api_key) + uvarint(version) + content


def record_batch(
    offset: int, epoch: int, records: Sequence[Written | bytes], *, at: int = 1_000
) -> bytes:
    """Return a batch of metadata records."""
    return _batch(offset, epoch, [(None, written_value(each)) for each in records], at, 0)


def control_batch(offset: int, epoch: int, record: Written, *, at: int = 1_000) -> bytes:
    """Return a batch with one control record, such as a LeaderChangeMessage."""
    message = RECORDS[record.name]
    version = message.versions[1] if record.version is None else record.version
    kind = next(kind for kind, name in CONTROL_RECORDS.items() if name == record.name)
    values = {"version": version, **record.values}
    value = write(message, version, values)
    return _batch(offset, epoch, [(struct.pack(">hh", 0, kind), value)], at, 0x20)


def _batch(
    offset: int, epoch: int, records: Sequence[tuple[bytes | None, bytes]], at: int, attributes: int
) -> bytes:
    body = b"".join(_record(number, key, value) for number, (key, value) in enumerate(records))
    count = len(records)
    checked = struct.pack(">hiqqqhii", attributes, count - 1, at, at, -1, -1, -1, count) + body
    head = struct.pack(">iBI", epoch, 2, google_crc32c.value(checked))
    return struct.pack(">qi", offset, len(head) + len(checked)) + head + checked


def _record(number: int, key: bytes | None, value: bytes) -> bytes:
    held_key = _varint(-1) if key is None else _varint(len(key)) + key
    body = b"\0" + _varint(0) + _varint(number) + held_key + _varint(len(value)) + value + b"\0"
    return _varint(len(body)) + body


def _varint(value: int) -> bytes:
    return uvarint(value << 1 if value >= 0 else (-value << 1) - 1)


def uuid_of(number: int) -> str:
    """Return the id of a topic or a directory, as text, for a number."""
    return uuid_text(struct.pack(">QQ", 7, number))


def rechecked(data: bytes) -> bytes:
    """Return a batch that was changed, with the checksum of its bytes."""
    return data[:17] + struct.pack(">I", google_crc32c.value(data[21:])) + data[21:]
