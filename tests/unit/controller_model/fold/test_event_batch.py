"""A batch of changes: what it collects, and which exceptions end it."""

from __future__ import annotations

from typing import Any

import pytest

from controller_model.fold import replay as replay_module
from controller_model.fold.replay import EventBatch
from controller_model.records.events import Anomaly
from controller_model.tracking import incident_tracker
from tests.support.histories import begun, kinds


def failing(*_: Any) -> Any:
    """Raise as a bug of kcm, or a topic store, would."""
    raise ZeroDivisionError("a bug")


def test_events_are_taken_once() -> None:
    """In the order of their changes; the next batch starts without them."""
    history, fold = begun()
    batch = EventBatch(fold.state)
    history.broker_gone(2)
    batch.apply(history.changes[-1])
    history.broker(3)
    batch.apply(history.changes[-1])
    assert kinds(batch.take_events())[:2] == ["BrokerStopped", "IncidentOpened"]
    assert batch.take_events() == batch.finish() == []


def test_an_exception_in_replay_skips_only_its_change(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is counted and reported, and the batch goes on."""
    history, fold = begun()
    batch = EventBatch(fold.state)
    change = history.heartbeat()
    with monkeypatch.context() as patched:
        patched.setattr(replay_module, "replay", failing)
        batch.apply(change)
    batch.apply(history.heartbeat())
    assert batch.errors == fold.state.control.log.view.errors == 1
    reasons = [event.reason for event in batch.finish() if isinstance(event, Anomaly)]
    assert len(reasons) == 1
    assert reasons[0].endswith("ZeroDivisionError: a bug")


def test_an_exception_in_a_tracker_skips_only_its_events(monkeypatch: pytest.MonkeyPatch) -> None:
    """The events that it should have tracked are reported all the same."""
    history, fold = begun()
    batch = EventBatch(fold.state)
    monkeypatch.setattr(incident_tracker, "track", failing)
    history.delete("/controller")
    batch.apply(history.changes[-1])
    anomalies = fold.state.control.log.view.anomalies
    events = batch.finish()
    assert "ControllerVacated" in kinds(events)
    found = [event for event in events if isinstance(event, Anomaly)]
    assert {(event.path, event.reason) for event in found} == {
        ("", "an error of the monitor's own in its accounts: ZeroDivisionError: a bug")
    }
    assert fold.state.control.log.view.errors == len(found)
    assert fold.state.control.log.view.anomalies >= anomalies


@pytest.mark.parametrize("place", [(replay_module, "replay"), (incident_tracker, "track")])
def test_errors_of_the_topic_store_are_raised(
    place: tuple[Any, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are not caused by the changes."""
    history, fold = begun()
    batch = EventBatch(fold.state, fatal=(ZeroDivisionError,))
    monkeypatch.setattr(*place, failing)
    history.delete("/controller")

    def apply_all() -> None:
        batch.apply(history.changes[-1])
        batch.finish()

    with pytest.raises(ZeroDivisionError):
        apply_all()
    assert batch.errors == 0
