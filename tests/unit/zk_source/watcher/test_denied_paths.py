"""Each denied path is named, or a path above it, so that no reader takes it for deleted."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller_model.records.changes import ChangeKind, znode_digest
from controller_model.sources.zookeeper.state import DeniedTree
from tests.support.ensemble_in_memory import PUBLISHED, Play, fill
from tests.support.histories import Fold, small_cluster
from zk_source.watcher.denied_paths import MAX_CHARACTERS, MAX_NAMED, DeniedPaths, covering
from zk_source.watcher.subscriptions import Watches

NAMES = st.sampled_from([f"n{number}" for number in range(20)])
PATHS = st.lists(NAMES, min_size=1, max_size=5).map(lambda names: "/" + "/".join(names))


@given(st.sets(PATHS), st.integers(20, 40))
def test_every_denied_path_is_named_or_is_below_a_named_path(paths: set[str], most: int) -> None:
    """Within the bound, without duplicates, and each path itself where there is room."""
    named = covering(paths, most)
    assert all(any(f"{path}/".startswith(f"{each}/") for each in named) for path in paths)
    assert len(named) <= min(most, len(paths))
    assert list(named) == sorted(set(named))
    if len(paths) <= most:
        assert all(path in paths for path in named)


def test_paths_too_long_for_a_message_are_covered_by_their_parent() -> None:
    """A ZooKeeper path may be almost a megabyte long; a path above it covers it."""
    paths = [f"/config/changes/{letter * 900_000}" for letter in "abc"]
    assert covering([*paths, "/controller"]) == ("/config/changes", "/controller")


@pytest.mark.parametrize("more", [0, 1])
def test_each_denied_path_is_named_up_to_the_limits(more: int) -> None:
    """Up to so many paths or characters; with one more, paths above are named instead."""
    many = [f"/a/{number}" for number in range(MAX_NAMED + more)]
    long = [f"/a/{letter * (MAX_CHARACTERS // 2 - 3)}" for letter in "bc"]
    long[1] += more * "c"
    for paths in (many, long):
        assert covering(paths) == (("/a",) if more else tuple(sorted(paths)))


def test_the_root_is_never_named_for_the_paths_below_it() -> None:
    """That would hide the whole cluster. The few znodes of the first level are all named."""
    assert covering(["/a", "/b/c", "/d"], most=1) == ("/a", "/b", "/d")


def test_counts_of_paths_that_are_no_longer_denied_are_removed() -> None:
    """Topics are created and deleted for as long as no resync is due, and each resync begins with no counts."""
    denied = DeniedPaths()
    denied.add("/brokers/topics/t")
    for number in range(3):
        denied.add(f"/brokers/topics/t{number}/partitions/0/state")
        denied.discard_all(f"/brokers/topics/t{number}")
    assert dict(denied._below) == {"/brokers": 1, "/brokers/topics": 1}
    denied.clear()
    assert dict(denied._below) == {}


def test_a_path_that_can_be_read_again_is_no_longer_named() -> None:
    """After `clear` no path is named; a path is not added twice."""
    denied = DeniedPaths()
    assert denied.add("/a")
    assert not denied.add("/a")
    assert denied.add("/b")
    assert list(denied.named) == ["/a", "/b"]
    denied.discard("/a")
    denied.discard("/c")
    assert (list(denied.named), len(denied)) == (["/b"], 1)
    denied.clear()
    assert (list(denied.named), len(denied)) == ([], 0)


@given(st.lists(st.tuples(st.sampled_from(["add", "discard", "discard_all"]), PATHS)))
def test_discarding_a_path_discards_the_paths_below_it(steps: list[tuple[str, str]]) -> None:
    """As in a plain set of paths, after any sequence of steps."""
    denied, plain = DeniedPaths(), set[str]()
    for step, path in steps:
        getattr(denied, step)(path)
        if step == "add":
            plain.add(path)
        elif step == "discard":
            plain.discard(path)
        else:
            plain = {each for each in plain if not f"{each}/".startswith(f"{path}/")}
        assert (len(denied), denied.named) == (len(plain), covering(plain))


def test_a_path_denied_in_the_old_history_accepts_a_lower_zxid_after_a_rebase() -> None:
    """Its zxids mean nothing in an ensemble that was recreated with smaller ones."""
    history, fold = small_cluster(), Fold()
    fold.follow(history)
    stats = fold.state.control.source.stats
    held = stats["/controller"].order
    history.zxid = 10
    for znode in history.znodes.values():
        znode.czxid = znode.mzxid = 10
    history.start_resync(rebase=True)
    for path in history.znodes:
        if path != "/controller":
            history.report(path)
    history.finish_resync(denied=("/controller",), denied_more=0)
    fold.follow(history)
    log = fold.state.control.log
    held_below = DeniedTree(1, znode_digest("/controller", 0))
    assert fold.state.control.source.denied_trees == {"/controller": held_below}
    history.report("/controller")
    history.reconciled(denied=(), denied_more=0)
    fold.follow(history)
    assert stats["/controller"].order == 10 < held
    assert log.view.divergent_since is None
    assert log.wanted is None


@pytest.mark.parametrize("path", ["/controller", "/brokers/topics", "/brokers/ids/0"])
@pytest.mark.parametrize("end", ["granted", "deleted"])
@pytest.mark.parametrize("watches", [Watches.RECURSIVE, Watches.ONE_SHOT])
def test_a_reconciliation_finds_what_is_denied_no_more(
    watches: Watches, end: str, path: str
) -> None:
    """A changed ACL brings no event, nor does the end of a znode that may not be read."""
    play = Play(watches=watches)
    fill(play.zk)
    play.zk.closed.add(path)
    play.connect()
    play.deliver_all()
    assert play.reader.last[ChangeKind.RESYNC_FINISHED].denied == (path,)
    if end == "granted":
        play.zk.closed.clear()
    else:
        play.zk.delete(path)
        play.zk.to_client.clear()
    play.pass_time(300_000)
    play.deliver_all()
    assert play.reader.last[ChangeKind.RECONCILED].denied == ()
    assert play.reader.mzxids == play.expected(PUBLISHED)


def test_a_resync_forgets_a_denied_path_that_was_deleted_unseen(play: Play) -> None:
    """Its end names only what is denied now: what is gone must not count as unknown."""
    paths = ("/brokers/ids/0", "/brokers/topics/t")
    play.zk.closed.update(paths)
    for path in paths:
        play.zk.put(path)
    play.deliver_all()
    play.disconnect()
    assert play.reader.last[ChangeKind.HEARTBEAT].denied == paths
    play.zk.delete("/brokers/ids/0")
    play.connect()
    play.deliver_all()
    assert play.reader.last[ChangeKind.RESYNC_FINISHED].denied == ("/brokers/topics/t",)


@pytest.mark.parametrize("watches", [Watches.RECURSIVE, Watches.ONE_SHOT])
def test_newly_denied_paths_are_reported_within_a_second(watches: Watches) -> None:
    """Until then its last value is shown as live. Further denied paths cause one heartbeat a second, not one each."""
    play = Play(watches=watches)
    fill(play.zk)
    topics = [f"/brokers/topics/t{number}" for number in range(5)]
    for topic in topics:
        play.zk.put(topic, b'{"version":2,"partitions":{"0":[0]}}')
    play.connect()
    play.deliver_all()
    read = len(play.reader.changes)
    for topic in topics:
        play.zk.closed.add(topic)
        play.zk.put(topic)
        play.deliver_all()
        play.pass_time(300)
    play.pass_time(1_000)
    named = [
        change.denied
        for change in play.reader.changes[read:]
        if change.kind is ChangeKind.HEARTBEAT
    ]
    assert named[-1] == tuple(topics)
    assert 2 <= len(named) <= 3
