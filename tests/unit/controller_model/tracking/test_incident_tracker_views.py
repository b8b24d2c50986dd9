"""Incidents: what the views and events contain of them."""

from __future__ import annotations

from controller_model.kafka.ids import Position
from controller_model.records.incidents import INCIDENTS_KEPT
from controller_model.records.views import IncidentsView
from tests.support.failing import beat, begun, closed, opened, quiet
from tests.support.histories import kinds


def test_the_list_of_controllers_in_an_incident_is_limited() -> None:
    """A controller that flaps all night does not make an endless record."""
    history, fold = begun()
    for turn in range(40):
        history.delete("/controller")
        history.elect(turn % 2)
    fold.follow(history)
    assert opened(fold).controller_elections == 40
    assert len(opened(fold).controllers) == 20


def test_the_view_lists_the_newest_incidents_and_counts_all() -> None:
    """A limited number, newest first, the open one in front."""
    history, fold = begun()
    for _ in range(INCIDENTS_KEPT + 3):
        history.delete("/controller")
        history.elect(0)
        fold.follow(history)
        quiet(history, fold)
        none = fold.cluster_view().incidents
        assert (none.open, none.open_since, none.opened_by) == (None, None, None)
    history.delete("/controller")
    fold.follow(history)
    view = fold.views()["prod/incidents"]
    assert isinstance(view, IncidentsView)
    assert view.total == INCIDENTS_KEPT + 4
    assert [i.number for i in view.incidents] == list(range(view.total, 3, -1))
    assert view.incidents[0].closed_at is None
    shown = fold.cluster_view().incidents
    assert (shown.total, shown.open) == (view.total, view.total)
    assert shown.open_since == view.incidents[0].started_at == shown.last_started_at
    assert shown.last_closed_at == view.incidents[1].closed_at
    assert shown.opened_by == "ControllerVacated"
    assert shown.total_ms >= sum(i.lasted_ms for i in view.incidents[1:])


def test_the_view_is_sent_when_it_changed_and_after_each_proof() -> None:
    """A fold that resumed from an older checkpoint may have reported another incident."""
    history, fold = begun()
    assert "prod/incidents" in fold.views()
    beat(history, fold, 1)
    assert "prod/incidents" not in fold.views()
    history.reconciled()
    fold.follow(history)
    assert "prod/incidents" in fold.views()
    history.delete("/controller")
    fold.follow(history)
    assert "prod/incidents" in fold.views()


def test_an_open_incident_is_shown_as_it_is_now() -> None:
    """Not as it was at the last heartbeat: the incident changes at samples, the view with each batch."""
    history, fold = begun(single={0: (2,)})
    history.broker_gone(2)
    history.state("single", 0, leader=-1, isr=[2], leader_epoch=1)
    beat(history, fold, 1)
    history.broker(2)
    history.state("single", 0, leader=2, isr=[2], leader_epoch=2)
    fold.follow(history)
    view = fold.views()["prod/incidents"]
    assert isinstance(view, IncidentsView)
    (shown,) = view.incidents
    assert shown.still == ()
    assert (shown.offline_last, shown.offline_peak) == (0, 1)
    assert shown.summary.endswith("all is well again.")
    assert opened(fold).still == ("1 partition offline",), "as of when the broker was back"
    history.start_resync()
    history.set("/controller_epoch", "2")
    history.delete("/controller")
    fold.follow(history)
    view = fold.views()["prod/incidents"]
    assert isinstance(view, IncidentsView)
    assert view.incidents[0].still == ("1 partition offline",), "in a resync nobody can tell"


def test_incident_events_have_the_position_of_their_change_or_sample() -> None:
    """The opening has the position of the first abnormal change, the end that of the sample that found it."""
    history, fold = begun()
    history.delete("/controller")
    vacated = history.seq
    history.elect(0)
    fold.follow(history)
    quiet(history, fold)
    begin, end = fold.accounts
    assert begin.position == Position(1, vacated)
    assert kinds([begin, end]) == ["IncidentOpened", "IncidentClosed"]
    assert end.at == closed(fold).closed_at
