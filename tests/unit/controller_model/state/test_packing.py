"""The fold's state, packed into bytes."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec
import pytest

from controller_model.sources.zookeeper.source import ZOOKEEPER
from controller_model.sources.zookeeper.state import ZooKeeperState
from controller_model.state.control_plane import ControlPlane
from controller_model.state.packing import (
    STATE_VERSION,
    UnreadableStateError,
    pack_control,
    pack_topic,
    unpack_control,
    unpack_topic,
)
from controller_model.state.topic_state import PartitionRecord, TopicState
from tests.support.histories import begun


def test_a_state_of_another_format_is_refused() -> None:
    """Another first byte, or damage: the fold must start again, and the error says so."""
    _, fold = begun()
    data = pack_control(fold.state.control)
    for bad in (b"", b"\x63" + data[1:], data[:-3], data[:1] + b"\xc1"):
        with pytest.raises(UnreadableStateError):
            unpack_control(bad)
    topic = fold.state.topic("t")
    assert topic is not None
    assert pack_topic(topic, 250)["t"][:1] == data[:1]
    fold.state.control.source = {"stats": 1}
    with pytest.raises(UnreadableStateError, match="a damaged state: "):
        ZOOKEEPER.adopt(fold.state.control)


def test_a_change_of_one_partition_of_a_wide_topic_changes_its_piece_alone() -> None:
    """And the value under its name, which then holds no partition."""
    wide = _wide(range(1000))
    moved = msgspec.structs.replace(
        wide, partitions={**wide.partitions, 700: PartitionRecord((1, 2), leader=2)}
    )
    before, after = pack_topic(wide, 250), pack_topic(moved, 250)
    assert list(before) == ["wide", "wide/0", "wide/1", "wide/2", "wide/3"]
    assert [key for key in before if before[key] != after[key]] == ["wide/2"]
    assert max(map(len, before.values())) < sum(map(len, before.values())) / 3
    for topic, packed in ((wide, before), (moved, after)):
        pieces = {key: piece for key, piece in packed.items() if key != "wide"}
        assert unpack_topic("wide", packed.get) == (topic, pieces)


def test_a_piece_that_is_lost_is_damage() -> None:
    """No partition is dropped silently."""
    packed = pack_topic(_wide(range(3)), 2)
    del packed["wide/1"]
    with pytest.raises(UnreadableStateError):
        unpack_topic("wide", packed.get)


def _wide(partitions: Iterable[int]) -> TopicState:
    return TopicState("wide", {each: PartitionRecord((1, 2), leader=1) for each in partitions})


def test_what_a_source_cannot_read_of_its_own_state_is_damage() -> None:
    """A value in place of a count and a digest."""
    _, fold = begun()
    packed = msgspec.msgpack.decode(pack_control(fold.state.control)[1:])
    place = list(ControlPlane.__struct_fields__).index("source")
    slot = list(ZooKeeperState.__struct_fields__).index("denied_trees")
    assert packed[place][slot] == {}
    packed[place][slot] = {"/brokers/topics/t": 117}
    control = unpack_control(bytes([STATE_VERSION]) + msgspec.msgpack.encode(packed))
    with pytest.raises(UnreadableStateError):
        ZOOKEEPER.adopt(control)
