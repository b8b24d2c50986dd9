"""The snapshot: every name and definition that others depend on, in written-out histories."""

from __future__ import annotations

import json
from typing import Any

import pytest

from controller_model.history.snapshot import encode_snapshot, snapshot
from controller_model.records.changes import ChangeKind
from controller_model.records.views import TopicView
from tests.support.histories import Fold, History, small_cluster, state_path

TOPIC_ID = "AAAAAAAAAAAAAAAAAAAAAA"


def reported(history: History, *, min_isr: int = 1) -> dict[str, Any]:
    """Return the snapshot at the end of a history, as its readers see it."""
    fold = Fold(min_isr=min_isr)
    fold.follow(history)
    decoded: dict[str, Any] = json.loads(encode_snapshot(snapshot(fold.state)))
    return decoded


def partition(history: History, topic: str = "t", number: int = 0) -> dict[str, Any]:
    """Return one partition at the end of a history."""
    facts: dict[str, Any] = reported(history)["topics"][topic]["partitions"][str(number)]
    return facts


def test_a_healthy_cluster_in_full() -> None:
    """Every field, with its name and its value."""
    history = small_cluster(t={0: (0, 1, 2)})
    assert reported(history) == {
        "cluster": "prod",
        "as_of": {"generation": 1, "seq": 9},
        "at": history.now + 1,
        "controller": {
            "id": 0,
            "epoch": 1,
            "elections": 1,
            "changes": 0,
            "id_changes": 0,
            "missed_elections": 0,
            "known": True,
        },
        "brokers": {
            "0": {
                "live": True,
                "epoch": 101,
                "registrations": 1,
                "leaders": 1,
                "replicas": 1,
                "preferred": 1,
                "imbalance_ratio": 0.0,
            },
            "1": {
                "live": True,
                "epoch": 102,
                "registrations": 1,
                "leaders": 0,
                "replicas": 1,
                "preferred": 0,
                "imbalance_ratio": 0.0,
            },
            "2": {
                "live": True,
                "epoch": 103,
                "registrations": 1,
                "leaders": 0,
                "replicas": 1,
                "preferred": 0,
                "imbalance_ratio": 0.0,
            },
        },
        "topics": {
            "t": {
                "topic_id": TOPIC_ID,
                "deleting": False,
                "partitions": {
                    "0": {
                        "replicas": [0, 1, 2],
                        "adding": [],
                        "removing": [],
                        "leader": 0,
                        "isr": [0, 1, 2],
                        "leader_epoch": 0,
                        "controller_epoch": 1,
                        "partition_epoch": 0,
                        "leader_recovery_state": 0,
                        "state": "OnlinePartition",
                    }
                },
            }
        },
        "counts": {
            "topics": 1,
            "partitions": 1,
            "offline": 0,
            "under_replicated": 0,
            "under_min_isr": 0,
            "at_min_isr": 0,
            "preferred_imbalance": 0,
            "reassigning": 0,
            "deleting_topics": 0,
            "missed_updates": 0,
            "unreadable": 0,
            "stale": 0,
        },
        "pending": {
            "preferred_election": False,
            "reassign_partitions": False,
            "notifications": 0,
        },
        "complete": True,
        "incomplete_reason": None,
        "denied": [],
        "absent": [],
        "unproven_from": None,
    }


def test_unknown_values_are_null_and_not_zero() -> None:
    """An empty cluster has no controller, no epoch, and no election."""
    history = History()
    history.resync()
    facts = reported(history)
    assert facts["controller"] == {
        "id": None,
        "epoch": None,
        "elections": 0,
        "changes": 0,
        "id_changes": 0,
        "missed_elections": 0,
        "known": True,
    }
    assert (facts["brokers"], facts["topics"]) == ({}, {})


def test_elections_changes_and_id_changes_of_the_controller_are_counted() -> None:
    """0 at the baseline, then 0 again, 1, 2: four elections, three changes, two of them to another id."""
    history = small_cluster()
    for winner in (0, 1, 2):
        history.delete("/controller")
        history.elect(winner)
    controller = reported(history)["controller"]
    assert (controller["elections"], controller["changes"]) == (4, 3)
    assert (controller["id_changes"], controller["missed_elections"]) == (2, 0)


def test_elections_shown_only_by_the_epoch_are_missed_elections() -> None:
    """Three elections, of which one was read: two are missed."""
    history = small_cluster()
    for winner in (1, 2):
        history.delete("/controller", seen=False)
        history.elect(winner, seen=False)
    history.delete("/controller", seen=False)
    history.elect(0)
    controller = reported(history)["controller"]
    assert (controller["elections"], controller["missed_elections"]) == (4, 2)


def test_an_epoch_that_jumps_at_the_end_of_a_log_is_counted() -> None:
    """Before 2.1 the epoch is written separately: if no change follows, it still counts."""
    history = small_cluster()
    history.set("/controller_epoch", "4")
    controller = reported(history)["controller"]
    assert (controller["epoch"], controller["elections"]) == (4, 4)
    assert controller["missed_elections"] == 3


def test_before_the_baseline_a_controller_counts_as_one_election() -> None:
    """In the first resync nothing is counted yet, and the snapshot is not complete."""
    history = small_cluster()
    del history.changes[-1]
    facts = reported(history)
    assert facts["controller"]["elections"] == 1
    assert (facts["complete"], facts["incomplete_reason"]) == (
        False,
        "the first resync has not ended",
    )
    empty = History()
    empty.start_resync()
    assert reported(empty)["controller"]["elections"] == 0


def test_registrations_are_distinct_czxids() -> None:
    """A broker that came back counts twice; one that was read again does not."""
    history = small_cluster()
    history.report("/brokers/ids/1")
    history.broker_gone(2)
    history.broker(2)
    brokers = reported(history)["brokers"]
    assert (brokers["1"]["registrations"], brokers["2"]["registrations"]) == (1, 2)
    assert brokers["2"]["epoch"] == history.znodes["/brokers/ids/2"].czxid


def test_a_state_without_a_version_in_the_log_has_no_partition_epoch() -> None:
    """An absent version is not zero."""
    history = small_cluster()
    history.state("t", 0, leader=0, isr=[0, 1], seen=False)
    history.record(
        ChangeKind.SET,
        path=state_path("t", 0),
        data=history.znodes[state_path("t", 0)].data.decode(),
    )
    facts = partition(history)
    assert (facts["isr"], facts["partition_epoch"]) == ([0, 1], None)


def test_partitions_and_brokers_are_in_order_of_their_numbers() -> None:
    """Readers get 2 before 10."""
    history = small_cluster(t={10: (10, 0), 2: (0, 10)})
    facts = reported(history)
    assert list(facts["topics"]["t"]["partitions"]) == ["2", "10"]
    assert list(facts["brokers"]) == ["0", "1", "2", "10"]


@pytest.mark.parametrize("packed", [False, True])
def test_after_damage_all_of_the_last_good_state_stays(*, packed: bool) -> None:
    """Its partition epoch too, after any number of damages; the next good state has its own, and none was missed."""
    history, fold = small_cluster(), Fold(packed=packed)
    path = state_path("t", 0)
    history.state("t", 0, leader=1, isr=[1, 2], leader_epoch=1)
    fold.follow(history)
    good = snapshot(fold.state).topics["t"]
    assert good.partitions[0].partition_epoch == 1
    for damage in (b"{", b"", b"null"):
        history.set(path, damage)
        history.resync()
        fold.follow(history)
        if packed:
            fold.restart()
        assert snapshot(fold.state).topics["t"] == good
    history.state("t", 0, leader=2, isr=[1, 2], leader_epoch=2)
    fold.follow(history)
    after = snapshot(fold.state)
    assert after.topics["t"].partitions[0].partition_epoch == 5
    assert (after.counts.unreadable, after.counts.missed_updates) == (3, 0)


def test_damage_without_a_good_state_before_it_has_no_partition_epoch() -> None:
    """There is no value to keep: neither in the snapshot nor in the view."""
    history, fold = small_cluster(t={0: (0, 1)}), Fold()
    history.delete(state_path("t", 0))
    for damage in (b"{", b"["):
        history.set(state_path("t", 0), damage)
        fold.follow(history)
        facts = snapshot(fold.state).topics["t"].partitions[0]
        assert (facts.leader, facts.partition_epoch) == (None, None)
        view = fold.views()["prod/topic/t/0"]
        assert isinstance(view, TopicView)
        assert view.partition_epoch == (None,)
