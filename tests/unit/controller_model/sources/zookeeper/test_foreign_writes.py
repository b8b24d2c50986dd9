"""What no Kafka writes is an Anomaly that says what it means: no election, and no end of an incident."""

from __future__ import annotations

import pytest

from controller_model.kafka.ids import NO_CONTROLLER
from controller_model.records.changes import SessionState
from controller_model.records.events import (
    Anomaly,
    ControllerElected,
    IncidentClosed,
    IncidentOpened,
    LeadersElected,
)
from controller_model.records.foreign_writes import ForeignWriteKind as Kind
from controller_model.records.pending_writes import ControllerHealth
from controller_model.records.views import ClusterView
from controller_model.sources.zookeeper import foreign_writes
from tests.support.histories import Fold, History, begun, controller_payload, only, replaced
from tests.support.recordings import RECORDED, load_recording
from tests.support.znode_log import ZnodeLog

RECORDINGS = sorted(path.name.removesuffix(".jsonl.gz") for path in RECORDED.glob("*.jsonl.gz"))
QUIET_BEATS = 10
"""More heartbeats than an incident needs to end."""


def beat(history: History, fold: Fold, times: int = 2) -> list[Anomaly]:
    """Let heartbeats pass, and return what they report as foreign writes."""
    for _ in range(times):
        history.heartbeat()
    return [e for e in fold.follow(history) if isinstance(e, Anomaly) and e.foreign is not None]


def standing(fold: Fold) -> dict[str, int]:
    """Return how many foreign writes the view shows, by kind."""
    view: ClusterView = fold.cluster_view()
    return view.foreign_writes or {}


def incidents(fold: Fold) -> tuple[int, int]:
    """Return how many incidents were opened and closed."""
    opened, closed = (
        sum(isinstance(each, kind) for each in fold.accounts)
        for kind in (IncidentOpened, IncidentClosed)
    )
    return opened, closed


@pytest.mark.parametrize("name", RECORDINGS)
def test_no_real_kafka_of_any_release_makes_a_foreign_write(name: str) -> None:
    """Not one of 744 recorded states: also if two heartbeats follow each commit, between any two writes of a failover."""
    log, fold = ZnodeLog("prod"), Fold()
    log.resync()
    states = 0
    for commit in load_recording(name).commits:
        states += sum(change.path.endswith("/state") for change in log.follow([commit]))
        for _ in range(2):
            log.heartbeat(log.tree.time_ms)
    events = fold.feed(log.changes)
    assert [e for e in events if isinstance(e, Anomaly) and e.foreign is not None] == []
    assert (standing(fold), states > 0) == ({}, True)


def test_a_persistent_controller_is_nobody() -> None:
    """It was not elected, and nobody can be: it counts as vacant until a session holds /controller."""
    history, fold = begun()
    elections = fold.cluster_view().controller.elections
    history.delete("/controller")
    history.set("/controller", controller_payload(1), ephemeral_owner=0)
    (found,) = beat(history, fold, 1)
    assert (found.foreign, found.path) == (Kind.CONTROLLER_WITHOUT_SESSION, "/controller")
    assert "persistent" in found.reason
    view = fold.cluster_view().controller
    assert (view.id, view.elections) == (NO_CONTROLLER, elections)
    assert standing(fold) == {"controller_without_session": 1}
    assert beat(history, fold, QUIET_BEATS) == []
    assert incidents(fold) == (1, 0)
    history.delete("/controller")
    history.elect(1)
    assert only(fold.follow(history), ControllerElected).to_broker == 1
    beat(history, fold, QUIET_BEATS)
    assert standing(fold) == {}
    assert incidents(fold) == (1, 1)


def test_a_persistent_controller_that_is_found_at_first_is_a_vacancy() -> None:
    """The first resync reads it."""
    history = History()
    history.broker(0, seen=False)
    history.set("/controller", controller_payload(0), ephemeral_owner=0, seen=False)
    history.resync()
    fold = Fold()
    fold.follow(history)
    (found,) = beat(history, fold, 1)
    assert found.foreign is Kind.CONTROLLER_WITHOUT_SESSION
    view = fold.cluster_view().controller
    assert (view.id, view.vacant_since is not None) == (NO_CONTROLLER, True)


def test_a_kraft_controller_is_persistent_and_right() -> None:
    """In a migration it holds /controller so."""
    history, fold = begun()
    history.delete("/controller")
    with history.transaction():
        history.set("/controller", controller_payload(3000, kraft_epoch=7), ephemeral_owner=0)
        history.set("/controller_epoch", "2")
    assert beat(history, fold, 4) == []
    assert fold.cluster_view().controller.id == 3000


@pytest.mark.parametrize("words", ["not registered", "another session"])
def test_a_controller_must_hold_its_registration_by_the_same_session(words: str) -> None:
    """What is read one after the other counts at the second heartbeat, and keeps the incident open."""
    history, fold = begun()
    history.delete("/controller")
    history.epoch += 1
    broker, owner = (7, 8) if words == "not registered" else (1, 99)
    with history.transaction():
        history.set("/controller", controller_payload(broker), ephemeral_owner=owner)
        history.set("/controller_epoch", str(history.epoch))
    assert beat(history, fold, 1) == []
    (found,) = beat(history, fold, 1)
    assert (found.foreign, words in found.reason) == (Kind.CONTROLLER_WITHOUT_SESSION, True)
    assert beat(history, fold, QUIET_BEATS) == []
    assert incidents(fold) == (1, 0)
    if words == "not registered":
        history.broker(7)
        beat(history, fold, QUIET_BEATS)
        assert (standing(fold), incidents(fold)) == ({}, (1, 1))


def test_nothing_is_compared_while_something_may_be_missing() -> None:
    """Without a session, or where registrations may not be read, nothing is said about them."""
    history, fold = begun()
    history.delete("/controller")
    history.elect(7)
    fold.follow(history)
    history.heartbeat(session=SessionState.SUSPENDED)
    history.heartbeat(session=SessionState.SUSPENDED)
    history.heartbeat(denied=("/brokers/ids",))
    history.heartbeat(denied=("/brokers/ids",))
    assert beat(history, fold, 0) == []
    assert standing(fold) == {}


def test_a_persistent_registration_ends_no_incident() -> None:
    """A copy of a registration makes a dead broker live by Kafka's definition, and the incident goes on."""
    history, fold = begun()
    history.broker_gone(2)
    history.state("t", 0, leader=0, isr=[0, 1], leader_epoch=1)
    history.state("t", 1, leader=1, isr=[1, 0], leader_epoch=1)
    beat(history, fold)
    content = history.znodes["/brokers/ids/1"].data
    history.set("/brokers/ids/2", content, ephemeral_owner=0)
    (found,) = beat(history, fold, 1)
    assert (found.foreign, found.path) == (Kind.BROKER_WITHOUT_SESSION, "/brokers/ids/2")
    history.state("t", 0, leader=0, isr=[0, 1, 2], leader_epoch=1)
    history.state("t", 1, leader=1, isr=[1, 0, 2], leader_epoch=1)
    assert beat(history, fold, QUIET_BEATS) == []
    assert (standing(fold), incidents(fold)) == ({"broker_without_session": 1}, (1, 0))
    history.delete("/brokers/ids/2")
    beat(history, fold)
    assert standing(fold) == {}


@pytest.mark.parametrize("removed", [False, True])
def test_an_epoch_that_goes_back_makes_brokers_refuse_the_controller(removed: bool) -> None:
    """Until it is what it was, or all brokers have restarted; every led partition would be lost with its leader."""
    history, fold = begun()
    for broker in (1, 2, 0):
        history.delete("/controller")
        history.elect(broker)
    fold.follow(history)
    elections = fold.cluster_view().controller.elections
    if removed:
        history.delete("/controller_epoch")
    history.set("/controller_epoch", "1")
    found = [e for e in fold.follow(history) if isinstance(e, Anomaly)]
    assert {each.foreign for each in found} == {Kind.CONTROLLER_EPOCH_BACK}
    assert "STALE_CONTROLLER_EPOCH" in found[0].reason
    beat(history, fold, QUIET_BEATS)
    view = fold.cluster_view()
    assert (view.controller.refused_below, view.controller.elections) == (4, elections)
    assert view.foreign_writes == {"controller_epoch_back": 1}
    assert incidents(fold)[1] == 0
    assert fold.broker_view(0).offline_if_lost == 1
    assert fold.broker_view(0).safe_to_stop is False
    assert fold.broker_view(2).safe_to_stop is True
    history.set("/controller_epoch", "4")
    beat(history, fold, QUIET_BEATS)
    view = fold.cluster_view()
    assert (view.controller.refused_below, view.foreign_writes) == (None, {})
    assert incidents(fold) == (1, 1)


def test_brokers_forget_a_larger_epoch_when_they_restart() -> None:
    """They refuse the controller until the last one has registered again."""
    history, fold = begun()
    history.delete("/controller")
    history.elect(0)
    history.set("/controller_epoch", "1")
    beat(history, fold)
    for broker in (1, 2):
        history.broker_gone(broker)
        history.broker(broker)
    beat(history, fold)
    assert standing(fold) == {"controller_epoch_back": 1}
    history.broker_gone(0)
    history.broker(0)
    beat(history, fold)
    assert standing(fold) == {}


def test_an_epoch_may_begin_again_while_no_broker_runs() -> None:
    """Nobody is there to refuse it."""
    history, fold = begun()
    history.delete("/controller")
    history.elect(0)
    for broker in range(3):
        history.broker_gone(broker)
    history.set("/controller_epoch", "1")
    assert beat(history, fold) == []


def test_another_history_may_have_smaller_epochs() -> None:
    """A restored ensemble is reported as that; nothing in it is compared with the former one."""
    history, fold = begun()
    history.delete("/controller")
    history.elect(0)
    fold.follow(history)
    history.set("/controller_epoch", "1", seen=False)
    history.state("t", 0, leader=1, isr=[1], controller_epoch=1, seen=False)
    history.resync(rebase=True)
    assert beat(history, fold) == []
    assert standing(fold) == {}


@pytest.mark.parametrize(("leader", "leader_epoch"), [(1, 5), (0, 4), (-1, 5), (1, 0)])
def test_a_leader_is_written_only_under_a_new_leader_epoch(leader: int, leader_epoch: int) -> None:
    """Anything else is no election, also not an unclean one, until the controller writes the state again."""
    history, fold = begun(t={0: (0, 1, 2)})
    history.state("t", 0, leader=0, isr=[0, 2], leader_epoch=5)
    fold.follow(history)
    counters = fold.cluster_view().counters
    before = (dict(counters.leader_elections), counters.unclean_elections)
    history.state("t", 0, leader=leader, isr=[0, 2], leader_epoch=leader_epoch)
    events = fold.follow(history)
    found = only(events, Anomaly)
    assert (found.foreign, "leader" in found.reason) == (Kind.LEADER_EPOCH, True)
    assert not any(isinstance(event, LeadersElected) for event in events)
    counters = fold.cluster_view().counters
    assert (dict(counters.leader_elections), counters.unclean_elections) == before
    beat(history, fold, QUIET_BEATS)
    assert (standing(fold), incidents(fold)) == ({"leader_epoch": 1}, (1, 0))
    history.state("t", 0, leader=2, isr=[0, 2], leader_epoch=6)
    history.state("t", 0, leader=2, isr=[0, 2, 1], leader_epoch=6)
    beat(history, fold, QUIET_BEATS)
    assert standing(fold) == {}


def test_a_state_that_is_deleted_is_remembered_no_longer() -> None:
    """Another one of that name begins anew."""
    history, fold = begun()
    history.state("t", 0, leader=1, isr=[1])
    beat(history, fold)
    assert standing(fold) == {"leader_epoch": 1}
    history.topic_gone("t")
    beat(history, fold)
    assert standing(fold) == {}


def test_only_so_many_states_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    """All are reported, and the count stays bounded."""
    monkeypatch.setattr(foreign_writes, "MAX_LEADER_EPOCHS", 1)
    history, fold = begun()
    for partition, leader in ((0, 1), (1, 2)):
        history.state("t", partition, leader=leader, isr=[leader])
    assert len([e for e in fold.follow(history) if isinstance(e, Anomaly)]) == 2
    beat(history, fold)
    assert standing(fold) == {"leader_epoch": 1}


def test_a_log_without_owners_says_nothing_about_sessions() -> None:
    """A record of another program may lack the field."""
    history, fold = begun()
    history.broker_gone(0)
    history.broker(0)
    history.elect(0)
    records = [replaced(record, ephemeral_owner=None) for record in history.changes]
    fold = Fold()
    fold.feed(records)
    assert beat(History(seq=history.seq, now=history.now), fold, 3) == []


def test_a_leader_may_write_its_isr_under_its_leader_epoch() -> None:
    """That moves no leader; and a partition that was created again begins with leader epoch 0."""
    history, fold = begun(t={0: (0, 1, 2)})
    history.state("t", 0, leader=0, isr=[0, 2], leader_epoch=5)
    history.state("t", 0, leader=0, isr=[0, 2, 1], leader_epoch=5)
    history.topic_gone("t")
    history.topic("t", {0: (1, 2, 0)})
    history.state("t", 0, leader=1, isr=[1, 2, 0])
    assert beat(history, fold) == []


def test_a_topic_id_changes_only_with_the_topic() -> None:
    """A lost one is remembered: what a new controller writes instead is another one."""
    history, fold = begun()
    path = "/brokers/topics/t"
    ids = [("lost", None), ("replaced", "B"), ("kept", "B")]
    reasons = []
    for _, topic_id in ids:
        content = {"version": 3, "partitions": {"0": [0, 1, 2], "1": [1, 2, 0]}}
        history.set(path, content | ({} if topic_id is None else {"topic_id": topic_id}))
        reasons += [e.reason for e in fold.follow(history) if isinstance(e, Anomaly)]
    assert ["removed" in reasons[0], "replaced by B" in reasons[1], len(reasons)] == [True, True, 2]
    assert all("INCONSISTENT_TOPIC_ID" in each for each in reasons)
    beat(history, fold, QUIET_BEATS)
    assert (standing(fold), incidents(fold)) == ({"topic_id": 1}, (1, 0))
    history.topic("t", {0: (0, 1, 2), 1: (1, 2, 0)})  # the former id
    beat(history, fold)
    assert standing(fold) == {}


def test_a_topic_gets_its_first_id_from_an_upgrade() -> None:
    """Topics from before Kafka 2.8 have none; a topic that was created again has another."""
    history, fold = begun()
    for topic_id in ("A", "B"):
        history.set("/brokers/topics/u", {"version": 2, "partitions": {"0": [0]}})
        content = {"version": 3, "partitions": {"0": [0]}, "topic_id": topic_id}
        history.set("/brokers/topics/u", content)
        history.topic_gone("u")
    assert beat(history, fold) == []


def test_elections_under_a_larger_controller_epoch_are_aborted() -> None:
    """As a rollback from KRaft leaves it: after a real loss no write is pending, and nobody is a zombie."""
    history, fold = begun()
    for partition, leader in ((0, 0), (1, 1)):
        isr = [leader, 2]
        history.state("t", partition, leader=leader, isr=isr, leader_epoch=1, controller_epoch=9)
    assert beat(history, fold, 1) == []
    (found,) = beat(history, fold, 1)
    assert (found.foreign, "up to 9" in found.reason) == (Kind.CONTROLLER_EPOCH_ABOVE, True)
    assert standing(fold) == {"controller_epoch_above": 2}
    lost = fold.broker_view(1)
    assert (lost.offline_if_lost, lost.safe_to_stop) == (1, False)
    assert fold.broker_view(2).offline_if_lost == 0
    history.broker_gone(1)
    beat(history, fold, QUIET_BEATS)
    view = fold.cluster_view()
    assert (view.counts.offline, view.pending_writes.counts) == (1, {})
    assert view.pending_writes.health is ControllerHealth.NOT_NEEDED
    history.set("/controller_epoch", "9")
    history.epoch = 9
    beat(history, fold)
    view = fold.cluster_view()
    assert view.foreign_writes == {}
    assert view.pending_writes.counts == {"new_leader": 1}


def test_a_controller_epoch_that_is_read_late_is_no_foreign_write() -> None:
    """A state of the next controller may be read before its epoch."""
    history, fold = begun()
    history.delete("/controller")
    history.elect(1, epoch_seen=False)
    history.state("t", 0, leader=1, isr=[1, 2], leader_epoch=1)
    assert beat(history, fold, 1) == []
    history.report("/controller_epoch")
    assert beat(history, fold, 3) == []
