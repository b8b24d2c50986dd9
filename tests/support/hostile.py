"""Bytes that an attacker may write in place of a record or a payload.

Each is made from a valid one: parts that a decoder skips, in unknown fields, can do harm as well.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

DEEP = 2_000
"""Levels of nesting, in 4 kB: more than Python's stack has, from any caller."""

_NESTED = {
    "arrays": b"[" * DEEP + b"]" * DEEP,
    "objects": b'{"a":' * DEEP + b"1" + b"}" * DEEP,
    "both": b'[{"a":' * DEEP + b"1" + b"}]" * DEEP,
}

NO_JSON = {
    "nothing": b"",
    "a NUL": b"\x00",
    "no UTF-8": b"\xff\xfe\x00{",
    "half a surrogate": b'"\\ud800"',
    "brackets that never close": b"[" * (2 * DEEP),
    "objects that never close": b'{"a":' * (2 * DEEP),
    "not a number": b"NaN",
    "a number without end": b"9" * 5_000,
    "an exponent": b"1e999999",
    "a megabyte of spaces": b" " * 2**20,
}


def spoiled(record: bytes) -> dict[str, bytes]:
    """Return a valid JSON object with something harmful in it or in its place, by the kind of harm."""
    opened = record.rstrip()[:-1] + (b"," if record.strip() != b"{}" else b"")
    harmful = {
        **{f"nested {name}": nested for name, nested in _NESTED.items()},
        "a long integer": b"9" * 5_000,
        "a large exponent": b"1e999999",
        "not a number": b"NaN",
        "a lone surrogate": b'"\\ud800"',
        "no UTF-8": b'"\xff"',
        "a megabyte of text": b'"' + b"x" * 2**20 + b'"',
    }
    inside = {
        f"{name} in an unknown field": opened + b'"unknown":' + harm + b"}"
        for name, harm in harmful.items()
    }
    twice = {"a key without end": opened + b'"' + b"k" * 2**16 + b'":1}'}
    return {**inside, **twice, **NO_JSON, "cut in the middle": record[: len(record) // 2]}


WIDE = {"65 bits": 2**64, "a bit too many": 2**63, "no float": 10**400}
"""Numbers that JSON may hold and that some reader cannot handle."""


def with_a_number(record: bytes, number: int) -> Iterator[bytes]:
    """Yield a valid JSON object with one of its numbers replaced by this one, for each number in turn."""
    body = json.loads(record)
    for place in _numbers(body):
        changed = json.loads(record)
        inner = changed
        for step in place[:-1]:
            inner = inner[step]
        inner[place[-1]] = number
        yield json.dumps(changed, separators=(",", ":")).encode()


def _numbers(body: Any, place: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    if isinstance(body, dict | list):
        inside = body.items() if isinstance(body, dict) else enumerate(body)
        for step, inner in inside:
            yield from _numbers(inner, (*place, step))
    elif isinstance(body, int | float) and not isinstance(body, bool):
        yield place
