"""The snapshot's figures, pending requests and completeness, in written-out histories."""

from __future__ import annotations

import json
from typing import Any

import pytest

from controller_model.history.snapshot import encode_snapshot, snapshot
from controller_model.records.changes import ChangeKind, SessionState
from tests.support.histories import Fold, History, small_cluster, state_path


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


def test_merged_stale_and_unreadable_changes_are_counted() -> None:
    """One merged update, one old value, one payload that cannot be read."""
    history = small_cluster()
    history.state("t", 0, leader=0, isr=[0, 1], seen=False)
    history.state("t", 0, leader=0, isr=[0])
    history.record(
        ChangeKind.SET, path=state_path("t", 0), data="{}", czxid=107, mzxid=90, read_zxid=95
    )
    history.set("/brokers/topics/t", b"damaged")
    counts = reported(history)["counts"]
    assert (counts["missed_updates"], counts["stale"], counts["unreadable"]) == (1, 1, 1)
    assert partition(history)["replicas"] == [0, 1, 2]


def test_pending_requests_are_there_while_their_znodes_are() -> None:
    """Two flags, and the number of both kinds of notifications."""
    history = small_cluster()
    partitions = {"version": 1, "partitions": [{"topic": "t", "partition": 0}]}
    history.set("/admin/preferred_replica_election", partitions)
    assert reported(history)["pending"] == {
        "preferred_election": True,
        "reassign_partitions": False,
        "notifications": 0,
    }
    history.delete("/admin/preferred_replica_election")
    history.set("/admin/reassign_partitions", {"version": 1, "partitions": []})
    history.set("/isr_change_notification/isr_change_0000000000", partitions)
    history.set("/isr_change_notification/isr_change_0000000001", partitions)
    history.set("/log_dir_event_notification/log_dir_event_0000000000", {"version": 1})
    assert reported(history)["pending"] == {
        "preferred_election": False,
        "reassign_partitions": True,
        "notifications": 3,
    }


@pytest.mark.parametrize(
    ("trouble", "reason"),
    [
        ("hole", "a hole in the log: changes 11 to 13 are missing"),
        ("divergent", "a reconciliation found that this is not what the cluster holds"),
        ("blind", "the watcher had no ZooKeeper session: SUSPENDED"),
    ],
)
def test_figures_are_incomplete_until_a_resync_verifies_them(trouble: str, reason: str) -> None:
    """A hole in the log, a failed reconciliation, no session: reported with the reason, until it is fixed."""
    history = small_cluster()
    if trouble == "hole":
        history.seq += 3
        history.heartbeat()
    elif trouble == "divergent":
        history.reconciled(znodes=1)
    else:
        history.heartbeat(session=SessionState.SUSPENDED)
    facts = reported(history)
    assert (facts["complete"], facts["incomplete_reason"]) == (False, reason)
    history.heartbeat()
    history.resync()
    facts = reported(history)
    assert (facts["complete"], facts["incomplete_reason"]) == (True, None)


def test_denied_paths_are_named_and_make_the_figures_incomplete() -> None:
    """Other paths are read; figures that depend on a denied path are not known."""
    history = small_cluster()
    history.start_resync()
    for path in history.znodes:
        history.report(path)
    history.finish_resync(denied=("/config/brokers", "/feature"))
    facts = reported(history)
    assert (facts["denied"], facts["complete"]) == (["/config/brokers", "/feature"], False)
    assert facts["incomplete_reason"].startswith("READ is denied on /feature: ")


def test_paths_denied_by_kafkas_own_acls_leave_the_figures_complete() -> None:
    """A cluster with zookeeper.set.acl=true is as complete as any other."""
    history = small_cluster()
    history.start_resync()
    for path in history.znodes:
        history.report(path)
    history.finish_resync(denied=("/config/brokers",))
    facts = reported(history)
    assert (facts["denied"], facts["complete"]) == (["/config/brokers"], True)


def test_znodes_that_a_resync_is_denied_stay_as_they_were_read_last() -> None:
    """They may be deleted or not; reconciliations, which cannot read them either, verify the rest."""
    history = small_cluster()
    held = history.znodes.pop("/controller")
    history.start_resync()
    for path in history.znodes:
        history.report(path)
    denied = ("/controller", "/config/users")
    history.finish_resync(denied=denied)
    history.reconciled(denied=denied)
    facts = reported(history)
    assert facts["controller"].pop("known") is False
    assert set(facts["controller"].values()) == {None}
    reason = "READ is denied on /controller and 1 more: what depends on it is not known"
    assert facts["incomplete_reason"] == reason
    history.znodes["/controller"] = held
    history.report("/controller")
    history.heartbeat()
    history.reconciled()
    facts = reported(history)
    assert (facts["controller"]["elections"], facts["complete"]) == (1, True)


def test_a_deleted_znode_is_removed_by_the_next_resync_that_may_read_it() -> None:
    """It leaves no part in the digest."""
    history = small_cluster()
    del history.znodes["/brokers/ids/2"]
    history.start_resync()
    for path in history.znodes:
        history.report(path)
    history.finish_resync(denied=("/brokers/ids",))
    assert reported(history)["brokers"]["2"]["live"] is None
    history.resync()
    history.reconciled()
    facts = reported(history)
    assert (facts["brokers"]["2"]["live"], facts["complete"]) == (False, True)


def test_a_resync_removes_readable_znodes_next_to_a_denied_one() -> None:
    """One of three znodes that are not read is denied: that one is kept, those before and after it are deleted."""
    history = small_cluster()
    for broker in range(3):
        del history.znodes[f"/brokers/ids/{broker}"]
    history.start_resync()
    for path in history.znodes:
        history.report(path)
    history.finish_resync(denied=("/brokers/ids/1",))
    brokers = reported(history)["brokers"]
    assert [brokers[str(broker)]["live"] for broker in range(3)] == [None] * 3
    history.heartbeat()
    history.reconciled(znodes=None)
    fold = Fold()
    fold.follow(history)
    assert fold.state.control.live_brokers == {1}


def test_a_tree_that_is_denied_from_its_root_is_held_and_not_known() -> None:
    """The root covers everything: nothing of the tree is deleted, and no figure is shown."""
    history = small_cluster()
    before = reported(history)
    history.start_resync()
    history.finish_resync(denied=("/",), znodes=0, digest=None)
    after = reported(history)
    assert (after["brokers"].keys(), after["topics"].keys()) == (
        before["brokers"].keys(),
        before["topics"].keys(),
    )
    assert {each["live"] for each in after["brokers"].values()} == {None}
    states = [each for topic in after["topics"].values() for each in topic["partitions"].values()]
    assert {(each["leader"], each["state"]) for each in states} == {(None, None)}
    assert after["counts"]["offline"] is None


@pytest.mark.parametrize("reason", [None, "the session was lost"])
def test_a_resync_after_a_lost_session_requests_no_other_resync(reason: str | None) -> None:
    """It answers the request itself; its own reason is reported."""
    history, fold = small_cluster(), Fold()
    history.heartbeat(session=SessionState.LOST)
    history.start_resync(reason=reason)
    fold.follow(history)
    view = fold.cluster_view()
    assert view.resync_wanted is None
    why = reason or "no reason"
    assert view.log.incomplete_reason == (f"a resync is under way after a time out of sight: {why}")


@pytest.mark.parametrize("lost", ["session", "watcher"])
def test_figures_are_in_doubt_since_they_were_followed_last(lost: str) -> None:
    """Until the session was lost, or until the last sign of life of a watcher that another one follows."""
    history, fold = small_cluster(), Fold()
    history.heartbeat()
    followed_until = history.changes[-1].observed_at
    if lost == "session":
        history.heartbeat(session=SessionState.LOST, session_since=followed_until)
    else:
        history.new_generation("w2")
    history.now += 5_000
    history.start_resync()
    fold.follow(history)
    assert history.changes[-1].observed_at > followed_until
    assert fold.cluster_view().log.incomplete_since == followed_until


@pytest.mark.parametrize("lost", ["session", "watcher"])
def test_after_a_lost_session_figures_are_incomplete_until_the_resync_ends(
    lost: str,
) -> None:
    """The held values may be old; a resync without a gap before it, such as the daily one, changes nothing."""
    history = small_cluster()
    history.start_resync()
    assert reported(history)["complete"]
    for path in history.znodes:
        history.report(path)
    history.finish_resync()
    if lost == "session":
        history.heartbeat(session=SessionState.LOST)
    else:
        history.new_generation("w2")
    history.start_resync()
    history.heartbeat(session=SessionState.CONNECTED)
    facts = reported(history)
    assert not facts["complete"]
    assert "out of sight" in facts["incomplete_reason"]
    for path in history.znodes:
        history.report(path)
    history.finish_resync()
    assert reported(history)["complete"]


def test_a_read_acl_revoked_between_resyncs_is_reported_by_a_heartbeat() -> None:
    """And one that is granted; within a resync the watcher does not know it yet, and the resync's end reports it."""
    history = small_cluster()
    history.heartbeat(denied=("/brokers/topics",))
    assert reported(history)["denied"] == ["/brokers/topics"]
    history.start_resync()
    history.heartbeat()
    assert reported(history)["denied"] == ["/brokers/topics"]
    for path in history.znodes:
        history.report(path)
    history.finish_resync()
    assert reported(history)["denied"] == []
    history.heartbeat(denied=("/admin",))
    history.heartbeat()
    assert reported(history)["denied"] == []
