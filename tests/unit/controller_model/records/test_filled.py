"""Records made from what holds the same fields."""

from __future__ import annotations

import pytest

from controller_model.kafka.ids import AsOf, Position
from controller_model.records.filled import filled


def test_what_is_given_wins_over_what_is_held() -> None:
    """And what is held fills the rest."""
    made = filled(AsOf, Position(1, 7), lineage="l", seq=9)
    assert made == AsOf("l", generation=1, seq=9)


def test_a_field_that_nobody_has_is_our_mistake() -> None:
    """It never falls back to a default in silence."""
    with pytest.raises(AttributeError, match="lineage"):
        filled(AsOf, Position(1, 7))
