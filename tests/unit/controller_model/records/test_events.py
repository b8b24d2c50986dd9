"""Events: every kind can be in the record, and holds where it was seen."""

from __future__ import annotations

from typing import get_args

import pytest

from controller_model.kafka.ids import Position
from controller_model.records import events
from controller_model.records.changes import ChangeKind, ZnodeChange
from controller_model.records.events import (
    AnyEvent,
    Event,
    where,
)


def test_every_event_of_the_module_is_in_the_record() -> None:
    """A kind that is not in the union could be reported, but never read."""
    declared = {
        value
        for value in vars(events).values()
        if isinstance(value, type) and issubclass(value, Event) and value is not Event
    }
    assert set(get_args(AnyEvent)) == declared


@pytest.mark.parametrize(("mzxid", "zxid"), [(None, 8), (5, 5), (0, 0)])
def test_an_event_has_the_position_and_zxid_of_its_change(mzxid: int | None, zxid: int) -> None:
    """The zxid of the value, or of the read if there is none."""
    change = ZnodeChange(
        v=1, cluster="c", generation=2, watcher="w", seq=3, kind=ChangeKind.DELETED, observed_at=4,
        mzxid=mzxid, read_zxid=8,
    )  # fmt: skip
    assert where(change) == {"at": 4, "position": Position(2, 3), "zxid": zxid}
