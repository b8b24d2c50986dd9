"""Incidents: levels from before, counts while they last, and times without a ZooKeeper session."""

from __future__ import annotations

import pytest

from controller_model.insight.incident_sentence import sentence
from controller_model.records.changes import SessionState
from controller_model.records.events import IncidentClosed, IncidentOpened
from controller_model.records.incidents import (
    STANDING_MS,
    Incident,
    IncidentEnd,
)
from controller_model.tracking import incident_tracker
from tests.support.failing import BEAT_MS, beat, begun, closed, opened, quiet
from tests.support.histories import Fold, History, only

TEN_MIN_BEATS = 600_000 // BEAT_MS


def shown(fold: Fold) -> Incident:
    """Return the open incident as the view shows it."""
    return incident_tracker.newest(fold.state.control)[0]


def standing(history: History, fold: Fold) -> Incident:
    """Let an hour pass; return the incident that was closed although something is still abnormal."""
    beat(history, fold, STANDING_MS // BEAT_MS + 12)
    incident = closed(fold)
    assert incident.end is IncidentEnd.STANDING
    fold.accounts.clear()
    return incident


@pytest.mark.parametrize("session", [SessionState.SUSPENDED, SessionState.LOST])
def test_an_open_incident_shows_since_when_the_session_is_lost(session: SessionState) -> None:
    """Also in the summary; with the next connected heartbeat the summary reports a recovery."""
    history, fold = begun()
    history.delete("/controller")
    history.elect(0)
    for _ in range(20):
        history.heartbeat(session=session, session_since=1_795_251_600_123)
    fold.follow(history)
    assert shown(fold).unsure_since == 1_795_251_600_123
    assert shown(fold).summary == (
        "Controller 0, 10 ms without one; out of sight since 2026-11-21T09:00:00Z "
        "(counts are at least)."
    )
    beat(history, fold, 1)
    assert shown(fold).unsure_since is None
    assert "; all is well again (counts" in shown(fold).summary


def test_a_hole_without_a_resync_keeps_an_incident_from_being_well() -> None:
    """Until a proof covers what the log lacked."""
    history, fold = begun()
    history.delete("/controller")
    history.elect(0)
    missing_since = history.changes[-1].observed_at
    history.seq += 1
    beat(history, fold, 400)
    assert shown(fold).unsure_since == missing_since
    assert "out of sight since" in shown(fold).summary
    assert "well" not in shown(fold).summary


def test_a_hole_is_shown_in_an_incident_during_a_resync_too() -> None:
    """A resync counts no levels, but the hole is known at once."""
    history, fold = begun()
    history.delete("/controller")
    history.elect(0)
    fold.follow(history)
    history.seq += 1
    history.start_resync()
    fold.follow(history)
    assert shown(fold).unsure_since == history.now + 1
    assert "out of sight since" in shown(fold).summary


def test_an_incident_cut_during_a_lost_session_shows_since_when() -> None:
    """Whether something was still abnormal when it was closed cannot be known."""
    cut = Incident(
        number=1,
        started_at=0,
        last_abnormal_at=1000,
        closed_at=2000,
        end=IncidentEnd.CUT,
        opened_by="BrokerStopped",
        unsure_since=1_795_251_600_000,
    )
    assert sentence(cut) == "Cut after 1.0 s; out of sight since 2026-11-21T09:00:00Z."


def test_the_time_without_a_controller_is_counted_while_it_lasts() -> None:
    """At each sample and in the closed record, but not again with the election."""
    history, fold = begun()
    history.delete("/controller")
    fold.follow(history)
    beat(history, fold, TEN_MIN_BEATS)
    assert shown(fold).vacancy_min_ms == shown(fold).vacancy_max_ms == 600_000
    assert shown(fold).summary.startswith("Nobody was controller for 10 min 0 s; going on: ")
    assert opened(fold) is not shown(fold)
    assert shown(fold).vacancy_max_ms == 600_000, "showing counts nothing"
    history.now += 5_000
    history.elect(1)
    fold.follow(history)
    assert opened(fold).vacancy_min_ms == opened(fold).vacancy_max_ms == 605_010
    quiet(history, fold)
    assert closed(fold).summary == (
        "Controller 0 -> 1, 10 min 5 s without one; over after 10 min 5 s."
    )


def test_the_vacancy_of_a_closed_incident_is_not_counted_in_the_next_one() -> None:
    """The closed record contains it; the election that ends it opens no incident."""
    history, fold = begun()
    history.delete("/controller")
    fold.follow(history)
    incident = standing(history, fold)
    assert incident.vacancy_max_ms == STANDING_MS
    assert incident.summary == (
        "Nobody was controller for 1 h 0 min; closed after 1 h 0 min; "
        "still abnormal: nobody holds /controller."
    )
    history.elect(1)
    beat(history, fold, 10)
    assert fold.accounts == []
    history.delete("/controller")
    history.elect(0)
    fold.follow(history)
    quiet(history, fold)
    assert closed(fold).number == 2
    assert closed(fold).vacancy_max_ms == 10


def test_a_vacancy_is_an_upper_bound_while_the_session_is_suspended() -> None:
    """It is not known whether /controller stayed vacant during that time."""
    history, fold = begun()
    history.delete("/controller")
    beat(history, fold, 1)
    for _ in range(6):
        history.heartbeat(session=SessionState.SUSPENDED)
    fold.follow(history)
    assert (opened(fold).vacancy_min_ms, opened(fold).vacancy_max_ms) == (10_000, 70_000)
    assert "Nobody was controller for at most 1 min 10 s" in sentence(opened(fold))


def test_a_broker_that_comes_back_after_an_hour_opens_no_incident() -> None:
    """Its partitions get their leader again: that reduces what was abnormal, and opens nothing."""
    history, fold = begun(t={0: (0, 1, 2)}, single={0: (2,), 1: (2,)})
    history.broker_gone(2)
    for partition in (0, 1):
        history.state("single", partition, leader=-1, isr=[2], leader_epoch=1)
    history.state("t", 0, leader=0, isr=[0, 1], leader_epoch=1)
    fold.follow(history)
    standing(history, fold)
    history.broker(2)
    for partition in (0, 1):
        history.state("single", partition, leader=2, isr=[2], leader_epoch=2)
    history.state("t", 0, leader=0, isr=[0, 1, 2], leader_epoch=1)
    beat(history, fold, 10)
    assert fold.accounts == []
    assert fold.state.control.incidents.offline_before == 0


def test_an_unclean_election_after_an_hour_opens_an_incident() -> None:
    """Records are lost now, although the partition was abnormal before."""
    history, fold = begun(t={0: (0, 1, 2)})
    history.broker_gone(0)
    history.state("t", 0, leader=-1, isr=[0], leader_epoch=1)
    history.elect(1)
    fold.follow(history)
    standing(history, fold)
    history.state("t", 0, leader=1, isr=[1], leader_epoch=2, recovery=1)
    fold.follow(history)
    assert only(fold.accounts, IncidentOpened).opened_by == "LeadersElected"
    assert opened(fold).unclean_elections == 1


def test_an_election_away_from_a_live_broker_opens_an_incident() -> None:
    """A failed log directory loses its leaders, however late the controller reacts."""
    history, fold = begun()
    reported = "/log_dir_event_notification/log_dir_event_0000000001"
    history.set(reported, {"version": 1, "broker": 0, "event": 1})
    history.delete(reported)
    fold.follow(history)
    quiet(history, fold)
    assert closed(fold).log_dir_failures == 1
    fold.accounts.clear()
    history.state("t", 0, leader=1, isr=[1, 2], leader_epoch=1)
    fold.follow(history)
    assert only(fold.accounts, IncidentOpened).opened_by == "LeadersElected"
    assert opened(fold).leader_elections == {"offline": 1}


def test_partitions_that_are_offline_between_two_samples_are_counted() -> None:
    """A log directory loses them; most have a leader again before the next heartbeat."""
    history, fold = begun(t=dict.fromkeys(range(50), (0, 1)))
    for partition in range(50):
        history.state("t", partition, leader=-1, isr=[0], leader_epoch=1)
    for partition in range(48):
        history.state("t", partition, leader=0, isr=[0], leader_epoch=2)
    fold.follow(history)
    assert (opened(fold).offline_peak, opened(fold).offline_last) == (50, 2)
    beat(history, fold, 1)
    assert (opened(fold).offline_peak, opened(fold).offline_last) == (50, 2)
    assert "50 partitions offline at once" in shown(fold).summary


def test_partitions_that_went_offline_with_their_leader_are_counted_once() -> None:
    """When the leader ends; the controller's later writes of no leader, and its elections, add none."""
    history, fold = begun(t={0: (2, 1), 1: (2, 1)}, single={0: (2,), 1: (2,)})
    history.broker_gone(2)
    for partition in (0, 1):
        history.state("t", partition, leader=1, isr=[1], leader_epoch=1)
        history.state("single", partition, leader=-1, isr=[2], leader_epoch=1)
    fold.follow(history)
    assert (opened(fold).offline_peak, opened(fold).offline_last) == (4, 2)
    beat(history, fold, 1)
    assert (opened(fold).offline_peak, opened(fold).offline_last) == (4, 2)


def test_partitions_that_lose_their_leader_while_fewer_are_offline_are_reported() -> None:
    """Their number is reported although no level rose above the one before."""
    incident = Incident(
        number=1,
        started_at=0,
        last_abnormal_at=0,
        opened_by="PartitionsOffline",
        offline_before=5,
        offline_peak=5,
        leaderless=2,
    )
    assert sentence(incident) == "2 partitions left without a leader; all is well again."


@pytest.mark.parametrize("session", [SessionState.CONNECTED, SessionState.LOST])
def test_a_vacancy_from_before_the_baseline_belongs_to_no_incident(session: SessionState) -> None:
    """Nobody held /controller at the baseline; a broker bounces during that vacancy."""
    history = History()
    history.heartbeat(session=session)
    for broker in range(3):
        history.broker(broker, seen=False)
    history.topic("t", {0: (0, 1, 2)}, seen=False)
    history.state("t", 0, leader=0, isr=[0, 1, 2], seen=False)
    history.resync()
    fold = Fold()
    beat(history, fold, 3)
    history.broker_gone(1, seen=False)
    history.broker(1)
    beat(history, fold, 1)
    assert shown(fold).still == ()
    assert shown(fold).summary == "Broker 1 bounced and came back; all is well again."
    history.elect(2)
    quiet(history, fold)
    assert closed(fold).summary == (
        "Broker 1 bounced and came back; controller 2; over after 10.0 s."
    )
    assert closed(fold).vacancy_max_ms == 0
    fold.accounts.clear()
    history.delete("/controller")
    beat(history, fold, 1)
    assert opened(fold).still == ("nobody holds /controller",)


def test_a_zombie_controller_from_before_an_incident_is_not_counted_in_it() -> None:
    """Its writes were due for an hour; the next incident contains only what followed."""
    history, fold = begun()
    history.broker_gone(1)
    fold.follow(history)
    assert "the controller does not do its work" in standing(history, fold).still
    history.set(
        "/log_dir_event_notification/log_dir_event_0000000001",
        {"version": 1, "broker": 0, "event": 1},
    )
    fold.follow(history)
    beat(history, fold, 1)
    assert opened(fold).still == ()


def test_a_summary_names_the_cause_of_an_incident_and_what_kept_it_open() -> None:
    """A controller that was gone for a moment, and a replica that stays out of the ISR for an hour."""
    history, fold = begun()
    history.delete("/controller")
    history.elect(0)
    history.state("t", 0, leader=0, isr=[0, 1])
    fold.follow(history)
    beat(history, fold, STANDING_MS // BEAT_MS + 1)
    assert only(fold.accounts, IncidentClosed).incident.summary == (
        "Controller 0, 10 ms without one; 1 partition seen under-replicated; "
        "closed after 1 h 0 min; still abnormal: 1 partition under-replicated."
    )


def test_the_view_summarizes_the_last_closed_incident() -> None:
    """For metrics, with the last abnormal moment of the newest."""
    history, fold = begun()
    assert fold.cluster_view().incidents.last_closed is None
    assert fold.cluster_view().incidents.last_abnormal_at is None
    history.broker_gone(2)
    history.broker(2)
    fold.follow(history)
    is_open = fold.cluster_view().incidents
    assert is_open.last_abnormal_at == opened(fold).last_abnormal_at
    quiet(history, fold)
    incident = closed(fold)
    reported = fold.cluster_view().incidents
    assert reported.last_abnormal_at == incident.last_abnormal_at
    last = reported.last_closed
    assert last is not None
    assert (last.number, last.opened_by, last.end) == (1, "BrokerStopped", IncidentEnd.RECOVERED)
    assert (last.last_abnormal_at, last.lasted_ms) == (
        incident.last_abnormal_at,
        incident.lasted_ms,
    )
    assert (last.brokers_lost, last.controller_elections) == (1, 0)
    assert (last.leaders_moved, last.offline) == (incident.leaders_moved, incident.offline)
