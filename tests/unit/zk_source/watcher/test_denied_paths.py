"""What is denied is named, or what is above it: no reader may take it for deleted."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from controller_model.records.changes import ChangeKind
from controller_model.records.events import TopicDeleted
from tests.support.ensemble_in_memory import Play, fill
from tests.support.histories import Fold
from zk_source.watcher.commands import Warn
from zk_source.watcher.denied_paths import MOST_NAMED, DeniedPaths, covering

NAMES = st.sampled_from([f"n{number}" for number in range(20)])
PATHS = st.lists(NAMES, min_size=1, max_size=5).map(lambda names: "/" + "/".join(names))


@given(st.sets(PATHS), st.integers(20, 40))
def test_whatever_is_denied_is_named_or_below_what_is(paths: set[str], most: int) -> None:
    """Within the bound, nothing twice, and all of it by itself where there is room."""
    named = covering(paths, most)
    assert all(any(f"{path}/".startswith(f"{each}/") for each in named) for path in paths)
    assert len(named) <= min(most, len(paths))
    assert list(named) == sorted(set(named))
    if len(paths) <= most:
        assert all(path in paths for path in named)


def test_a_path_that_can_be_read_again_is_named_no_more() -> None:
    """Nor is one after a resync has begun; what is known is not noted twice."""
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


def test_too_many_denied_topics_after_a_reconnect_are_not_deleted() -> None:
    """The fold keeps all of them as they were read last, and says how many it does not know."""
    play, fold = Play(), Fold()
    fill(play.zk)
    topics = [f"/brokers/topics/t{number}" for number in range(MOST_NAMED + 50)]
    for topic in topics:
        play.zk.put(topic, b'{"version":2,"partitions":{"0":[0]}}')
    play.connect()
    play.settle()
    fold.feed(play.reader.changes)
    before = fold.state.control.log.znodes
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
    assert sum(isinstance(command, Warn) for command in play.other_commands) == MOST_NAMED
    log = fold.state.control.log
    assert (log.znodes, log.denied_more) == (before, len(topics) - 1)
    assert f"and {len(topics) - 1} more" in str(log.why_incomplete())
