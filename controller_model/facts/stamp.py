"""The stamp of a fact: when and where its source made the statement."""

from typing import TypedDict

import msgspec

from controller_model.kafka.ids import Position


class Stamp(msgspec.Struct, frozen=True, gc=False):
    """When and where a statement was made."""

    at: int
    """Milliseconds since 1970, by the log's clock."""
    position: Position
    number: int | None = None
    """The source's own number of the change: the zxid in ZooKeeper, the offset in KRaft. None where it has none."""
    place: str = ""
    """What the source read, as operators name it: the znode's path."""


class Where(TypedDict):
    """An event's own fields, as keywords."""

    at: int
    position: Position
    source_number: int | None


def where(stamp: Stamp) -> Where:
    """Return when and where an event was shown, as keywords for its constructor."""
    return {"at": stamp.at, "position": stamp.position, "source_number": stamp.number}
