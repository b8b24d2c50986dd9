"""The fold's state as bytes, and back.

The rule: the first byte is the version of the layout, so that no release misreads what another one
packed; a checkpoint of another version is rebuilt from the log.
"""

from __future__ import annotations

from typing import TypeVar

import msgspec

from controller_model.kafka.errors import ModelError
from controller_model.records.decoding import DECODING_ERRORS
from controller_model.state.control_plane import ControlPlane
from controller_model.state.topic_state import TopicState

STATE_VERSION = 3
"""Of the packed values below; a checkpoint of another version is rebuilt from the log."""


class UnreadableStateError(ModelError):
    """A packed value is damaged or of another version: the fold must start from the log."""


_StateT = TypeVar("_StateT")
_encoder = msgspec.msgpack.Encoder()
_control_decoder = msgspec.msgpack.Decoder(ControlPlane)
_topic_decoder = msgspec.msgpack.Decoder(TopicState)
_PREFIX = bytes([STATE_VERSION])


def pack_control(control: ControlPlane) -> bytes:
    """Return the control plane as bytes."""
    control.add_up()
    return _PREFIX + _encoder.encode(control)


def unpack_control(data: bytes) -> ControlPlane:
    """Return the control plane; raises UnreadableStateError."""
    return _unpack(_control_decoder, data)


def pack_topic(topic: TopicState) -> bytes:
    """Return a topic as bytes."""
    return _PREFIX + _encoder.encode(topic)


def unpack_topic(data: bytes) -> TopicState:
    """Return a topic; raises UnreadableStateError."""
    return _unpack(_topic_decoder, data)


def _unpack(decoder: msgspec.msgpack.Decoder[_StateT], data: bytes) -> _StateT:
    if data[:1] != _PREFIX:
        raise UnreadableStateError(f"a state of format {data[:1].hex()}, not {_PREFIX.hex()}")
    try:
        return decoder.decode(memoryview(data)[1:])
    except DECODING_ERRORS as error:
        raise UnreadableStateError(f"a damaged state: {error}") from None
