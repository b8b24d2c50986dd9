"""A resync begins on a server that has caught up, in a history that is known or marked as a rebase."""

from __future__ import annotations

from msgspec.structs import replace

from controller_model.records.changes import ChangeKind
from controller_model.records.views import ResyncWanted
from tests.support.ensemble_in_memory import Ensemble, Play, fill, view
from zk_source.watcher.commands import NoBrokers

STARTED, FINISHED = ChangeKind.RESYNC_STARTED, ChangeKind.RESYNC_FINISHED


def test_the_folds_request_is_answered_once_by_its_number(play: Play) -> None:
    """A new number makes one resync that names it; the same number again makes none."""
    for _ in range(3):
        play.watcher.on_view(view(wanted=ResyncWanted(number=4, reason="a hole")), play.now_ms)
        play.settle()
    starts = [change for change in play.reader.changes if change.kind is STARTED]
    assert [change.answers for change in starts] == [None, 4]
    assert starts[1].reason == "asked for: a hole"


def test_another_lineages_request_of_the_same_number_is_another_request(play: Play) -> None:
    """A fold that began again counts from 1 again, and knows nothing of the resync that went before."""
    wanted = ResyncWanted(number=4, reason="a hole")
    play.watcher.on_view(view(wanted=wanted), play.now_ms)
    play.settle()
    again = view(wanted=wanted)
    play.watcher.on_view(replace(again, as_of=replace(again.as_of, lineage="m")), play.now_ms)
    play.settle()
    starts = [change for change in play.reader.changes if change.kind is STARTED]
    assert [change.answers for change in starts] == [None, 4, 4]


def test_a_request_that_stood_before_our_start_is_answered_by_the_first_resync() -> None:
    """A restarted watcher does not resync twice for one request."""
    play = Play()
    fill(play.zk)
    play.watcher.on_view(
        view(watcher="zzzzzz", wanted=ResyncWanted(number=9, reason="x")), play.now_ms
    )
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


def test_after_a_rebase_the_zxids_of_the_old_history_are_not_waited_for(play: Play) -> None:
    """The next resync of the restored ensemble begins at once, and is no rebase."""
    for _ in range(20):
        play.zk.put("/controller", b"2")
    play.settle()
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
    play.disconnect()
    play.connect()
    play.settle()
    assert play.reader.last[STARTED].resync == 3
    assert not play.reader.last[STARTED].rebase


def test_another_cluster_id_is_a_rebase_at_once(play: Play) -> None:
    """An ensemble built again is known by its /cluster/id."""
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


def test_a_missing_brokers_znode_is_reported_and_waited_for() -> None:
    """Without /brokers nothing is published; when it comes, the resync does."""
    play = Play()
    play.zk.put("/consumers")
    play.connect()
    while play.deliver_one() or play.zk.answer_one():
        pass
    assert play.other_commands == [NoBrokers()]
    assert play.reader.changes == []
    fill(play.zk)
    play.pass_time(1_000)
    play.settle()
    assert play.kinds()[-1] is FINISHED
