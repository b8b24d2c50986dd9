"""A cluster's map of state gives the same answers before and after all of it was read."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from bench.map_state import DictMapState
from streaming.state_map import StateMap, StatePart


class CountedMapState(DictMapState):
    """A MapState that counts how often all of it is read, and how often one value."""

    def __init__(self, rows: dict[Any, Any] | None = None) -> None:
        super().__init__(rows)
        self.reads = {"value": 0, "all": 0}

    def getValue(self, key: Any) -> Any:  # noqa: N802  # Spark's name
        """Return the value of a key, or None."""
        self.reads["value"] += 1
        return super().getValue(key)

    def iterator(self) -> Iterator[Any]:
        """Return all keys with their values."""
        self.reads["all"] += 1
        return super().iterator()


ROWS = {
    (StatePart.CONTROL, 0): (bytearray(b"c"),),
    (StatePart.BASE, 0): (bytearray(b"b0"),),
    (StatePart.BASE, 7): (bytearray(b"b7"),),
}
"""Binaries as Spark returns them: they are not bytes."""


@pytest.fixture
def rows() -> CountedMapState:
    """A state with some values in two parts."""
    return CountedMapState(dict(ROWS))


def test_all_parts_are_read_with_a_single_scan(rows: CountedMapState) -> None:
    """A caller that needs all of one part needs all of the others, and then reads no single value."""
    state = StateMap(rows)
    assert state.items(StatePart.BASE) == {0: b"b0", 7: b"b7"}
    assert state.items(StatePart.CONTROL) == {0: b"c"}
    assert state.items(StatePart.JOURNAL_1) == {}
    assert (state.get(StatePart.BASE, 7), state.get(StatePart.BASE, 1)) == (b"b7", None)
    assert rows.reads == {"value": 0, "all": 1}


def test_a_single_value_is_read_by_its_key(rows: CountedMapState) -> None:
    """A batch that needs little reads little; values are returned as bytes."""
    state = StateMap(rows)
    value = state.get(StatePart.BASE, 7)
    assert (value, type(value)) == (b"b7", bytes)
    assert state.get(StatePart.MEMBERS, 7) is None
    assert rows.reads == {"value": 2, "all": 0}


@pytest.mark.parametrize("is_read", [False, True])
def test_writes_reach_the_state_and_the_values_already_read(
    is_read: bool, rows: CountedMapState
) -> None:
    """Whether everything was read before or not; removing a missing key has no effect."""
    state = StateMap(rows)
    if is_read:
        state.items(StatePart.BASE)
    state.put(StatePart.BASE, 0, b"new")
    state.put(StatePart.JOURNAL_0, 3, b"first")
    state.remove(StatePart.BASE, 7)
    state.remove(StatePart.MEMBERS, 1)
    assert (state.get(StatePart.BASE, 0), state.get(StatePart.BASE, 7)) == (b"new", None)
    assert state.items(StatePart.BASE) == {0: b"new"}
    assert state.items(StatePart.JOURNAL_0) == {3: b"first"}
    assert rows.part(StatePart.BASE) == {0: b"new"}
    assert StateMap(rows).items(StatePart.JOURNAL_0) == {3: b"first"}
    state.clear()
    assert rows.rows == {}
    assert (state.items(StatePart.JOURNAL_0), state.get(StatePart.CONTROL, 0)) == ({}, None)
    state.put(StatePart.CONTROL, 0, b"begun")
    assert StateMap(rows).get(StatePart.CONTROL, 0) == b"begun"


def test_items_returns_a_copy(rows: CountedMapState) -> None:
    """Changing it changes no state."""
    state = StateMap(rows)
    state.items(StatePart.BASE).clear()
    assert state.items(StatePart.BASE) == {0: b"b0", 7: b"b7"}


def test_the_numbers_of_the_state_parts_are_fixed() -> None:
    """They are part of checkpoints: with other numbers one part would be taken for another."""
    assert {part.name: part.value for part in StatePart} == {
        "CONTROL": 0,
        "MEMBERS": 1,
        "BASE": 2,
        "JOURNAL_0": 3,
        "JOURNAL_1": 4,
    }
