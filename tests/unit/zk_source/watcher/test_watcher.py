"""The watcher's decisions, driven by an ensemble in memory."""

from __future__ import annotations

import pytest

from controller_model.records.changes import ChangeKind, SessionState
from controller_model.records.views import ABSENT_IN_KRAFT
from source_log.generation_fencing import OtherWatcher
from tests.support.ensemble_in_memory import (
    PUBLISHED,
    STATE,
    Play,
    fill,
    requests_in_flight,
    view,
)
from tests.support.samples import cluster_view
from zk_source.watcher import dirty_paths
from zk_source.watcher.commands import GiveWay, ReplaceClient, Warn
from zk_source.watcher.subscriptions import Watches
from zk_source.watcher.watcher import Intervals, Watcher
from zk_source.wire.operations import Err, MultiRead, Sync

STARTED, FINISHED = ChangeKind.RESYNC_STARTED, ChangeKind.RESYNC_FINISHED


def reasons(play: Play) -> list[str | None]:
    """Return why each resync began."""
    return [change.reason for change in play.reader.changes if change.kind is STARTED]


def test_a_full_resync_comes_daily(play: Play) -> None:
    """A day after a resync the next one begins without a request."""
    play.pass_time(86_400_000)
    play.deliver_all()
    assert play.reader.last[STARTED].reason == "the last one was long ago"


def test_views_lost_before_the_first_resync_cause_no_second_one() -> None:
    """The first resync publishes everything anyway."""
    fresh = Play()
    fill(fresh.zk)
    fresh.watcher.on_views_cut()
    fresh.connect()
    fresh.deliver_all()
    assert fresh.kinds().count(STARTED) == 1


def test_views_lost_later_cause_a_resync_that_says_why(play: Play) -> None:
    """The fold counts them as published: a resync makes it publish them again."""
    play.watcher.on_views_cut()
    play.pass_time(60_000)
    play.deliver_all()
    assert play.reader.last[STARTED].reason == "the pipeline's Kafka has lost views"


def test_dropped_changes_add_up_in_heartbeats(play: Play) -> None:
    """Readers see how many a watcher has dropped in all."""
    for changes in (2, 3):
        play.watcher.on_dropped(changes, "full", play.now_ms)
        play.watcher.on_pipeline_back(play.now_ms)
        play.pass_time(60_000)
        play.deliver_all()
    assert play.reader.last[ChangeKind.HEARTBEAT].dropped == 5


def test_what_was_dropped_is_reported_as_soon_as_the_pipeline_is_back(play: Play) -> None:
    """Not only with the next resync, which a lost connection may delay."""
    play.disconnect()
    play.watcher.on_dropped(2, "full", play.now_ms)
    play.pass_time(1_000)
    play.watcher.on_pipeline_back(play.now_ms)
    play.carry_out()
    beat = play.reader.changes[-1]
    assert (beat.kind, beat.observed_at) == (ChangeKind.HEARTBEAT, play.now_ms)
    assert (beat.session, beat.dropped) == (SessionState.SUSPENDED, 2)


def test_resyncs_after_failed_reads_back_off() -> None:
    """The pauses grow to a minute, and start at a second again after a minute without errors."""
    play = Play(watches=Watches.ONE_SHOT)
    fill(play.zk)
    play.zk.broken.add("/controller")
    play.connect()
    for _ in range(300):
        play.pass_time(1_000)
        while play.deliver_one() or play.zk.answer_one():
            pass
    # At 0, 1, 3, 7, 15, 31, 63, 123, 183, 243: each of these resyncs read the tree once.
    assert play.kinds().count(STARTED) == 10
    play.zk.broken.clear()
    for _ in range(130):
        play.pass_time(1_000)
        while play.deliver_one() or play.zk.answer_one():
            pass
    assert play.kinds()[-1] is FINISHED
    resyncs = play.watcher.resyncs
    play.zk.broken.add("/controller")
    play.zk.put("/controller", b"news")
    play.deliver_all()
    play.zk.broken.clear()
    play.pass_time(1_000)
    play.deliver_all()
    assert play.watcher.resyncs == resyncs + 1


def test_the_main_loop_waits_at_most_until_the_next_heartbeat_is_due(play: Play) -> None:
    """But at most 200 ms, and only a few milliseconds during a walk of the tree."""
    due_at = play.reader.last[ChangeKind.HEARTBEAT].observed_at + 10_000
    waits = [play.watcher.wait_ms(due_at - early_ms) for early_ms in (5_000, 200, 50, 1, 0, -50)]
    assert waits == [200, 200, 50, 1, 0, 0]
    play.watcher.on_overflow(1, play.now_ms)
    while play.watcher.reader.walk is None:
        play.carry_out()
        assert play.deliver_one() or play.zk.answer_one()
    assert play.watcher.wait_ms(play.now_ms) == 5


def test_the_zxid_of_a_failed_sync_does_not_count(play: Play) -> None:
    """Whatever zxid its refusal carries: no resync begins, and the log says what is waited for."""
    play.disconnect()
    play.connect()
    while not isinstance(play.zk.requests[0].request, Sync):
        play.zk.answer_one()
        assert play.deliver_one()
    sync, *reads = play.zk.requests
    assert sync.request == Sync("/")
    play.zk.requests.clear()
    play.watcher.on_reply(sync.token, play.zk.zxid, Err.MARSHALLING, (), play.now_ms)
    play.zk.requests.extend(reads)
    while play.zk.answer_one():
        play.deliver_one()
    assert play.kinds().count(STARTED) == 1
    warning = play.other_commands[-1]
    assert isinstance(warning, Warn)
    assert str(warning.about["reason"]).startswith("the server is at zxid 0, below ")


def test_a_probe_that_fails_is_tried_again_after_the_pause() -> None:
    """The connection's own reason is kept, and the pause is kept although that resync was due at once."""
    play = Play(watches=Watches.RECURSIVE)
    fill(play.zk)
    play.connect()
    while not isinstance(play.zk.requests[0].request, MultiRead):
        play.zk.answer_one()
        play.deliver_one()
    probe = play.zk.requests.popleft()
    play.watcher.on_reply(probe.token, play.zk.zxid, Err.MARSHALLING, (), play.now_ms)
    play.pass_time(999)
    assert not play.zk.requests
    play.pass_time(1)
    play.deliver_all()
    assert reasons(play) == ["start"]


def test_events_reads_and_reconciliations_are_counted(play: Play) -> None:
    """Each event, each read and each finished reconciliation adds one."""
    events, reads = play.watcher.events, play.watcher.reader.reads
    for _ in range(3):
        play.zk.put(STATE, b"news")
        play.deliver_all()
    assert (play.watcher.events, play.watcher.reader.reads) == (events + 3, reads + 3)
    for number in (1, 2):
        play.pass_time(300_000)
        play.deliver_all()
        assert play.watcher.reconciliations == number
    assert play.kinds().count(ChangeKind.RECONCILED) == 2


def test_more_changed_paths_than_fit_are_an_overflow(
    play: Play, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The one notification that found no room is dropped, and not read; each overflow is counted."""
    monkeypatch.setattr(dirty_paths, "MAX_WAITING", 0)
    play.zk.put(STATE, b"news")
    play.deliver_one()
    assert (play.watcher.overflows, len(play.watcher.reader.dirty)) == (1, 0)
    monkeypatch.undo()
    play.watcher.on_overflow(5, play.now_ms)
    assert play.watcher.overflows == 6
    play.deliver_all()
    assert reasons(play)[-1] == "more notifications than the memory allows"


def test_more_new_names_than_fit_are_an_overflow(monkeypatch: pytest.MonkeyPatch) -> None:
    """With one-shot watches, one event may show many new names, whose values are read one by one."""
    play = Play(watches=Watches.ONE_SHOT)
    fill(play.zk)
    play.connect()
    play.deliver_all()
    names = [f"/brokers/ids/{number}" for number in range(10, 14)]
    for name in names:
        play.zk.put(name)
    monkeypatch.setattr(dirty_paths, "MAX_WAITING", 3)
    while len(reasons(play)) == 1:
        assert play.deliver_one() or play.zk.answer_one()
        play.pass_time(1_000)
    monkeypatch.undo()
    play.deliver_all()
    assert reasons(play)[-1] == "more changed paths than the memory allows"
    assert play.reader.mzxids == play.expected([*PUBLISHED, *names])


def test_the_first_generation_of_an_elected_watcher_is_its_czxid() -> None:
    """Its generation is at least the czxid of its election znode."""
    play = Play()
    play.watcher = Watcher("c", "aaaaaa", play.now_ms, term=40)
    fill(play.zk)
    play.connect()
    play.deliver_all()
    assert play.reader.changes[0].generation == 40


def test_a_watcher_that_gives_way_names_the_other_one_and_the_remedy(play: Play) -> None:
    """And the age of the other's record by the machine's clock, the source of the record's time."""
    play.watcher.recorder.clock_ahead_ms = 7_000
    other = OtherWatcher("c", "bbbbbb", 2, play.now_ms - 593_000)
    play.watcher.on_other_watcher(other, play.now_ms)
    play.carry_out()
    assert play.other_commands == [
        GiveWay(
            "cluster 'c' has another watcher, bbbbbb, which wrote to the log 600.0 s ago: stop one "
            "of the two, let an election choose (election_path), or give this cluster another name"
        )
    ]


def test_the_name_of_a_kraft_cluster_is_not_taken(play: Play) -> None:
    """Its history would have holes of another cluster's records; nothing is written under it."""
    before = len(play.reader.changes)
    kraft = cluster_view("c")
    kraft.log.watcher, kraft.log.absent = "kraft1", ABSENT_IN_KRAFT
    play.watcher.on_view(kraft, play.now_ms)
    play.carry_out()
    (command,) = play.other_commands
    assert isinstance(command, GiveWay)
    assert command.message == (
        "the name 'c' is that of a KRaft cluster here, watched by kraft1: give this cluster another --cluster"
    )
    assert len(play.reader.changes) == before


def test_a_record_with_a_time_in_the_future_has_an_age_of_zero(play: Play) -> None:
    """The clocks of two machines differ."""
    other = OtherWatcher("c", "bbbbbb", 2, play.now_ms + 5_000)
    play.watcher.on_other_watcher(other, play.now_ms)
    play.carry_out()
    (command,) = play.other_commands
    assert isinstance(command, GiveWay)
    assert "wrote to the log 0.0 s ago" in command.message


def test_a_due_resync_takes_a_new_generation_if_any_of_its_reasons_needs_one(
    play: Play,
) -> None:
    """In whatever order the requests arrive; the reason of the first is published."""
    play.pass_time(60_000)
    play.deliver_all()
    play.watcher.on_overflow(1, play.now_ms)
    play.watcher.on_other_watcher(OtherWatcher("c", "bbbbbb", 2, play.now_ms), play.now_ms)
    play.deliver_all()
    assert play.reader.last[STARTED].generation == 3
    assert reasons(play)[-1] == "more notifications than the memory allows"
    play.pass_time(60_000)
    play.deliver_all()
    play.watcher.on_other_watcher(OtherWatcher("c", "bbbbbb", 4, play.now_ms), play.now_ms)
    play.watcher.on_views_cut()
    play.deliver_all()
    assert play.reader.last[STARTED].generation == 5
    assert reasons(play)[-1] == "watcher bbbbbb wrote generation 4"


def test_a_connection_attempt_that_lasts_too_long_leads_to_a_new_client() -> None:
    """After the time in the settings; readers learn that the session is lost. Then the time counts again."""
    down_ms = 600_000
    play = Play(Intervals(new_client_ms=down_ms))
    fill(play.zk)
    play.connect()
    play.deliver_all()
    play.disconnect()
    play.pass_time(down_ms - 1)
    assert play.other_commands == []
    for _ in range(2):
        play.pass_time(1)
        assert play.other_commands.pop() == ReplaceClient("no connection for 600 s")
        assert play.reader.last[ChangeKind.HEARTBEAT].session is SessionState.LOST
        play.pass_time(down_ms - 1)
        assert play.other_commands == []


def test_fewer_denied_paths_cause_no_extra_heartbeat(play: Play) -> None:
    """The next regular heartbeat reports it."""
    paths = ("/brokers/ids/0", "/controller")
    play.zk.closed.update(paths)
    for path in paths:
        play.zk.put(path)
    play.deliver_all()
    play.pass_time(1_000)
    assert play.reader.last[ChangeKind.HEARTBEAT].denied == paths
    sent = sum(change.kind is ChangeKind.HEARTBEAT for change in play.reader.changes)
    play.zk.closed.remove("/controller")
    play.watcher.recorder.denied.discard("/controller")
    for _ in range(5):
        play.pass_time(1_000)
        play.deliver_all()
    assert sum(change.kind is ChangeKind.HEARTBEAT for change in play.reader.changes) == sent
    play.pass_time(5_000)
    assert play.reader.last[ChangeKind.HEARTBEAT].denied == ("/brokers/ids/0",)


def test_a_connection_without_an_answer_is_given_up_for_a_new_client(play: Play) -> None:
    """Readers learn at once that nothing is seen any more; requests from before are forgotten."""
    play.zk.put(STATE, b"news")
    play.deliver_one()
    assert requests_in_flight(play.watcher) > 0
    play.watcher.on_silence(1_000_000, play.now_ms)
    play.carry_out()
    assert play.other_commands[-1] == ReplaceClient("no answer for 1000 s")
    assert play.reader.last[ChangeKind.HEARTBEAT].session is SessionState.LOST
    assert (requests_in_flight(play.watcher), play.watcher.armed) == (0, False)
    play.zk.put(STATE, b"unseen")
    play.connect()
    play.deliver_all()
    assert play.reader.mzxids == play.expected(PUBLISHED)
    assert (reasons(play), play.reader.last[STARTED].generation) == (
        ["start", "connected again"],
        1,
    )


def test_a_watch_that_is_being_armed_is_given_up_with_its_connection(play: Play) -> None:
    """Its answer, should it come, belongs to a client that is gone."""
    play.connect()
    assert requests_in_flight(play.watcher) > 0
    play.watcher.on_silence(1_000_000, play.now_ms)
    assert requests_in_flight(play.watcher) == 0


def test_a_fold_that_follows_another_watcher_is_answered_by_one_new_generation(play: Play) -> None:
    """Views come each second: they neither begin the resync's checks again nor repeat the warning."""
    play.pass_time(60_000)
    play.deliver_all()
    followed = view(generation=2, watcher="bbbbbb")
    asked = []
    for _ in range(3):
        play.watcher.on_view(followed, play.now_ms)
        play.carry_out()
        asked.append(len(play.zk.requests))
    assert asked == [asked[0]] * 3
    (warning,) = play.other_commands
    assert isinstance(warning, Warn)
    assert warning.about == {"other_watcher": "bbbbbb", "generation": 2}
    play.deliver_all()
    assert (reasons(play)[-1], play.reader.last[STARTED].generation) == (
        "watcher bbbbbb wrote generation 2",
        3,
    )
    play.watcher.on_view(followed, play.now_ms)
    play.deliver_all()
    assert play.watcher.resyncs == 2, "the view is older than the answer"


def test_nothing_is_published_between_a_contest_and_the_resync_that_answers_it(play: Play) -> None:
    """Readers may follow the other watcher; the reads in flight belong to the old generation."""
    play.pass_time(60_000)
    play.deliver_all()
    play.zk.put(STATE, b"news")
    play.deliver_one()
    before = len(play.reader.changes)
    play.watcher.on_other_watcher(OtherWatcher("c", "bbbbbb", 2, play.now_ms), play.now_ms)
    play.deliver_all()
    answered = play.reader.changes[before]
    assert (answered.kind, answered.generation, answered.seq) == (STARTED, 3, 1)


def test_a_contest_suspends_the_session_until_a_server_has_caught_up(play: Play) -> None:
    """As long as the resync that answers it must wait, no event is read and heartbeats say so."""
    play.pass_time(60_000)
    play.deliver_all()
    before = len(play.reader.changes)
    play.watcher.on_view(view(read_zxid=play.zk.zxid + 100), play.now_ms)
    play.watcher.on_other_watcher(OtherWatcher("c", "bbbbbb", 2, play.now_ms), play.now_ms)
    contested_at = play.now_ms
    for _ in range(9):
        play.zk.put(STATE, b"news")
        while play.deliver_one() or play.zk.answer_one():
            pass
        play.pass_time(1_000)
    assert play.watcher.resyncs == 1
    assert {change.kind for change in play.reader.changes[before:]} <= {ChangeKind.HEARTBEAT}
    play.pass_time(1_000)
    beat = play.reader.last[ChangeKind.HEARTBEAT]
    assert beat.observed_at > contested_at
    assert (beat.session, beat.session_since) == (SessionState.SUSPENDED, contested_at)
