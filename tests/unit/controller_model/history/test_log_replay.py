"""A log outside of the pipeline: any beginning, any cluster, snapshots at any point."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

import msgspec
import pytest

from controller_model.fold import replay as replay_module
from controller_model.fold.replay import EventBatch, replay
from controller_model.history import log_replay
from controller_model.history.log_replay import CUT, END, UNPROVED, UNREADABLE, LogReplay, Point
from controller_model.history.snapshot import Snapshot
from controller_model.kafka.ids import Position
from controller_model.records.changes import ChangeKind, ZnodeChange
from controller_model.records.election_requests import ElectionOrigin
from controller_model.records.events import (
    AnyEvent,
    Baseline,
    BrokerStarted,
    ControllerElected,
    LeadersElected,
)
from controller_model.records.loose_log import LooseChange, decode_line
from controller_model.state.control_plane import Assumed
from tests.support.histories import (
    OF_ACCOUNTS,
    History,
    controller_payload,
    election_request,
    encode_changes,
    kinds,
    only,
    small_cluster,
)


def loose(changes: Iterable[ZnodeChange]) -> tuple[LooseChange, ...]:
    """Return changes as the lines of a log give them."""
    return decode_line(encode_changes(tuple(changes))).changes


def of(*records: dict[str, Any]) -> tuple[LooseChange, ...]:
    """Return records in which any field may be missing."""
    return decode_line(json.dumps(records).encode()).changes


def at_end(changes: Iterable[LooseChange], **options: Any) -> tuple[Snapshot, list[AnyEvent]]:
    """Replay changes one by one; return the snapshot at the end and all events.

    Events that summarise others (incidents, recommendations) are left out.
    """
    recording = LogReplay(**options)
    events = [event for change in changes for event in recording.apply_changes((change,))]
    events += recording.finish()
    reported = recording.snapshots[END]
    assert reported is not None
    return reported, [event for event in events if not isinstance(event, OF_ACCOUNTS)]


def test_a_log_starts_at_its_first_valid_timestamp() -> None:
    """No clock can show such a number: no event has it as its time."""
    history = small_cluster()
    first, *rest = history.changes
    timeless = msgspec.structs.replace(first, observed_at=2**62)
    reported, _ = at_end(loose((timeless, *rest)))
    usual, _ = at_end(loose(history.changes))
    assert (reported.at, reported.topics) == (usual.at, usual.topics)


def test_a_log_that_begins_with_a_later_resync_misses_nothing() -> None:
    """A generation's first resync need not be in it: any resync begins a log, and no hole is reported."""
    history = small_cluster()
    history.heartbeat()
    start = len(history.changes)
    history.resync()
    reported, events = at_end(loose(history.changes[start:]))
    assert reported.complete
    assert kinds(events) == ["Baseline", "Verified"]
    assert reported.controller.elections == 1


def test_a_bare_log_of_paths_and_data_is_replayed() -> None:
    """Numbers, times, kinds and control records are absent: facts and elections are complete all the same."""
    history = small_cluster()
    bare = [
        {"path": change.path, "data": change.data}
        for change in history.changes
        if change.kind is ChangeKind.SET
    ]
    election = json.dumps(controller_payload(2))
    more = [
        {"path": "/controller", "kind": "deleted"},
        {"path": "/controller", "data": election},
        {"path": "/controller_epoch", "data": "2"},
    ]
    reported, _ = at_end(of(*bare, *more))
    assert (reported.cluster, reported.at) == (None, 0)
    assert reported.as_of == msgspec.structs.replace(
        reported.as_of, generation=1, seq=len(bare) + 3
    )
    assert (reported.controller.id, reported.controller.epoch) == (2, 2)
    assert (reported.controller.elections, reported.controller.id_changes) == (2, 1)
    assert reported.topics["t"].partitions[0].isr == (0, 1, 2)
    assert reported.topics["t"].partitions[0].partition_epoch is None
    assert (reported.brokers[1].live, reported.brokers[1].epoch) == (True, None)
    assert (reported.counts.stale, reported.counts.missed_updates, reported.counts.unreadable) == (
        0,
        0,
        0,
    )
    assert (reported.complete, reported.incomplete_reason) == (False, CUT)


def test_a_controller_without_czxid_reported_again_is_not_an_election() -> None:
    """Without a czxid, the same holder without a deletion in between is the same election."""
    record = {"path": "/controller", "data": json.dumps(controller_payload(0))}
    assert at_end(of(record, record))[0].controller.elections == 1
    deleted = {"path": "/controller", "kind": "deleted"}
    assert at_end(of(record, deleted, record))[0].controller.elections == 2


def test_a_cut_log_counts_from_its_first_change_and_is_incomplete() -> None:
    """Events are reported from the first change on; the first event is that the figures are incomplete."""
    history = small_cluster()
    start = len(history.changes)
    history.broker_gone(0)
    history.elect(1)
    reported, events = at_end(loose(history.changes[start:]))
    assert kinds(events)[0] == "Incomplete"
    assert only(events, ControllerElected).to_broker == 1
    assert (reported.controller.elections, reported.incomplete_reason) == (1, CUT)
    assert reported.as_of.seq == history.seq


def test_the_first_resync_of_a_cut_log_is_its_baseline() -> None:
    """Brokers, topics and a controller that it only finds have not started: a baseline is reported."""
    history = small_cluster()
    start = len(history.changes)
    history.heartbeat()
    history.resync()
    history.broker_gone(2)
    history.broker(2)
    reported, events = at_end(loose(history.changes[start:]))
    assert kinds(events) == ["Incomplete", "Verified", "Baseline", "BrokerStopped", "BrokerStarted"]
    baseline = only(events, Baseline)
    assert (baseline.znodes, baseline.controller, baseline.epoch) == (8, 0, 1)
    assert baseline.elected_at == history.znodes["/controller"].ctime
    assert baseline.position == Position(1, history.seq - 2)
    assert reported.complete
    assert reported.controller.elections == 1


def test_a_later_resync_of_a_cut_log_reports_missed_changes() -> None:
    """After its baseline a cut log is like any other: a broker that a resync finds has started."""
    history = small_cluster()
    start = len(history.changes)
    history.heartbeat()
    history.resync()
    history.broker(3, seen=False)
    history.resync()
    _, events = at_end(loose(history.changes[start:]))
    assert only(events, BrokerStarted).broker == 3
    assert kinds(events).count("Baseline") == 1


def test_counting_starts_at_a_first_resync_without_proof() -> None:
    """Count and digest may be absent: what follows is counted, and marked as incomplete."""
    history = small_cluster()
    end = history.changes[-1]
    history.changes[-1] = msgspec.structs.replace(end, znodes=None, digest=None)
    history.delete("/controller")
    history.elect(1)
    reported, events = at_end(loose(history.changes))
    assert (reported.controller.elections, reported.controller.id_changes) == (2, 1)
    assert (reported.complete, reported.incomplete_reason) == (False, UNPROVED)
    assert only(events, ControllerElected).to_broker == 1


def test_a_resync_with_its_count_alone_is_proved() -> None:
    """The digest is kcm's own; logs of other programs may lack it."""
    history = small_cluster()
    history.changes[-1] = msgspec.structs.replace(history.changes[-1], digest=None)
    assert at_end(loose(history.changes))[0].complete


def test_without_a_choice_the_first_cluster_is_replayed_and_others_are_noted() -> None:
    """Without a chosen name the first named cluster is replayed; no change of another one is applied."""
    prod, test = small_cluster(), History(cluster="test")
    test.resync()
    recording = LogReplay()
    recording.apply_changes(loose([*prod.changes, *test.changes]))
    recording.finish()
    reported = recording.snapshots[END]
    assert reported is not None
    assert (reported.cluster, reported.as_of.seq) == ("prod", prod.seq)
    assert (recording.state.control.log.view.not_newer, reported.complete) == (0, True)
    assert recording.clusters == {"prod", "test"}
    assert recording.cluster == "prod"


def test_a_chosen_cluster_is_replayed_wherever_it_starts() -> None:
    """Others are noted and left out, also if they come first."""
    prod, test = small_cluster(), History(cluster="test")
    test.resync()
    recording = LogReplay("prod")
    recording.apply_changes(loose([*test.changes, *prod.changes]))
    recording.finish()
    assert recording.first is not None
    log = recording.state.control.log
    assert (recording.first.cluster, log.position.seq, log.view.not_newer) == ("prod", prod.seq, 0)


def test_records_without_a_name_belong_to_the_cluster() -> None:
    """An absent name is not checked: the log's name may follow later, or be given."""
    unnamed = {"path": "/controller_epoch", "data": "3"}
    named = {"path": "/brokers/ids/1", "kind": "deleted", "cluster": "prod"}
    assert at_end(of(unnamed, named))[0].cluster == "prod"
    assert at_end(of(unnamed), cluster="mine")[0].cluster == "mine"
    assert at_end(of(unnamed))[0].controller.epoch == 3


def test_a_log_without_the_cluster_has_no_snapshot() -> None:
    """An empty log, and a log of other clusters, have None as their snapshot, and nothing is applied."""
    test = History(cluster="test")
    test.resync()
    recording = LogReplay("prod")
    assert recording.apply_changes(loose(test.changes)) == []
    assert recording.finish() == []
    assert (recording.snapshots, recording.first) == ({END: None}, None)
    assert (recording.state.control.now, recording.state.control.source.stats) == (0, {})


def test_a_replay_is_done_after_its_last_point() -> None:
    """Nothing after it is applied, counted or reported."""
    history = small_cluster()
    recording = LogReplay(points=(Point(until=Position(1, 3)),))
    changes = loose(history.changes)
    recording.apply_changes(changes[:3])
    assert not recording.is_done
    assert recording.apply_changes(changes[3:]) == []
    assert recording.count_unreadable(1, "late") == []
    assert recording.finish() == []
    log = recording.state.control.log
    assert (recording.is_done, log.position.seq, log.view.unreadable) == (True, 3, 0)


def test_unreadable_records_are_counted_anywhere_in_the_log() -> None:
    """Before the first change as well; each one is reported with its reason, and the end is incomplete."""
    history = small_cluster()
    recording = LogReplay()
    assert recording.count_unreadable(2, "line 1") == []
    reported = recording.apply_changes(loose(history.changes))
    more = recording.count_unreadable(1, "line 9")
    assert kinds(recording.finish())[-1] == "Incomplete"
    reasons = [getattr(event, "reason", "") for event in (*reported, *more)]
    assert (reasons[0], reasons[-1]) == ("line 1", "line 9")
    assert reported[0].at == history.changes[0].observed_at
    taken = recording.snapshots[END]
    assert taken is not None
    assert (taken.counts.unreadable, taken.incomplete_reason) == (3, UNREADABLE)


def outlier(changes: Iterable[LooseChange], after: int, **options: Any) -> LogReplay:
    """Return a replay of changes with an unreadable record among them."""
    recording = LogReplay(**options)
    for number, change in enumerate(changes, 1):
        recording.apply_changes((change,))
        if number == after:
            recording.count_unreadable(1, "damaged")
    recording.finish()
    return recording


def test_an_unreadable_record_is_in_doubt_until_the_next_change() -> None:
    """If the next change follows the last one, nothing was missed, and nothing is reported."""
    history = small_cluster()
    changes = loose(history.changes)
    for after in range(1, history.seq):
        reported = outlier(changes, after).snapshots[END]
        assert reported is not None
        assert (reported.complete, reported.counts.unreadable) == (True, 1)
    reported = outlier(changes, history.seq).snapshots[END]
    assert reported is not None
    assert (reported.complete, reported.incomplete_reason) == (False, UNREADABLE)


def test_a_hole_after_an_unreadable_record_is_reported_once() -> None:
    """The log is incomplete from the damage on, and reports what is missing."""
    history = small_cluster()
    history.heartbeat()
    history.heartbeat()
    changes = loose(history.changes)
    recording = LogReplay()
    recording.apply_changes(changes[:-2])
    recording.count_unreadable(1, "damaged")
    reported = recording.apply_changes(changes[-1:])
    assert kinds(reported) == ["Incomplete"]
    assert (reported[0].at, reported[0].position.seq) == (changes[-3].observed_at, history.seq - 2)
    recording.finish()
    taken = recording.snapshots[END]
    assert taken is not None
    assert taken.incomplete_reason == (
        f"a hole in the log: changes {history.seq - 1} to {history.seq - 1} are missing"
    )


@pytest.mark.parametrize("lacking", [("seq",), ("generation",), ("seq", "generation")])
def test_a_change_without_generation_or_seq_does_not_resolve_a_doubt(
    lacking: tuple[str, ...],
) -> None:
    """Its position is filled in, so it would follow any record left out before it."""
    history = small_cluster()
    history.heartbeat()
    (last,) = loose(history.changes[-1:])
    record = {"kind": "heartbeat", "generation": 1, "seq": last.seq, "watcher": last.watcher}
    bare = of({name: value for name, value in record.items() if name not in lacking})
    for change, complete in ((last, True), *((each, False) for each in bare)):
        recording = outlier((*loose(history.changes[:-1]), change), history.seq - 1)
        reported = recording.snapshots[END]
        assert reported is not None
        assert (reported.as_of.seq, reported.complete) == (history.seq, complete)


def test_a_new_generation_does_not_resolve_a_doubt_about_the_old_one() -> None:
    """The unreadable record may have been the old generation's last change; the new one's resync makes up for it."""
    history = small_cluster()
    before = history.seq
    history.new_generation("w2")
    history.resync()
    changes = loose(history.changes)
    recording = LogReplay()
    recording.apply_changes(changes[:before])
    recording.count_unreadable(1, "damaged")
    assert "Incomplete" in kinds(recording.apply_changes(changes[before : before + 1]))
    assert kinds(recording.apply_changes(changes[before + 1 :])) == ["Verified"]


def test_dropped_changes_do_not_resolve_a_doubt() -> None:
    """A duplicate or another watcher's change shows nothing about the unreadable record."""
    history = small_cluster()
    changes = loose(history.changes)
    foreign = msgspec.structs.replace(changes[-1], watcher="w9", seq=history.seq + 1)
    for late in (changes[-1], changes[2], foreign):
        reported = outlier((*changes, late), history.seq).snapshots[END]
        assert reported is not None
        assert reported.complete is False


def test_a_log_that_is_incomplete_already_keeps_its_reason() -> None:
    """A cut log stays cut: the first reason is reported."""
    history = small_cluster()
    start = len(history.changes)
    history.heartbeat()
    reported = outlier(loose(history.changes[start:]), 1).snapshots[END]
    assert reported is not None
    assert reported.incomplete_reason == CUT


def test_dropped_changes_are_counted_and_not_applied() -> None:
    """Another watcher's end of the first resync is not applied and starts no counting."""
    history = small_cluster()
    changes = loose(history.changes)
    foreign = msgspec.structs.replace(changes[-1], watcher="w9", seq=changes[3].seq + 1)
    recording = LogReplay()
    assert not recording.drops(foreign)
    recording.apply_changes(changes[:4])
    assert [recording.drops(each) for each in (foreign, changes[2], changes[3], changes[4])] == [
        *(True, True, True, False)
    ]
    recording.apply_changes((foreign,))
    assert recording.state.control.log.baseline is False
    assert recording.state.control.log.view.not_newer == 1
    recording.apply_changes(changes[4:])
    recording.finish()
    taken = recording.snapshots[END]
    assert taken is not None
    assert (taken.complete, taken.as_of.seq) == (True, history.seq)


def test_events_of_one_line_and_one_cause_are_joined() -> None:
    """A line is a message: partitions that one cause moved are reported together."""
    history = small_cluster(t={0: (0, 1), 1: (0, 1)})
    start = len(history.changes)
    history.broker_gone(0)
    for partition in (0, 1):
        history.state("t", partition, leader=1, isr=[1], leader_epoch=1)
    recording = LogReplay()
    recording.apply_changes(loose(history.changes[:start]))
    reported = only(recording.apply_changes(loose(history.changes[start:])), LeadersElected)
    assert [each.partition for each in reported.partitions] == [0, 1]


def test_the_assumed_options_are_used() -> None:
    """A setting gives min.insync.replicas where ZooKeeper does not."""
    history = small_cluster(t={0: (0, 1)})
    changes = loose(history.changes)
    assert at_end(changes)[0].counts.at_min_isr is None
    named = {"prod": Assumed(min_insync_replicas=2)}
    assert (
        at_end(changes, assumed=lambda name: named.get(name, Assumed()))[0].counts.at_min_isr == 1
    )


def test_a_replay_keeps_no_names_of_changed_and_removed_topics() -> None:
    """No views are made of a recording, so the names of changed and removed topics must not pile up."""
    history = small_cluster()
    recording = LogReplay()
    recording.apply_changes(loose(history.changes))
    before = len(history.changes)
    history.topic_gone("t")
    recording.apply_changes(loose(history.changes[before:]))
    assert list(recording.state.topics.names()) == []
    assert (recording.state.changed, recording.state.removed) == ({}, {})


def test_an_exception_in_replay_is_reported_and_skips_one_change(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """An exception in replay does not end the replay of the recording."""

    def failing(state: Any, change: ZnodeChange) -> Any:
        if change.path == "/controller":
            raise ZeroDivisionError("a bug")
        return replay(state, change)

    monkeypatch.setattr(replay_module, "replay", failing)
    history = small_cluster()
    reported, events = at_end(loose(history.changes))
    reasons = [getattr(event, "reason", "") for event in events]
    assert any("ZeroDivisionError: a bug" in reason for reason in reasons)
    assert reported.controller.id is None
    assert reported.controller.epoch == 1
    assert reported.complete is False


def test_a_failover_ends_after_a_limited_number_of_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    """At the first line after which 3 changes have been applied in it, and at the end of the log."""
    ended_at = []

    def finish(batch: EventBatch) -> None:
        ended_at.append(batch.state.control.log.position.seq)

    monkeypatch.setattr(log_replay, "FINISH_AFTER_CHANGES", 3)
    monkeypatch.setattr(EventBatch, "finish_failover", finish)
    history = small_cluster(t={0: (0, 1), 1: (0, 1)})
    start = history.seq
    recording = LogReplay()
    recording.apply_changes(loose(history.changes))
    assert ended_at == []  # there is no failover
    history.broker_gone(0)
    history.elect(1)
    recording.apply_changes(loose(history.changes[start:]))
    assert ended_at == [history.seq]
    for leader_epoch in (1, 2, 3, 4):
        history.state("t", 0, leader=1, isr=[1], leader_epoch=leader_epoch)
        recording.apply_changes(loose(history.changes[-1:]))
    assert ended_at == [history.seq - 4, history.seq - 1]
    recording.finish()
    assert ended_at == [history.seq - 4, history.seq - 1, history.seq]


def test_a_request_names_elections_as_in_the_fold_and_makes_no_cluster() -> None:
    """A request before the first change, or of another cluster, is ignored."""
    history = small_cluster()
    history.state("t", 0, leader=1, isr=(0, 1, 2), leader_epoch=1)
    recording = LogReplay()
    recording.store_requests([election_request("t", 0, cluster="elsewhere")])
    assert (recording.cluster, recording.clusters) == (None, set())
    recording.apply_changes(loose(history.changes))
    recording.store_requests([election_request("t", 0, cluster="elsewhere")])
    assert recording.state.control.elections.asked == {}
    recording.store_requests([election_request("t", 0)])
    history.state("t", 0, leader=0, isr=(0, 1, 2), leader_epoch=2)
    events = recording.apply_changes(loose(history.changes[-1:]))
    assert only(events, LeadersElected).by is ElectionOrigin.KCM
    recording.finish()
    assert recording.is_done
    recording.store_requests([election_request("t", 0)])
    assert recording.state.control.elections.asked == {}
