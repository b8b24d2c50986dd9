"""Changed paths wait to be read, one read in flight for each."""

from __future__ import annotations

from collections import deque

from hypothesis import given
from hypothesis import strategies as st

from controller_model.kafka.ids import Position
from source_log.log_completeness import LogCompleteness
from zk_source.watcher.dirty_paths import DirtyPaths
from zk_source.wire.operations import Op


def test_a_path_being_read_is_not_read_again_until_it_is_answered() -> None:
    """One read in flight for each path."""
    dirty = DirtyPaths()
    dirty.mark((Op.GET_DATA, "/a"))
    reads = dirty.start_reads(9)
    dirty.mark((Op.GET_DATA, "/a"))
    dirty.mark((Op.GET_DATA, "/b"))
    dirty.mark((Op.GET_CHILDREN, "/a"))
    assert dirty.start_reads(9) == ((Op.GET_DATA, "/b"), (Op.GET_CHILDREN, "/a"))
    for read in reads:
        dirty.answered(read)
    assert dirty.start_reads(9) == reads


def test_dirty_paths_are_read_first_come_first_served() -> None:
    """The order of events is the order of reads."""
    dirty = DirtyPaths()
    for path in ("/c", "/a", "/b", "/a"):
        dirty.mark((Op.GET_DATA, path))
    assert [path for _, path in dirty.start_reads(2)] == ["/c", "/a"]
    assert [path for _, path in dirty.start_reads(2)] == ["/b"]


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
    assert dirty.start_reads(9) == (a, b)
    dirty.mark(b, dirty.answered(a))
    assert dirty.oldest_round == 0
    assert dirty.answered(b) == 1
    assert dirty.start_reads(9) == (b,)
    assert (dirty.oldest_round, dirty.answered(b), dirty.oldest_round) == (0, 0, 1)
    dirty.mark(b)
    dirty.round = 2
    dirty.mark(b, 0)
    assert (len(dirty), dirty.oldest_round) == (1, 0), "one that waits is moved to an earlier round"
    assert dirty.start_reads(9) == (b,)
    assert (dirty.answered(b), dirty.oldest_round) == (0, 2)
    dirty.mark(a, 0)
    dirty.clear()
    assert (dirty.oldest_round, len(dirty)) == (2, 0)


@given(
    st.lists(
        st.one_of(
            st.tuples(st.sampled_from(["event", "take", "read", "lead on"]), st.integers(0, 4)),
            st.tuples(st.sampled_from(["ask", "answer", "acknowledge"]), st.just(0)),
        )
    )
)
def test_the_log_is_never_complete_beyond_a_waiting_change(steps: list[tuple[str, int]]) -> None:
    """Whatever waits for its read, for a read that follows from it, or for Kafka, in any order."""
    log, dirty = LogCompleteness(), DirtyPaths()
    position = acknowledged = Position(1, 0)
    changed_at: dict[str, int] = {}  # paths that wait to be read, since their first event
    read_at: dict[str, int] = {}  # the same for paths whose read is in flight, in order
    unacknowledged: deque[tuple[Position, int]] = deque()
    asked_ms: int | None = None
    for now_ms, (step, number) in enumerate(steps, 1):
        path = f"/{number}"
        if step == "event":
            changed_at.setdefault(path, now_ms)
            dirty.mark((Op.GET_DATA, path))
        elif step == "take":
            read_at |= {taken: changed_at.pop(taken) for _, taken in dirty.start_reads(number)}
        elif step in {"read", "lead on"} and read_at:
            done = next(iter(read_at))
            at = read_at.pop(done)
            round_ = dirty.answered((Op.GET_DATA, done))
            if step == "lead on":
                changed_at[path] = min(at, changed_at.get(path, at))
                dirty.mark((Op.GET_DATA, path), round_)
            else:
                position = position._replace(seq=position.seq + 1)
                unacknowledged.append((position, at))
        elif step == "ask":
            asked_ms = now_ms
        elif step == "answer" and asked_ms is not None:
            dirty.round += 1
            log.answered(asked_ms, dirty.round)
            asked_ms = None
        elif step == "acknowledge" and unacknowledged:
            acknowledged = unacknowledged.popleft()[0]
        log.advance(oldest_round=dirty.oldest_round, published=position, acknowledged=acknowledged)
        complete_ms = log.complete_ms(now_ms)
        waiting = [*changed_at.values(), *read_at.values(), *(at for _, at in unacknowledged)]
        if complete_ms is not None and waiting:
            assert now_ms - complete_ms < min(waiting)
