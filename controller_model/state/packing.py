"""Pack the fold's state into bytes, and unpack it.

The first byte of a value is the version of the layout, so that no release misreads what another one
packed. A checkpoint of another version is rebuilt from the log.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

import msgspec

from controller_model.kafka.errors import ModelError
from controller_model.records.decoding import DECODING_ERRORS
from controller_model.state.contribution import Membership
from controller_model.state.control_plane import ControlPlane
from controller_model.state.topic_state import PartitionRecord, TopicState

STATE_VERSION = 2
"""The version of the packed values; a checkpoint of another version is rebuilt from the log."""

MEMBER_GROUPS = 64
"""Into how many values memberships are split, by broker: they are pairs of brokers, and a change touches few
of them. A storm that touches all brokers writes at most this many values."""


class UnreadableStateError(ModelError):
    """A packed value is damaged or of another version: the fold must start from the log."""


_StateT = TypeVar("_StateT")
_encoder = msgspec.msgpack.Encoder()
Members = dict[int, dict[Membership, int]]
"""Memberships by broker, as in `Contribution.members`."""

_members_decoder: msgspec.msgpack.Decoder[Members] = msgspec.msgpack.Decoder(Members)
_control_decoder = msgspec.msgpack.Decoder(ControlPlane)
_Partitions = dict[int, PartitionRecord]
_topic_decoder = msgspec.msgpack.Decoder(tuple[TopicState, tuple[int, ...]])
_partitions_decoder = msgspec.msgpack.Decoder(_Partitions)
_PREFIX = bytes([STATE_VERSION])


def pack_control(control: ControlPlane) -> bytes:
    """Return the control plane as bytes, without its memberships (`pack_members`)."""
    control.add_up()
    counted = msgspec.structs.replace(control.counted, members={})
    return _PREFIX + _encoder.encode(msgspec.structs.replace(control, counted=counted))


def pack_members(
    control: ControlPlane, brokers: Iterable[int]
) -> Iterator[tuple[int, bytes | None]]:
    """Yield the number and the bytes of each group with memberships of these brokers; None: the group is empty."""
    groups: dict[int, Members] = {broker % MEMBER_GROUPS: {} for broker in brokers}
    for broker, members in control.totals.members.items() if groups else ():
        if (group := groups.get(broker % MEMBER_GROUPS)) is not None:
            group[broker] = members
    for number, group in groups.items():
        yield number, _PREFIX + _encoder.encode(group) if group else None


def unpack_control(data: bytes, members: Iterable[bytes] = ()) -> ControlPlane:
    """Return the control plane with these groups of memberships; raises UnreadableStateError."""
    control = _unpack(_control_decoder, data)
    for packed in members:
        group: Members = _unpack(_members_decoder, packed)
        control.counted.members.update(group)
    return control


def pack_topic(topic: TopicState, piece_partitions: int) -> dict[str, bytes]:
    """Return a topic as values by key: one under its name, and for a wide topic its partitions in pieces.

    A change of one partition leaves the bytes of all other pieces as they are.
    """
    pieces: dict[int, _Partitions] = {}
    if len(topic.partitions) > piece_partitions:
        for partition, record in topic.partitions.items():
            pieces.setdefault(partition // piece_partitions, {})[partition] = record
        topic = msgspec.structs.replace(topic, partitions={})
    packed = {topic.name: _PREFIX + _encoder.encode((topic, tuple(pieces)))}
    for number, piece in pieces.items():
        packed[f"{topic.name}/{number}"] = _PREFIX + _encoder.encode(piece)
    return packed


def unpack_topic(
    name: str, read: Callable[[str], bytes | None]
) -> tuple[TopicState | None, dict[str, bytes]]:
    """Return a topic from what `read` returns for its keys, and its pieces as they are stored, by key.

    The topic is None if nothing is under its name. Raises UnreadableStateError if a value is damaged or of
    another version.
    """
    data = read(name)
    if data is None:
        return None, {}
    topic, numbers = _unpack(_topic_decoder, data)
    if not numbers:
        return topic, {}
    pieces = {(key := f"{name}/{number}"): read(key) or b"" for number in numbers}
    partitions: _Partitions = {}
    for piece in pieces.values():
        held: _Partitions = _unpack(_partitions_decoder, piece)
        partitions.update(held)
    return msgspec.structs.replace(topic, partitions=partitions), pieces


def is_topic_key(key: str) -> bool:
    """Return whether a key is a topic's name, not a piece's key: no name contains a slash."""
    return "/" not in key


def _unpack(decoder: msgspec.msgpack.Decoder[_StateT], data: bytes) -> _StateT:
    if data[:1] != _PREFIX:
        raise UnreadableStateError(f"a state of format {data[:1].hex()}, not {_PREFIX.hex()}")
    try:
        return decoder.decode(memoryview(data)[1:])
    except DECODING_ERRORS as error:
        raise UnreadableStateError(f"a damaged state: {error}") from None


def own_state(held: object, kind: type[_StateT]) -> _StateT:
    """Return a source's own state of this kind: a new one for None, or what was unpacked, which has no type yet.

    Raises UnreadableStateError for what is none.
    """
    if held is None:
        return kind()
    if isinstance(held, kind):
        return held
    try:
        return msgspec.convert(held, kind)
    except DECODING_ERRORS as error:
        raise UnreadableStateError(f"a damaged state: {error}") from None
