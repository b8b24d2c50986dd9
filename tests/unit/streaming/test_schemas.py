"""The state's format has a version: what a checkpoint holds never changes under the same version."""

from __future__ import annotations

import hashlib
from typing import Any

import msgspec

from controller_model.sources.kraft.state import KraftState
from controller_model.sources.zookeeper.state import ZooKeeperState
from controller_model.state.control_plane import ControlPlane
from controller_model.state.packing import STATE_VERSION, Members
from controller_model.state.topic_state import TopicState
from streaming.schemas import LAYOUT_VERSION, STATE_KEY, STATE_VALUE
from streaming.state_codec import ControlRow

FINGERPRINTS = {(1, 3): "10e663efe2f4e4ff", (2, 3): "3abcdd282fffcdc0"}
"""By STATE_VERSION and LAYOUT_VERSION, the fingerprint of the layouts in a checkpoint of that
format. Another layout needs another version, or the next release's fold would misread this one's
checkpoint. Before a release has shipped with a version, its fingerprint may be replaced; afterwards if every value of
the former layout is read as what it was, or refused (`test_packing.py`)."""


def layout(type_: msgspec.inspect.Type, *, seen: tuple[type, ...] = ()) -> Any:
    """Return how values of a type are packed: names, order, defaults and kinds of all fields."""
    if isinstance(type_, msgspec.inspect.StructType):
        if type_.cls in seen:
            return type_.cls.__name__
        return [
            [field.encode_name, field.required, layout(field.type, seen=(*seen, type_.cls))]
            for field in type_.fields
        ]
    if isinstance(type_, msgspec.inspect.EnumType):
        return [str(member.value) for member in type_.cls]
    parts = {name: getattr(type_, name) for name in type_.__struct_fields__}
    inner = {
        name: [layout(each, seen=seen) for each in (part if isinstance(part, tuple) else (part,))]
        for name, part in parts.items()
        if isinstance(part, msgspec.inspect.Type)
        or (isinstance(part, tuple) and all(isinstance(p, msgspec.inspect.Type) for p in part))
    }
    if isinstance(type_, msgspec.inspect.NamedTupleType):
        inner = {"fields": [[f.name, layout(f.type, seen=seen)] for f in type_.fields]}
    return [type(type_).__name__, inner]


def fingerprint() -> str:
    """Return what distinguishes one format of the state from another."""
    packed = [
        layout(msgspec.inspect.type_info(each))
        for each in (ControlRow, ControlPlane, ZooKeeperState, KraftState, Members, TopicState)
    ]
    spark = [each.json() for each in (STATE_KEY, STATE_VALUE)]
    return hashlib.sha256(repr((packed, spark)).encode()).hexdigest()[:16]


def test_a_changed_state_layout_needs_a_new_version() -> None:
    """A change of the layouts in a checkpoint must raise STATE_VERSION (or LAYOUT_VERSION)."""
    assert FINGERPRINTS.get((STATE_VERSION, LAYOUT_VERSION)) == fingerprint()
