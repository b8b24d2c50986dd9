"""The small parts of reading: dirty paths, the walk's reads, its pace, the inbox."""

from __future__ import annotations

from zk_source.watcher.dirty_paths import DirtyPaths
from zk_source.watcher.subscriptions import MOST_READS
from zk_source.watcher.tree_walk import MOST_REQUEST_BYTES, ReadPace, TreeWalk, take_reads
from zk_source.wire.inbox import Inbox, Notification, Overflow
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
    dirty.answered(reads)
    assert dirty.take(9) == reads


def test_dirty_paths_are_read_first_come_first_served() -> None:
    """The order of events is the order of reads."""
    dirty = DirtyPaths()
    for path in ("/c", "/a", "/b", "/a"):
        dirty.mark((Op.GET_DATA, path))
    assert [path for _, path in dirty.take(2)] == ["/c", "/a"]
    assert [path for _, path in dirty.take(2)] == ["/b"]


def test_a_request_keeps_to_its_limits() -> None:
    """Neither more reads nor more bytes than one request may have; an overlong path goes alone."""
    frontier = [(Op.GET_DATA, "/" + "x" * 1_000)] * 100
    reads = take_reads(frontier, MOST_READS)
    assert sum(len(path) for _, path in reads) <= MOST_REQUEST_BYTES
    assert len(reads) + len(frontier) == 100
    frontier = [(Op.GET_DATA, "/x")] * 600
    assert len(take_reads(frontier, MOST_READS)) == MOST_READS
    frontier = [(Op.GET_DATA, "/" + "x" * MOST_REQUEST_BYTES)] * 2
    assert len(take_reads(frontier, MOST_READS)) == 1


def test_a_read_leads_to_what_it_may_show() -> None:
    """A value is on its way if it is read, or if the names of something above it are."""
    dirty = DirtyPaths()
    dirty.mark((Op.GET_CHILDREN, "/brokers/topics"))
    dirty.mark((Op.GET_DATA, "/brokers/ids/0"))
    assert dirty.leads_to("/brokers/topics/t/partitions/0/state")
    assert dirty.leads_to("/brokers/ids/0")
    assert not dirty.leads_to("/brokers/ids/1")
    assert not dirty.leads_to("/brokers/ids/0/below")


def test_a_walk_is_over_when_every_read_is_answered() -> None:
    """What an answer leads to goes before what is already waiting; the last answer ends it."""
    root, other, child = ((Op.GET_DATA, path) for path in ("/a", "/b", "/a/c"))
    walk = TreeWalk([root, other])
    assert walk.take(1) == (root,)
    walk.learn([child])
    assert walk.take(9) == (child, other)
    assert not walk.waiting
    walk.learn([])
    assert not walk.finished
    walk.learn([])
    assert walk.finished


def test_a_pace_never_allows_more_than_its_burst_at_once() -> None:
    """An hour's pause does not save up an hour's reads."""
    pace = ReadPace(reads_per_s=1000, burst=100)
    assert pace.allowed(0) == 100
    pace.spend(100)
    assert pace.allowed(3_600_000) == 100


def test_an_overfull_inbox_tells_where_and_how_many_it_dropped() -> None:
    """The mark of the overflow sits behind what came before, and counts what is missing."""
    inbox = Inbox(most_events=2)
    for number in range(5):
        inbox.put_notification(1, f"/{number}")
    taken = [inbox.take(0) for _ in range(4)]
    assert taken == [Notification(1, "/0"), Notification(1, "/1"), Overflow(3), None]
    inbox.put_notification(1, "/again")
    assert inbox.take(0) == Notification(1, "/again")
