"""A resync begins on a server that has caught up, with a known history or marked as a rebase."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from controller_model.kafka.ids import Position
from controller_model.records.changes import ChangeKind
from controller_model.records.views import ResyncWanted
from tests.support.ensemble_in_memory import Ensemble, Play, fill, view
from zk_source.watcher.commands import NoBrokers
from zk_source.watcher.readiness import ReadinessCheck, ResyncReadiness, Wait
from zk_source.wire.operations import Children, Err, Refused, Result, ZnodeData

STARTED, FINISHED = ChangeKind.RESYNC_STARTED, ChangeKind.RESYNC_FINISHED

BROKERS = Children(("ids", "topics"))
NO_ID = Refused(Err.NO_NODE)
READY, REBASE = ResyncReadiness(rebase=False), ResyncReadiness(rebase=True)


def cluster_id(name: str) -> ZnodeData:
    """Return the content of /cluster/id with this id."""
    return ZnodeData(b'{"version":"1","id":"%s"}' % name.encode(), 1, 1, 1, 1, 0, 0, 0)


def tried(
    check: ReadinessCheck,
    zxid: int,
    now_ms: int = 0,
    *,
    brokers: Result = BROKERS,
    id_: Result = NO_ID,
) -> ResyncReadiness | Wait:
    """Begin a check, which must be due, and judge a server that caught up to a zxid."""
    assert check.start(now_ms)
    check.on_sync(zxid)
    return check.judge((brokers, id_), now_ms)


def test_the_folds_request_is_answered_once_by_its_number(play: Play) -> None:
    """A new number causes one resync that names it; the same number again causes none."""
    for _ in range(3):
        play.watcher.on_view(view(wanted=ResyncWanted(number=4, reason="a hole")), play.now_ms)
        play.settle()
    starts = [change for change in play.reader.changes if change.kind is STARTED]
    assert [change.answers for change in starts] == [None, 4]
    assert starts[1].reason == "asked for: a hole"


def test_another_lineages_request_of_the_same_number_is_another_request(play: Play) -> None:
    """A fold that started over counts from 1 again, and does not know of the resync before."""
    wanted = ResyncWanted(number=4, reason="a hole")
    play.watcher.on_view(view(wanted=wanted), play.now_ms)
    play.settle()
    again = view(wanted=wanted)
    play.watcher.on_view(replace(again, as_of=replace(again.as_of, lineage="m")), play.now_ms)
    play.settle()
    starts = [change for change in play.reader.changes if change.kind is STARTED]
    assert [change.answers for change in starts] == [None, 4, 4]


def test_a_request_older_than_the_watcher_is_answered_by_the_first_resync() -> None:
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


def test_a_server_below_the_last_seen_zxid_for_ten_seconds_causes_a_rebase(play: Play) -> None:
    """After ten seconds below the zxid seen before, the resync has `rebase` set."""
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
    """The next resync of the restored ensemble begins at once, and is not a rebase."""
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


def test_another_cluster_id_causes_a_rebase_at_once(play: Play) -> None:
    """An ensemble that was recreated is recognized by its /cluster/id."""
    play.disconnect()
    play.zk.put("/cluster/id", b'{"version":"1","id":"two"}')
    play.connect()
    play.settle()
    assert play.reader.last[STARTED].rebase


def test_after_a_rebase_a_view_of_the_old_history_is_ignored(play: Play) -> None:
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
    """Without /brokers nothing is published; the resync begins when it appears."""
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


def test_a_watcher_that_has_seen_no_zxid_is_ready_on_any_server() -> None:
    """Even on one that reports no zxid: there is nothing that a resync could undo."""
    assert tried(ReadinessCheck(), 0) == READY


def test_one_check_is_under_way_at_a_time() -> None:
    """The next may begin when it was judged, or when its replies will not arrive."""
    check = ReadinessCheck()
    assert check.start(0)
    assert not check.start(0)
    assert check.judge((BROKERS, NO_ID), 0) == READY
    assert check.start(0)
    check.stop()
    assert check.start(0)


@pytest.mark.parametrize(
    ("brokers", "pauses_ms"),
    [
        (Refused(Err.NO_NODE), [250, 500, 1000, 2000, 4000, 5000, 5000]),
        (BROKERS, [250, 500, 1000, 1000]),
    ],
    ids=["no /brokers", "behind"],
)
def test_pauses_between_tries_double_up_to_a_limit(brokers: Result, pauses_ms: list[int]) -> None:
    """A cluster may never appear in a chroot, while a server catches up soon; each problem starts with a short pause again."""
    check = ReadinessCheck()
    check.observe_zxid(5)
    now_ms = 0
    for _ in range(2):
        for pause_ms in pauses_ms:
            assert isinstance(tried(check, 4, now_ms, brokers=brokers), Wait)
            assert not check.start(now_ms + pause_ms - 1)
            now_ms += pause_ms
        assert tried(check, 5, now_ms) == READY


def test_a_new_connection_need_not_wait_out_the_pause_of_the_old_one() -> None:
    """It may lead to another server."""
    check = ReadinessCheck()
    check.observe_zxid(5)
    assert isinstance(tried(check, 4), Wait)
    check.stop()
    assert tried(check, 5) == READY
    assert tried(check, 5) == READY


def test_a_wait_reports_its_reason() -> None:
    """The current zxid and the one that is needed, or that there are no brokers."""
    check = ReadinessCheck()
    check.observe_zxid(7)
    check.observe_zxid(5)
    why = "the server is at zxid 6, below 7 that was seen before"
    assert tried(check, 6) == Wait(why)
    check.stop()
    assert tried(check, 6, brokers=Refused(Err.NO_NODE)) == Wait("no /brokers", no_brokers=True)


def test_a_server_that_stays_behind_for_ten_seconds_is_of_another_history() -> None:
    """The time counts from the first try; a server that caught up in between was only slow."""
    check = ReadinessCheck()
    check.observe_zxid(7)
    assert isinstance(tried(check, 6, 1_000), Wait)
    assert isinstance(tried(check, 6, 10_999), Wait)
    assert tried(check, 7, 12_000) == READY
    assert isinstance(tried(check, 6, 13_000), Wait)
    assert tried(check, 6, 23_000) == REBASE


def test_a_server_that_reports_no_zxid_is_waited_for_without_a_limit() -> None:
    """A history that was never seen cannot be a different one."""
    check = ReadinessCheck()
    check.observe_zxid(7)
    for now_ms in range(0, 60_000, 1_000):
        assert check.start(now_ms)
        assert isinstance(check.judge((BROKERS, NO_ID), now_ms), Wait)
    assert tried(check, 7, 60_000) == READY


def test_time_without_a_connection_does_not_count_as_a_lagging_server() -> None:
    """On a new connection a slow server may catch up, however long ago another one was slow."""
    check = ReadinessCheck()
    check.observe_zxid(7)
    assert isinstance(tried(check, 6, 0), Wait)
    check.stop()
    assert isinstance(tried(check, 6, 3_600_000), Wait)
    assert isinstance(tried(check, 6, 3_609_999), Wait)
    assert tried(check, 6, 3_611_000) == REBASE


def test_the_view_of_the_fold_gives_the_required_zxid_and_the_cluster_id() -> None:
    """A watcher that has just started has seen nothing itself; what it has seen takes precedence over the view."""
    check = ReadinessCheck()
    check.on_view(view(read_zxid=9, cluster_id="one"))
    assert isinstance(tried(check, 8, id_=cluster_id("one")), Wait)
    assert tried(check, 9, 1_000, id_=cluster_id("one")) == READY
    check.on_view(view(read_zxid=9, cluster_id="two"))
    assert tried(check, 9, 2_000, id_=cluster_id("one")) == READY
    other = ReadinessCheck()
    other.on_view(view(read_zxid=9, cluster_id="one"))
    assert tried(other, 1, id_=cluster_id("two")) == REBASE


def test_views_count_again_from_the_position_of_the_rebase() -> None:
    """Earlier views, and what was seen before, belong to another history; the rebase itself belongs to the new one."""
    check = ReadinessCheck()
    check.on_view(view(read_zxid=90, cluster_id="one"))
    assert tried(check, 0, id_=cluster_id("two")) == REBASE
    check.rebased_at(Position(1, 5))
    check.on_view(view(seq=4, read_zxid=90))
    assert tried(check, 0, 1_000, id_=cluster_id("two")) == READY
    check.on_view(view(seq=5, read_zxid=3))
    assert isinstance(tried(check, 2, 2_000, id_=cluster_id("two")), Wait)
    assert tried(check, 3, 3_000, id_=cluster_id("two")) == READY


def test_an_unreadable_cluster_id_causes_no_rebase() -> None:
    """Neither garbage nor a missing znode means another history, and what was known is not forgotten."""
    check = ReadinessCheck()
    assert tried(check, 5, id_=cluster_id("one")) == READY
    for unknown in (NO_ID, cluster_id("one")._replace(data=b"{")):
        assert tried(check, 5, id_=unknown) == READY
    assert tried(check, 5, id_=cluster_id("two")) == REBASE
