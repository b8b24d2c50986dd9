"""An answer of ZooKeeper is as old as its question."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from zk_source.watcher.pulse import Pulse

EVERY_MS = 1_000


def test_the_age_of_an_answer_counts_from_its_request() -> None:
    """However late the answer is handled: the process may have been paused in between."""
    pulse = Pulse(EVERY_MS)
    assert pulse.answered_ms(0) is None
    token = pulse.ask(100)
    assert token is not None
    assert pulse.waits_ms(60_100) == 60_000
    assert pulse.answer(token) == 100
    assert (pulse.answered_ms(60_100), pulse.waits_ms(60_100)) == (60_000, 0)


def test_one_request_is_in_flight_and_none_is_sent_before_it_is_due() -> None:
    """A request is in flight until it is answered or its connection is closed."""
    pulse = Pulse(EVERY_MS)
    first = pulse.ask(0)
    assert (first, pulse.ask(5_000)) == (-1, None)
    pulse.give_up()
    second = pulse.ask(5_000)
    assert second == -2
    assert pulse.answer(-1) is None  # of the connection before: not taken for the new one's
    assert pulse.answered_ms(5_000) is None
    assert pulse.answer(-2) == 5_000
    assert pulse.answer(-2) is None
    assert (pulse.ask(5_999), pulse.ask(6_000)) == (None, -3)


def test_repeated_refusals_count_as_silence_since_the_first_request() -> None:
    """The request is repeated. Such a server counts as silent in time; an answer ends that."""
    pulse = Pulse(EVERY_MS)
    for now_ms in (0, 1_000, 2_000):
        token = pulse.ask(now_ms)
        assert token is not None
        pulse.refuse(token - 1)  # of a request that was never sent
        assert pulse.ask(now_ms + 999) is None
        pulse.refuse(token)
        assert pulse.ask(now_ms + 999) is None
    assert (pulse.answered_ms(2_500), pulse.waits_ms(2_500)) == (None, 2_500)
    token = pulse.ask(3_000)
    assert token is not None
    pulse.answer(token)
    assert (pulse.answered_ms(3_500), pulse.waits_ms(3_500)) == (500, 0)


@given(
    st.lists(st.tuples(st.sampled_from(["ask", "answer", "refuse", "lose"]), st.integers(0, 9_000)))
)
def test_an_answer_is_never_newer_than_its_request(steps: list[tuple[str, int]]) -> None:
    """Whether requests are answered late, twice or never, on any connection."""
    pulse, now_ms, asked = Pulse(EVERY_MS), 0, {0: -(10**9)}
    for step, ms in steps:
        now_ms += ms
        if step == "ask" and (token := pulse.ask(now_ms)) is not None:
            asked[token] = now_ms
        elif step == "answer":
            pulse.answer(min(asked))
        elif step == "refuse":
            pulse.refuse(min(asked))
        elif step == "lose":
            pulse.give_up()
        answered_ms = pulse.answered_ms(now_ms)
        assert answered_ms is None or now_ms - answered_ms in asked.values()
