"""Each denied path is named, or a path above it, so that no reader takes it for deleted."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller_model.records.changes import ChangeKind
from controller_model.records.events import TopicDeleted
from tests.support.ensemble_in_memory import STATE, Play, fill, view
from tests.support.histories import Fold, small_cluster
from zk_source.watcher.commands import Warn
from zk_source.watcher.denied_paths import MAX_CHARACTERS, MAX_NAMED, DeniedPaths, covering
from zk_source.watcher.subscriptions import Watches
from zk_source.watcher.watcher import Intervals

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
    """Topics are created and deleted for as long as no resync is due."""
    denied = DeniedPaths()
    denied.add("/brokers/topics/t")
    for number in range(3):
        denied.add(f"/brokers/topics/t{number}/partitions/0/state")
        denied.discard_all(f"/brokers/topics/t{number}")
    assert dict(denied._below) == {"/brokers": 1, "/brokers/topics": 1}


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


def test_a_topic_deleted_while_its_partitions_are_denied_is_no_longer_denied() -> None:
    """Nothing reads the paths below it again."""
    play = Play()
    fill(play.zk)
    play.connect()
    play.settle()
    play.zk.closed.add("/brokers/topics/t/partitions")
    play.disconnect()
    play.connect()
    play.settle()
    assert play.reader.last[ChangeKind.RESYNC_FINISHED].denied == ("/brokers/topics/t/partitions",)
    for path in sorted(play.zk.nodes, reverse=True):
        if f"{path}/".startswith("/brokers/topics/t/"):
            play.zk.delete(path)
    play.settle()
    assert list(play.watcher.recorder.denied.named) == []


def test_too_many_denied_topics_after_a_reconnect_are_not_deleted() -> None:
    """The fold keeps all of them as they were last read, and reports how many it does not know."""
    play, fold = Play(), Fold()
    fill(play.zk)
    topics = [f"/brokers/topics/t{number}" for number in range(MAX_NAMED + 50)]
    for topic in topics:
        play.zk.put(topic, b'{"version":2,"partitions":{"0":[0]}}')
    play.connect()
    play.settle()
    fold.feed(play.reader.changes)
    before = fold.state.control.log.view.znodes
    read = len(play.reader.changes)
    play.zk.closed.update(topics)
    play.disconnect()
    play.connect()
    play.settle()
    finished = play.reader.last[ChangeKind.RESYNC_FINISHED]
    assert (finished.denied, finished.denied_more) == (("/brokers/topics",), len(topics) - 1)
    assert not [
        each for each in fold.feed(play.reader.changes[read:]) if isinstance(each, TopicDeleted)
    ]
    assert sum(isinstance(command, Warn) for command in play.other_commands) == MAX_NAMED
    log = fold.state.control.log
    assert (log.view.znodes, log.view.denied_more) == (before, len(topics) - 1)
    assert f"and {len(topics) - 1} more" in str(log.why_incomplete())


RECONCILED = Intervals(reconciliation_ms=1_000)


@pytest.mark.parametrize("watches", [Watches.RECURSIVE, Watches.ONE_SHOT])
@pytest.mark.parametrize("denied", [MAX_NAMED - 1, MAX_NAMED, MAX_NAMED + 1, MAX_NAMED + 50])
def test_only_topics_deleted_while_all_were_denied_are_reported_as_deleted(
    denied: int, watches: Watches
) -> None:
    """However many the list can name. Each deleted topic is reported at the latest when it may be read again."""
    play, fold = Play(RECONCILED, watches=watches), Fold()
    fill(play.zk)
    topics = [f"/brokers/topics/t{number}" for number in range(denied)]
    for topic in topics:
        play.zk.put(topic, b'{"version":2,"partitions":{"0":[0]}}')
    play.connect()
    play.settle()
    play.zk.closed.update(topics)
    for again in range(2):
        play.disconnect()
        if not again:
            play.zk.delete(topics[0])
            play.zk.delete(topics[-1])
        play.connect()
        play.settle()
    went = {"t0", f"t{denied - 1}"}
    gone = _deleted(fold, play)
    assert gone <= went
    play.zk.closed.clear()
    for _ in range(3):
        play.pass_time(10_000)
        play.settle()
        gone |= _deleted(fold, play)
        if (wanted := fold.state.control.log.wanted) is not None:
            play.watcher.on_view(view(wanted=wanted), play.now_ms)
            play.settle()
            gone |= _deleted(fold, play)
    assert gone == went
    assert fold.state.control.log.why_incomplete() is None


def _deleted(fold: Fold, play: Play) -> set[str]:
    """Let the fold process what is new; return the topics that it reports as deleted."""
    reported = fold.feed(play.reader.changes)
    play.reader.changes.clear()
    return {each.topic for each in reported if isinstance(each, TopicDeleted)}


def denied_since(*paths: str) -> tuple[Play, Fold]:
    """Return a watcher and a fold that knew everything, and to which a new resync denies these paths."""
    play, fold = Play(RECONCILED), Fold()
    fill(play.zk)
    play.connect()
    play.settle()
    fold.feed(play.reader.changes)
    play.reader.changes.clear()
    fold.state.changed.clear()
    play.zk.closed.update(paths)
    play.disconnect()
    play.connect()
    play.settle()
    fold.feed(play.reader.changes)
    play.reader.changes.clear()
    return play, fold


@pytest.mark.parametrize("path", ["/brokers/ids", "/brokers/topics/t/partitions", "/controller"])
def test_a_path_that_may_be_read_again_is_no_longer_denied(path: str) -> None:
    """A reconciliation notices it, also for a path that has no published value."""
    play, fold = denied_since(path)
    assert fold.state.control.log.view.denied == (path,)
    play.zk.closed.clear()
    play.pass_time(1_000)
    play.settle()
    fold.feed(play.reader.changes)
    assert play.reader.last[ChangeKind.RECONCILED].denied == ()
    play.reader.changes.clear()
    play.pass_time(10_000)  # by the next heartbeat readers know it, too
    fold.feed(play.reader.changes)
    assert fold.state.control.log.why_incomplete() is None


@pytest.mark.parametrize("watches", [Watches.RECURSIVE, Watches.ONE_SHOT])
@pytest.mark.parametrize("path", ["/brokers/topics/t", "/brokers/topics/t/partitions"])
def test_a_denied_znode_deleted_without_an_event_is_no_longer_denied(
    path: str, watches: Watches
) -> None:
    """Servers send no such event, and a refused read sets no watch: a reconciliation asks again."""
    play = Play(RECONCILED, watches=watches)
    fill(play.zk)
    play.zk.closed.update(p for p in play.zk.nodes if f"{p}/".startswith(f"{path}/"))
    play.connect()
    play.settle()
    assert path in play.reader.last[ChangeKind.RESYNC_FINISHED].denied
    play.zk.delete(path)
    play.zk.to_client.clear()
    play.zk.closed.clear()
    play.pass_time(1_000)
    play.settle()
    assert play.reader.last[ChangeKind.RECONCILED].denied == ()


def test_the_view_of_a_denied_topic_is_still_published() -> None:
    """Readers drop views that are older than a whole resync, so the topic's is published after it."""
    _, fold = denied_since("/brokers/topics/t", STATE)
    assert "t" in fold.state.changed


def test_a_denied_znode_that_was_deleted_unseen_leads_to_a_resync_request() -> None:
    """No event showed that it was deleted, so a resync must; until then the figures are incomplete."""
    play, fold = denied_since("/brokers/ids/0")
    log = fold.state.control.log
    play.zk.delete("/brokers/ids/0")
    play.zk.closed.clear()
    play.watcher.recorder.denied.clear()  # as in the middle of a walk that has met the path above it
    play.watcher.on_pipeline_back(play.now_ms)
    play.carry_out()
    assert play.reader.last[ChangeKind.HEARTBEAT].denied == ()
    fold.feed(play.reader.changes)
    assert log.view.denied == ("/brokers/ids/0",)
    play.reader.changes.clear()
    play.pass_time(1_000)
    play.settle()
    fold.feed(play.reader.changes)
    assert log.wanted is not None
    assert log.view.incomplete_since is not None
    assert "/brokers/ids/0" in fold.state.control.source.stats
    play.reader.changes.clear()
    play.disconnect()
    play.connect()
    play.settle()
    fold.feed(play.reader.changes)
    assert "/brokers/ids/0" not in fold.state.control.source.stats
    assert log.view.incomplete_since is None


def test_a_path_denied_in_the_old_history_accepts_a_lower_zxid_after_a_rebase() -> None:
    """Its zxids mean nothing in an ensemble that was recreated with smaller ones."""
    history, fold = small_cluster(), Fold()
    fold.follow(history)
    stats = fold.state.control.source.stats
    held = stats["/controller"].mzxid
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
    assert fold.state.control.source.unreadable_znodes == {"/controller": 0}
    history.report("/controller")
    history.reconciled(denied=(), denied_more=0)
    fold.follow(history)
    assert stats["/controller"].mzxid == 10 < held
    assert log.view.divergent_since is None
    assert log.wanted is None


@pytest.mark.parametrize("watches", [Watches.RECURSIVE, Watches.ONE_SHOT])
def test_newly_denied_paths_are_reported_within_a_second(watches: Watches) -> None:
    """Until then its last value is shown as live. Further denied paths cause one heartbeat a second, not one each."""
    play = Play(watches=watches)
    fill(play.zk)
    topics = [f"/brokers/topics/t{number}" for number in range(5)]
    for topic in topics:
        play.zk.put(topic, b'{"version":2,"partitions":{"0":[0]}}')
    play.connect()
    play.settle()
    read = len(play.reader.changes)
    for topic in topics:
        play.zk.closed.add(topic)
        play.zk.put(topic)
        play.settle()
        play.pass_time(300)
    play.pass_time(1_000)
    named = [
        change.denied
        for change in play.reader.changes[read:]
        if change.kind is ChangeKind.HEARTBEAT
    ]
    assert named[-1] == tuple(topics)
    assert 2 <= len(named) <= 3
