"""Any bytes of a record are read, or only that record is unreadable."""

from __future__ import annotations

import msgspec
import pytest

from controller_model.kafka.errors import UnreadableRecordError
from controller_model.kafka.ids import AsOf
from controller_model.records.changes import decode_message
from controller_model.records.decoding import (
    MAX_NESTING,
    decode_record,
    has_wide_number,
    is_nested_deeply,
)
from controller_model.records.event_records import decode_event, encode_event, number
from controller_model.records.loose_log import decode_line
from controller_model.records.views import decode_view, encode_view
from tests.support.histories import Fold, small_cluster
from tests.support.hostile import WIDE, spoiled, with_a_number
from tests.support.samples import cluster_view

VIEW = encode_view(cluster_view("prod", AsOf("l", 1, 1)))
EVENT = encode_event(number("prod", "l", Fold().follow(small_cluster())[:1], after=None)[0])
CHANGE = msgspec.json.encode(small_cluster().changes[0])
anything = msgspec.json.Decoder()


@pytest.mark.parametrize("harm", spoiled(b"{}"))
def test_no_record_raises_anything_but_that_it_cannot_be_read(harm: str) -> None:
    """For a view, an event, a message of the log, a line of a recording."""
    decoders = [(decode_view, VIEW), (decode_event, EVENT)]
    for decode, good in decoders:
        decode(good)
        try:
            decode(spoiled(good)[harm])
        except UnreadableRecordError as error:
            assert "not a" in str(error)  # noqa: PT017  # what is not refused is read
    alone = decode_line(spoiled(CHANGE)[harm])
    assert len(alone.changes) + alone.unreadable == 1
    try:
        batch = decode_message(b"[" + CHANGE + b"," + spoiled(CHANGE)[harm] + b"]")
    except UnreadableRecordError:
        return
    assert len(batch.changes) + batch.unreadable == 2


def test_a_record_nested_more_deeply_than_the_limit_is_refused() -> None:
    """Nested less deeply than Python's stack allows, but more deeply than the stack left in a request."""
    nested = b'{"a":' + b"[" * (MAX_NESTING + 40) + b"]" * (MAX_NESTING + 40) + b"}"
    assert anything.decode(nested)
    with pytest.raises(UnreadableRecordError, match="not a test: nested more than 64 levels"):
        decode_record(anything, nested, "a test")


def test_wide_records_are_not_deeply_nested() -> None:
    """A topic of a thousand partitions has thousands of brackets, four levels deep."""
    wide = b'{"isr":[' + b",".join([b"[1,2,3]"] * 10_000) + b"]}"
    assert not is_nested_deeply(wide)
    assert decode_record(anything, wide, "a test")


@pytest.mark.parametrize("text", ["[" * 500, '\\"[' * 200, "]}" * 300])
def test_brackets_in_texts_are_not_nesting_levels(text: str) -> None:
    """A reason may contain a payload that was cut."""
    cited = msgspec.json.encode({"reason": text, "others": ["]", '{"', "\\"]})
    assert decode_record(anything, cited, "a test") == anything.decode(cited)


@pytest.mark.parametrize("number", WIDE.values(), ids=WIDE)
def test_a_number_of_more_than_64_bits_in_any_field_is_damage(number: int) -> None:
    """No figure, position or time of kcm is so large; a float cannot hold all of them exactly."""
    for decode, good in ((decode_view, VIEW), (decode_event, EVENT)):
        for harmful in with_a_number(good, number):
            with pytest.raises(UnreadableRecordError):
                decode(harmful)


@pytest.mark.parametrize(
    "text",
    ['"12345678901234567890"', "0.00012345678901234567", "-9223372036854775808", "1e300", "[1,2]"],
)
def test_digits_in_texts_and_fractions_are_not_wide_numbers(text: str) -> None:
    """A topic may have such a name, and a ratio has many digits."""
    assert not has_wide_number(b'{"a":%s}' % text.encode())
