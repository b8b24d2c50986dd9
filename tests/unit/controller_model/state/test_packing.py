"""The state as bytes."""

from __future__ import annotations

import pytest

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
