"""What differs between two snapshots of a cluster, field by field.

A difference names the path of a field in the snapshot's JSON, and its two values. Something
that exists on one side only is one difference, however much it contains. The positions of the
snapshots in the log are not compared.
"""

from collections.abc import Iterator
from typing import Any

import msgspec

from controller_model.history.snapshot import AsOfLog, Snapshot

_NO_FACTS = frozenset({"cluster", "as_of", "at", "unproven_from"})


class Difference(msgspec.Struct, frozen=True, kw_only=True):
    """One field, or one thing that only one side has."""

    path: tuple[str, ...]
    """The keys from the outside in, such as topics, t, partitions, 0, leader."""
    before: Any
    """None also if there is nothing."""
    after: Any


class Side(msgspec.Struct, frozen=True, kw_only=True):
    """The position and the time of one of the snapshots."""

    as_of: AsOfLog
    at: int


class SnapshotDiff(msgspec.Struct, frozen=True, kw_only=True):
    """All differences between two snapshots of one cluster."""

    cluster: str | None
    before: Side
    after: Side
    differences: tuple[Difference, ...]


def diff(before: Snapshot, after: Snapshot) -> SnapshotDiff:
    """Return what changed from one snapshot to another."""
    found = [
        difference
        for name in Snapshot.__struct_fields__
        if name not in _NO_FACTS
        for difference in _compare((name,), getattr(before, name), getattr(after, name))
    ]
    return SnapshotDiff(
        cluster=after.cluster,
        before=Side(as_of=before.as_of, at=before.at),
        after=Side(as_of=after.as_of, at=after.at),
        differences=tuple(found),
    )


def encode_diff(found: SnapshotDiff) -> bytes:
    """Return the differences as one line of JSON."""
    return msgspec.json.encode(found)


def _compare(path: tuple[str, ...], before: Any, after: Any) -> Iterator[Difference]:
    if before == after:
        return
    old, new = _parts(before), _parts(after)
    if old is None or new is None:
        yield Difference(path=path, before=_plain(before), after=_plain(after))
        return
    for key in {**old, **new}:
        yield from _compare((*path, str(key)), old.get(key), new.get(key))


def _parts(value: Any) -> dict[Any, Any] | None:
    """Return the parts of a value; None for a plain one, such as a list of replicas."""
    if isinstance(value, dict):
        return value
    if isinstance(value, msgspec.Struct):
        return msgspec.structs.asdict(value)
    return None


def _plain(value: Any) -> Any:
    return msgspec.to_builtins(value, str_keys=True)
