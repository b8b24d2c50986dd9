"""Base and journal of a cluster's packed topics."""

from __future__ import annotations

from typing import Any

import pytest

from bench.map_state import TopicsInMemory
from controller_model.state.packing import UnreadableStateError
from streaming.state_map import StateMap, StatePart
from streaming.topic_journal import JournalLimits, PackedTopics, RememberedTopics

EAGER = JournalLimits(chunk_bytes=100, least_bytes=0, most_bytes=0, overdue=1, chunks_at_once=100)
"""Limits with which every batch writes all that it changed into the base."""

LAZY = JournalLimits(chunk_bytes=100, least_bytes=1000, overdue=3, quiet_topics=2, chunks_at_once=3)


def held(topics: TopicsInMemory) -> dict[str, bytes | None]:
    """Return all topics."""
    return {name: topics.packed.get(name) for name in sorted(topics.packed.names())}


def names(first: int, last: int) -> list[str]:
    """Return names of topics."""
    return [f"topic-{number}" for number in range(first, last)]


def journal_bytes(topics: TopicsInMemory) -> int:
    """Return how long the journal is."""
    return sum(len(entries) for each in topics.journal for entries in each)


def test_a_batch_appends_its_changes_with_one_call() -> None:
    """The base is not touched before the journal is due."""
    topics = TopicsInMemory()
    topics.packed.write(dict.fromkeys(names(0, 50), b"1"))
    topics.packed.write({"topic-7": b"2", "topic-8": None})
    assert [len(each) for each in topics.journal] == [2, 0]
    assert len(topics.state.rows) == 2
    assert topics.packed.get("topic-7") == b"2"
    assert topics.packed.get("topic-8") is None


def grown() -> TopicsInMemory:
    """Return 60 topics in a base of some chunks, and an empty journal."""
    topics = TopicsInMemory(EAGER)
    topics.packed.write(dict.fromkeys(names(0, 60), b"1" * 20))
    topics.packed.write({"other": b"1"})
    assert journal_bytes(topics) == 0
    topics.packed.limits = LAZY
    return topics


def test_a_quiet_batch_writes_some_chunks() -> None:
    """As many as its limit allows; after the last one the list that they came from is empty."""
    topics = grown()
    topics.packed.write(dict.fromkeys(names(0, 50), b"2" * 20))
    assert [len(each) for each in topics.journal] == [1, 0]
    topics.packed.write(dict.fromkeys(names(50, 52), b"2" * 20))
    written = [row for row in topics.base.values() if b"2" * 20 in row]
    assert len(written) == LAZY.chunks_at_once
    while topics.journal[0]:
        assert len(topics.journal[0]) == 2  # all of it is kept until the last chunk
        topics.packed.write({})
    topics.new_worker()
    assert all(topics.packed.get(name) == b"2" * 20 for name in names(0, 52))


def test_entries_before_an_emptied_list_are_not_read() -> None:
    """They stay in the state until newer ones overwrite them: removing them would cost a call for each."""
    topics = grown()
    older = [row for row in topics.state.rows if row[0] != StatePart.BASE]
    assert older
    topics.packed.write({"topic-7": b"3"})
    topics.new_worker()
    assert topics.packed.get("topic-7") == b"3"
    assert sum(map(len, topics.journal)) == 1


def test_a_missing_journal_entry_is_an_error() -> None:
    """A missing entry is not skipped."""
    topics = TopicsInMemory()
    topics.packed.write({"topic-7": b"3"})
    topics.packed.write({"topic-8": b"3"})
    del topics.state.rows[StatePart.JOURNAL_0, 1]
    topics.new_worker()
    with pytest.raises(UnreadableStateError):
        topics.packed.get("topic-7")


def test_a_large_batch_postpones_the_merge_of_a_due_journal() -> None:
    """A later quiet batch merges it, unless the journal is overdue."""
    topics = grown()
    before = topics.base
    batches = 0
    while topics.base == before:
        topics.packed.write(dict.fromkeys(names(0, 10), b"%20d" % batches))
        batches += 1
    longest = LAZY.least_bytes * LAZY.overdue
    assert longest < sum(map(len, topics.journal[0])) < longest * 1.2


def test_a_storm_keeps_the_journal_bounded() -> None:
    """However long the sequence of large batches is."""
    topics = TopicsInMemory(LAZY)
    topics.packed.write(dict.fromkeys(names(0, 500), b"1" * 20))
    longest = 0
    for number in range(200):
        first = number * 20 % 500
        topics.packed.write(dict.fromkeys(names(first, first + 20), b"%20d" % number))
        longest = max(longest, journal_bytes(topics))
    due = max(topics.packed.place.base_bytes // LAZY.base_share, LAZY.least_bytes)
    batch = 20 * 36
    assert longest < due * LAZY.overdue + 2 * LAZY.overdue_batches * batch + 500 * 36


def test_a_longer_journal_makes_a_batch_merge_more_of_it() -> None:
    """Batches far larger than the due size do not accumulate: the journal holds four of them at most."""
    topics = TopicsInMemory(EAGER)
    topics.packed.write(dict.fromkeys(names(0, 400), b"1" * 20))
    topics.packed.write({"other": b"1"})
    assert topics.packed.place.chunks > 100
    topics.packed.limits = LAZY._replace(most_bytes=1000)
    batch = 200 * 33
    assert batch > 2 * topics.packed.limits.most_bytes * LAZY.overdue
    for number in range(20):
        first = number % 2 * 200
        topics.packed.write(dict.fromkeys(names(first, first + 200), b"%20d" % number))
        assert journal_bytes(topics) < 4 * batch
    assert topics.packed.get("topic-399") == b"%20d" % 19


def test_the_base_adds_chunks_as_it_grows() -> None:
    """Chunks keep their average size, and each topic is in one of them only."""
    topics = TopicsInMemory(EAGER)
    for number in range(0, 1000, 20):
        topics.packed.write(dict.fromkeys(names(number, number + 20), b"1" * 20))
    for _ in range(3):
        topics.packed.write({"last": b"1"})
    place = topics.packed.place
    assert place.base_bytes == sum(map(len, topics.base.values()))
    assert place.base_bytes <= place.chunks * EAGER.chunk_bytes
    assert place.chunks < 2 * place.base_bytes / EAGER.chunk_bytes
    assert len(held(topics)) == 1001


def test_an_emptied_base_has_no_rows() -> None:
    """Deleted topics leave nothing."""
    topics = TopicsInMemory(EAGER)
    topics.packed.write(dict.fromkeys(names(0, 100), b"1"))
    topics.packed.write(dict.fromkeys(names(0, 100)))
    assert held(topics) == {}
    assert topics.state_bytes() == 0
    assert topics.packed.place.base_bytes == 0


def test_a_walk_over_all_topics_reads_the_base_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """In one read, not chunk by chunk; a later walk reads nothing."""
    topics = TopicsInMemory(EAGER)
    topics.packed.write(dict.fromkeys(names(0, 1000), b"1"))
    topics.new_worker()
    calls: list[Any] = []
    real = topics.state.iterator

    def counted() -> Any:
        calls.append("all")
        return real()

    monkeypatch.setattr(topics.state, "iterator", counted)
    monkeypatch.setattr(topics.state, "getValue", calls.append)
    assert len(held(topics)) == len(held(topics)) == 1000
    assert calls == ["all"]


def test_who_knows_the_whole_base_asks_for_no_more_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """A topic that is new to a batch costs no call where its chunk is not there either."""
    topics = TopicsInMemory()
    assert topics.packed.names() == set()
    calls: list[Any] = []
    monkeypatch.setattr(topics.state, "getValue", calls.append)
    of_next_batch = PackedTopics(StateMap(topics.state), remembered=topics.packed.remembered)
    assert of_next_batch.get("topic-1") is None
    assert calls == []


def test_the_remembered_size_equals_the_state_size() -> None:
    """The size is that of the packed form, not of objects."""
    topics = TopicsInMemory(LAZY)
    for number in range(0, 1000, 20):
        topics.packed.write(dict.fromkeys(names(number, number + 20), b"1" * 20))
    assert RememberedTopics().size == 0
    assert topics.packed.remembered.size == topics.state_bytes()
