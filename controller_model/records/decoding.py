"""Decode bytes that anybody may have written, whatever is in them.

A damaged or hostile record is lost, and nothing else fails. Code that decodes what came
over a network or from a file catches `DECODING_ERRORS`, or calls `decode_record`.
"""

import re
from typing import Annotated, TypeVar

import msgspec

from controller_model.kafka.errors import UnreadableRecordError

DECODING_ERRORS = (ValueError, RecursionError)
"""What a JSON decoder, msgspec's or Python's, can raise for any bytes.

DecodeError and UnicodeDecodeError are ValueErrors. Nesting deeper than the remaining stack is a
RecursionError, in skipped fields too."""

MAX_NESTING = 64
"""Levels of nesting of a record that is kept as bytes; kcm's own have five. How many a decoder takes depends on
the stack on which it is called, so a deeper record could be accepted here and fail a reader later."""

Name = Annotated[str, msgspec.Meta(max_length=1_000)]
"""The name of a watcher or a server; none is longer. A view with several names of megabytes would fit into no message."""

_WIDEST = 2**63
"""No number of kcm's is this large, or below its negative. A number of some hundred digits does not fit into a
float, and no record of the log could follow a generation of twenty digits."""

RecordT = TypeVar("RecordT")

_NOT_BRACKETS = bytes(each for each in range(256) if each not in b"[]{}")
_STRING = re.compile(rb'"(?:[^"\\]|\\.)*"', re.DOTALL)
_WIDE_DIGITS = len(str(_WIDEST))
_WIDE = re.compile(rb"(?<![0-9.])-?[0-9]{%d,}" % _WIDE_DIGITS)
"""Matches only the integer part of a fraction."""
_DIGITS_ALIKE = bytes(ord("0") if each in b"123456789" else each for each in range(256))


def decode_record(decoder: msgspec.json.Decoder[RecordT], data: bytes, what: str) -> RecordT:
    """Return the decoded record; raise UnreadableRecordError, which says that it is not `what`."""
    try:
        record = decoder.decode(data)
    except DECODING_ERRORS as error:
        raise UnreadableRecordError(f"not {what}: {error}") from None
    if is_nested_deeply(data):
        raise UnreadableRecordError(f"not {what}: nested more than {MAX_NESTING} levels deep")
    if has_wide_number(data):
        raise UnreadableRecordError(f"not {what}: a number of more than 64 bits")
    return record


def has_wide_number(data: bytes) -> bool:
    """Return whether JSON holds an integer that does not fit into 64 bits.

    >>> [has_wide_number(b'{"a": %d}' % each) for each in (-(2**63), 2**63 - 1, 2**63)]
    [False, False, True]
    """
    # A search for a run of so many digits is ten times as fast as the pattern.
    if b"0" * _WIDE_DIGITS not in data.translate(_DIGITS_ALIKE):
        return False
    found = _WIDE.findall(_STRING.sub(b"", data))
    return any(
        len(each) > _WIDE_DIGITS + 1 or not -_WIDEST <= int(each) < _WIDEST for each in found
    )


def is_nested_deeply(data: bytes) -> bool:
    """Return whether JSON is nested far more than MAX_NESTING levels deep.

    >>> is_nested_deeply(b'{"a": [1, [2]]}'), is_nested_deeply(b"[" * 100 + b"]" * 100)
    (False, True)
    """
    # Strings are removed only where their brackets may matter, because that is slower.
    for strings in (None, _STRING):
        brackets = (data if strings is None else strings.sub(b"", data)).translate(
            None, _NOT_BRACKETS
        )
        # Levels are removed one by one, from the inside.
        for _ in range(MAX_NESTING):
            rest = brackets.replace(b"[]", b"").replace(b"{}", b"")
            if rest == brackets:
                break
            brackets = rest
        if len(brackets) <= MAX_NESTING:
            return False
    return True
