"""The log is complete as of a question once all that preceded its answer is read and acknowledged."""

from __future__ import annotations

from collections import deque

from hypothesis import given
from hypothesis import strategies as st

from controller_model.kafka.ids import NOWHERE, Position
from zk_source.watcher.dirty_paths import DirtyPaths
from source_log.log_completeness import LogCompleteness
from zk_source.wire.operations import Op


def test_an_answer_counts_when_earlier_changes_are_acknowledged() -> None:
    """As of its request: a change that Kafka has not acknowledged may be older."""
    log = LogCompleteness()
    log.answered(1_000, 1)
    log.advance(oldest_round=1, published=Position(1, 7), acknowledged=Position(1, 6))
    assert log.complete_ms(1_500) is None
    log.advance(oldest_round=1, published=Position(1, 9), acknowledged=Position(1, 7))
    assert log.complete_ms(1_500) == 500


def test_an_answer_waits_for_the_reads_that_came_before_it() -> None:
    """Paths that changed before the answer belong to an earlier round."""
    log = LogCompleteness()
    log.answered(1_000, 1)
    log.advance(oldest_round=0, published=Position(1, 7), acknowledged=Position(1, 7))
    assert log.complete_ms(1_500) is None
    log.advance(oldest_round=1, published=Position(1, 8), acknowledged=Position(1, 7))
    assert log.complete_ms(1_500) is None
    log.advance(oldest_round=1, published=Position(1, 8), acknowledged=Position(1, 8))
    assert log.complete_ms(1_500) == 500


def test_an_answer_whose_reads_are_forgotten_does_not_count() -> None:
    """Those reads are cancelled, and the changes they would have shown are not in the log."""
    log = LogCompleteness()
    log.answered(1_000, 1)
    log.reads_forgotten()
    log.advance(oldest_round=5, published=NOWHERE, acknowledged=NOWHERE)
    assert log.complete_ms(1_500) is None


def test_a_log_that_has_been_late_for_long_catches_up() -> None:
    """The oldest questions are forgotten; the newest ones show when the log has caught up."""
    log = LogCompleteness()
    for second in range(1, 1_000):
        log.answered(second * 1_000, second)
        log.advance(oldest_round=second, published=Position(1, second), acknowledged=NOWHERE)
    log.advance(oldest_round=999, published=Position(1, 999), acknowledged=Position(1, 999))
    assert log.complete_ms(1_000_000) == 1_000


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
            read_at |= {taken: changed_at.pop(taken) for _, taken in dirty.take(number)}
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
