"""A resync begins on a server that has caught up, with a known history or marked as a rebase."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from controller_model.kafka.ids import Position
from controller_model.records.changes import ChangeKind
from controller_model.records.views import ResyncWanted
from tests.support.ensemble_in_memory import Play, fill, view
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
        play.deliver_all()
    starts = [change for change in play.reader.changes if change.kind is STARTED]
    assert [change.answers for change in starts] == [None, 4]
    assert starts[1].reason == "asked for: a hole"


def test_another_lineages_request_of_the_same_number_is_another_request(play: Play) -> None:
    """A fold that started over counts from 1 again, and does not know of the resync before."""
    wanted = ResyncWanted(number=4, reason="a hole")
    play.watcher.on_view(view(wanted=wanted), play.now_ms)
    play.deliver_all()
    again = view(wanted=wanted)
    play.watcher.on_view(replace(again, as_of=replace(again.as_of, lineage="m")), play.now_ms)
    play.deliver_all()
    starts = [change for change in play.reader.changes if change.kind is STARTED]
    assert [change.answers for change in starts] == [None, 4, 4]


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
    play.deliver_all()
    assert play.kinds()[-1] is FINISHED


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
    check.highest_zxid = 5
    now_ms = 0
    for _ in range(2):
        for pause_ms in pauses_ms:
            assert isinstance(tried(check, 4, now_ms, brokers=brokers), Wait)
            assert not check.start(now_ms + pause_ms - 1)
            now_ms += pause_ms
        assert tried(check, 5, now_ms) == READY


def test_where_nothing_was_seen_before_any_server_has_caught_up() -> None:
    """Also one that refuses to sync."""
    assert tried(ReadinessCheck(), 0) == READY


def test_a_wait_reports_its_reason() -> None:
    """The current zxid and the one that is needed, or that there are no brokers."""
    check = ReadinessCheck()
    check.highest_zxid = 7
    why = "the server is at zxid 6, below 7 that was seen before"
    assert tried(check, 6) == Wait(why)
    check.stop()
    assert tried(check, 6, brokers=Refused(Err.NO_NODE)) == Wait("no /brokers", no_brokers=True)


def test_a_server_that_stays_behind_for_ten_seconds_is_of_another_history() -> None:
    """The time counts from the first try; a server that caught up in between was only slow."""
    check = ReadinessCheck()
    check.highest_zxid = 7
    assert isinstance(tried(check, 6, 1_000), Wait)
    assert isinstance(tried(check, 6, 10_999), Wait)
    assert tried(check, 7, 12_000) == READY
    assert isinstance(tried(check, 6, 13_000), Wait)
    assert tried(check, 6, 23_000) == REBASE


def test_the_next_connections_server_has_ten_seconds_of_its_own() -> None:
    """It may be another server: that the one before stayed behind says nothing about it."""
    check = ReadinessCheck()
    check.highest_zxid = 7
    assert isinstance(tried(check, 6, 1_000), Wait)
    check.stop()
    assert isinstance(tried(check, 6, 12_000), Wait)
    assert isinstance(tried(check, 6, 21_999), Wait)
    assert tried(check, 6, 23_000) == REBASE


def test_a_rebase_begins_with_the_zxid_of_its_server() -> None:
    """What the old history had reached is not waited for again at the next connection."""
    check = ReadinessCheck()
    check.highest_zxid = 7
    assert isinstance(tried(check, 5, 1_000), Wait)
    assert tried(check, 5, 11_000) == REBASE
    check.rebased_at(Position(1, 5))
    assert isinstance(tried(check, 4, 12_000), Wait)
    check.stop()
    assert tried(check, 5, 13_000) == READY


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


def test_after_a_rebase_a_view_of_the_old_history_is_ignored(play: Play) -> None:
    """A view from before the rebase carries a zxid that the new history may never reach."""
    play.disconnect()
    play.zk.put("/cluster/id", b'{"version":"1","id":"two"}')
    play.connect()
    play.deliver_all()
    play.watcher.on_view(view(read_zxid=10**9, seq=2), play.now_ms)
    play.disconnect()
    play.connect()
    play.deliver_all()
    assert play.reader.last[STARTED].resync == 3
    assert not play.reader.last[STARTED].rebase
