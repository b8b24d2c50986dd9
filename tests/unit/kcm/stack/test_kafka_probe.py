"""Reading a broker's metadata answer, byte by byte."""

from __future__ import annotations

import struct

import pytest

from kcm.stack.kafka_probe import CORRELATION_ID, BrokersSeen, ProbeError, parse_metadata


def string(text: str | None) -> bytes:
    """Encode a nullable string of Kafka's protocol."""
    return struct.pack(">h", -1) if text is None else struct.pack(">h", len(text)) + text.encode()


def answer(*racks: str | None, controller_id: int, correlation_id: int = CORRELATION_ID) -> bytes:
    """Encode an answer with one broker per rack, ids from 0."""
    brokers = b"".join(
        struct.pack(">i", i) + string("127.0.0.1") + struct.pack(">i", 9092) + string(rack)
        for i, rack in enumerate(racks)
    )
    head = struct.pack(">ii", correlation_id, len(racks))
    return head + brokers + struct.pack(">ii", controller_id, 0)


def test_brokers_and_controller_are_read() -> None:
    """Ids are read past hosts and racks, racks present or null."""
    seen = parse_metadata(answer(None, "rack-b", "", controller_id=2))
    assert seen == BrokersSeen(frozenset({0, 1, 2}), 2)


def test_a_cluster_without_a_controller_is_told() -> None:
    """No controller is -1, as Kafka says it."""
    assert parse_metadata(answer(controller_id=-1)) == BrokersSeen(frozenset(), -1)


def test_every_cut_is_an_error() -> None:
    """An answer cut short anywhere before its controller's id is refused, never misread."""
    whole = answer(None, "rack-b", controller_id=1)[:-4]
    for length in range(len(whole)):
        with pytest.raises(ProbeError):
            parse_metadata(whole[:length])


def test_an_answer_to_another_request_is_refused() -> None:
    """A server that speaks something else is not taken for a broker."""
    with pytest.raises(ProbeError, match="somebody else"):
        parse_metadata(answer(controller_id=1, correlation_id=99))
