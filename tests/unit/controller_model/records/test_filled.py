"""Records that take fields from another object of the same names."""

from __future__ import annotations

import pytest

from controller_model.kafka.ids import AsOf, Position
from controller_model.records.filled import filled


def test_given_fields_win_over_fields_of_the_object() -> None:
    """The object gives all other fields."""
    made = filled(AsOf, Position(1, 7), lineage="l", seq=9)
    assert made == AsOf("l", generation=1, seq=9)


def test_a_field_that_is_neither_given_nor_held_raises() -> None:
    """It never uses a default silently."""
    with pytest.raises(AttributeError, match="lineage"):
        filled(AsOf, Position(1, 7))
