"""Changed paths wait to be read, one read in flight for each."""

from __future__ import annotations

from zk_source.watcher.dirty_paths import DirtyPaths
from zk_source.wire.operations import Op


def test_a_path_being_read_is_not_read_again_until_it_is_answered() -> None:
    """One read in flight for each path."""
    dirty = DirtyPaths()
    dirty.mark((Op.GET_DATA, "/a"))
    reads = dirty.take(9)
    dirty.mark((Op.GET_DATA, "/a"))
    dirty.mark((Op.GET_DATA, "/b"))
    dirty.mark((Op.GET_CHILDREN, "/a"))
    assert dirty.take(9) == ((Op.GET_DATA, "/b"), (Op.GET_CHILDREN, "/a"))
    for read in reads:
        dirty.answered(read)
    assert dirty.take(9) == reads


def test_dirty_paths_are_read_first_come_first_served() -> None:
    """The order of events is the order of reads."""
    dirty = DirtyPaths()
    for path in ("/c", "/a", "/b", "/a"):
        dirty.mark((Op.GET_DATA, path))
    assert [path for _, path in dirty.take(2)] == ["/c", "/a"]
    assert [path for _, path in dirty.take(2)] == ["/b"]


def test_a_listing_leads_to_the_values_below_its_path() -> None:
    """A value will be read if it is to be read itself, or if the children of a path above it are."""
    dirty = DirtyPaths()
    dirty.mark((Op.GET_CHILDREN, "/brokers/topics"))
    dirty.mark((Op.GET_DATA, "/brokers/ids/0"))
    assert dirty.leads_to("/brokers/topics/t/partitions/0/state")
    assert dirty.leads_to("/brokers/ids/0")
    assert not dirty.leads_to("/brokers/ids/1")
    assert not dirty.leads_to("/brokers/ids/0/below")


def test_a_round_is_done_when_all_paths_marked_before_it_are_read() -> None:
    """With the reads that follow from them. A path that already waits keeps its earlier round."""
    dirty = DirtyPaths()
    a, b = (Op.GET_CHILDREN, "/a"), (Op.GET_DATA, "/a/b")
    dirty.mark(a)
    dirty.round = 1
    dirty.mark(a)
    dirty.mark(b)
    assert dirty.take(9) == (a, b)
    dirty.mark(b, dirty.answered(a))
    assert dirty.oldest_round == 0
    assert dirty.answered(b) == 1
    assert dirty.take(9) == (b,)
    assert (dirty.oldest_round, dirty.answered(b), dirty.oldest_round) == (0, 0, 1)
    dirty.mark(a, 0)
    dirty.clear()
    assert (dirty.oldest_round, len(dirty)) == (1, 0)
