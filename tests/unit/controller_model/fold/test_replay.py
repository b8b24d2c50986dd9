"""The rules of the log: holes, resyncs, reconciliations, staleness, and the views that result."""

from __future__ import annotations

import copy

from controller_model.kafka.ids import Position
from controller_model.records.changes import (
    ChangeKind,
    SessionState,
    data_fields,
)
from tests.support.histories import Fold, History, begun, kinds, payload, replaced, small_cluster


def test_a_hole_in_a_resync_forbids_its_deletes() -> None:
    """Even with the right digest: the missing record may have been a set."""
    history, fold = begun()
    history.broker_gone(2, seen=False)
    history.start_resync()
    for path in history.znodes:
        history.report(path)
    history.seq += 1
    history.finish_resync()
    assert kinds(fold.follow(history)) == ["Incomplete"]
    assert 2 in fold.state.control.live_brokers
    assert fold.state.control.log.view.holes == 1
    history.resync(answers=1)
    assert kinds(fold.follow(history)) == ["BrokerStopped", "Verified"]
    assert fold.cluster_view().resync_wanted is None


def test_changes_during_a_resync_count_in_it() -> None:
    """Changed, created and deleted during the resync, before and after they were read."""
    history, fold = begun()
    history.start_resync()
    paths = list(history.znodes)
    for path in paths[:3]:
        history.report(path)
    history.delete(paths[0])
    history.delete(paths[-1])
    history.broker(7)
    history.set(paths[1], history.znodes[paths[1]].data)
    for path in paths[3:-1]:
        history.report(path)
    history.report(paths[1])
    history.finish_resync()
    fold.follow(history)
    assert fold.state.control.log.view.verified_at == history.changes[-1].observed_at


def test_duplicates_and_foreign_watchers_are_dropped() -> None:
    """One watcher per generation, and each position once."""
    history, fold = begun()
    history.broker_gone(2)
    fold.follow(history)
    assert fold.feed(history.changes[-3:]) == []
    foreign = replaced(history.changes[-1], watcher="w9", seq=history.seq + 1)
    assert fold.feed([foreign]) == []
    assert fold.state.control.log.view.not_newer == 4
    assert fold.state.control.log.position == Position(1, history.seq)


def test_after_a_delete_the_reads_zxid_decides() -> None:
    """A read from before the delete creates nothing again; one from after it does."""
    history, fold = begun()
    old = history.changes[3]
    assert old.path == "/brokers/ids/2"
    history.broker_gone(2)
    fields = {f: getattr(old, f) for f in ("path", "data", "mzxid", "czxid", "version")}
    history.record(ChangeKind.SET, **fields, read_zxid=old.read_zxid)
    fold.follow(history)
    assert 2 not in fold.state.control.live_brokers
    history.record(ChangeKind.SET, **fields, read_zxid=history.zxid)
    fold.follow(history)
    assert 2 in fold.state.control.live_brokers


def test_a_resync_that_comes_late_deletes_nothing_that_is_newer_than_its_reads() -> None:
    """A deposed watcher kept reading before the messages of its successor arrived: everything stays held."""
    history, fold = begun()
    taking_over = copy.deepcopy(history)
    taking_over.new_generation("second")
    taking_over.resync()
    late = [c for c in taking_over.changes if c.generation == taking_over.generation]
    history.broker(7)
    history.topic("u", {0: (7,)})
    fold.follow(history)
    reported = fold.feed(late[:-1])
    fold.restart()
    assert kinds([*reported, *fold.feed(late[-1:])]) == ["Incomplete"]
    assert 7 in fold.state.control.live_brokers
    assert fold.state.topics.get("u") is not None
    wanted = fold.cluster_view().resync_wanted
    assert wanted is not None
    taking_over.znodes, taking_over.zxid = history.znodes, history.zxid
    taking_over.resync(answers=wanted.number)
    assert kinds(fold.follow(taking_over)) == ["Verified"]


def test_a_later_resync_of_a_successor_that_reads_less_deletes_nothing_either() -> None:
    """The successor's first resync broke off on a server that is behind: its next one reads there again."""
    history, fold = begun()
    taking_over = copy.deepcopy(history)
    history.topic("u", {0: (0,)})
    fold.follow(history)
    taking_over.new_generation("second")
    taking_over.start_resync()
    taking_over.heartbeat(session=SessionState.SUSPENDED)
    taking_over.resync()
    assert kinds(fold.follow(taking_over)) == ["Incomplete"]
    assert fold.state.topics.get("u") is not None
    wanted = fold.cluster_view().resync_wanted
    assert wanted is not None
    assert wanted.reason == "a resync with a hole, two histories or old reads in it"


def restored() -> tuple[History, Fold]:
    """Return a cluster that was restored from a backup while its zxids continued, and its fold."""
    history, fold = begun()
    backup = copy.deepcopy(history.znodes)
    history.broker(2)
    history.state("t", 0, leader=1, isr=(1, 2), leader_epoch=1)
    fold.follow(history)
    history.zxid += 1_000
    history.znodes = backup
    return history, fold


def test_a_restored_ensemble_with_larger_zxids_is_found_by_a_value_that_came_back() -> None:
    """The watcher cannot know it: the fold reports it and requests a resync, which replaces everything."""
    history, fold = restored()
    history.resync()
    assert kinds(fold.follow(history)) == ["Anomaly", "Incomplete"]
    log = fold.state.control.log
    assert (
        fold.state.control.source.rebases,
        fold.state.control.source.rebasing,
        log.view.stale,
    ) == (1, True, 2)
    wanted = fold.cluster_view().resync_wanted
    assert wanted is not None
    assert wanted.reason == "a resync with a hole, two histories or old reads in it"
    history.resync(answers=wanted.number)
    assert kinds(fold.follow(history))[-1] == "Verified"
    assert (
        fold.state.control.source.rebases,
        fold.state.control.source.rebasing,
        log.view.stale,
    ) == (1, False, 2)
    topic = fold.state.topics.get("t")
    assert topic is not None
    assert topic.partitions[0].leader == 0


def test_another_cluster_id_with_the_same_zxids_replaces_all_state() -> None:
    """A new ensemble counts its zxids from the start: only the cluster id distinguishes it from the old one."""
    history, fold = small_cluster(), Fold()
    history.set("/cluster/id", {"version": "1", "id": "old"})
    fold.follow(history)
    held = history.znodes["/cluster/id"]
    held.data = payload({"version": "1", "id": "new"})
    history.znodes["/brokers/ids/1"].data = payload(
        {"version": 5, "host": "other", "port": 1, "endpoints": ["PLAINTEXT://other:1"]}
    )
    history.resync()
    assert kinds(fold.follow(history)) == ["Anomaly", "Incomplete"]
    assert fold.state.control.config.cluster_id == "old"
    wanted = fold.cluster_view().resync_wanted
    assert wanted is not None
    history.resync(answers=wanted.number)
    assert kinds(fold.follow(history)) == ["Anomaly", "Anomaly", "Verified"]
    assert fold.state.control.config.cluster_id == "new"
    assert fold.broker_view(1).record.host == "other"
    assert fold.state.control.source.rebases == 1


def test_a_damaged_cluster_id_does_not_replace_the_cluster() -> None:
    """If it is reported again with its zxid but unreadable, nothing is concluded from it."""
    history, fold = small_cluster(), Fold()
    history.set("/cluster/id", {"version": "1", "id": "old"})
    fold.follow(history)
    history.znodes["/cluster/id"].data = b"{"
    history.resync()
    assert kinds(fold.follow(history)) == []
    assert fold.state.control.source.rebases == 0


def test_failed_resyncs_are_requested_again_with_backoff() -> None:
    """Requested the 1st, 2nd, 4th and 8th time, each time under a new number; a proof ends the backoff."""
    history, fold = begun()
    asked = []
    for _ in range(9):
        history.start_resync()
        history.finish_resync(znodes=99)
        fold.follow(history)
        asked.append(fold.state.control.log.asked)
    assert asked == [1, 2, 2, 3, 3, 3, 3, 4, 4]
    history.resync()
    fold.follow(history)
    assert fold.state.control.log.asked_times == 0


def test_a_reconciliation_ends_a_resync_whose_end_is_missing() -> None:
    """A fold that resumed from an older checkpoint might wait for it forever: it requests again."""
    history, fold = small_cluster(), Fold()
    begun_only = history.changes[:5]
    fold.feed(begun_only)
    history.seq += 100
    history.reconciled()
    assert kinds(fold.feed(history.changes[-1:])) == ["Incomplete"]
    first = fold.cluster_view().resync_wanted
    assert first is not None
    assert (first.number, first.reason) == (2, "a resync whose end is missing")
    history.reconciled()
    assert fold.feed(history.changes[-1:]) == []
    read = len(history.changes)
    history.resync(answers=2)
    assert kinds(fold.feed(history.changes[read:]))[-2:] == ["Baseline", "Verified"]
    assert fold.cluster_view().resync_wanted is None


def test_a_zxid_whose_low_half_rolled_over_is_newer() -> None:
    """ZooKeeper elects a new leader at that point, so the epoch in the high half has grown."""
    history, fold = begun()
    history.zxid = 0x2_FFFF_FFFE
    history.state("t", 0, leader=1, isr=[0, 1, 2])
    history.zxid = 0x3_0000_0000
    history.state("t", 0, leader=2, isr=[0, 1, 2])
    fold.follow(history)
    assert fold.state.control.log.view.stale == 0
    assert fold.cluster_view().counts.preferred_imbalance == 1
    topic = fold.state.topics.get("t")
    assert topic is not None
    assert topic.partitions[0].leader == 2


def test_a_watcher_may_begin_another_generation_under_its_own_name() -> None:
    """What it has dropped is still counted."""
    history, fold = begun()
    history.heartbeat(dropped=3)
    history.new_generation(history.watcher)
    history.resync()
    history.heartbeat(dropped=4)
    fold.follow(history)
    assert fold.cluster_view().log.dropped_by_watcher == 4


def test_what_watchers_have_dropped_adds_up_from_the_first_record_of_each() -> None:
    """Not only from its first heartbeat on: until then the one before would count twice."""
    history, fold = begun()
    history.heartbeat(dropped=3)
    history.new_generation("second")
    history.resync()
    fold.follow(history)
    assert fold.cluster_view().log.dropped_by_watcher == 3
    history.heartbeat(dropped=2)
    fold.follow(history)
    assert fold.cluster_view().log.dropped_by_watcher == 5


def test_a_lagging_server_does_not_restore_znodes_deleted_by_a_resync() -> None:
    """A read from before the resync's own state is stale, also for a path that is no longer held."""
    history, fold = begun()
    old = history.znodes["/controller"]
    before = history.zxid
    history.delete("/controller", seen=False)
    history.broker(2, seen=False)
    history.resync()
    fold.follow(history)
    assert fold.cluster_view().controller.id == -1
    stale = fold.cluster_view().log.stale
    history.new_generation("w2")
    history.start_resync()
    fields = {"czxid": old.czxid, "mzxid": old.mzxid, "version": 0, **data_fields(old.data)}
    history.record(ChangeKind.SET, path="/controller", read_zxid=before, **fields)
    fold.follow(history)
    view = fold.cluster_view()
    assert view.controller.id == -1
    assert view.log.stale == stale + 1
    assert view.controller.elections == 1
    history.record(ChangeKind.SET, path="/controller", read_zxid=history.zxid, **fields)
    fold.follow(history)
    assert fold.cluster_view().controller.id == 0, "a server that has come as far is believed"
