"""Changed paths are read at once and walks read the rest; the last value is always published."""

from __future__ import annotations

from controller_model.records.changes import ChangeKind
from tests.support.ensemble_in_memory import PUBLISHED, STATE, Play, fill
from zk_source.watcher.watcher import Intervals
from zk_source.wire.operations import Err, ReadRequest, Refused

STARTED, FINISHED = ChangeKind.RESYNC_STARTED, ChangeKind.RESYNC_FINISHED
SET, DELETED, RECONCILED = ChangeKind.SET, ChangeKind.DELETED, ChangeKind.RECONCILED


def test_a_changed_znode_is_read_once_and_published(play: Play) -> None:
    """One event causes one read and one set."""
    play.zk.put(STATE, b"new")
    play.settle()
    assert play.kinds()[-1] is SET
    assert play.reader.changes[-1].data == "new"
    assert play.reader.mzxids == play.expected(PUBLISHED)


def test_a_burst_on_one_path_is_coalesced_and_its_last_value_published(play: Play) -> None:
    """Events that arrive while a path is being read cost one more read, and the last value is published."""
    play.zk.put(STATE, b"0")
    play.deliver_one()
    for value in (b"1", b"2", b"3"):
        play.zk.put(STATE, value)
        play.deliver_one()
    assert len(play.zk.requests) == 1
    play.settle()
    assert [change.data for change in play.reader.changes[-1:]] == ["3"]


def test_a_read_sent_before_a_delete_does_not_bring_the_znode_back(play: Play) -> None:
    """Whatever is read first, for the reader the znode does not exist in the end."""
    play.zk.put("/controller", b"x")
    play.deliver_one()
    play.zk.delete("/controller")
    play.settle()
    assert play.kinds()[-1] is DELETED
    assert "/controller" not in play.reader.mzxids


def test_a_value_read_before_the_event_came_is_read_again(play: Play) -> None:
    """An event that arrives while its path is being read may be about a later value."""
    play.zk.put(STATE, b"first")
    play.deliver_one()
    play.zk.execute_one()
    play.zk.put(STATE, b"second")
    play.settle()
    assert [c.data for c in play.reader.changes[-2:]] == ["first", "second"]


def test_a_znode_deleted_before_it_was_read_is_not_published(play: Play) -> None:
    """Created and deleted before it could be read: nothing to publish."""
    before = len(play.reader.changes)
    play.zk.put("/brokers/ids/9")
    play.zk.delete("/brokers/ids/9")
    play.settle()
    assert len(play.reader.changes) == before


def test_a_reconciliation_without_differences_only_confirms(play: Play) -> None:
    """A reconciliation of an unchanged tree publishes one `reconciled`."""
    play.pass_time(300_000)
    play.settle()
    assert play.kinds()[-2:] == [FINISHED, RECONCILED]
    assert play.watcher.reader.reconciliation_differences == 0


def test_a_reconciliation_finds_changes_without_an_event(play: Play) -> None:
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
    assert play.watcher.reader.reconciliation_differences == 4


def test_a_failed_read_leads_to_a_resync_after_a_pause(play: Play) -> None:
    """A server that answers with an error is not flooded with reads."""
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


def test_the_walk_waits_while_the_publisher_has_no_room() -> None:
    """A resync sends no reads while its changes would only accumulate."""
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


def test_reads_that_follow_from_a_read_belong_to_its_round(play: Play) -> None:
    """With one-shot watches names are read before values: until the values are read, the event is not done."""
    dirty = play.watcher.reader.dirty
    play.zk.put("/brokers/topics/new")
    while play.zk.to_client:
        play.deliver_one()
    dirty.round += 1
    while len(dirty):
        assert dirty.oldest_round == dirty.round - 1
        if not play.deliver_one():
            play.zk.answer_one()
    assert dirty.oldest_round == dirty.round
    assert play.reader.mzxids == play.expected([*PUBLISHED, "/brokers/topics/new"])
