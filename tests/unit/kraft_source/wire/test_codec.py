"""Tests of the codec: messages come back as they were written, whatever else is in the bytes."""

from __future__ import annotations

import struct
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kraft_source.wire.codec import READ_ERRORS, default_of, reader, uuid_text, uvarint, write
from kraft_source.wire.schema import Field, Message
from kraft_source.wire.schemas import MESSAGES, RECORDS

EACH = st.sampled_from(
    [
        (message, version)
        for message in (*MESSAGES.values(), *RECORDS.values())
        for version in range(message.versions[0], message.versions[1] + 1)
    ]
)
BITS = {"int8": 8, "int16": 16, "int32": 32, "int64": 64}


def values_of(field: Field, version: int) -> st.SearchStrategy[Any]:
    """Return a strategy for a field's values."""
    kind = field.kind
    if kind.startswith("[]"):
        made: st.SearchStrategy[Any] = st.lists(
            values_of(field._replace(kind=kind[2:], is_nullable=False), version), max_size=3
        ).map(tuple)
        if kind == "[]int32":
            made |= st.lists(st.integers(-1, 9), min_size=60, max_size=140).map(tuple)
    elif field.fields:
        made = struct_of(field.fields, version)
    elif kind in BITS:
        made = st.integers(-(2 ** (BITS[kind] - 1)), 2 ** (BITS[kind] - 1) - 1)
    elif kind == "uint16":
        made = st.integers(0, 2**16 - 1)
    elif kind == "bool":
        made = st.booleans()
    elif kind == "uuid":
        made = st.binary(min_size=16, max_size=16).map(uuid_text)
    elif kind == "string":
        made = st.text(max_size=200)
    else:
        made = st.binary(max_size=200)
    return made | st.none() if field.is_nullable else made


def struct_of(fields: tuple[Field, ...], version: int) -> st.SearchStrategy[dict[str, Any]]:
    """Return a strategy for a struct; of tagged fields some are left out."""
    present = [each for each in fields if each.is_in(version)]
    return st.fixed_dictionaries(
        {each.name: values_of(each, version) for each in present if each.tag is None},
        optional={each.name: values_of(each, version) for each in present if each.tag is not None},
    )


def without_defaults(fields: tuple[Field, ...], values: dict[str, Any]) -> dict[str, Any]:
    """Return values without the tagged fields that equal their default: Kafka does not write them."""
    kept = {}
    for each in fields:
        if each.name not in values:
            continue
        value = values[each.name]
        if each.tag is not None and value == default_of(each):
            continue
        if each.fields and isinstance(value, dict):
            value = without_defaults(each.fields, value)
        elif each.fields and value is not None:
            value = tuple(without_defaults(each.fields, item) for item in value)
        kept[each.name] = value
    return kept


@settings(max_examples=150)
@given(each=EACH, data=st.data())
def test_what_is_written_is_read(each: tuple[Message, int], data: st.DataObject) -> None:
    """Each version of each message comes back, and its reader stops at its end."""
    message, version = each
    values = data.draw(struct_of(message.fields, version))
    written = b"before" + write(message, version, values)
    read, end = reader(message, version)(written + b"behind", 6)
    assert read == without_defaults(message.fields, values)
    assert end == len(written)


@settings(max_examples=150)
@given(each=EACH, data=st.data())
def test_a_tag_of_a_newer_kafka_is_skipped(each: tuple[Message, int], data: st.DataObject) -> None:
    """A tagged field that the table does not have changes nothing of what is read."""
    message, version = each
    if version < message.flexible_since:
        return
    values = data.draw(struct_of(tuple(f for f in message.fields if f.tag is None), version))
    plain = write(message, version, values)
    content = data.draw(st.binary(max_size=200))
    tagged = plain[:-1] + uvarint(1) + uvarint(99) + uvarint(len(content)) + content
    read, end = reader(message, version)(tagged, 0)
    assert (read, end) == (without_defaults(message.fields, values), len(tagged))


@settings(max_examples=150)
@given(each=EACH, data=st.data())
def test_damaged_bytes_raise_what_callers_expect(
    each: tuple[Message, int], data: st.DataObject
) -> None:
    """Bytes that are cut, or replaced by others, are read as something or raise one of READ_ERRORS."""
    message, version = each
    written = bytearray(write(message, version, data.draw(struct_of(message.fields, version))))
    for _ in range(data.draw(st.integers(0, 3))):
        if written:
            written[data.draw(st.integers(0, len(written) - 1))] = data.draw(st.integers(0, 255))
    raw = bytes(written[: data.draw(st.integers(0, len(written)))])
    try:
        reader(message, version)(raw, 0)
    except READ_ERRORS:
        return


def test_an_unknown_version_is_not_guessed() -> None:
    """A reader exists for the versions of the table only."""
    with pytest.raises(ValueError, match="version 3 is not in 0-2"):
        reader(RECORDS["PartitionRecord"], 3)


def test_a_partition_change_byte_by_byte() -> None:
    """The layout by hand: partition, topic id, one tagged field of five bytes, which is an ISR of one broker."""
    topic = bytes.fromhex("55d4a10a9c4f4d3c8a1e2b6c7d8e9fa0")
    raw = struct.pack(">i", 3) + topic + bytes.fromhex("0100050200000002")
    read, end = reader(RECORDS["PartitionChangeRecord"], 0)(raw, 0)
    assert (read, end) == (
        {"partition_id": 3, "topic_id": uuid_text(topic), "isr": (2,)},
        len(raw),
    )


@pytest.mark.parametrize("field", ["replicas", "directories"])
def test_null_is_an_error_where_a_field_has_none(field: str) -> None:
    """An array that cannot be null is never None for those who read the values."""
    partition = RECORDS["PartitionRecord"]
    raw = write(partition, 2, {field: None})
    with pytest.raises(ValueError, match=f"{field} is null"):
        reader(partition, 2)(raw, 0)
