"""The small parts of reading: dirty paths, the walk's reads, its pace, the inbox."""

from __future__ import annotations

from zk_source.dirty import DirtyPaths
from zk_source.inbox import Inbox, Notification, Overflow
from zk_source.protocol import Children, Err, Op, Refused, ZnodeData
from zk_source.resync import MOST_READS, MOST_REQUEST_BYTES, Pace, TreeWalk, take_reads

LEAF = ZnodeData(b"", 1, 1, 1, 1, 0, 0, 0)


def test_a_path_being_read_is_not_read_again_until_it_is_answered() -> None:
    """One read in flight for each path."""
    dirty = DirtyPaths()
    dirty.mark("/a")
    reads = dirty.take()
    dirty.mark("/a")
    dirty.mark("/b")
    assert dirty.take() == ((Op.GET_DATA, "/b"),)
    dirty.answered(reads)
    assert dirty.take() == reads


def test_dirty_paths_are_read_first_come_first_served() -> None:
    """The order of events is the order of reads."""
    dirty = DirtyPaths()
    for path in ("/c", "/a", "/b", "/a"):
        dirty.mark(path)
    assert [path for _, path in dirty.take()] == ["/c", "/a", "/b"]


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


def test_a_walk_lists_containers_and_reads_what_is_published() -> None:
    """Children of a published znode are listed only if it has any."""
    walk = TreeWalk(["/controller", "/brokers"])
    assert walk.take(9) == ((Op.GET_DATA, "/controller"), (Op.GET_CHILDREN, "/brokers"))
    walk.learn((Op.GET_DATA, "/controller"), LEAF)
    walk.learn((Op.GET_CHILDREN, "/brokers"), Children(("topics",)))
    assert walk.take(9) == ((Op.GET_CHILDREN, "/brokers/topics"),)
    walk.learn((Op.GET_CHILDREN, "/brokers/topics"), Children(("t",)))
    assert walk.take(9) == ((Op.GET_DATA, "/brokers/topics/t"),)
    walk.learn((Op.GET_DATA, "/brokers/topics/t"), LEAF._replace(num_children=1))
    assert walk.take(9) == ((Op.GET_CHILDREN, "/brokers/topics/t"),)
    assert not walk.finished
    walk.learn((Op.GET_CHILDREN, "/brokers/topics/t"), Refused(Err.NO_NODE))
    assert walk.finished


def test_a_partitions_state_is_read_without_listing_its_directory() -> None:
    """The directory's only child is known."""
    walk = TreeWalk(["/brokers/topics/t/partitions"])
    reads = walk.take(9)
    walk.learn(reads[0], Children(("0", "x", "10")))
    assert set(walk.take(9)) == {
        (Op.GET_DATA, "/brokers/topics/t/partitions/0/state"),
        (Op.GET_DATA, "/brokers/topics/t/partitions/10/state"),
        (Op.GET_CHILDREN, "/brokers/topics/t/partitions/x"),
    }


def test_a_pace_never_allows_more_than_its_burst_at_once() -> None:
    """An hour's pause does not save up an hour's reads."""
    pace = Pace(reads_per_s=1000, burst=100)
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
