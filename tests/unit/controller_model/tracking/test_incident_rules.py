"""Incidents: what opens one, and what belongs to it."""

from __future__ import annotations

from controller_model.insight.incident_sentence import sentence
from controller_model.records.events import IncidentOpened
from controller_model.records.incidents import QUIET_MS, IncidentEnd
from controller_model.tracking import incident_tracker
from tests.support.failing import beat, begun, closed, opened, quiet
from tests.support.histories import Fold, History, only


def test_a_cascade_of_failures_is_one_incident() -> None:
    """The controller's broker crashes, another is elected, leaders move, all comes back."""
    history, fold = begun()
    began = history.now
    history.broker_gone(0)
    history.elect(1)
    history.state("t", 0, leader=1, isr=[1, 2], leader_epoch=1)
    history.state("t", 1, leader=1, isr=[1, 2], leader_epoch=1)
    fold.follow(history)
    beat(history, fold, 2)
    assert [type(event) for event in fold.accounts] == [IncidentOpened]
    history.broker(0)
    history.state("t", 0, leader=1, isr=[1, 2, 0], leader_epoch=1)
    history.state("t", 1, leader=1, isr=[1, 2, 0], leader_epoch=1)
    fold.follow(history)
    back = history.now
    quiet(history, fold)
    incident = closed(fold)
    assert incident.number == 1
    assert began < incident.started_at <= began + 20
    assert back <= incident.last_abnormal_at <= back + 10
    assert incident.closed_at is not None
    assert incident.closed_at - incident.last_abnormal_at >= QUIET_MS
    assert incident.end is IncidentEnd.RECOVERED
    assert incident.still == ()
    assert incident.complete
    assert incident.opened_by == "ControllerVacated"
    assert (incident.brokers_lost, incident.brokers_back) == ((0,), (0,))
    assert incident.broker_ends == {"crashed": 1}
    assert incident.controllers == (0, 1)
    assert incident.controller_elections == 1
    assert 0 < incident.vacancy_min_ms <= incident.vacancy_max_ms
    assert incident.leaders_moved == 1
    assert incident.leader_elections == {"offline": 1}
    assert (incident.isr_shrinks, incident.isr_expands) == (2, 2)
    assert (incident.offline_before, incident.offline_peak, incident.offline_last) == (0, 1, 0)
    assert incident.under_replicated_peak == 2
    assert incident.under_replicated_last == 0
    assert incident.failover_ms > 0
    assert "Broker 0 crashed and came back; controller 0 -> 1" in incident.summary


def test_the_start_of_a_log_opens_no_incident() -> None:
    """What the first resync finds, and new brokers and topics, are normal."""
    history, fold = begun()
    history.broker(7)
    history.topic("u", {0: (7,)})
    history.state("u", 0, leader=7, isr=[7])
    fold.follow(history)
    beat(history, fold, 1)
    assert fold.accounts == []
    assert fold.cluster_view().incidents.open is None


def test_failures_found_by_the_first_resync_count_as_before_the_incident() -> None:
    """The levels for comparison are those of the baseline, before any heartbeat."""
    history = History()
    for broker in range(2):
        history.broker(broker, seen=False)
    history.elect(0, seen=False)
    history.topic("t", {0: (7,), 1: (0, 1)}, seen=False)
    history.state("t", 0, leader=-1, isr=[7], seen=False)
    history.state("t", 1, leader=0, isr=[0], seen=False)
    history.resync()
    history.delete("/controller")
    fold = Fold()
    fold.follow(history)
    assert opened(fold).offline_before == opened(fold).offline_peak == 1
    assert opened(fold).under_replicated_before == 1
    assert opened(fold).still == ("nobody holds /controller",)


def test_the_first_controller_election_of_a_cluster_opens_no_incident() -> None:
    """A cluster that starts elects its controller."""
    history = History()
    history.broker(0, seen=False)
    history.resync()
    history.elect(0)
    fold = Fold()
    fold.follow(history)
    assert fold.accounts == []


def test_a_preferred_election_opens_no_incident() -> None:
    """A preferred election is intended; inside an incident it is counted."""
    history, fold = begun()
    history.state("t", 0, leader=1, isr=[0, 1, 2], leader_epoch=1)
    history.state("t", 0, leader=0, isr=[0, 1, 2], leader_epoch=2)
    fold.follow(history)
    assert fold.accounts == []
    history.broker_gone(2)
    history.state("t", 0, leader=1, isr=[0, 1], leader_epoch=3)
    history.state("t", 0, leader=0, isr=[0, 1], leader_epoch=4)
    fold.follow(history)
    assert opened(fold).leader_elections == {"unknown": 1, "preferred": 1}


def test_a_controlled_shutdown_begins_with_the_first_leader_that_is_moved_away() -> None:
    """The moves precede the end of the registration, and belong to the incident."""
    history, fold = begun()
    history.state("t", 0, leader=1, isr=[1, 2], leader_epoch=1)
    fold.follow(history)
    assert only(fold.accounts, IncidentOpened).opened_by == "LeadersElected"
    history.state("t", 1, leader=1, isr=[1, 2], leader_epoch=1)
    history.broker_gone(0)
    fold.follow(history)
    assert opened(fold).broker_ends == {"controlled_shutdown": 1}
    assert opened(fold).leaders_moved == 1


def test_offline_partitions_open_an_incident_with_the_peak_of_the_samples() -> None:
    """A partition loses its only replica: it is written leaderless, and was counted when the broker ended."""
    history, fold = begun(t={0: (0, 1, 2)}, single={0: (2,), 1: (2,)})
    history.broker_gone(2)
    for partition in (0, 1):
        history.state("single", partition, leader=-1, isr=[2], leader_epoch=1)
    fold.follow(history)
    history.state("t", 0, leader=0, isr=[0, 1], leader_epoch=1)
    fold.follow(history)
    beat(history, fold, 1)
    incident = opened(fold)
    assert incident.offline_peak == 2
    assert incident.leaderless == 2
    assert incident.still == (
        "broker 2 is gone",
        "2 partitions offline",
        "1 partition under-replicated",
    )
    assert (
        "2 partitions offline at once; 1 partition seen under-replicated; going on: broker 2 is gone"
        in incident_tracker.newest(fold.state.control)[0].summary
    )
    history.broker(2)
    for partition in (0, 1):
        history.state("single", partition, leader=2, isr=[2], leader_epoch=2)
    history.state("t", 0, leader=0, isr=[0, 1, 2], leader_epoch=1)
    fold.follow(history)
    quiet(history, fold)
    assert closed(fold).end is IncidentEnd.RECOVERED


def test_unclean_elections_log_dirs_and_zombies_are_reported() -> None:
    """Each is counted on its own."""
    history, fold = begun()
    history.state("t", 0, leader=-1, isr=[0], leader_epoch=1)
    history.state("t", 0, leader=2, isr=[2], leader_epoch=2, recovery=1)
    history.set(
        "/log_dir_event_notification/log_dir_event_0000000001",
        {"version": 1, "broker": 0, "event": 1},
    )
    history.state("t", 1, leader=1, isr=[1], leader_epoch=0)
    history.state("t", 1, leader=2, isr=[2], leader_epoch=1, controller_epoch=0, recovery=1)
    history.broker_gone(1)
    fold.follow(history)
    beat(history, fold, 8)
    incident = opened(fold)
    assert incident.unclean_elections == 2
    assert incident.log_dir_failures == 1
    assert incident.stale_writes == 1
    assert incident.zombie
    reported = sentence(incident)
    for words in (
        "2 unclean elections",
        "1 partition offline at once",
        "1 log directory failure",
        "1 write by an old controller",
        "the controller did not do its work",
    ):
        assert words in reported


def test_slow_followers_alone_open_no_incident() -> None:
    """A leader that removes and adds a replica again and again has an alert of its own."""
    history, fold = begun()
    history.state("t", 0, leader=0, isr=[0, 1])
    history.state("t", 0, leader=0, isr=[0, 1, 2], leader_epoch=1)
    fold.follow(history)
    assert fold.accounts == []


def test_an_election_whose_vacancy_was_not_seen_names_the_former_holder() -> None:
    """/controller may change hands between two reads; a broker that joins meanwhile is not part of it."""
    history, fold = begun()
    history.delete("/controller", seen=False)
    history.elect(1)
    history.broker(7)
    fold.follow(history)
    assert opened(fold).opened_by == "ControllerElected"
    assert opened(fold).controllers == (0, 1)
    assert opened(fold).brokers_back == ()
    assert "at most" in sentence(opened(fold))
