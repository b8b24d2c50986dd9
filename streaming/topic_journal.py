"""Keeps a cluster's packed topics in Spark's state: a base, and a journal of what changed since.

The rule: each call to the state is a round trip to the JVM. So a batch appends all topics that it
changed with one call, and reads only what the worker does not remember. The newest entry of a topic
in the journal is never older than the one in the base. So base and journal, read in this order,
give the state at every moment.

The base is a map of chunks, each with the topics whose names hash to it (linear hashing: the map
grows by one chunk at a time). The journal is two lists: batches append to one, while the topics of
the other are written into their chunks, some chunks in each batch; then that list is empty. The
lists' lengths are stored separately. Entries beyond a list's length are left over from before, and
the next entries overwrite them. Which chunks a batch writes follows from the stored state and the
batch alone, so a batch that runs again, on whatever worker, writes the same.
"""

import math
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple, TypeVar

import msgspec

from controller_model.records.decoding import DECODING_ERRORS
from controller_model.state.packing import UnreadableStateError
from streaming.state_map import StateMap, StatePart

_LISTS = (StatePart.JOURNAL_0, StatePart.JOURNAL_1)

_T = TypeVar("_T")
_encode = msgspec.msgpack.Encoder().encode
_chunk_decoder = msgspec.msgpack.Decoder(dict[str, bytes])
_entries_decoder = msgspec.msgpack.Decoder(dict[str, bytes | None])


class JournalLimits(NamedTuple):
    """When the journal is written into the base, and how much of it by one batch."""

    chunk_bytes: int = 8 << 10
    """Average size of a chunk: about 30 topics of 10 partitions."""
    base_share: int = 4
    """The journal is due when it is larger than the base divided by this: larger ones cost a new worker more to read."""
    least_bytes: int = 64 << 10
    """A smaller journal is never due."""
    most_bytes: int = 1 << 20
    """A larger journal is always due: the worker holds it in memory in addition to the base."""
    overdue: int = 3
    """A journal of this many times the due size does not wait for a quiet batch."""
    quiet_topics: int = 64
    """A batch that changed no more topics than this is quiet: it has time to write chunks."""
    chunks_at_once: int = 32
    """Chunks that a quiet batch writes: about 5 milliseconds."""
    overdue_batches: int = 8
    """A journal that is just overdue is written within so many batches; a longer one within fewer."""
    piece_partitions: int = 250
    """A topic with more partitions is held in pieces of so many, some 6 KiB each: a change writes one piece."""


class JournalPlace(NamedTuple):
    """What is stored about base and journal, to read them."""

    chunks: int = 1
    """Chunks that the base is hashed into."""
    base_bytes: int = 0
    """Size of all chunks."""
    list: int = 0
    """The list that batches append to, 0 or 1."""
    written: int = 0
    """The other list's topics are in the base if their chunks are below this one."""
    lengths: tuple[int, int] = (0, 0)
    """The number of entries in each list."""

    def with_length(self, number: int, length: int) -> "JournalPlace":
        """Return the place with another length of one list."""
        first, second = self.lengths
        return self._replace(lengths=(first, length) if number else (length, second))


@dataclass
class Entries:
    """The content of one of the journal's lists: the newest entry of each topic, None for a deleted topic."""

    topics: dict[str, bytes | None] = field(default_factory=dict)
    size: int = 0
    """Bytes of all entries, including older ones of the same topic."""


@dataclass
class RememberedTopics:
    """What a worker knows of base and journal: packed topics, of the base only what it has read."""

    chunks: dict[int, bytes] = field(default_factory=dict)
    is_whole: bool = False
    """Whether all chunks are known."""
    lists: tuple[Entries, Entries] | None = None
    """The journal's lists; None until they are read."""

    @property
    def size(self) -> int:
        """How many bytes the packed topics take."""
        lists = sum(each.size for each in self.lists or ())
        return lists + sum(map(len, self.chunks.values()))


class PackedTopics:
    """A cluster's packed topics, by name."""

    def __init__(
        self,
        state: StateMap,
        place: JournalPlace = JournalPlace(),  # noqa: B008  # immutable
        remembered: RememberedTopics | None = None,
        limits: JournalLimits = JournalLimits(),  # noqa: B008  # immutable
    ) -> None:
        self.place = place
        self.remembered = remembered or RememberedTopics()
        self._state = state
        self.limits = limits

    def get(self, name: str) -> bytes | None:
        """Return a packed topic; None when there is none of that name."""
        lists = self._lists()
        for each in (lists[self.place.list], lists[1 - self.place.list]):
            if name in each.topics:
                return each.topics[name]
        return self._read_chunk(_chunk_of(name, self.place.chunks)).get(name)

    def names(self) -> set[str]:
        """Return the names of all topics; reads the whole base."""
        known = self.remembered
        if not known.is_whole:
            known.chunks = self._state.items(StatePart.BASE)
            known.is_whole = True
        names: set[str] = set()
        for index in known.chunks:
            names.update(self._read_chunk(index))
        lists = self._lists()
        for each in (lists[1 - self.place.list], lists[self.place.list]):
            for name, packed in each.topics.items():
                (names.discard if packed is None else names.add)(name)
        return names

    def write(self, changed: Mapping[str, bytes | None]) -> None:
        """Append what a batch changed (None: the topic was deleted); write part of the journal into the base if due."""
        lists = self._lists()
        if changed:
            entries, current = _encode(changed), self.place.list
            length = self.place.lengths[current]
            self._state.put(_LISTS[current], length, entries)
            self.place = self.place.with_length(current, length + 1)
            lists[current].topics.update(changed)
            lists[current].size += len(entries)
        limits = self.limits
        least = max(self.place.base_bytes // limits.base_share, limits.least_bytes)
        due = min(least, limits.most_bytes)
        size = sum(each.size for each in lists)
        overdue = due * limits.overdue
        if size <= overdue and len(changed) > limits.quiet_topics:
            return
        at_once = overdue * limits.overdue_batches
        share = 0.0 if size <= overdue else min(size / at_once, 1.0) if at_once else 1.0
        if lists[1 - self.place.list].size:
            self._compact(share)
        elif size > due:
            self.place = self.place._replace(list=1 - self.place.list, written=0)
            self._compact(share)

    def _lists(self) -> tuple[Entries, Entries]:
        lists = self.remembered.lists
        if lists is None:
            lists = self.remembered.lists = (Entries(), Entries())
            for held, part, length in zip(lists, _LISTS, self.place.lengths, strict=True):
                stored = self._state.items(part) if length else {}
                for number in range(length):
                    entries = stored.get(number, b"")
                    topics = decode_stored(_entries_decoder, entries)
                    held.topics.update(topics)
                    held.size += len(entries)
        return lists

    def _compact(self, share: float) -> None:
        """Write the other list's topics into some chunks, this share of them or more; empty the list after the last."""
        frozen = self._lists()[1 - self.place.list]
        by_chunk: dict[int, list[str]] = {}
        for name in frozen.topics:
            by_chunk.setdefault(_chunk_of(name, self.place.chunks), []).append(name)
        left = sorted(index for index in by_chunk if index >= self.place.written)
        most = max(self.limits.chunks_at_once, math.ceil(len(by_chunk) * share))
        for index in left[:most]:
            topics = self._read_chunk(index)
            for name in by_chunk[index]:
                packed = frozen.topics[name]
                if packed is None:
                    topics.pop(name, None)
                else:
                    topics[name] = packed
            self._write_chunk(index, topics)
            self.place = self.place._replace(written=index + 1)
        for _ in range(most):
            if self.place.base_bytes <= self.place.chunks * self.limits.chunk_bytes:
                break
            self._split()
        if len(left) <= most:
            self.place = self.place.with_length(1 - self.place.list, 0)
            frozen.topics, frozen.size = {}, 0

    def _split(self) -> None:
        """Add a chunk, and move to it the topics of an older chunk that now hash to it."""
        new = self.place.chunks
        old = new - (1 << (new.bit_length() - 1))
        topics = self._read_chunk(old)
        self.place = self.place._replace(chunks=new + 1)
        moved = {name: topics.pop(name) for name in list(topics) if _chunk_of(name, new + 1) == new}
        if moved:
            self._write_chunk(old, topics)
            self._write_chunk(new, moved)

    def _read_chunk(self, index: int) -> dict[str, bytes]:
        known = self.remembered
        packed = known.chunks.get(index)
        if packed is None:
            if known.is_whole:
                return {}
            packed = self._state.get(StatePart.BASE, index) or b""
            known.chunks[index] = packed
        return decode_stored(_chunk_decoder, packed) if packed else {}

    def _write_chunk(self, index: int, topics: Mapping[str, bytes]) -> None:
        old = self.remembered.chunks.get(index, b"")
        new = _encode(topics) if topics else b""
        if new:
            self._state.put(StatePart.BASE, index, new)
        elif old:
            self._state.remove(StatePart.BASE, index)
        self.remembered.chunks[index] = new
        self.place = self.place._replace(base_bytes=self.place.base_bytes + len(new) - len(old))


def _chunk_of(name: str, chunks: int) -> int:
    """Return the chunk of a topic: the low bits of its hash, with one more bit where that chunk exists."""
    hashed = zlib.crc32(name.encode())
    bits = chunks.bit_length()
    index = hashed & ((1 << bits) - 1)
    return index if index < chunks else hashed & ((1 << (bits - 1)) - 1)


def decode_stored(decoder: msgspec.msgpack.Decoder[_T], data: bytes) -> _T:
    """Return what the state holds; raise UnreadableStateError when it is damaged."""
    try:
        return decoder.decode(data)
    except DECODING_ERRORS as error:
        raise UnreadableStateError(f"a damaged state: {error}") from None
