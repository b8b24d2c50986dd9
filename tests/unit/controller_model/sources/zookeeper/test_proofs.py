"""What control records report and count, in every detail: events, reasons, counters, clocks."""

from __future__ import annotations

import pytest

from controller_model.fold.replay import EventBatch, Reported, count_error, replay
from controller_model.kafka.ids import Position
from controller_model.records.changes import ChangeKind, SessionState, ZnodeChange, digest_text
from controller_model.records.events import (
    Anomaly,
    AnyEvent,
    Baseline,
    Divergent,
    Incomplete,
    Verified,
)
from controller_model.records.views import ResyncWanted
from controller_model.sources.zookeeper.state import DENIED
from controller_model.sources.zookeeper.stats import every_stat
from controller_model.state.log_state import LogState
from tests.support.histories import (
    Fold,
    History,
    controller_payload,
    kinds,
    only,
    replaced,
    small_cluster,
)

ZNODES = 8
"""The znodes of the small cluster."""

BEGAN = Position(1, 10)
"""Where its first resync ends."""


def begun() -> tuple[History, Fold, LogState]:
    """Return a small cluster, a fold that has read it, and what the fold holds of the log."""
    history, fold = small_cluster(), Fold()
    fold.follow(history)
    return history, fold, fold.state.control.log


def last(history: History) -> ZnodeChange:
    """Return the newest record."""
    return history.changes[-1]


def test_a_baseline_has_the_znodes_the_controller_and_its_epoch() -> None:
    """It holds the number of znodes, the controller, since when, and its epoch; then the figures are verified."""
    history, fold = small_cluster(), Fold()
    events = fold.follow(history)
    at, elected_at = last(history).observed_at, history.znodes["/controller"].ctime
    assert events == [
        Baseline(
            at=at, position=BEGAN, znodes=ZNODES, controller=0, epoch=1, elected_at=elected_at
        ),
        Verified(at=at, position=BEGAN, znodes=ZNODES),
    ]
    log = fold.state.control.log
    assert (
        log.view.resyncs,
        fold.state.control.source.resync_ordinal,
        log.view.reconciliations,
    ) == (1, 1, 0)


def test_a_hole_is_reported_and_counted_each_time() -> None:
    """The first hole is an event; all holes are counted; the newest is the reason. It begins behind the last record."""
    history, fold, log = begun()
    before = last(history).observed_at
    history.seq += 2
    history.heartbeat()
    reason = "a hole in the log: changes 11 to 12 are missing"
    at = last(history).observed_at
    assert fold.follow(history) == [Incomplete(at=at, position=Position(1, 13), reason=reason)]
    assert log.wanted == ResyncWanted(number=1, reason="a hole in the log")
    assert (log.view.holes, log.view.incomplete_since, log.reason) == (1, before, reason)
    history.seq += 1
    history.heartbeat()
    assert fold.follow(history) == []
    assert (log.view.holes, log.view.incomplete_since) == (2, before)
    assert log.reason == "a hole in the log: changes 14 to 14 are missing"
    history.new_generation("w2")
    history.seq = 1
    history.resync()
    fold.follow(history)
    assert log.view.holes == 3


def test_a_generation_without_its_first_record_is_incomplete_by_its_number() -> None:
    """It gives the generation's number; a resync's start that is not its first record is not its beginning."""
    history, fold, log = begun()
    history.start_resync()
    history.new_generation("w2")
    history.heartbeat()
    event = only(fold.follow(history), Incomplete)
    assert not log.view.resync_under_way, "its watcher was deposed"
    assert event.reason == "a hole in the log: the beginning of generation 2 is missing"
    history.new_generation("w3")
    history.seq = 4
    history.start_resync()
    fold.follow(history)
    assert log.reason == "a hole in the log: the beginning of generation 3 is missing"
    assert fold.state.control.source.resync is not None


def test_an_event_of_the_change_that_shows_a_hole_comes_with_it() -> None:
    """The hole is reported first, then the change's own event."""
    history, fold, _ = begun()
    history.seq += 1
    history.broker_gone(2)
    assert kinds(fold.follow(history))[:2] == ["Incomplete", "BrokerStopped"]
    history.seq += 1
    history.elect(1)
    history.now += 60_000
    history.heartbeat()
    assert "ControllerElected" in kinds(fold.follow(history))


def test_a_znode_that_no_watcher_publishes_is_an_anomaly_and_not_held() -> None:
    """It is reported with its path and is not held."""
    history, fold, log = begun()
    history.record(ChangeKind.SET, path="/brokers/ids", data="", mzxid=1, read_zxid=1)
    change = last(history)
    assert fold.follow(history) == [
        Anomaly(
            at=change.observed_at,
            position=change.position,
            path="/brokers/ids",
            reason="not a znode that a watcher publishes",
        )
    ]
    history.record(ChangeKind.SET, path="/elsewhere", data="", mzxid=1, read_zxid=1)
    fold.follow(history)
    assert (log.view.anomalies, log.view.znodes) == (2, ZNODES)


def test_an_unreadable_payload_is_reported_with_its_time_and_path() -> None:
    """Each is counted; the znode is held, with its last good value."""
    history, fold, log = begun()
    for times in (1, 2):
        history.set("/brokers/ids/2", b"{" * times)
        change = last(history)
        event = only(fold.follow(history), Anomaly)
        assert (event.at, event.path, event.position) == (
            change.observed_at,
            "/brokers/ids/2",
            change.position,
        )
        assert event.reason.startswith("unreadable, the last good value stays: ")
        assert (log.view.unreadable, log.view.anomalies) == (times, times)


def test_what_cannot_be_read_of_a_topic_is_held_and_may_go() -> None:
    """A reconciliation counts it; a resync that does not name it leaves nothing of it."""
    history, fold, log = begun()
    history.set("/config/topics/t", "{")
    for damaged in ("{", "["):
        history.set("/brokers/topics/t", damaged)
        history.reconciled()
        fold.follow(history)
        assert log.view.divergent_since is None
    history.delete("/config/topics/t", seen=False)
    history.resync()
    fold.follow(history)
    assert fold.state.topic("t").unreadable == ("/brokers/topics/t",)


def test_an_unreadable_value_without_czxid_belongs_to_the_held_znode() -> None:
    """A record without the znode's czxid is of the same znode: its next version counts as one step."""
    history, fold, log = begun()
    held = history.znodes["/brokers/ids/2"]
    place = {"path": "/brokers/ids/2", "read_zxid": history.zxid + 1}
    history.record(ChangeKind.SET, data="{", mzxid=history.zxid + 1, version=1, **place)
    fold.follow(history)
    assert fold.state.control.source.stats["/brokers/ids/2"].created == held.czxid
    history.znodes["/brokers/ids/2"].version = 3
    history.zxid += 1
    history.broker(2)
    fold.follow(history)
    assert (log.view.unreadable, log.view.missed_updates) == (1, 2)


def test_updates_are_missed_between_two_values_of_one_znode_alone() -> None:
    """A znode that was created again counts its versions from 0 again, however many it had before."""
    history, fold, log = begun()
    history.delete("/brokers/ids/2", seen=False)
    for _ in range(4):
        history.broker(2, seen=False)
    history.report("/brokers/ids/2")
    fold.follow(history)
    assert log.view.missed_updates == 0
    for _ in range(3):
        history.broker(2, seen=False)
    history.report("/brokers/ids/2")
    fold.follow(history)
    assert log.view.missed_updates == 2


def test_records_that_cannot_be_read_belong_to_no_path() -> None:
    """They add up, and the anomaly has no path."""
    _, fold, log = begun()
    batch = EventBatch(fold.state)
    batch.count_unreadable(2, at=7, reason="damaged")
    batch.count_unreadable(3, at=7, reason="damaged")
    assert batch.take_events() == [Anomaly(at=7, position=BEGAN, path="", reason="damaged")] * 2
    assert log.view.unreadable == 5


def test_an_exception_of_the_monitor_is_reported_and_requests_a_resync() -> None:
    """As an anomaly of the change, and as the reason why the figures are incomplete; each is counted."""
    history, fold, log = begun()
    change = replaced(last(history), kind=ChangeKind.SET, path="/brokers/topics/a b", observed_at=9)
    assert count_error(fold.state, change, "boom") == [
        Anomaly(
            at=9,
            position=BEGAN,
            path="/brokers/topics/a b",
            reason="an error of the monitor's own in set /brokers/topics/a b: boom",
        ),
        Incomplete(at=9, position=BEGAN, reason="an error of the monitor's own"),
    ]
    assert log.wanted == ResyncWanted(number=1, reason="an error of the monitor's own")
    count_error(fold.state, change, "boom")
    assert log.view.errors == 2


def failed(fold: Fold, history: History) -> tuple[AnyEvent, ResyncWanted | None]:
    """Return how the failure of a resync was reported, and what was requested."""
    event = only(fold.follow(history), Incomplete)
    assert event.at == last(history).observed_at
    assert event.position == last(history).position
    return event, fold.state.control.log.wanted


def test_each_failure_of_a_resync_has_its_own_reason() -> None:
    """No start, a hole, a wrong proof, no end, a permission granted too late: each requests with its reason."""
    history, fold, _ = begun()
    history.finish_resync()
    assert failed(fold, history)[1] == ResyncWanted(
        number=1, reason="a resync ended whose start is missing"
    )

    history, fold, _ = begun()
    history.start_resync()
    history.finish_resync(resync=9)
    assert failed(fold, history)[1] == ResyncWanted(
        number=1, reason="a resync ended whose start is missing"
    )

    history, fold, log = begun()
    proven_at = log.view.verified_at
    history.heartbeat()
    history.start_resync()
    history.finish_resync(znodes=99)
    reported = failed(fold, history)[1]
    assert reported == ResyncWanted(number=1, reason="a resync whose count or digest is not ours")
    assert log.view.incomplete_since == proven_at is not None

    history, fold, log = begun()
    history.start_resync()
    history.reconciled()
    assert failed(fold, history)[1] == ResyncWanted(
        number=1, reason="a resync whose end is missing"
    )
    assert fold.state.control.source.resync is None
    assert not log.view.resync_under_way

    history, fold, _ = begun()
    history.start_resync()
    for path in history.znodes:
        if path != "/brokers/ids/2":
            history.report(path)
    history.finish_resync(denied=("/brokers/ids/2",))
    history.reconciled()
    assert failed(fold, history)[1] == ResyncWanted(
        number=1, reason="znodes that were denied are not there any more"
    )


def test_resync_starts_and_ends_without_an_id_match() -> None:
    """Another program's log may lack the id; a start without an id does not match an end with one."""
    history, fold, log = begun()
    history.start_resync(reason=None)
    history.changes[-1] = replaced(last(history), resync=None)
    for path in history.znodes:
        history.report(path)
    history.finish_resync(resync=None)
    assert fold.follow(history) == []
    assert log.view.verified_at == last(history).observed_at
    history.start_resync()
    history.changes[-1] = replaced(last(history), resync=None)
    history.finish_resync(resync=1)
    assert kinds(fold.follow(history)) == ["Incomplete"]


def test_resyncs_and_reconciliations_are_counted_one_by_one() -> None:
    """And while a resync is in progress, its reason is shown."""
    history, fold, log = begun()
    history.reconciled()
    history.reconciled()
    history.resync()
    history.start_resync(reason="daily")
    fold.follow(history)
    assert (
        log.view.resyncs,
        fold.state.control.source.resync_ordinal,
        log.view.reconciliations,
    ) == (3, 3, 2)
    assert fold.state.control.source.resync is not None
    assert (
        fold.state.control.source.resync.id,
        fold.state.control.source.resync.began,
    ) == (3, last(history).position)


def test_a_divergence_is_reported_with_both_sides() -> None:
    """Once, with counts and digests; each reconciliation that finds it requests a resync again."""
    history, fold, log = begun()
    history.reconciled(znodes=3, digest="0" * 16)
    change = last(history)
    ours = digest_text(fold.state.control.source.digest)
    assert fold.follow(history) == [
        Divergent(
            at=change.observed_at,
            position=change.position,
            reason=f"a reconciliation counted 3 znodes with digest {'0' * 16}, "
            f"the fold holds {ZNODES} with {ours}",
        )
    ]
    assert log.wanted == ResyncWanted(number=1, reason="divergent")
    history.reconciled(znodes=3, digest="0" * 16)
    assert fold.follow(history) == []
    assert log.wanted == ResyncWanted(number=2, reason="divergent")
    history.resync(answers=2)
    assert fold.follow(history) == [
        Verified(at=last(history).observed_at, position=last(history).position, znodes=ZNODES)
    ]
    assert (log.reason, log.view.divergent_since) == (None, None)


def test_a_resync_for_another_reason_is_requested_at_once() -> None:
    """The backoff counts one reason in a row; an open request is not repeated."""
    history, fold, log = begun()
    for _ in range(3):
        history.reconciled(digest="0" * 16)
    history.start_resync()
    history.finish_resync(znodes=99)
    fold.follow(history)
    assert log.wanted == ResyncWanted(number=3, reason="a resync whose count or digest is not ours")
    assert (log.asked, log.asked_times) == (3, 1)
    history.seq += 1
    history.heartbeat()
    fold.follow(history)
    assert (log.asked, log.asked_times) == (3, 1)


def test_the_resync_that_names_a_request_closes_it() -> None:
    """By its number or a higher one; a lower one, or none, leaves it open."""
    for answers, closed in ((None, False), (1, False), (2, True), (3, True)):
        history, fold, log = begun()
        history.reconciled(digest="0" * 16)
        history.reconciled(digest="0" * 16)
        history.start_resync(answers=answers)
        fold.follow(history)
        assert (log.wanted is None) is closed


def test_a_heartbeat_reports_its_time_server_and_session() -> None:
    """Its time, the server, the session and since when; without a session in it the last one is kept."""
    history, fold, log = begun()
    history.heartbeat(session_since=5, zookeeper="zk1:2181", dropped=4)
    fold.follow(history)
    assert (log.view.heartbeat_at, log.view.zookeeper) == (last(history).observed_at, "zk1:2181")
    assert (log.view.session, log.view.session_since) == (SessionState.CONNECTED, 5)
    history.heartbeat(session=None)
    fold.follow(history)
    assert (log.view.session, log.view.session_since, log.dropped) == (SessionState.CONNECTED, 5, 4)


def test_dropped_changes_add_up_over_three_watchers() -> None:
    """Each watcher counts from zero, also before its first heartbeat."""
    history, fold, log = begun()
    for number, dropped in enumerate((5, 2, 1)):
        history.heartbeat(dropped=dropped)
        fold.follow(history)
        history.new_generation(f"w{number + 2}")
        history.resync()
        fold.follow(history)
    assert (log.dropped_base, log.dropped) == (8, 0)


def test_the_clocks_of_the_newest_change_are_kept() -> None:
    """The watcher's and ZooKeeper's; a change without mtime does not change ZooKeeper's."""
    history, fold, log = begun()
    history.broker(7)
    fold.follow(history)
    mtime = last(history).mtime
    assert (log.view.last_change_at, log.view.last_change_mtime) == (
        last(history).observed_at,
        mtime,
    )
    history.delete("/brokers/ids/7")
    fold.follow(history)
    assert (log.view.last_change_at, log.view.last_change_mtime) == (
        last(history).observed_at,
        mtime,
    )


def test_stale_values_and_deletes_are_counted_one_by_one() -> None:
    """A delete read at the zxid of the held value is not stale: it wins."""
    history, fold, log = begun()
    for _ in range(2):
        history.record(ChangeKind.SET, path="/brokers/ids/2", data="{}", czxid=1, mzxid=1)
    for _ in range(2):
        history.record(ChangeKind.DELETED, path="/brokers/ids/2", read_zxid=1)
    fold.follow(history)
    assert log.view.stale == 4
    mzxid = history.znodes["/brokers/ids/2"].mzxid
    history.record(ChangeKind.DELETED, path="/brokers/ids/2", read_zxid=mzxid)
    assert kinds(fold.follow(history)) == ["BrokerStopped"]
    assert (log.view.stale, fold.state.control.source.deletes_read_zxid) == (4, mzxid)


def test_in_a_rebase_a_delete_wins_whenever_it_was_read() -> None:
    """Zxids of another history cannot be compared with the held value's."""
    history, fold, log = begun()
    history.start_resync(rebase=True)
    history.record(ChangeKind.DELETED, path="/brokers/ids/2", read_zxid=1)
    assert kinds(fold.follow(history)) == ["BrokerStopped"]
    assert (fold.state.control.source.rebases, log.view.stale, log.view.read_zxid) == (1, 0, 1)
    history.start_resync(rebase=True)
    fold.follow(history)
    assert (
        fold.state.control.source.rebases,
        log.view.read_zxid,
        fold.state.control.source.deletes_read_zxid,
    ) == (2, 0, 0)


def test_absent_zxids_of_a_record_count_as_zero() -> None:
    """Absent zxids are not checked and raise nothing."""
    history, fold, log = begun()
    before = log.view.read_zxid
    history.record(ChangeKind.DELETED, path="/brokers/ids/9")
    history.record(ChangeKind.SET, path="/feature", data="{}")
    fold.follow(history)
    assert (log.view.read_zxid, fold.state.control.source.deletes_read_zxid) == (before, 0)
    stat = fold.state.control.source.stats["/feature"]
    assert (stat.order, stat.created, stat.reading) == (0, 0, 0)


def test_a_znode_changed_outside_of_a_resync_is_not_confirmed_by_the_next() -> None:
    """Its stat names no resync: if the next resync does not name it, it is deleted, under its own path."""
    history, fold, _ = begun()
    history.broker(7)
    fold.follow(history)
    assert fold.state.control.source.stats["/brokers/ids/7"].reading == 0
    history.broker_gone(7, seen=False)
    history.resync()
    events = fold.follow(history)
    assert kinds(events) == ["BrokerStopped"]
    assert "/brokers/ids/7" not in fold.state.control.source.stats


def test_a_replaced_zookeeper_history_is_reported_with_the_path_that_proves_it() -> None:
    """Once for each resync, with the value's path; the second history is counted as the second one."""
    history, fold, _log = begun()
    for rebases in (1, 2):
        history.zxid += 100
        history.broker(2)
        fold.follow(history)
        history.znodes["/brokers/ids/2"].mzxid -= 50
        history.start_resync()
        change = history.report("/brokers/ids/2")
        assert fold.follow(history) == [
            Anomaly(
                at=change.observed_at,
                position=change.position,
                path="/brokers/ids/2",
                reason="ZooKeeper's history was replaced: "
                "a value was read that it could not hold any more",
            )
        ]
        assert fold.state.control.source.resync is not None
        assert fold.state.control.source.resync.whole is False
        assert fold.state.control.source.rebases == rebases
        history.resync()
        fold.follow(history)
        assert fold.state.control.source.rebasing is False


def test_a_replaced_zookeeper_history_is_reported_at_the_end_of_the_rebase() -> None:
    """For the cluster as a whole, before it counts as verified; the first history of a lineage is not reported."""
    history, fold, _ = begun()
    history.resync(rebase=True)
    ended = last(history)
    reason = "ZooKeeper's history was replaced: it was restored or rebuilt, and all is read again"
    at, position = ended.observed_at, ended.position
    first = Anomaly(at=at, position=position, path="/", reason=reason)
    assert fold.follow(history)[:1] == [first]
    new, fold = small_cluster(), Fold()
    new.changes[0] = replaced(new.changes[0], rebase=True)
    assert kinds(fold.follow(new)) == ["Baseline", "Verified"]


def test_a_stale_value_in_a_resync_is_not_a_replaced_history() -> None:
    """It was read before the held value: the server lags, it was not restored, and its resync proves nothing."""
    history, fold, log = begun()
    history.start_resync()
    history.record(ChangeKind.SET, path="/brokers/ids/2", data="{}", czxid=1, mzxid=1, read_zxid=2)
    assert fold.follow(history) == []
    assert (
        log.view.stale,
        fold.state.control.source.rebases,
        fold.state.control.source.rebasing,
    ) == (1, 0, False)
    assert fold.state.control.source.resync is not None
    assert fold.state.control.source.resync.whole is False


def test_only_a_connected_watchers_heartbeat_settles_an_election() -> None:
    """While the watcher is cut off, the epoch may still arrive; afterwards it will not."""
    history, fold, _ = begun()
    history.broker_gone(0)
    history.elect(1, epoch_seen=False)
    history.heartbeat(session=SessionState.SUSPENDED)
    assert "ControllerElected" not in kinds(fold.follow(history))
    history.heartbeat()
    assert "ControllerElected" in kinds(fold.follow(history))


TOPIC = "/brokers/topics/t"


def denied_resync(history: History, *, rebase: bool = False, path: str = TOPIC) -> None:
    """Read everything again except topic `t` and what is below it: of `path` it may no longer be read."""
    history.start_resync(rebase=rebase)
    for each in history.znodes:
        if not each.startswith(TOPIC):
            history.report(each)
    history.finish_resync(denied=(path,), denied_more=0)


def denied(fold: Fold) -> dict[str, int]:
    """Return the mzxids of the held znodes that the last resync was denied."""
    return {path: stat.order for path, stat in every_stat(fold.state) if stat.reading == DENIED}


@pytest.mark.parametrize("rebase", [False, True])
def test_znodes_denied_to_a_resync_keep_their_values_and_leave_the_digest(*, rebase: bool) -> None:
    """It keeps its last read value and is not in the watcher's counts and digests, in a new history as well."""
    history, fold, log = begun()
    digest = fold.state.control.source.digest
    denied_resync(history, rebase=rebase)
    fold.follow(history)
    below = {path: held.mzxid for path, held in history.znodes.items() if path.startswith(TOPIC)}
    assert denied(fold) == (dict.fromkeys(below, 0) if rebase else below)
    assert (log.view.znodes, fold.state.control.source.digest == digest) == (ZNODES, not rebase)
    assert fold.counts().partitions == 2
    history.reconciled(denied=(TOPIC,), denied_more=0)
    assert fold.follow(history) == []
    assert log.view.verified_at == last(history).observed_at
    history.resync()
    fold.follow(history)
    assert (
        denied(fold),
        fold.state.control.source.digest,
        log.view.denied,
    ) == ({}, digest, ())


def test_denied_znodes_that_a_reconciliation_does_not_meet_stay_marked() -> None:
    """It fails and asks for a resync; until that ends the fold knows no more about them than before."""
    history, fold, log = begun()
    denied_resync(history)
    fold.follow(history)
    before = denied(fold), dict(fold.state.control.source.denied_trees)
    history.reconciled(denied=(f"{TOPIC}/partitions",), denied_more=0)
    assert kinds(fold.follow(history)) == ["Incomplete"]
    assert (denied(fold), fold.state.control.source.denied_trees) == before
    assert log.wanted is not None


def test_denied_znodes_are_grouped_by_the_paths_that_are_denied_now() -> None:
    """Where all topics were denied, and now one is, the same znodes stay out of the proofs."""
    history, fold, log = begun()
    denied_resync(history, path="/brokers/topics")
    fold.follow(history)
    before = denied(fold), dict(fold.state.control.source.denied_trees)
    assert list(before[1]) == ["/brokers/topics"]
    history.reconciled(denied=(TOPIC,), denied_more=0)
    assert fold.follow(history) == []
    assert log.view.verified_at == last(history).observed_at
    trees = fold.state.control.source.denied_trees
    assert (denied(fold), trees) == (before[0], {TOPIC: before[1]["/brokers/topics"]})


def test_a_denied_znode_that_is_read_again_or_deleted_is_no_longer_marked() -> None:
    """Whatever the record says of its value: the watcher's proofs include it again, or it is gone."""
    history, fold, log = begun()
    denied_resync(history)
    history.report(f"{TOPIC}/partitions/0/state")
    history.delete(f"{TOPIC}/partitions/1/state")
    history.reconciled(denied=(TOPIC,), denied_more=0)
    fold.follow(history)
    assert denied(fold) == {TOPIC: history.znodes[TOPIC].mzxid}
    assert log.view.verified_at == last(history).observed_at
    history.record(ChangeKind.DELETED, path=TOPIC, read_zxid=1)
    fold.follow(history)
    assert (denied(fold), fold.state.control.source.denied_trees, log.view.stale) == ({}, {}, 1)


def test_a_topic_that_a_resync_was_denied_is_shown_again() -> None:
    """Otherwise its view would count as one from before the resync, of a topic that no longer exists: after each one."""
    history, fold, _ = begun()
    fold.views()
    for _again in range(2):
        denied_resync(history)
        fold.follow(history)
        assert topic_views(fold) == ["prod/topic/t/0"]


def topic_views(fold: Fold) -> list[str]:
    """Return the keys of the topics' views that changed."""
    return sorted(key for key in fold.views() if key.startswith("prod/topic/"))


def test_a_read_acl_granted_again_counts_from_the_next_resync_on() -> None:
    """Values below it are from before the denial; a permission without held znodes counts at once."""
    history, fold, log = begun()
    denied_resync(history)
    history.heartbeat(denied=(TOPIC, "/admin/delete_topics"), denied_more=3)
    fold.follow(history)
    assert (log.view.denied, log.view.denied_more) == ((TOPIC, "/admin/delete_topics"), 3)
    history.heartbeat()
    fold.follow(history)
    assert (log.view.denied, log.view.denied_more) == ((TOPIC,), 0)
    history.heartbeat(denied=("/config",), denied_more=0)
    fold.follow(history)
    assert log.view.denied == (TOPIC, "/config")
    history.resync()
    fold.follow(history)
    assert not log.view.denied


def test_what_is_found_below_a_denied_path_is_no_event() -> None:
    """It may have been there for long. What changes in it later, and what is new elsewhere, are events."""
    history, fold, _ = begun()
    history.heartbeat(denied=("/brokers/ids", TOPIC), denied_more=0)
    history.broker(7)
    assert kinds(fold.follow(history)) == []
    history.topic("u", {0: (0, 1)})
    history.delete("/brokers/ids/7")
    history.state("t", 0, leader=0, isr=(0,))
    assert kinds(fold.follow(history)) == ["TopicCreated", "BrokerStopped", "IsrShrunk"]


def test_a_value_that_is_reported_again_publishes_nothing() -> None:
    """A watcher reads a znode twice where it changes during a read."""
    history, fold, _ = begun()
    history.report("/brokers/topics/t")
    fold.follow(history)
    fold.views()
    history.report("/brokers/topics/t")
    fold.follow(history)
    assert topic_views(fold) == []


def test_health_is_sampled_where_the_controller_or_a_broker_comes_or_goes() -> None:
    """And at each heartbeat: other znodes change too often, and often several at once."""
    history, fold, _ = begun()
    history.broker(7)
    history.delete("/brokers/ids/7")
    history.delete("/controller")
    history.set("/controller", controller_payload(1))
    history.heartbeat()
    assert all(sample is not None for _, sample in taken(history, fold))
    history.topic("t", {0: (0, 1, 2), 1: (1, 2, 0)})
    history.topic_gone("t")
    history.reconciled()
    assert [sample for _, sample in taken(history, fold)] == [None] * 5
    # What proves nothing samples nothing either.
    history.set("/hidden", "")
    history.finish_resync()
    history.reconciled(znodes=99)
    history.reconciled(znodes=98)
    for path, read_zxid in (("/brokers/ids/99", history.zxid), ("/brokers/ids/1", 1)):
        history.record(ChangeKind.DELETED, path=path, read_zxid=read_zxid)
    history.report("/controller")
    assert [sample for _, sample in taken(history, fold)] == [None] * 7


def test_a_request_whose_answer_is_lost_as_a_whole_is_made_again() -> None:
    """A reconciliation shows that the watcher's resync is over; the fold, which began behind the first one, saw none."""
    history, fold = small_cluster(), Fold()
    history.changes.clear()
    history.heartbeat()
    fold.follow(history)
    log = fold.state.control.log
    assert log.wanted == ResyncWanted(number=1, reason="a hole in the log")
    history.resync(answers=1)
    history.changes.clear()
    history.heartbeat()
    fold.follow(history)
    assert log.wanted.number == 1
    history.reconciled()
    fold.follow(history)
    assert log.wanted == ResyncWanted(number=2, reason="no resync before a reconciliation")
    history.resync(answers=2)
    assert kinds(fold.follow(history)) == ["Baseline", "Verified"]
    assert log.wanted is None


def test_a_reconciliation_before_the_first_resync_samples_nothing() -> None:
    """There are no figures yet whose health could be sampled."""
    history, fold = History(), Fold()
    history.reconciled()
    assert [sample for _, sample in taken(history, fold)] == [None]


def taken(history: History, fold: Fold) -> list[Reported]:
    """Return what each change that the fold has not seen yet reports."""
    seen = fold.state.control.log.position
    return [replay(fold.state, change) for change in history.changes if change.position > seen]
