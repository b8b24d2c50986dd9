"""Reads and writes Kafka's messages by the field tables of `schemas`.

A value is a dict by field name. A field that is not there (its version has it not, or its tag is
absent) is not in the dict: what its absence means is for the caller, who knows the message. Tagged fields that
the table does not name are skipped, as Kafka's own readers do: a newer Kafka may add some.

Readers are made from the tables as Python source and compiled: five times as fast as a walk of
the table for each message. Ids are text as Kafka prints them, the URL-safe base64 of 16 bytes.
"""

import base64
import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache, lru_cache
from typing import Any

from kraft_source.wire.schema import Field, Message

Values = dict[str, Any]
Reader = Callable[[bytes, int], tuple[Values, int]]
"""Takes bytes and a position, and returns the values and the position behind them."""

READ_ERRORS = (ValueError, IndexError, struct.error)
"""What a reader raises for bytes that are not such a message; `UnicodeDecodeError` is a ValueError."""

_UUID_BYTES = 16
_FORMATS = {
    "bool": "?",
    "int8": "b",
    "int16": "h",
    "uint16": "H",
    "int32": "i",
    "int64": "q",
    "uuid": "16s",
}
"""Kinds of a fixed size, in the letters of `struct`."""
_ZEROS: dict[str, Any] = {"string": "", "bytes": b"", "records": b"", "uuid": "A" * 22}
_MAX_SHORT = 64
"""Arrays of fewer numbers than this are read by structures that exist already."""
_SHORT = [None, *(struct.Struct(f">{count}i").unpack_from for count in range(_MAX_SHORT - 1))]
"""For an array's length as Kafka writes it, which is one more."""


def read_uvarint(data: bytes, at: int) -> tuple[int, int]:
    """Return an unsigned number of variable length, and the position behind it.

    >>> read_uvarint(bytes([0xAC, 0x02]), 0)
    (300, 2)
    """
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:  # noqa: PLR2004  # the top bit says that more follows
            return value, at
        shift += 7
        if shift > 63:  # noqa: PLR2004  # 64 bits
            raise ValueError("a number of more than 64 bits")


def uvarint(value: int) -> bytes:
    """Return an unsigned number in variable length.

    >>> uvarint(300).hex()
    'ac02'
    """
    out = bytearray()
    while value > 0x7F:  # noqa: PLR2004  # seven bits in each byte
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


@lru_cache(maxsize=2**16)
def uuid_text(raw: bytes) -> str:
    """Return an id as Kafka prints it (Uuid.toString).

    >>> uuid_text(bytes([0] * 15 + [1]))
    'AAAAAAAAAAAAAAAAAAAAAQ'
    """
    if len(raw) != _UUID_BYTES:
        raise ValueError(f"an id of {len(raw)} bytes")
    return base64.urlsafe_b64encode(raw)[:22].decode()


def read_ints(data: bytes, at: int) -> tuple[tuple[int, ...] | None, int]:
    """Return an array of int32 with a compact length, and the position behind it."""
    count, at = read_uvarint(data, at)
    if count == 0:
        return None, at
    end = at + 4 * (count - 1)
    if end > len(data):
        raise ValueError(f"an array of {count - 1} numbers does not fit")
    return struct.unpack_from(f">{count - 1}i", data, at), end


def read_text(data: bytes, at: int, size: int) -> str:
    """Return `size` bytes as text."""
    return str(_bytes(data, at, size), "utf-8")


def _bytes(data: bytes, at: int, size: int) -> bytes:
    raw = data[at : at + size]
    if len(raw) != size:
        raise ValueError(f"{size} bytes do not fit")
    return raw


# What the readers' source calls.
_NAMES: dict[str, Any] = {
    "read_uvarint": read_uvarint,
    "read_ints": read_ints,
    "read_text": read_text,
    "read_bytes": _bytes,
    "uuid_text": uuid_text,
    "SHORT": _SHORT,
    "int16": struct.Struct(">h").unpack_from,
    "int32": struct.Struct(">i").unpack_from,
}


@cache
def reader(message: Message, version: int) -> Reader:
    """Return the reader of a version of a message."""
    first, last = message.versions
    if not first <= version <= last:
        raise ValueError(f"version {version} is not in {first}-{last}")
    return compiled(message.fields, version, is_flexible=version >= message.flexible_since)


def compiled(
    fields: Sequence[Field], version: int, *, is_flexible: bool, is_head: bool = False
) -> Reader:
    """Return a reader of fields; `is_head`: more fields follow, so there are no tagged fields behind these."""
    source = _Source(version, is_flexible=is_flexible)
    source.add_function("read", fields, is_head=is_head)
    names = dict(_NAMES, **source.structs)
    exec("\n".join(source.lines), names)  # noqa: S102  # source made of our own tables only
    read: Reader = names["read"]
    return read


class _Source:
    """The source text of one reader, with a function for each struct in it."""

    def __init__(self, version: int, *, is_flexible: bool) -> None:
        self.lines: list[str] = []
        self.structs: dict[str, Any] = {}
        self._version = version
        self._is_flexible = is_flexible

    def add_function(
        self, function: str, fields: Sequence[Field], *, is_head: bool = False
    ) -> None:
        """Append the function that reads a struct."""
        present = [each for each in fields if each.is_in(self._version)]
        plain = [each for each in present if each.tag is None]
        body = list(self._plain(function, plain))
        body.append(f"out = {{{', '.join(f'{each.name!r}: {each.name}' for each in plain)}}}")
        if self._is_flexible and not is_head:
            tagged = [each for each in present if each.tag is not None]
            body += self._tagged(function, tagged)
        body.append("return out, p")
        self.lines += [f"def {function}(b, p):", *(f"    {line}" for line in body)]

    def _plain(self, function: str, fields: Sequence[Field]) -> Iterator[str]:
        """Yield the lines that read fields in their order; neighbours of a fixed size are read at once."""
        together: list[Field] = []
        for each in fields:
            if each.kind in _FORMATS:
                together.append(each)
                continue
            yield from self._fixed(together)
            together = []
            yield from self._read(function, each)
        yield from self._fixed(together)

    def _fixed(self, fields: Sequence[Field]) -> Iterator[str]:
        if not fields:
            return
        made = struct.Struct(">" + "".join(_FORMATS[each.kind] for each in fields))
        self.structs[name := f"fixed_{len(self.structs)}"] = made.unpack_from
        yield f"{', '.join(each.name for each in fields)}, = {name}(b, p)"
        yield f"p += {made.size}"
        for each in fields:
            if each.kind == "uuid":
                yield f"{each.name} = uuid_text({each.name})"

    def _read(self, function: str, field: Field) -> Iterator[str]:
        """Yield the lines that read one field into the variable of its name."""
        name, kind = field.name, field.kind
        if kind in _FORMATS:
            yield from self._fixed([field])
        elif kind == "[]int32" and self._is_flexible:
            yield "n = b[p]"
            yield f"if 0 < n < {_MAX_SHORT}:"
            yield f"    {name} = SHORT[n](b, p + 1)"
            yield "    p += 4 * n - 3"
            yield "else:"
            yield f"    {name}, p = read_ints(b, p)"
            if not field.is_nullable:
                yield f"    if {name} is None:"
                yield f"        {self._refuse_null(name)}"
        elif kind.startswith("[]"):
            yield from self._length("int32", is_compact=field.is_compact)
            yield "if n < 0:"
            yield f"    {f'{name} = None' if field.is_nullable else self._refuse_null(name)}"
            yield "else:"
            yield f"    {name} = []"
            yield "    for _ in range(n):"
            element = field._replace(name="item", kind=kind[2:], is_nullable=False)
            if not field.fields:
                yield from (f"        {line}" for line in self._read(function, element))
            else:
                self.add_function(nested := f"{function}_{name}", field.fields)
                yield f"        item, p = {nested}(b, p)"
            yield f"        {name}.append(item)"
            yield f"    {name} = tuple({name})"
        elif field.fields:
            self.add_function(nested := f"{function}_{name}", field.fields)
            yield f"{name}, p = {nested}(b, p)"
        else:
            yield from self._length(
                "int16" if kind == "string" else "int32", is_compact=field.is_compact
            )
            yield "if n < 0:"
            yield f"    {f'{name} = None' if field.is_nullable else self._refuse_null(name)}"
            yield "else:"
            yield f"    {name} = {'read_text' if kind == 'string' else 'read_bytes'}(b, p, n)"
            yield "    p += n"

    @staticmethod
    def _refuse_null(name: str) -> str:
        return f"raise ValueError('{name} is null')"

    def _length(self, fixed: str, *, is_compact: bool) -> Iterator[str]:
        if self._is_flexible and is_compact:
            yield "n = b[p] - 1"
            yield "p += 1"
            yield "if n > 126:"
            yield "    n, p = read_uvarint(b, p - 1)"
            yield "    n -= 1"
        else:
            yield f"n, = {fixed}(b, p)"
            yield f"p += {2 if fixed == 'int16' else 4}"

    def _tagged(self, function: str, fields: Sequence[Field]) -> Iterator[str]:
        yield "k = b[p]"
        yield "p += 1"
        yield "if k > 127:"
        yield "    k, p = read_uvarint(b, p - 1)"
        yield "while k:"
        yield "    k -= 1"
        yield "    t, p = read_uvarint(b, p)"
        yield "    z, p = read_uvarint(b, p)"
        yield "    z += p"
        yield "    if z > len(b):"
        yield "        raise ValueError('a tagged field does not fit')"
        for number, each in enumerate(fields):
            yield f"    {'elif' if number else 'if'} t == {each.tag}:"
            yield from (f"        {line}" for line in self._read(function, each))
            if each.kind in _FORMATS:
                # Kafka writes no default: a default that is written means the same as none.
                yield f"        if {each.name} != {default_of(each)!r}:"
                yield f"            out[{each.name!r}] = {each.name}"
            else:
                yield f"        out[{each.name!r}] = {each.name}"
            yield "        if p != z:"
            yield f"            raise ValueError('the size of {each.name} is wrong')"
        yield "    p = z"


def default_of(field: Field) -> Any:
    """Return what an absent field means."""
    if field.default is not None:
        return field.default
    if field.is_nullable:
        return None
    if field.kind.startswith("[]"):
        return ()
    if field.fields:
        return {each.name: default_of(each) for each in field.fields}
    return _ZEROS.get(field.kind, 0)


def write(message: Message, version: int, values: Mapping[str, Any]) -> bytes:
    """Return a message as bytes; what `values` does not name has its default."""
    is_flexible = version >= message.flexible_since
    return b"".join(_written_struct(message.fields, version, values, is_flexible=is_flexible))


def _written_struct(
    fields: Sequence[Field], version: int, values: Mapping[str, Any], *, is_flexible: bool
) -> Iterator[bytes]:
    tags: list[tuple[int, bytes]] = []
    for each in fields:
        if not each.is_in(version):
            continue
        value = values.get(each.name, default_of(each))
        if each.tag is None:
            yield _written(each, version, value, is_flexible=is_flexible)
        elif value != default_of(each):
            tags.append((each.tag, _written(each, version, value, is_flexible=is_flexible)))
    if is_flexible:
        yield uvarint(len(tags))
        for tag, data in sorted(tags):
            yield uvarint(tag) + uvarint(len(data)) + data


def _written(field: Field, version: int, value: Any, *, is_flexible: bool) -> bytes:
    kind = field.kind
    if kind == "uuid":
        return base64.urlsafe_b64decode(f"{value}==")
    if kind in _FORMATS:
        return struct.pack(f">{_FORMATS[kind]}", value)
    is_compact = is_flexible and field.is_compact
    if kind.startswith("[]"):
        element = field._replace(kind=kind[2:])
        items = () if value is None else value
        data = b"".join(_written(element, version, item, is_flexible=is_flexible) for item in items)
        return _written_length("i", value, is_compact=is_compact) + data
    if field.fields:
        return b"".join(_written_struct(field.fields, version, value, is_flexible=is_flexible))
    data = value.encode() if isinstance(value, str) else value
    short = "h" if kind == "string" else "i"
    return _written_length(short, data, is_compact=is_compact) + (data or b"")


def _written_length(form: str, value: Sequence[Any] | None, *, is_compact: bool) -> bytes:
    length = -1 if value is None else len(value)
    return uvarint(length + 1) if is_compact else struct.pack(f">{form}", length)
