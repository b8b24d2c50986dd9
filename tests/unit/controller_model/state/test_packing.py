"""The state as bytes."""

from __future__ import annotations

import msgspec
import pytest

from controller_model.state.control_plane import ControlPlane
from controller_model.state.packing import (
    UnreadableStateError,
    pack_control,
    pack_topic,
    unpack_control,
)
from tests.support.histories import begun


def test_a_state_of_another_format_is_refused() -> None:
    """Another first byte, or damage: the fold must start again, and says so."""
    _, fold = begun()
    data = pack_control(fold.state.control)
    for bad in (b"", b"\x63" + data[1:], data[:-3], data[:1] + b"\xc1"):
        with pytest.raises(UnreadableStateError):
            unpack_control(bad)
    topic = fold.state.topic("t")
    assert topic is not None
    assert pack_topic(topic)[:1] == data[:1]


def test_a_state_of_before_elections_had_origins_is_read() -> None:
    """What was appended since has its defaults; the layout's version stays, so the fold goes on from its checkpoint."""
    _, fold = begun()
    data = pack_control(fold.state.control)
    fields = ControlPlane.__struct_fields__
    held = msgspec.msgpack.decode(data[1:], strict=False)
    assert fields[-1] == "elections"
    before = held[:-1]
    before[fields.index("assumed")] = before[fields.index("assumed")][:2]
    before[fields.index("recommendations")] = before[fields.index("recommendations")][:10]
    older = unpack_control(data[:1] + msgspec.msgpack.encode(before))
    assert older == unpack_control(data)
    assert older.assumed.auto_leader_rebalance
