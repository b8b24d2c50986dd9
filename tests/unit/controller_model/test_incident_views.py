"""Incidents: what the views and events say of them, and the sentence."""

from __future__ import annotations

import msgspec

from controller_model.insights.incident_sentence import sentence
from controller_model.kafka.ids import Position
from controller_model.metrics import incidents
from controller_model.records.incidents import INCIDENTS_KEPT, Incident, IncidentEnd
from controller_model.records.views import IncidentsView
from tests.support.failing import beat, begun, closed, opened, quiet
from tests.support.histories import kinds


def test_only_so_many_holders_are_kept() -> None:
    """A controller that flaps all night makes no endless record."""
    history, fold = begun()
    for turn in range(40):
        history.delete("/controller")
        history.elect(turn % 2)
    fold.follow(history)
    assert opened(fold).controller_elections == 40
    assert len(opened(fold).controllers) == 20


def test_the_view_holds_the_newest_and_counts_all() -> None:
    """The last so many, newest first, the open one in front."""
    history, fold = begun()
    for _ in range(INCIDENTS_KEPT + 3):
        history.delete("/controller")
        history.elect(0)
        fold.follow(history)
        quiet(history, fold)
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
    """A fold that went on from an older checkpoint may have told another one."""
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
    """Not as it was at the last heartbeat: the account moves there, the view with each batch."""
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


def test_events_say_where_they_were_told() -> None:
    """The opening stands at the first abnormal change, the end at the look that found it."""
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


def test_the_last_closed_one_is_a_sample_whose_labels_are_its_figures() -> None:
    """One at a time, so that boards can tell it; none before the first."""
    history, fold = begun()
    metrics = {metric.name: metric for metric in incidents.INCIDENTS}
    last = metrics["kafka_cluster_incident_last_timestamp_seconds"]
    abnormal = metrics["kafka_cluster_incident_abnormal_timestamp_seconds"]
    assert list(last.read(fold.cluster_view())) == list(abnormal.read(fold.cluster_view())) == []
    history.delete("/controller")
    history.elect(0)
    fold.follow(history)
    quiet(history, fold)
    ended_at = closed(fold).last_abnormal_at / 1000
    ((labels, value),) = last.read(fold.cluster_view())
    assert value == ended_at
    assert dict(zip(last.labels[1:], labels, strict=True)) == {
        "number": "1",
        "opened_by": "ControllerVacated",
        "end": "recovered",
        "lasted": "10 ms",
        "brokers_lost": "0",
        "controller_elections": "1",
        "leaders_moved": "0",
        "offline": "0",
    }
    assert list(abnormal.read(fold.cluster_view())) == [((), ended_at)]


def test_a_time_that_no_calendar_knows_is_told_as_it_is() -> None:
    """A watcher's clock may say anything."""
    incident = Incident(
        number=1, started_at=0, last_abnormal_at=0, opened_by="BrokerStopped", unsure_since=10**18
    )
    assert sentence(incident) == "Out of sight since 1000000000000000000."


def test_many_brokers_are_named_in_part() -> None:
    """A sentence stays a sentence."""
    incident = Incident(
        number=1,
        started_at=0,
        last_abnormal_at=7_260_000,
        opened_by="BrokerStopped",
        brokers_lost=tuple(range(8)),
        brokers_back=(0, 1),
        broker_ends={"unknown": 1, "crashed": 7},
        closed_at=1,
        end=IncidentEnd.STANDING,
    )
    assert sentence(incident) == (
        "8 brokers (0, 1, 2, 3, 4 ...) crashed 7 times and were lost, 6 did not come back; "
        "closed after 2 h 1 min; still abnormal: nothing."
    )
    lost = msgspec.structs.replace(incident, brokers_lost=(3,), brokers_back=(), broker_ends={})
    assert sentence(lost).startswith("Broker 3 was lost; closed")
    both = msgspec.structs.replace(
        incident, brokers_lost=(3, 4), brokers_back=(3, 4), broker_ends={"controlled_shutdown": 2}
    )
    assert sentence(both).startswith("2 brokers (3, 4) were shut down and came back; closed")
    again = msgspec.structs.replace(lost, brokers_back=(3,), broker_ends={"crashed": 3})
    assert sentence(again).startswith("Broker 3 crashed 3 times and came back; closed")
