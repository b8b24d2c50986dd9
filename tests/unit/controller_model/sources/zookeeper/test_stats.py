"""A record may lack fields that are not required: replay then checks nothing by them, and concludes nothing."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from controller_model.facts.origin import Origin
from controller_model.records.changes import ChangeKind
from controller_model.records.events import BrokerStarted, LeaderElectionKind, LeadersElected
from controller_model.records.views import ControllerView, TopicView
from controller_model.sources.zookeeper.election_count import final_tally
from controller_model.sources.zookeeper.state import ElectionCount
from controller_model.sources.zookeeper.stats import steps_merged
from tests.support.histories import (
    Fold,
    History,
    controller_payload,
    kinds,
    only,
    small_cluster,
    state_path,
)


def account(fold: Fold) -> tuple[int, int]:
    """Return the elections and the missed ones as if the log ended here."""
    return fold.state.source.elections(fold.state.control)


def seen(fold: Fold) -> int:
    """Return how many creations of /controller were seen."""
    count: int = fold.state.control.source.elections.seen
    return count


def reported_without(history: History, path: str, *absent: str) -> None:
    """Publish what ZooKeeper holds at a path, without some fields."""
    history.report(path)
    history.changes[-1] = msgspec.structs.replace(
        history.changes[-1], **dict.fromkeys(absent, None)
    )


def begun() -> tuple[History, Fold]:
    """Return a history and a fold after its first resync."""
    history = small_cluster()
    fold = Fold()
    fold.follow(history)
    return history, fold


def test_an_absent_version_misses_no_update() -> None:
    """Neither at the record without a version nor at the next one."""
    history, fold = begun()
    for _ in range(3):
        history.state("t", 0, leader=0, isr=[0, 1], seen=False)
    reported_without(history, state_path("t", 0), "version")
    history.state("t", 0, leader=0, isr=[0])
    fold.follow(history)
    assert fold.state.control.log.view.missed_updates == 0
    assert fold.state.control.log.view.anomalies == 0


def test_a_version_that_went_back_misses_no_update() -> None:
    """ZooKeeper was restored from a backup."""
    assert steps_merged(Origin(order=9, created=3, version=4, reading=0), 2) == 0


@pytest.mark.parametrize("lacks", [(), ("mzxid",)])
def test_an_event_has_the_zxid_of_its_value_or_else_of_its_read(lacks: tuple[str, ...]) -> None:
    """A value may be read long after it was written."""
    history, fold = begun()
    history.broker(7, seen=False)
    written = history.zxid
    history.zxid += 5
    reported_without(history, "/brokers/ids/7", *lacks)
    started = only(fold.follow(history), BrokerStarted)
    assert started.source_number == (history.zxid if lacks else written)


def test_an_absent_version_gives_no_partition_epoch() -> None:
    """In the view it is not known; with the next version it is."""
    history, fold = begun()
    history.state("t", 0, leader=0, isr=[0, 1], seen=False)
    reported_without(history, state_path("t", 0), "version")
    fold.follow(history)
    view = fold.views()["prod/topic/t/0"]
    assert isinstance(view, TopicView)
    assert view.partition_epoch == (None, 0)
    history.state("t", 0, leader=0, isr=[0])
    fold.follow(history)
    view = fold.views()["prod/topic/t/0"]
    assert isinstance(view, TopicView)
    assert view.partition_epoch == (2, 0)


def test_an_absent_version_does_not_count_as_a_missed_step() -> None:
    """A leader that was not in the ISR, one leader epoch later, was elected uncleanly."""
    history, fold = begun()
    history.state("t", 0, leader=0, isr=[0], leader_epoch=1, seen=False)
    reported_without(history, state_path("t", 0), "version")
    history.broker_gone(0)
    fold.follow(history)
    history.state("t", 0, leader=2, isr=[2, 1], leader_epoch=2)
    reported = only(fold.follow(history), LeadersElected)
    assert reported.election is LeaderElectionKind.UNCLEAN


@pytest.mark.parametrize(
    ("fields", "proved"),
    [
        ({}, True),
        ({"digest": None}, True),
        ({"znodes": None}, False),
        ({"znodes": None, "digest": None}, False),
        ({"digest": "0" * 16}, False),
        ({"znodes": 9, "digest": None}, False),
    ],
)
def test_a_resync_is_verified_by_its_count_and_without_a_wrong_digest(
    fields: dict[str, Any], proved: bool
) -> None:
    """A digest may be absent, because it is kcm's own; a given one must match, or nothing is deleted."""
    history, fold = begun()
    history.broker_gone(2, seen=False)
    history.start_resync()
    for path in history.znodes:
        history.report(path)
    history.finish_resync(**fields)
    fold.follow(history)
    assert (2 in fold.state.control.live_brokers) is not proved
    assert (fold.state.control.log.view.incomplete_since is None) is proved


@pytest.mark.parametrize(
    ("fields", "reported"),
    [
        ({}, []),
        ({"digest": None}, []),
        ({"znodes": None}, []),
        ({"znodes": None, "digest": None}, []),
        ({"digest": "0" * 16}, ["Divergent"]),
        ({"znodes": 7, "digest": None}, ["Divergent"]),
    ],
)
def test_a_reconciliation_without_a_count_neither_verifies_nor_diverges(
    fields: dict[str, Any], reported: list[str]
) -> None:
    """It neither proves nor disproves the figures."""
    history, fold = begun()
    before = fold.state.control.log.view.verified_at
    history.now += 1_000
    history.reconciled(**fields)
    assert kinds(fold.follow(history)) == reported
    proved = fold.state.control.log.view.verified_at != before
    assert proved is (fields in ({}, {"digest": None}))


def test_a_controller_without_a_czxid_is_reported_again() -> None:
    """The same holder without an end in between is the same election; another holder is not."""
    history, fold = begun()
    history.delete("/controller")
    history.elect(1, seen=False)
    reported_without(history, "/controller", "czxid", "mzxid", "ctime", "mtime")
    reported_without(history, "/controller", "czxid", "mzxid", "ctime", "mtime")
    fold.follow(history)
    controller = fold.state.control.controller
    assert (seen(fold), controller.view.id) == (1, 1)
    history.record(ChangeKind.SET, path="/controller", data="2")
    fold.follow(history)
    assert (seen(fold), controller.view.id) == (2, 2)


@pytest.mark.parametrize("lacks", [("czxid",), ("czxid", "mzxid", "ctime", "mtime")])
def test_the_same_controller_reported_without_a_czxid_is_not_an_election(
    lacks: tuple[str, ...],
) -> None:
    """An absent field is not checked: the known value stays."""
    history, fold = begun()
    controller = fold.state.control.controller
    known = (fold.state.control.source.controller.czxid, controller.view.elected_at)
    history.set("/controller", controller_payload(0), seen=False)
    reported_without(history, "/controller", *lacks)
    assert kinds(fold.follow(history)) == []
    assert (seen(fold), *account(fold)) == (0, 1, 0)
    assert (fold.state.control.source.controller.czxid, controller.view.elected_at) == known
    history.report("/controller")
    history.delete("/controller", seen=False)
    history.elect(0)
    fold.follow(history)
    assert (seen(fold), *account(fold)) == (1, 2, 0)


def test_without_a_czxid_another_payload_timestamp_is_another_election() -> None:
    """Kafka writes the payload once; the same holder with another timestamp was elected again."""
    history, fold = begun()
    for timestamp, expected in (("1795250695636", 1), ("1795250695636", 1), ("1795250695637", 2)):
        content = {"version": 1, "brokerid": 0, "timestamp": timestamp}
        history.set("/controller", content, seen=False)
        reported_without(history, "/controller", "czxid", "mzxid", "ctime", "mtime")
        fold.follow(history)
        assert seen(fold) == expected


def test_a_later_report_of_a_controller_adds_its_missing_fields() -> None:
    """First a bare id, then everything: one election, and the next one is distinguished from it."""
    history, fold = begun()
    controller = fold.state.control.controller
    history.delete("/controller")
    history.record(ChangeKind.SET, path="/controller", data="0")
    history.elect(0)
    fold.follow(history)
    held = history.znodes["/controller"]
    assert (seen(fold), fold.state.control.source.controller.czxid, controller.view.elected_at) == (
        1,
        held.czxid,
        held.ctime,
    )
    assert fold.state.control.source.controller.timestamp == "1795250695635"
    assert account(fold) == (2, 0)
    history.delete("/controller", seen=False)
    history.elect(0)
    fold.follow(history)
    assert (seen(fold), *account(fold)) == (2, 3, 0)


def test_an_epoch_without_a_zxid_is_not_behind_the_controller() -> None:
    """A /controller whose czxid is known then adds no election to those that the epoch shows."""
    history = small_cluster()
    history.changes.clear()
    history.seq = 0
    history.start_resync()
    history.record(ChangeKind.SET, path="/controller", data="0")
    history.record(ChangeKind.SET, path="/controller_epoch", data="1")
    history.finish_resync(znodes=2, digest=None)
    history.report("/controller")
    fold = Fold()
    fold.follow(history)
    assert account(fold) == (1, 0)


def test_elections_without_any_zxid_are_counted_and_missed_by_the_epoch() -> None:
    """Three by the epoch, of which one creation of /controller was seen."""
    history, fold = begun()
    history.delete("/controller")
    history.epoch = 3
    history.elect(1, seen=False)
    for path in ("/controller_epoch", "/controller"):
        reported_without(history, path, "czxid", "mzxid", "ctime", "mtime", "read_zxid")
    fold.follow(history)
    assert account(fold) == (4, 2)


@pytest.mark.parametrize("lacks", [("czxid",), ("czxid", "mzxid", "ctime", "mtime")])
def test_the_same_broker_reported_again_without_a_czxid_did_not_bounce(
    lacks: tuple[str, ...],
) -> None:
    """While it is registered it is the known registration, and keeps its epoch."""
    history, fold = begun()
    epoch = history.znodes["/brokers/ids/1"].czxid
    history.broker(1, rack="r", seen=False)
    reported_without(history, "/brokers/ids/1", *lacks)
    assert kinds(fold.follow(history)) == []
    record = fold.state.control.brokers[1]
    assert (record.record.epoch, record.record.registrations, record.record.rack) == (epoch, 1, "r")
    history.broker_gone(1, seen=False)
    history.broker(1)
    assert kinds(fold.follow(history)) == ["BrokerStopped", "BrokerStarted"]
    assert fold.state.control.brokers[1].record.registrations == 2


def test_a_broker_without_any_czxid_is_registered_once_for_each_end() -> None:
    """A registration counts although no czxid identifies it; a czxid that follows later identifies it."""
    history, fold = begun()
    for registrations in (1, 2):
        history.broker(7, seen=False)
        reported_without(history, "/brokers/ids/7", "czxid")
        reported_without(history, "/brokers/ids/7", "czxid", "mzxid")
        fold.follow(history)
        record = fold.state.control.brokers[7]
        assert (record.record.epoch, record.record.registrations) == (None, registrations)
        history.broker(7)
        fold.follow(history)
        record = fold.state.control.brokers[7]
        assert record.record.epoch == history.znodes["/brokers/ids/7"].czxid
        assert record.record.registrations == registrations
        history.broker_gone(7)
        fold.follow(history)


def test_a_state_without_an_mzxid_is_not_older_than_its_topic() -> None:
    """No state is older than a topic without a czxid, too: an absent field is not checked."""
    history, fold = begun()
    history.state("t", 0, leader=0, isr=[0, 1], seen=False)
    reported_without(history, state_path("t", 0), "czxid", "mzxid")
    history.topic_gone("t", seen=False)
    history.topic("t", {0: [0, 1, 2], 1: [1, 2, 0]}, seen=False)
    reported_without(history, "/brokers/topics/t", "czxid")
    history.report("/brokers/topics/t")
    fold.follow(history)
    topic = fold.state.topics.get("t")
    assert topic is not None
    assert topic.partitions[0].leader == 0


def test_at_the_end_of_a_log_the_epoch_counts_unseen_elections() -> None:
    """An epoch without a later record shows unseen elections; the count stays as it is, and never falls."""
    count = ElectionCount(base_epoch=5, base_elections=1, seen=1)
    before = msgspec.structs.replace(count)
    for epoch, missed, expected in ((8, 0, (4, 2)), (6, 0, (2, 0)), (6, 1, (2, 1))):
        view = ControllerView(id=0, epoch=epoch, elections=2, missed_elections=missed)
        assert final_tally(count, view) == expected
    assert count == before
