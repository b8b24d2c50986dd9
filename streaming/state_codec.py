"""Reads and writes the model's state in Spark's state store.

A batch unpacks each topic that it touches once and packs it once, however many changes it
has for it. Nothing is written before the whole batch is folded.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

import msgspec

from controller_model.records.event_records import EventId
from controller_model.state.control_plane import ControlPlane
from controller_model.state.packing import (
    is_topic_key,
    pack_control,
    pack_members,
    pack_topic,
    unpack_control,
    unpack_topic,
)
from controller_model.state.topic_state import TopicState
from streaming.state_map import StateMap, StatePart
from streaming.topic_journal import JournalPlace, PackedTopics, decode_stored

_CONTROL_KEY = 0
"""The only key of its part."""


@dataclass
class StoredCluster:
    """What the state store holds of a cluster, in addition to its topics."""

    control: ControlPlane
    folds: int = 0
    """Batches folded so far."""
    last_event: EventId | None = None
    place: JournalPlace = field(default_factory=JournalPlace)


class ControlRow(NamedTuple):
    """The control plane as it is stored.

    It identifies that state: it holds the digest over the tree, and the position up to which the
    log is folded.
    """

    packed: bytes
    folds: int
    event_generation: int
    event_seq: int
    event_index: int
    place: JournalPlace
    """The place of the topics' base and journal."""

    def unpack(self, members: Iterable[bytes], lineage: str) -> StoredCluster:
        """Return what is stored of the current cluster; `members` are the memberships of each group of brokers.

        Raise UnreadableStateError when another version of the model wrote it.
        """
        control = unpack_control(self.packed, members)
        event = self.event_generation, self.event_seq, self.event_index
        last = EventId(lineage, *event) if self.event_generation or self.event_index else None
        return StoredCluster(control, self.folds, last, self.place)


_row_decoder = msgspec.msgpack.Decoder(ControlRow)
_encode = msgspec.msgpack.Encoder().encode


def read_control(state: StateMap) -> ControlRow | None:
    """Return the current cluster's control plane, packed; None when nothing is stored yet.

    Raise UnreadableStateError when it is damaged.
    """
    row = state.get(StatePart.CONTROL, _CONTROL_KEY)
    return None if row is None else decode_stored(_row_decoder, row)


def write_control(
    state: StateMap, held: StoredCluster, stored_members: dict[int, bytes]
) -> ControlRow:
    """Store what is held of the current cluster; return the row that identifies that state.

    Only those groups' memberships are written that differ from what is stored.
    """
    control, last = held.control, held.last_event
    event = (last.generation, last.seq, last.index) if last else (0, 0, 0)
    row = ControlRow(pack_control(control), held.folds, *event, held.place)
    for group, packed in pack_members(control, control.touched):
        if packed == stored_members.get(group):
            continue
        if packed is None:
            state.remove(StatePart.MEMBERS, group)
            del stored_members[group]
        else:
            state.put(StatePart.MEMBERS, group, packed)
            stored_members[group] = packed
    control.touched.clear()
    state.put(StatePart.CONTROL, _CONTROL_KEY, _encode(row))
    return row


class StateTopics:
    """A cluster's topics, packed in the state: unpacked at first use, written by `flush` (a TopicStore)."""

    def __init__(self, packed: PackedTopics) -> None:
        self._packed = packed
        self._known: dict[str, TopicState | None] = {}
        self._pieces: dict[str, dict[str, bytes]] = {}
        """For each known topic, the pieces as they are stored; empty if it is stored as a whole."""
        self._names: dict[str, str | None] = {}
        """The topic ids that were looked up or stored, with their names."""
        self._renamed: dict[str, None] = {}
        """The ids whose names are to be written."""
        self._changed: dict[str, None] = {}
        """Names in the order in which the topics changed, so that a batch that runs again writes the same."""

    def get(self, name: str) -> TopicState | None:
        """Return a topic; None when there is none of that name."""
        try:
            return self._known[name]
        except KeyError:
            topic, self._pieces[name] = unpack_topic(name, self._packed.get)
            self._known[name] = topic
            return topic

    def peek(self, name: str) -> TopicState | None:
        """Return a topic without keeping it: a walk over all topics holds one at a time."""
        return self._known[name] if name in self._known else unpack_topic(name, self._packed.get)[0]

    def put(self, topic: TopicState) -> None:
        """Keep a topic that is new or has changed."""
        name = topic.name
        if name not in self._known:
            self.get(name)
        self._known[name] = topic
        self._changed[name] = None

    def remove(self, name: str) -> None:
        """Forget a topic."""
        self.get(name)
        self._known[name] = None
        self._changed[name] = None

    def names(self) -> Iterable[str]:
        """Return the names of all topics."""
        gone = {name for name, topic in self._known.items() if topic is None}
        return sorted(({*filter(is_topic_key, self._packed.names())} | set(self._known)) - gone)

    def name_of(self, topic_id: str) -> str | None:
        """Return the name that was stored for a topic id; None when there is none."""
        try:
            return self._names[topic_id]
        except KeyError:
            stored = self._packed.get(_id_key(topic_id))
            name = self._names[topic_id] = None if stored is None else stored.decode()
            return name

    def put_name(self, topic_id: str, name: str | None) -> None:
        """Keep the name of a topic id; None removes it."""
        self._names[topic_id] = name
        self._renamed[topic_id] = None

    def flush(self) -> None:
        """Write the changed topics, of a topic in pieces only the changed ones; once, at the end of a batch."""
        changed: dict[str, bytes | None] = {}  # by key; None for a key to remove
        for name in self._changed:
            topic, stored = self._known[name], self._pieces[name]
            limit = self._packed.limits.piece_partitions
            packed = {} if topic is None else pack_topic(topic, limit)
            changed |= dict.fromkeys(key for key in (name, *stored) if key not in packed)
            changed |= {key: value for key, value in packed.items() if stored.get(key) != value}
        for topic_id in self._renamed:
            new_name = self._names[topic_id]
            changed[_id_key(topic_id)] = None if new_name is None else new_name.encode()
        self._packed.write(changed)


def _id_key(topic_id: str) -> str:
    """Return the key under which the name of a topic id is stored: none of a topic, as a slash shows (`is_topic_key`)."""
    return f"{topic_id}/id"
