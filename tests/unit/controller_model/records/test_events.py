"""Events: every kind can be in the record, and holds where it was seen."""

from __future__ import annotations

from typing import get_args

from controller_model.records import events
from controller_model.records.events import (
    AnyEvent,
    Event,
)


def test_every_event_of_the_module_is_in_the_record() -> None:
    """A kind that is not in the union could be reported, but never read."""
    declared = {
        value
        for value in vars(events).values()
        if isinstance(value, type) and issubclass(value, Event) and value is not Event
    }
    assert set(get_args(AnyEvent)) == declared
