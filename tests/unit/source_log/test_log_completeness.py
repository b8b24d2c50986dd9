"""The log is complete as of a question once all that preceded its answer is read and acknowledged."""

from __future__ import annotations

from controller_model.kafka.ids import NOWHERE, Position
from source_log.log_completeness import LogCompleteness


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


def test_it_tells_when_only_kafka_is_to_acknowledge_what_was_before_an_answer() -> None:
    """Once for each answer: what waits to be sent then delays the proof."""
    log = LogCompleteness()
    done = []
    for oldest_round in (0, 1, 1, 2):
        if oldest_round == 0:
            log.answered(1_000, 1)
            log.answered(2_000, 2)
        place = Position(1, 7)
        done.append(log.advance(oldest_round=oldest_round, published=place, acknowledged=NOWHERE))
    assert done == [False, True, False, True]


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
