"""The rules of the log: holes, resyncs, reconciliations, staleness, and the views that result."""

from __future__ import annotations

import copy

import pytest

from controller_model.fold.replay import count_error
from controller_model.kafka.ids import Position
from controller_model.records.changes import (
    ChangeKind,
    data_fields,
)
from tests.support.histories import Fold, History, begun, kinds, payload, replaced, small_cluster


def test_a_whole_resync_deletes_znodes_that_it_did_not_report() -> None:
    """A broker and a topic that were deleted unseen are removed if count and digest match."""
    history, fold = begun()
    history.broker_gone(2, seen=False)
    history.topic_gone("t", seen=False)
    history.resync()
    reported = kinds(fold.follow(history))
    assert {"BrokerStopped", "TopicDeleted"} <= set(reported)
    assert fold.state.control.log.view.znodes == len(history.znodes)


@pytest.mark.parametrize("wrong", [{"znodes": 3}, {"digest": "0" * 16}, {"znodes": None}])
def test_a_resync_that_does_not_match_deletes_nothing_and_asks(wrong: dict[str, object]) -> None:
    """With a wrong count or digest, or none, everything stays held, and a new resync is requested."""
    history, fold = begun()
    history.broker_gone(2, seen=False)
    history.start_resync()
    for path in history.znodes:
        history.report(path)
    history.finish_resync(**wrong)
    assert kinds(fold.follow(history)) == ["Incomplete"]
    assert 2 in fold.state.control.live_brokers
    assert fold.cluster_view().resync_wanted is not None


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


def test_the_third_resync_for_one_reason_is_reported_and_not_requested() -> None:
    """Two requests with one reason; then the view says incomplete without a new request."""
    history, fold = begun()
    for _ in range(3):
        history.start_resync(answers=9)
        history.finish_resync(znodes=99)
        fold.follow(history)
    log = fold.state.control.log
    assert log.asked == 2
    assert fold.cluster_view().resync_wanted is None
    assert log.view.incomplete_since is not None
    history.resync()
    fold.follow(history)
    assert log.asked_times == 0
    assert fold.cluster_view().log.incomplete_since is None


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


def test_a_new_generation_begins_with_a_resync_or_has_a_hole() -> None:
    """Its first record is the start of a resync; anything else means that records are missing."""
    for cut, holes in ((0, 0), (1, 1)):
        history, fold = begun()
        history.new_generation("w2")
        before = len(history.changes)
        history.resync()
        fold.feed(history.changes[before + cut :])
        assert fold.state.control.log.view.holes == holes
        assert (fold.state.control.log.view.incomplete_since is not None) == bool(holes)


def test_an_older_value_never_wins() -> None:
    """A smaller mzxid is counted as stale and changes nothing."""
    history, fold = begun()
    old = history.changes[1]
    history.broker(0, rack="new")
    late = history.record(ChangeKind.SET, **{f: getattr(old, f) for f in (
        "path", "data", "mzxid", "czxid", "version", "read_zxid")})  # fmt: skip
    fold.follow(history)
    assert fold.state.control.log.view.stale == 1
    assert fold.broker_view(0).record.rack == "new"
    assert late.path == "/brokers/ids/0"


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


def test_a_late_delete_takes_nothing_away() -> None:
    """A delete that was read before the znode's newest value is an old one."""
    history, fold = begun()
    history.record(ChangeKind.DELETED, path="/brokers/ids/2", read_zxid=1)
    fold.follow(history)
    assert 2 in fold.state.control.live_brokers
    assert fold.state.control.log.view.stale == 1


def test_in_a_rebase_values_win_with_any_mzxid() -> None:
    """An ensemble restored from a backup has smaller zxids and is right all the same."""
    history, fold = begun()
    history.zxid = 10
    history.now += 60_000
    history.znodes.clear()
    history.broker(5, seen=False)
    history.epoch = 0
    history.elect(5, seen=False)
    history.resync(rebase=True)
    fold.follow(history)
    assert fold.state.control.live_brokers == {5}
    assert fold.state.control.log.view.verified_at == history.changes[-1].observed_at
    assert fold.cluster_view().log.read_zxid == history.zxid


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
    assert kinds(fold.feed(late)) == ["Incomplete"]
    assert 7 in fold.state.control.live_brokers
    assert fold.state.topics.get("u") is not None
    wanted = fold.cluster_view().resync_wanted
    assert wanted is not None
    taking_over.znodes, taking_over.zxid = history.znodes, history.zxid
    taking_over.resync(answers=wanted.number)
    assert kinds(fold.follow(taking_over)) == ["Verified"]


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


def test_outside_of_a_resync_an_older_value_is_stale_whenever_it_was_read() -> None:
    """A stale mzxid never wins: another history is read only on another connection, with a resync."""
    history, fold = restored()
    history.report("/brokers/topics/t/partitions/0/state")
    assert fold.follow(history) == []
    log = fold.state.control.log
    assert (
        fold.state.control.source.rebases,
        fold.state.control.source.rebasing,
        log.view.stale,
    ) == (0, False, 1)
    topic = fold.state.topics.get("t")
    assert topic is not None
    assert topic.partitions[0].leader == 1


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
    """Requested the 1st, 2nd, 4th and 8th time, each time under a new number."""
    history, fold = begun()
    asked = []
    for _ in range(9):
        history.start_resync()
        history.finish_resync(znodes=99)
        fold.follow(history)
        asked.append(fold.state.control.log.asked)
    assert asked == [1, 2, 2, 3, 3, 3, 3, 4, 4]


def test_reconciliations_verify_or_report_that_figures_diverge() -> None:
    """The same digest: verified. Another one: divergent, reported once, and a resync is requested."""
    history, fold = begun()
    history.heartbeat()
    history.reconciled()
    assert fold.follow(history) == []
    assert fold.state.control.log.view.verified_at == history.changes[-1].observed_at
    for _ in range(2):
        history.reconciled(digest="0" * 16)
    assert kinds(fold.follow(history)) == ["Divergent"]
    wanted = fold.cluster_view().resync_wanted
    assert wanted is not None
    history.resync(answers=wanted.number)
    assert kinds(fold.follow(history)) == ["Verified"]


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


def test_an_exception_of_the_monitor_makes_the_figures_incomplete() -> None:
    """It is counted and reported as an anomaly with its path, and a resync is requested."""
    history, fold = begun()
    reported = count_error(fold.state, history.changes[-1], "boom")
    assert kinds(reported) == ["Anomaly", "Incomplete"]
    assert fold.state.control.log.view.errors == 1


def test_dropped_changes_add_up_over_watchers() -> None:
    """Each watcher counts from 0; the view's counter continues."""
    history, fold = begun()
    history.heartbeat(dropped=5)
    history.new_generation("w2")
    history.resync()
    history.heartbeat(dropped=2)
    fold.follow(history)
    assert fold.cluster_view().log.dropped_by_watcher == 7


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
