"""Decode bytes that anybody may have written, whatever is in them.

The rule: a damaged or hostile record costs itself and nothing else. Whoever decodes what came over
a network or from a file catches `DECODING_ERRORS`, or calls `decode_record`.
"""

import re
from typing import TypeVar

import msgspec

from controller_model.kafka.errors import UnreadableRecordError

DECODING_ERRORS = (ValueError, RecursionError)
"""What bytes can raise in a decoder of JSON, msgspec's or Python's.

DecodeError and UnicodeDecodeError are ValueErrors; nesting beyond what is left of the stack is a
RecursionError, in fields that are skipped as well."""

MOST_NESTING = 64
"""Levels of nesting of a record that is kept as bytes: ours have five. How many a decoder takes depends on
the stack that it is called on, so a record with more could be taken in and fail a reader later."""

_WIDEST = 2**63
"""Numbers from here on, and below its negative, are none of ours: one of some hundred digits is no float any
more, and a generation of twenty is one that no record of the log could follow."""

RecordT = TypeVar("RecordT")

_NOT_BRACKETS = bytes(each for each in range(256) if each not in b"[]{}")
_STRING = re.compile(rb'"(?:[^"\\]|\\.)*"', re.DOTALL)
_WIDE_DIGITS = len(str(_WIDEST))
_WIDE = re.compile(rb"(?<![0-9.])-?[0-9]{%d,}" % _WIDE_DIGITS)
"""Of a fraction its integer part alone."""
_DIGITS_ALIKE = bytes(ord("0") if each in b"123456789" else each for each in range(256))


def decode_record(decoder: msgspec.json.Decoder[RecordT], data: bytes, what: str) -> RecordT:
    """Return the record; raises UnreadableRecordError, which says it is not `what`."""
    try:
        record = decoder.decode(data)
    except DECODING_ERRORS as error:
        raise UnreadableRecordError(f"not {what}: {error}") from None
    if is_nested_deeply(data):
        raise UnreadableRecordError(f"not {what}: nested more than {MOST_NESTING} levels deep")
    if has_wide_number(data):
        raise UnreadableRecordError(f"not {what}: a number of more than 64 bits")
    return record


def has_wide_number(data: bytes) -> bool:
    """Return whether JSON holds an integer that 64 bits do not.

    >>> [has_wide_number(b'{"a": %d}' % each) for each in (-(2**63), 2**63 - 1, 2**63)]
    [False, False, True]
    """
    # A digit more or less is found ten times as fast as a pattern.
    if b"0" * _WIDE_DIGITS not in data.translate(_DIGITS_ALIKE):
        return False
    found = _WIDE.findall(_STRING.sub(b"", data))
    return any(len(each) > _WIDE_DIGITS + 1 or not _is_int64(int(each)) for each in found)


def _is_int64(number: int) -> bool:
    return -_WIDEST <= number < _WIDEST


def is_nested_deeply(data: bytes) -> bool:
    """Return whether JSON is nested far more than MOST_NESTING levels deep.

    >>> is_nested_deeply(b'{"a": [1, [2]]}'), is_nested_deeply(b"[" * 100 + b"]" * 100)
    (False, True)
    """
    # Strings are taken out only where their brackets may matter: it is the slower step.
    return _has_levels_left(data) and _has_levels_left(_STRING.sub(b"", data))


def _has_levels_left(data: bytes) -> bool:
    """Return whether much is left when one level after the other is taken from the inside."""
    brackets = data.translate(None, _NOT_BRACKETS)
    for _ in range(MOST_NESTING):
        rest = brackets.replace(b"[]", b"").replace(b"{}", b"")
        if rest == brackets:
            break
        brackets = rest
    return len(brackets) > MOST_NESTING
