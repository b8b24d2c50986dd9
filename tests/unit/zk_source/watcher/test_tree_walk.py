"""A walk of the tree: which reads, how many in a request, how fast."""

from __future__ import annotations

from zk_source.watcher.subscriptions import MAX_READS, MAX_REQUEST_BYTES, pop_reads
from zk_source.watcher.tree_walk import Purpose, ReadPace, TreeWalk
from zk_source.wire.operations import Op


def test_a_request_keeps_to_its_limits() -> None:
    """Neither more reads nor more bytes than one request may have; an overlong path is sent alone."""
    frontier = [(Op.GET_DATA, "/" + "x" * 1_000)] * 100
    reads = pop_reads(frontier, MAX_READS)
    assert sum(len(path) for _, path in reads) <= MAX_REQUEST_BYTES
    assert len(reads) + len(frontier) == 100
    frontier = [(Op.GET_DATA, "/x")] * 600
    assert len(pop_reads(frontier, MAX_READS)) == MAX_READS
    frontier = [(Op.GET_DATA, "/" + "x" * MAX_REQUEST_BYTES)] * 2
    assert len(pop_reads(frontier, MAX_READS)) == 1


def test_a_walk_is_over_when_every_read_is_answered() -> None:
    """Reads that follow from an answer are sent before those that wait already; the last answer ends the walk."""
    root, other, child = ((Op.GET_DATA, path) for path in ("/a", "/b", "/a/c"))
    walk = TreeWalk(Purpose.RESYNC, [root, other], reads_per_s=1000)
    assert walk.start_reads(1, 0) == (root,)
    walk.on_answer([child])
    assert walk.start_reads(9, 0) == (child, other)
    assert walk.start_reads(9, 0) == ()
    walk.on_answer([])
    assert not walk.finished
    walk.on_answer([])
    assert walk.finished


def test_a_pace_never_allows_more_than_its_burst_at_once() -> None:
    """An hour's pause does not save up an hour's reads."""
    pace = ReadPace(reads_per_s=1000, burst=100)
    assert pace.allowed(0) == 100
    pace.spend(100)
    assert pace.allowed(3_600_000) == 100
