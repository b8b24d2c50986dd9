"""The watcher's decisions, driven by an ensemble in memory."""

from __future__ import annotations

import pytest

from controller_model.records.changes import ChangeKind, SessionState
from tests.support.ensemble import Ensemble, Play
from zk_source.watcher.commands import GiveUp, GiveUpReason, NoBrokers, ReplaceClient
from zk_source.watcher.subscriptions import Watches
from zk_source.watcher.watcher import Intervals
from zk_source.wire.inbox import FoldView, OtherWatcher
from zk_source.wire.operations import Err, ReadRequest, Refused

STATE = "/brokers/topics/t/partitions/0/state"
PUBLISHED = ("/brokers/ids/0", "/brokers/topics/t", STATE, "/controller", "/cluster/id")

STARTED, FINISHED = ChangeKind.RESYNC_STARTED, ChangeKind.RESYNC_FINISHED
SET, DELETED, RECONCILED = ChangeKind.SET, ChangeKind.DELETED, ChangeKind.RECONCILED


def fill(zk: Ensemble) -> None:
    """Make a small Kafka cluster."""
    for path in PUBLISHED:
        zk.put(path, b'{"version":"1","id":"one"}' if path == "/cluster/id" else b"{}")


@pytest.fixture(params=[Watches.RECURSIVE, Watches.ONE_SHOT])
def play(request: pytest.FixtureRequest) -> Play:
    """A watcher that has resynced on a small cluster, each way of watching."""
    play = Play(watches=request.param)
    fill(play.zk)
    play.connect()
    play.settle()
    return play


def view(**fields: object) -> FoldView:
    """Return a view of the first generation, with some fields of one's own."""
    values: dict[str, object] = {
        "lineage": "l",
        "generation": 1,
        "seq": 1,
        "watcher": "aaaaaa",
        "read_zxid": 0,
        "cluster_id": None,
        "wanted_number": None,
        "wanted_reason": "",
    }
    return FoldView(**(values | fields))  # type: ignore[arg-type]  # fields are the caller's


def test_a_resync_publishes_every_znode_once_between_its_marks(play: Play) -> None:
    """A resync is its two marks with one set for each published znode in between."""
    assert play.kinds() == [STARTED, *[SET] * len(PUBLISHED), FINISHED]
    assert play.reader.mzxids == play.expected(PUBLISHED)


def test_containers_are_not_published(play: Play) -> None:
    """A partition's directory brings no change."""
    before = len(play.reader.changes)
    play.zk.put("/brokers/topics/t/partitions/1")
    play.settle()
    assert len(play.reader.changes) == before


def test_a_changed_znode_is_read_once_and_published(play: Play) -> None:
    """One event makes one read and one set."""
    play.zk.put(STATE, b"new")
    play.settle()
    assert play.kinds()[-1] is SET
    assert play.reader.changes[-1].data == "new"
    assert play.reader.mzxids == play.expected(PUBLISHED)


def test_a_burst_on_one_path_is_coalesced_and_its_last_value_published(play: Play) -> None:
    """Events that come while a path is read cost one more read, and the last value is told."""
    play.zk.put(STATE, b"0")
    play.deliver_one()
    for value in (b"1", b"2", b"3"):
        play.zk.put(STATE, value)
        play.deliver_one()
    assert len(play.zk.requests) == 1
    play.settle()
    assert [change.data for change in play.reader.changes[-1:]] == ["3"]


def test_a_read_sent_before_a_delete_does_not_bring_the_znode_back(play: Play) -> None:
    """A delete that overtakes nothing: whatever is read first, the reader ends without it."""
    play.zk.put("/controller", b"x")
    play.deliver_one()
    play.zk.delete("/controller")
    play.settle()
    assert play.kinds()[-1] is DELETED
    assert "/controller" not in play.reader.mzxids


def test_a_value_read_before_the_event_came_is_read_again(play: Play) -> None:
    """An event that comes while its path is being read may tell of a later value."""
    play.zk.put(STATE, b"first")
    play.deliver_one()
    play.zk.execute_one()
    play.zk.put(STATE, b"second")
    play.settle()
    assert [c.data for c in play.reader.changes[-2:]] == ["first", "second"]


def test_a_znode_that_came_and_went_unseen_is_not_published(play: Play) -> None:
    """Created and deleted before it could be read: nothing to tell."""
    before = len(play.reader.changes)
    play.zk.put("/brokers/ids/9")
    play.zk.delete("/brokers/ids/9")
    play.settle()
    assert len(play.reader.changes) == before


def test_a_delete_during_a_resync_is_told_even_of_what_was_not_read_yet() -> None:
    """Readers may hold a path from before the resync, so its delete is told.

    (One-shot watches see no delete of what was not read: there the resync's end tells it.)
    """
    play = Play()
    fill(play.zk)
    play.connect()
    while STARTED not in play.kinds():
        assert play.deliver_one() or play.zk.answer_one()
    play.zk.requests.clear()  # the walk's first reads are lost in this play; the event is not
    play.zk.delete("/brokers/ids/0")
    while play.kinds()[-1] is not DELETED:
        assert play.deliver_one() or play.zk.answer_one()
    assert play.reader.changes[-1].path == "/brokers/ids/0"


def test_a_reconnect_resyncs_under_the_same_generation_with_a_new_id(play: Play) -> None:
    """What went by while the connection was down is caught up with by a resync."""
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


def test_readers_are_told_connected_only_once_a_resync_has_begun(play: Play) -> None:
    """Heartbeats say SUSPENDED until the resync's first mark, then CONNECTED."""
    play.disconnect()
    assert play.reader.changes[-1].session is SessionState.SUSPENDED
    play.connect()
    play.pass_time(10_000)
    assert play.reader.changes[-1].session is SessionState.SUSPENDED
    play.settle()
    assert play.reader.last[ChangeKind.HEARTBEAT].session is SessionState.CONNECTED


def test_heartbeats_come_every_ten_seconds(play: Play) -> None:
    """A quiet minute holds six heartbeats."""
    before = len(play.reader.changes)
    for _ in range(60):
        play.pass_time(1_000)
        play.settle()
    assert [change.kind for change in play.reader.changes[before:]] == [ChangeKind.HEARTBEAT] * 6


def test_an_audit_without_differences_only_confirms(play: Play) -> None:
    """An audit of an unchanged tree is one `reconciled`."""
    play.pass_time(300_000)
    play.settle()
    assert play.kinds()[-2:] == [FINISHED, RECONCILED]
    assert play.watcher.reader.counts.reconciliation_differences == 0


def test_an_audit_finds_what_no_event_told(play: Play) -> None:
    """A changed, a new and a deleted znode without events are published before `reconciled`."""
    play.zk.put(STATE, b"unseen")
    play.zk.put("/brokers/ids/5")
    play.zk.delete("/controller")
    play.zk.delete("/brokers/ids/0")
    play.zk.to_client.clear()  # the events are lost
    play.pass_time(300_000)
    play.settle()
    assert play.kinds()[-1] is RECONCILED
    assert play.reader.mzxids == play.expected((*PUBLISHED, "/brokers/ids/5"))
    assert play.watcher.reader.counts.reconciliation_differences == 4


def test_a_full_resync_comes_daily(play: Play) -> None:
    """A day after a resync the next one begins without being asked."""
    play.pass_time(86_400_000)
    play.settle()
    assert play.reader.last[STARTED].reason == "the daily one"


def test_the_folds_request_is_answered_once_by_its_number(play: Play) -> None:
    """A new number makes one resync that names it; the same number again makes none."""
    for _ in range(3):
        play.watcher.on_view(view(wanted_number=4, wanted_reason="a hole"), play.now_ms)
        play.settle()
    starts = [change for change in play.reader.changes if change.kind is STARTED]
    assert [change.answers for change in starts] == [None, 4]
    assert starts[1].reason == "asked for: a hole"


def test_a_request_that_stood_before_our_start_is_answered_by_the_first_resync() -> None:
    """A restarted watcher does not resync twice for one request."""
    play = Play()
    fill(play.zk)
    play.watcher.on_view(view(watcher="zzzzzz", wanted_number=9, wanted_reason="x"), play.now_ms)
    play.connect()
    play.settle()
    assert [c.answers for c in play.reader.changes if c.kind is STARTED] == [9]
    assert play.reader.changes[0].generation == 2


def test_a_lagging_server_is_waited_for() -> None:
    """No resync begins while the server is behind what the fold knows; then it is not a rebase."""
    play = Play()
    fill(play.zk)
    play.watcher.on_view(view(read_zxid=play.zk.zxid + 1), play.now_ms)
    play.connect()
    for _ in range(5):
        play.pass_time(1_000)
        while play.deliver_one() or play.zk.answer_one():
            pass
    assert play.kinds() == []
    play.zk.put("/controller", b"1")
    play.pass_time(1_000)
    play.settle()
    assert play.kinds()[0] is STARTED
    assert not play.reader.last[STARTED].rebase


def test_a_history_that_went_back_for_good_is_a_rebase(play: Play) -> None:
    """After ten seconds below the zxid seen before, the resync says `rebase`."""
    play.disconnect()
    play.zk = Ensemble()
    play.zk.put("/brokers/ids/1")
    play.connect()
    for _ in range(15):
        play.pass_time(1_000)
        while play.deliver_one() or play.zk.answer_one():
            pass
    play.settle()
    assert play.reader.last[STARTED].rebase
    assert play.reader.mzxids == play.expected(("/brokers/ids/1",))


def test_another_cluster_id_is_a_rebase_at_once(play: Play) -> None:
    """An ensemble built anew is known by its /cluster/id."""
    play.disconnect()
    play.zk.put("/cluster/id", b'{"version":"1","id":"two"}')
    play.connect()
    play.settle()
    assert play.reader.last[STARTED].rebase


def test_after_a_rebase_the_old_historys_view_does_not_count(play: Play) -> None:
    """A view from before the rebase carries a zxid that the new history may never reach."""
    play.disconnect()
    play.zk.put("/cluster/id", b'{"version":"1","id":"two"}')
    play.connect()
    play.settle()
    play.watcher.on_view(view(read_zxid=10**9, seq=2), play.now_ms)
    play.disconnect()
    play.connect()
    play.settle()
    assert play.reader.last[STARTED].resync == 3
    assert not play.reader.last[STARTED].rebase


def test_a_missing_brokers_znode_is_told_and_waited_for() -> None:
    """Without /brokers nothing is published; when it comes, the resync does."""
    play = Play()
    play.zk.put("/consumers")
    play.connect()
    while play.deliver_one() or play.zk.answer_one():
        pass
    assert play.other_commands == [NoBrokers(("consumers",))]
    assert play.reader.changes == []
    fill(play.zk)
    play.pass_time(1_000)
    play.settle()
    assert play.kinds()[-1] is FINISHED


def test_an_unreadable_path_is_named_and_the_rest_goes_on() -> None:
    """NoAuth on one znode: it is on `denied`, everything else is published."""
    play = Play()
    fill(play.zk)
    play.zk.closed.add("/brokers/ids/0")
    play.connect()
    play.settle()
    assert play.reader.last[FINISHED].denied == ("/brokers/ids/0",)
    assert set(play.reader.mzxids) == set(PUBLISHED) - {"/brokers/ids/0"}


def test_recursive_watches_that_must_be_are_missed_in_one_line() -> None:
    """Where only recursive watches are allowed, their refusal ends the watcher with a clear line."""
    play = Play(watches=Watches.RECURSIVE)
    play.zk.old = True
    play.connect()
    play.zk.answer_one()
    play.deliver_one()
    (command,) = play.other_commands
    assert isinstance(command, GiveUp)
    assert command.reason is GiveUpReason.OLD_SERVER
    assert "zk:2181" in command.message
    assert "zk_watches" in command.message


def test_dropped_changes_mute_the_watcher_until_kafka_is_back(play: Play) -> None:
    """After a drop nothing is published; when Kafka is back, a resync tells the count."""
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


def test_an_overflow_of_notifications_is_mended_by_a_resync(play: Play) -> None:
    """Lost events are made up for by reading everything again."""
    play.zk.put(STATE, b"unseen")
    play.zk.to_client.clear()
    play.watcher.on_overflow(1, play.now_ms)
    play.carry_out()
    # Before the resync begins: what is held may be of before, and readers know it.
    assert play.reader.last[ChangeKind.HEARTBEAT].session is SessionState.SUSPENDED
    play.settle()
    assert play.reader.last[ChangeKind.HEARTBEAT].session is SessionState.CONNECTED
    assert play.reader.last[STARTED].resync == 2
    assert play.reader.mzxids == play.expected(PUBLISHED)


def test_a_failed_read_is_mended_by_a_resync_after_a_pause(play: Play) -> None:
    """An error of the server's is not met by hammering it."""
    play.zk.put(STATE, b"unseen")
    play.deliver_one()
    send = play.zk.requests.popleft()
    assert isinstance(send.request, ReadRequest)
    play.watcher.on_reply(send.token, play.zk.zxid, Err.OK, (Refused(-1),), play.now_ms)
    play.carry_out()
    assert not play.zk.requests
    play.pass_time(1_000)
    play.settle()
    assert play.reader.last[STARTED].resync == 2
    assert play.reader.mzxids == play.expected(PUBLISHED)


def test_a_long_silence_ends_in_a_new_client(play: Play) -> None:
    """Fifteen seconds without a connection: the session is given up and told as LOST."""
    play.disconnect()
    play.pass_time(14_000)
    assert play.other_commands == []
    play.pass_time(1_000)
    (command,) = play.other_commands
    assert isinstance(command, ReplaceClient)
    assert play.reader.changes[-1].session is SessionState.LOST


def test_replies_of_an_earlier_connection_are_ignored(play: Play) -> None:
    """A reply that belongs to the connection before changes nothing."""
    play.zk.put(STATE, b"x")
    play.deliver_one()
    send = play.zk.requests[0]
    play.disconnect()
    before = len(play.reader.changes)
    results = (play.zk.nodes[STATE],)
    play.watcher.on_reply(send.token, play.zk.zxid, Err.OK, results, play.now_ms)
    play.carry_out()
    assert len(play.reader.changes) == before


def test_a_newcomer_gives_way_to_a_live_watcher(play: Play) -> None:
    """A record of a higher generation under another name ends a watcher that has just begun."""
    play.watcher.on_other_watcher(OtherWatcher("bbbbbb", 2, play.now_ms), play.now_ms)
    play.carry_out()
    (command,) = play.other_commands
    assert isinstance(command, GiveUp)
    assert command.reason is GiveUpReason.OTHER_WATCHER
    assert "bbbbbb" in command.message


def test_an_incumbent_answers_a_newcomer_by_a_new_generation(play: Play) -> None:
    """A watcher of long standing takes the next generation, with a resync."""
    play.pass_time(60_000)
    play.settle()
    play.watcher.on_other_watcher(OtherWatcher("bbbbbb", 2, play.now_ms), play.now_ms)
    play.settle()
    started = play.reader.last[STARTED]
    assert (started.generation, started.seq) == (3, 1)
    assert play.reader.mzxids == play.expected(PUBLISHED)


def test_the_walk_waits_while_the_publisher_has_no_room() -> None:
    """A resync sends no reads while its changes would only pile up."""
    play = Play()
    fill(play.zk)
    play.watcher.reader.room = False
    play.connect()
    while play.deliver_one() or play.zk.answer_one():
        pass
    assert play.kinds() == [STARTED]
    play.watcher.reader.room = True
    play.settle()
    assert play.kinds()[-1] is FINISHED


def test_a_walk_keeps_to_its_reads_per_second() -> None:
    """With 1,000 reads a second and a burst of 500, a walk of 1,500 reads takes a second."""
    play = Play(Intervals(resync_reads_per_s=1_000))
    fill(play.zk)
    for number in range(1_500):
        play.zk.put(f"/brokers/topics/x{number}")
    play.connect()
    play.settle(most=100_000)
    assert 900 <= play.now_ms - play.reader.changes[0].observed_at <= 1_400


def test_the_goodbye_tells_readers_that_nothing_is_seen(play: Play) -> None:
    """A clean stop ends with a heartbeat whose session is LOST."""
    play.watcher.on_stop(play.now_ms)
    play.carry_out()
    assert play.reader.changes[-1].session is SessionState.LOST
