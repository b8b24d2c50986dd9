"""The watcher's decisions, driven by an ensemble in memory."""

from __future__ import annotations

import pytest

from controller_model.records.changes import ChangeKind, SessionState
from controller_model.records.views import ResyncWanted
from tests.support.ensemble_in_memory import (
    PUBLISHED,
    STATE,
    Play,
    fill,
    requests_in_flight,
    view,
)
from zk_source.watcher import dirty_paths
from zk_source.watcher.arming import OLD_PAUSE_MS
from zk_source.watcher.commands import GiveWay, ReplaceClient, Send, Warn
from zk_source.watcher.readiness import PROBE
from zk_source.watcher.subscriptions import Watches
from zk_source.watcher.watcher import Intervals, Watcher
from zk_source.wire.inbox import OtherWatcher
from zk_source.wire.operations import Err, EventType, MultiRead, SingleRead, Sync

STARTED, FINISHED = ChangeKind.RESYNC_STARTED, ChangeKind.RESYNC_FINISHED


def reasons(play: Play) -> list[str | None]:
    """Return why each resync began."""
    return [change.reason for change in play.reader.changes if change.kind is STARTED]


def test_containers_are_not_published(play: Play) -> None:
    """A partition's directory causes no change."""
    before = len(play.reader.changes)
    play.zk.put("/brokers/topics/t/partitions/1")
    play.settle()
    assert len(play.reader.changes) == before


def test_a_reconnect_resyncs_under_the_same_generation_with_a_new_id(play: Play) -> None:
    """A resync catches up with what happened while the connection was down."""
    play.disconnect()
    play.zk.put("/brokers/ids/7")
    play.zk.delete("/controller")
    play.connect()
    play.settle()
    started = play.reader.last[STARTED]
    assert (started.generation, started.resync) == (1, 2)
    assert play.reader.mzxids == play.expected((*PUBLISHED, "/brokers/ids/7"))


def test_a_disconnect_in_the_middle_of_a_resync_begins_a_new_one() -> None:
    """A resync that was cut off is never finished; the next one has a new id."""
    play = Play()
    fill(play.zk)
    play.connect()
    while STARTED not in play.kinds():
        assert play.deliver_one() or play.zk.answer_one()
    play.disconnect()
    play.connect()
    play.settle()
    assert play.kinds().count(STARTED) == 2
    assert play.kinds().count(FINISHED) == 1
    assert play.reader.last[FINISHED].resync == 2


def test_heartbeats_come_every_ten_seconds(play: Play) -> None:
    """There are six heartbeats in a quiet minute."""
    before = len(play.reader.changes)
    for _ in range(60):
        play.pass_time(1_000)
        play.settle()
    assert [change.kind for change in play.reader.changes[before:]] == [ChangeKind.HEARTBEAT] * 6


def test_a_full_resync_comes_daily(play: Play) -> None:
    """A day after a resync the next one begins without a request."""
    play.pass_time(86_400_000)
    play.settle()
    assert play.reader.last[STARTED].reason == "the daily one"


def test_after_dropped_changes_nothing_is_published_until_kafka_is_back(play: Play) -> None:
    """After a drop nothing is published; when Kafka is back, the resync carries the count."""
    play.watcher.on_dropped(17, "Kafka was away", play.now_ms)
    play.zk.put(STATE, b"unseen")
    before = len(play.reader.changes)
    play.pass_time(30_000)
    while play.deliver_one() or play.zk.answer_one():
        pass
    assert len(play.reader.changes) == before
    play.watcher.on_pipeline_back(play.now_ms)
    play.settle()
    assert play.kinds().count(STARTED) == 2
    assert "17 changes dropped" in (play.reader.last[STARTED].reason or "")
    assert play.reader.last[ChangeKind.HEARTBEAT].dropped == 17
    assert play.reader.mzxids == play.expected(PUBLISHED)


def test_an_overflow_of_notifications_leads_to_a_resync(play: Play) -> None:
    """Everything is read again in place of the lost events."""
    play.zk.put(STATE, b"unseen")
    play.zk.to_client.clear()
    play.watcher.on_overflow(1, play.now_ms)
    play.carry_out()
    assert play.watcher.overflows == 1
    # Before the resync begins: what the log holds may be out of date, and readers know that.
    assert play.reader.last[ChangeKind.HEARTBEAT].session is SessionState.SUSPENDED
    play.settle()
    assert play.reader.last[ChangeKind.HEARTBEAT].session is SessionState.CONNECTED
    assert play.reader.last[STARTED].resync == 2
    assert play.reader.mzxids == play.expected(PUBLISHED)


@pytest.mark.parametrize("watches", [Watches.RECURSIVE, Watches.ONE_SHOT])
def test_an_overflow_during_a_resync_begins_a_new_one(watches: Watches) -> None:
    """The current resync proves nothing any more: it is never finished, and publishes no further value."""
    play = Play(watches=watches)
    fill(play.zk)
    play.connect()
    while STARTED not in play.kinds():
        assert play.deliver_one() or play.zk.answer_one()
    play.watcher.on_overflow(1, play.now_ms)
    published = len(play.kinds())
    while play.kinds().count(STARTED) == 1:
        assert len(play.kinds()) == published
        assert play.deliver_one() or play.zk.answer_one()
    play.settle()
    assert play.kinds().count(FINISHED) == 1
    assert play.reader.last[FINISHED].resync == 2
    assert play.reader.mzxids == play.expected(PUBLISHED)


def test_lost_views_lead_to_a_resync_under_a_connected_session(play: Play) -> None:
    """Publishing does not stop: no event of ZooKeeper was missed."""
    play.watcher.on_views_cut()
    play.settle()
    started = play.reader.last[STARTED]
    assert (started.resync, started.reason) == (2, "the pipeline's Kafka has lost views")
    states = {c.session for c in play.reader.changes if c.kind is ChangeKind.HEARTBEAT}
    assert states == {SessionState.CONNECTED}
    assert play.reader.mzxids == play.expected(PUBLISHED)


def test_views_lost_before_the_first_resync_cause_no_second_one() -> None:
    """The first resync publishes everything anyway."""
    fresh = Play()
    fill(fresh.zk)
    fresh.watcher.on_views_cut()
    fresh.connect()
    fresh.settle()
    assert fresh.kinds().count(STARTED) == 1


def test_a_newcomer_gives_way_to_a_live_watcher(play: Play) -> None:
    """A record of a higher generation under another name ends a watcher that has just begun."""
    play.watcher.on_other_watcher(OtherWatcher("c", "bbbbbb", 2, play.now_ms), play.now_ms)
    play.carry_out()
    (command,) = play.other_commands
    assert isinstance(command, GiveWay)
    assert "bbbbbb" in command.message


def test_an_incumbent_answers_a_newcomer_by_a_new_generation(play: Play) -> None:
    """A watcher that has run for long takes the next generation, with a resync."""
    play.pass_time(60_000)
    play.settle()
    play.watcher.on_other_watcher(OtherWatcher("c", "bbbbbb", 2, play.now_ms), play.now_ms)
    play.settle()
    started = play.reader.last[STARTED]
    assert (started.generation, started.seq) == (3, 1)
    assert play.reader.mzxids == play.expected(PUBLISHED)


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
    play.settle()
    play.zk.broken.clear()
    play.pass_time(1_000)
    play.settle()
    assert play.watcher.resyncs == resyncs + 1


def test_a_connection_without_an_answer_is_given_up_for_a_new_client(play: Play) -> None:
    """Readers learn at once that nothing is seen any more; requests from before are forgotten."""
    play.watcher.on_silence(15_000, play.now_ms)
    play.carry_out()
    assert play.other_commands[-1] == ReplaceClient("no answer for 15 s")
    assert play.reader.last[ChangeKind.HEARTBEAT].session is SessionState.LOST
    assert (requests_in_flight(play.watcher), play.watcher.armed) == (0, False)
    play.zk.put(STATE, b"unseen")
    play.connect()
    play.settle()
    assert play.reader.mzxids == play.expected(PUBLISHED)


def test_the_reason_of_a_resync_after_a_reconnect_is_the_connection(play: Play) -> None:
    """The reason of the very first resync is the start."""
    play.disconnect()
    play.connect()
    play.settle()
    assert reasons(play) == ["start", "connected again"]
    assert play.watcher.resyncs == 2


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


def test_a_request_is_found_by_its_token_until_it_is_answered() -> None:
    """The bytes of a reply do not contain the request."""
    play = Play(watches=Watches.ONE_SHOT)
    fill(play.zk)
    play.connect()
    sends = list(play.zk.requests)
    assert [play.watcher.request(send.token) for send in sends] == [send.request for send in sends]
    play.zk.answer_one()
    play.deliver_one()
    assert play.watcher.request(sends[0].token) is None
    assert play.watcher.request(sends[1].token) == sends[1].request


@pytest.mark.parametrize(
    ("watches", "reads"),
    [(Watches.RECURSIVE, [MultiRead(PROBE)]), (Watches.ONE_SHOT, [SingleRead(*r) for r in PROBE])],
)
def test_a_sync_precedes_the_reads_of_a_readiness_check(
    watches: Watches, reads: list[MultiRead | SingleRead]
) -> None:
    """With one sync of the root. Then each read that decides is sent once."""
    play = Play(watches=watches)
    fill(play.zk)
    play.connect()
    while not any(isinstance(send.request, Sync) for send in play.zk.requests):
        assert play.deliver_one() or play.zk.answer_one()
    assert [send.request for send in play.zk.requests] == [Sync("/"), *reads]


def test_the_zxid_of_a_failed_sync_does_not_count(play: Play) -> None:
    """Whatever zxid its refusal carries: no resync begins, and the log says what is waited for."""
    play.disconnect()
    play.connect()
    while not isinstance(play.zk.requests[0].request, Sync):
        play.zk.answer_one()
        assert play.deliver_one()
    sync, *reads = play.zk.requests
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
    play.settle()
    assert reasons(play) == ["start"]


def test_a_multi_read_that_fails_names_its_first_path() -> None:
    """One error covers all that it reads."""
    play = Play(watches=Watches.RECURSIVE)
    fill(play.zk)
    play.connect()
    play.settle()
    for number in (0, 1):
        play.watcher.on_event(EventType.CREATED, f"/brokers/ids/{number}", play.now_ms)
    play.watcher.on_tick(play.now_ms)
    (send,) = (each for each in play.watcher.commands() if isinstance(each, Send))
    assert isinstance(send.request, MultiRead)
    assert len(send.request.reads) == 2
    play.watcher.on_reply(send.token, play.zk.zxid, Err.MARSHALLING, (), play.now_ms)
    play.pass_time(1_000)
    play.settle()
    assert reasons(play)[-1] == "reading /brokers/ids/0 failed with error -5"


def test_events_and_reconciliations_are_counted(play: Play) -> None:
    """Each event and each finished reconciliation adds one."""
    events = play.watcher.events
    for _ in range(3):
        play.zk.put(STATE, b"news")
        play.settle()
    assert play.watcher.events == events + 3
    for number in (1, 2):
        play.pass_time(300_000)
        play.settle()
        assert play.watcher.reconciliations == number
    assert play.kinds().count(ChangeKind.RECONCILED) == 2


def test_the_counters_of_a_new_watcher_are_zero() -> None:
    """Its metrics begin at 0."""
    watcher = Play().watcher
    counted = (watcher.events, watcher.resyncs, watcher.reconciliations, watcher.overflows)
    assert counted == (0, 0, 0, 0)


def test_more_changed_paths_than_fit_are_an_overflow(
    play: Play, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The one notification that found no room is dropped; each overflow is counted."""
    monkeypatch.setattr(dirty_paths, "MAX_WAITING", 0)
    play.zk.put(STATE, b"news")
    play.deliver_one()
    assert play.watcher.overflows == 1
    monkeypatch.undo()
    play.watcher.on_overflow(5, play.now_ms)
    assert play.watcher.overflows == 6
    play.settle()
    assert reasons(play)[-1] == "more notifications than the memory allows"


def test_changes_that_are_dropped_add_up(play: Play) -> None:
    """Heartbeats carry the number since the start."""
    for changes in (17, 5):
        play.watcher.on_dropped(changes, "Kafka was away", play.now_ms)
        play.watcher.on_pipeline_back(play.now_ms)
        play.settle()
    assert play.reader.last[ChangeKind.HEARTBEAT].dropped == 22


def test_recursive_watches_that_are_tried_again_begin_with_a_resync() -> None:
    """Readers see that reason."""
    play = Play(intervals=Intervals(resync_ms=2 * OLD_PAUSE_MS))
    fill(play.zk)
    play.zk.refusal = Err.UNIMPLEMENTED
    play.connect()
    play.settle()
    play.connect()
    play.settle()
    play.zk.refusal = Err.OK
    play.pass_time(OLD_PAUSE_MS)
    play.settle()
    assert reasons(play)[-1] == "recursive watches are tried again"


def test_the_first_generation_of_an_elected_watcher_is_its_czxid() -> None:
    """Its generation is at least the czxid of its election znode."""
    play = Play()
    play.watcher = Watcher("c", "aaaaaa", play.now_ms, elected=40)
    fill(play.zk)
    play.connect()
    play.settle()
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


def test_a_record_with_a_time_in_the_future_has_an_age_of_zero(play: Play) -> None:
    """The clocks of two machines differ."""
    other = OtherWatcher("c", "bbbbbb", 2, play.now_ms + 5_000)
    play.watcher.on_other_watcher(other, play.now_ms)
    play.carry_out()
    (command,) = play.other_commands
    assert isinstance(command, GiveWay)
    assert "wrote to the log 0.0 s ago" in command.message


def test_a_record_of_an_older_generation_is_ignored(play: Play) -> None:
    """Readers do not follow it."""
    play.watcher.on_other_watcher(OtherWatcher("c", "bbbbbb", 0, play.now_ms), play.now_ms)
    play.settle()
    assert (play.other_commands, reasons(play)) == ([], ["start"])


def test_a_due_resync_takes_a_new_generation_if_any_of_its_reasons_needs_one(
    play: Play,
) -> None:
    """In whatever order the requests arrive; the reason of the first is published."""
    play.pass_time(60_000)
    play.settle()
    play.watcher.on_overflow(1, play.now_ms)
    play.watcher.on_other_watcher(OtherWatcher("c", "bbbbbb", 2, play.now_ms), play.now_ms)
    play.settle()
    assert play.reader.last[STARTED].generation == 3
    assert reasons(play)[-1] == "more notifications than the memory allows"
    play.pass_time(60_000)
    play.settle()
    play.watcher.on_other_watcher(OtherWatcher("c", "bbbbbb", 4, play.now_ms), play.now_ms)
    play.watcher.on_views_cut()
    play.settle()
    assert play.reader.last[STARTED].generation == 5
    assert reasons(play)[-1] == "watcher bbbbbb wrote generation 4"


def test_a_resync_request_of_the_fold_waits_for_the_pause_after_an_error(play: Play) -> None:
    """A server that refused a read a moment ago is not asked again, whoever requests it."""
    play.zk.broken.add(STATE)
    play.zk.put(STATE, b"news")
    play.settle()
    play.zk.broken.clear()
    wanted = view(wanted=ResyncWanted(number=4, reason="a hole"))
    play.watcher.on_view(wanted, play.now_ms)
    play.watcher.on_views_cut()
    play.settle()
    assert len(reasons(play)) == 1
    play.pass_time(1_000)
    play.settle()
    assert play.reader.last[STARTED].answers == 4
    assert reasons(play)[1:] == [f"reading {STATE} failed with error -5"]


def test_a_connection_attempt_that_lasts_too_long_leads_to_a_new_client() -> None:
    """After the time in the settings; readers learn that the session is lost. Then the time counts again."""
    down_ms = 600_000
    play = Play(Intervals(new_client_ms=down_ms))
    fill(play.zk)
    play.connect()
    play.settle()
    play.disconnect()
    play.pass_time(down_ms - 1)
    assert play.other_commands == []
    for _ in range(2):
        play.pass_time(1)
        assert play.other_commands.pop() == ReplaceClient("no connection for 600 s")
        assert play.reader.last[ChangeKind.HEARTBEAT].session is SessionState.LOST
        play.pass_time(down_ms - 1)
        assert play.other_commands == []


def test_a_silence_while_watches_are_armed_forgets_their_requests() -> None:
    """Their replies would belong to the connection that is given up."""
    play = Play(watches=Watches.RECURSIVE)
    play.connect()
    assert requests_in_flight(play.watcher) == 1
    play.watcher.on_silence(600_000, play.now_ms)
    play.carry_out()
    assert requests_in_flight(play.watcher) == 0
    assert play.other_commands == [ReplaceClient("no answer for 600 s")]


def test_fewer_denied_paths_cause_no_extra_heartbeat(play: Play) -> None:
    """The next regular heartbeat reports it."""
    paths = ("/brokers/ids/0", "/controller")
    play.zk.closed.update(paths)
    for path in paths:
        play.zk.put(path)
    play.settle()
    play.pass_time(1_000)
    assert play.reader.last[ChangeKind.HEARTBEAT].denied == paths
    sent = sum(change.kind is ChangeKind.HEARTBEAT for change in play.reader.changes)
    play.zk.closed.remove("/controller")
    play.watcher.recorder.denied.discard("/controller")
    for _ in range(5):
        play.pass_time(1_000)
        play.settle()
    assert sum(change.kind is ChangeKind.HEARTBEAT for change in play.reader.changes) == sent
    play.pass_time(5_000)
    assert play.reader.last[ChangeKind.HEARTBEAT].denied == ("/brokers/ids/0",)
