"""What may wait is sent with others, in order and in time; what may not is sent at once."""

from __future__ import annotations

import itertools
from typing import NamedTuple
from unittest import mock

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller_model.kafka.ids import Position
from pipeline.settings import load
from pipeline.topics import EnsuredTopics, topic_names
from source_log import publisher
from source_log.config import SourceSettings
from source_log.publisher import DELIVERY_WAIT_MS, Publisher
from tests.support.producer import AnsweredProducer

pytestmark = pytest.mark.usefixtures("no_settings_of_the_machine")

NAMES = topic_names("kcm")
TOPICS = EnsuredTopics(NAMES, 1, dict.fromkeys(NAMES, "id"))
LINGER_MS = 300
FULL = 4
"""Changes of a full message, where a test makes it small."""
POLL_MS = 200
"""The longest wait of a source's main loop."""


class Paced:
    """A publisher whose producer is in memory."""

    def __init__(self, linger_ms: int = LINGER_MS) -> None:
        self.brokers: list[AnsweredProducer] = []
        settings = load(SourceSettings, cluster="prod", linger_ms=linger_ms)
        self.publisher = Publisher(settings, TOPICS, self._open)  # type: ignore[arg-type]  # it has what is called
        self.seq = 0

    def _open(self, properties: dict[str, object]) -> AnsweredProducer:
        self.brokers.append(AnsweredProducer(properties))
        return self.brokers[-1]

    def add(self, *, may_wait: bool, happened_ms: int | None = None) -> None:
        """Append the next change."""
        self.seq += 1
        position = Position(1, self.seq)
        data = b"%d" % self.seq
        self.publisher.add(data, position, may_wait=may_wait, happened_ms=happened_ms)

    def pump(self, now_ms: int) -> list[list[int]]:
        """Let it send, and Kafka acknowledge that; return the numbers of the changes, by message."""
        before = len(self.brokers[0].taken)
        self.publisher.pump(now_ms)
        self.brokers[0].answer()
        return [seqs(message) for message in self.brokers[0].taken[before:]]


def seqs(message: bytes) -> list[int]:
    """Return the numbers of a message's changes."""
    return list(map(int, message.strip(b"[]").split(b",")))


def test_a_change_after_a_silence_is_sent_at_once_and_the_next_one_waits() -> None:
    """So a lone change is as early as without the setting, and a trickle makes one message in that time."""
    paced = Paced()
    paced.add(may_wait=True)
    assert paced.pump(1_000) == [[1]]
    for now_ms in (1_100, 1_200, 1_299):
        paced.add(may_wait=True)
        assert paced.pump(now_ms) == []
    assert paced.pump(1_300) == [[2, 3, 4]]
    paced.add(may_wait=True)
    assert paced.pump(1_599) == []
    assert paced.pump(1_600) == [[5]]


def test_what_is_urgent_takes_with_it_what_waits_before_it() -> None:
    """The order of the log stays. The wait begins anew with each message, whatever it holds."""
    paced = Paced()
    paced.add(may_wait=False)
    assert paced.pump(0) == [[1]]
    paced.add(may_wait=True)
    assert paced.pump(299) == []
    paced.add(may_wait=False)
    paced.add(may_wait=True)
    assert paced.pump(299) == [[2, 3, 4]]
    paced.add(may_wait=True)
    assert paced.pump(598) == []
    assert paced.pump(599) == [[5]]


def test_hurry_ends_the_wait_of_what_waits_now_and_of_nothing_later() -> None:
    """It is urgent until it is sent or dropped, also where what came after it is not."""
    paced = Paced()
    paced.add(may_wait=False)
    paced.pump(0)
    paced.add(may_wait=True)
    paced.publisher.hurry()
    assert paced.pump(1) == [[2]]
    paced.add(may_wait=True)
    assert paced.pump(2) == []
    paced.publisher.hurry()
    assert paced.publisher.drop_waiting() == 1
    paced.add(may_wait=True)
    assert paced.pump(3) == [], "what was dropped makes nothing urgent"


def test_a_full_message_does_not_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    """It has all the company that it can have. What is left over waits."""
    monkeypatch.setattr(publisher, "MAX_CHANGES_PER_MESSAGE", FULL)
    paced = Paced()
    paced.add(may_wait=False)
    paced.pump(0)
    for _ in range(2 * FULL + 1):
        paced.add(may_wait=True)
    assert [len(each) for each in paced.pump(1)] == [FULL, FULL]
    assert paced.pump(300) == []
    assert paced.pump(301) == [[2 * FULL + 2]]


def test_an_urgent_change_that_the_producer_cannot_take_yet_stays_urgent(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Messages before it were sent, and it goes as soon as there is room."""
    monkeypatch.setattr(publisher, "MAX_CHANGES_PER_MESSAGE", FULL)
    monkeypatch.setattr(publisher, "MAX_MESSAGES_IN_FLIGHT", 1)
    paced = Paced()
    for _ in range(FULL):
        paced.add(may_wait=True)
    paced.add(may_wait=False)
    paced.add(may_wait=True)
    assert paced.pump(0) == [[1, 2, 3, 4]]
    assert paced.pump(0) == [[5, 6]]


def test_the_end_waits_for_nobody() -> None:
    """What waits for others is sent when the watcher ends, and when Kafka has no more room for it."""
    paced = Paced()
    paced.add(may_wait=False)
    paced.pump(0)
    paced.add(may_wait=True)
    assert not paced.publisher.close(0.0)
    assert seqs(paced.brokers[0].taken[-1]) == [2]


def test_news_is_dated_when_it_is_given_to_kafka() -> None:
    """The delay that the watcher's metrics show includes the wait."""
    paced = Paced()
    paced.add(may_wait=False, happened_ms=0)
    assert paced.publisher.pump(0) == [0]
    paced.brokers[0].answer()
    paced.add(may_wait=True, happened_ms=60)
    paced.add(may_wait=True)
    assert paced.publisher.pump(299) == []
    assert paced.publisher.pump(300) == [60]


def test_the_main_loop_sleeps_until_the_wait_ends() -> None:
    """It does not poll for Kafka's answers in the meantime, unless there is one to come or something is due."""
    paced = Paced()
    assert paced.publisher.wait_ms(0, POLL_MS) == POLL_MS
    paced.add(may_wait=False)
    assert paced.publisher.wait_ms(0, POLL_MS) == DELIVERY_WAIT_MS
    paced.publisher.pump(0)
    paced.add(may_wait=True)
    assert paced.publisher.wait_ms(0, POLL_MS) == DELIVERY_WAIT_MS, "a message is in flight"
    paced.brokers[0].answer()
    assert paced.publisher.wait_ms(50, POLL_MS) == POLL_MS
    assert paced.publisher.wait_ms(150, POLL_MS) == 150
    assert paced.publisher.wait_ms(298, POLL_MS) == DELIVERY_WAIT_MS
    assert paced.publisher.wait_ms(900, POLL_MS) == DELIVERY_WAIT_MS, "it is due"
    assert paced.publisher.wait_ms(900, 0) == 0
    paced.publisher.hurry()
    assert paced.publisher.wait_ms(50, POLL_MS) == DELIVERY_WAIT_MS, "it may not wait any more"


class Sent(NamedTuple):
    """A message, as it was sent."""

    at: int
    seqs: list[int]


def played(
    arrivals: list[tuple[int, bool]], linger_ms: int, flight_ms: int
) -> tuple[list[int], list[Sent]]:
    """Play a source's main loop; return when each change came, and the messages."""
    paced = Paced(linger_ms)
    broker = paced.brokers[0]
    came: list[int] = []
    sent: list[Sent] = []
    answers_at: list[int] = []
    due = arrivals[::-1]
    now = 0
    arrives_at = due[-1][0] if due else 0
    while due or not paced.publisher.idle:
        while answers_at and answers_at[0] <= now:
            answers_at.pop(0)
            broker.open.pop(0)(None, None)
        while due and arrives_at <= now:
            paced.add(may_wait=due.pop()[1])
            came.append(now)
            arrives_at += due[-1][0] if due else 0
        before = len(broker.taken)
        paced.publisher.pump(now)
        for message in broker.taken[before:]:
            sent.append(Sent(now, seqs(message)))
            answers_at.append(now + flight_ms)
        wakes = [now + paced.publisher.wait_ms(now, POLL_MS), *answers_at[:1]]
        now = max(now + 1, min([*wakes, arrives_at] if due else wakes))
    return came, sent


ARRIVALS = st.lists(st.tuples(st.integers(0, 400), st.booleans()), min_size=1, max_size=30)


@given(ARRIVALS, st.integers(0, 500), st.integers(1, 60))
def test_each_change_is_sent_in_order_and_within_the_stated_time(
    arrivals: list[tuple[int, bool]], linger_ms: int, flight_ms: int
) -> None:
    """And no message that could have waited for others follows another one sooner."""
    with mock.patch.object(publisher, "MAX_CHANGES_PER_MESSAGE", FULL):
        came, sent = played(arrivals, linger_ms, flight_ms)
    assert [seq for each in sent for seq in each.seqs] == list(range(1, len(arrivals) + 1))
    may_wait = [each for _, each in arrivals]
    for each in sent:
        for seq in each.seqs:
            most_ms = linger_ms if may_wait[seq - 1] else 0
            assert each.at - came[seq - 1] <= most_ms + flight_ms + DELIVERY_WAIT_MS
    for before, after in itertools.pairwise(sent):
        if all(may_wait[seq - 1] for seq in after.seqs) and len(after.seqs) < FULL:
            assert after.at - before.at >= linger_ms


@given(st.lists(st.integers(0, 400), min_size=2, max_size=30), st.integers(1, 60))
def test_without_a_wait_what_may_wait_is_sent_as_what_may_not(
    gaps: list[int], flight_ms: int
) -> None:
    """0 turns it off."""
    waits, none = (
        played([(gap, may_wait) for gap in gaps], 0, flight_ms) for may_wait in (True, False)
    )
    assert waits == none
