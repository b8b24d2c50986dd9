"""When Spark's JVM counts as hanging, and when it does not."""

from __future__ import annotations

import time

from streaming.watchdog import ANSWER_S, BATCH_S, FIRST_BATCH_S, POLL_S, BatchClock, Watchdog


class Killed:
    """Counts how often the JVM was killed."""

    def __init__(self) -> None:
        self.times = 0

    def __call__(self) -> None:
        """Kill it."""
        self.times += 1


def pass_time(watchdog: Watchdog, seconds: float, *, step_s: float = POLL_S) -> None:
    """Let time pass in turns."""
    counted_at = watchdog._counted_at
    for number in range(1, round(seconds / step_s) + 1):
        watchdog.poll(counted_at + number * step_s)


def test_a_call_that_does_not_return_kills_the_jvm_once() -> None:
    """Exactly when its time is over, and not again; the reason is kept."""
    killed = Killed()
    watchdog = Watchdog(killed)
    with watchdog.allow(ANSWER_S):
        pass_time(watchdog, ANSWER_S - 2 * POLL_S)
        assert killed.times == 0
        pass_time(watchdog, 4 * POLL_S)
        assert killed.times == 1
        pass_time(watchdog, ANSWER_S)
    assert killed.times == 1
    assert watchdog.reason == "Spark's JVM has not answered for 15 s"


def test_who_waits_for_a_jvm_that_has_time_left_does_not_hang() -> None:
    """While a call has time, its caller counts as working; before and after it the caller itself shows that."""
    turns: list[bool] = []
    watchdog = Watchdog(Killed(), on_wait=lambda: turns.append(True))
    pass_time(watchdog, 10)
    assert not turns
    with watchdog.allow(ANSWER_S):
        pass_time(watchdog, 2 * ANSWER_S)
    assert len(turns) == ANSWER_S / POLL_S - 1


def test_the_durations_of_calls_that_return_do_not_add_up() -> None:
    """Many short calls, and the time between them, do not add up."""
    killed = Killed()
    watchdog = Watchdog(killed)
    for _ in range(5):
        with watchdog.allow(ANSWER_S):
            pass_time(watchdog, ANSWER_S * 0.6)
        pass_time(watchdog, ANSWER_S * 2)
    assert killed.times == 0
    assert watchdog.reason is None


def test_a_suspended_machine_does_not_count_as_a_hung_jvm() -> None:
    """An hour between two turns counts as a second."""
    killed = Killed()
    watchdog = Watchdog(killed)
    with watchdog.allow(ANSWER_S):
        pass_time(watchdog, 3600, step_s=1800)
    assert killed.times == 0


def test_the_thread_kills_while_its_owner_waits() -> None:
    """No other thread has to do anything for it."""
    killed = Killed()
    watchdog = Watchdog(killed)
    watchdog.thread.start()
    with watchdog.allow(0.1):
        deadline = time.monotonic() + 10
        while killed.times == 0 and time.monotonic() < deadline:
            time.sleep(0.01)
    watchdog.thread.close(5)
    assert killed.times == 1


class Batches:
    """A batch clock with simulated time."""

    def __init__(self) -> None:
        self.clock = BatchClock()
        # A whole number: the sum of many halves is exact.
        self._now_s = self.clock._counted_at = 1_000.0

    def wait(self, seconds: float, log_end: int | None) -> list[str]:
        """Count every half second; return the reported reasons."""
        reasons = []
        for _ in range(round(seconds / POLL_S)):
            self._now_s += POLL_S
            reason = self.clock.hang_reason(log_end, self._now_s)
            reasons += [] if reason is None else [reason]
        return reasons


def test_a_log_that_grows_while_no_batch_ends_is_a_query_that_hangs() -> None:
    """It is reported when the time is over, and the next time only after twice as long."""
    batches = Batches()
    batches.clock.moved(7)
    assert batches.wait(BATCH_S, 8) == []
    assert batches.wait(1, 9) == ["no batch has ended for 60 s, though the log has grown"]
    assert batches.wait(BATCH_S * 2 - 1, 10) == []
    assert batches.wait(1, 10) == ["no batch has ended for 120 s, though the log has grown"]


def test_the_first_batch_of_a_query_may_take_longer() -> None:
    """Executors have to start: a JVM that is killed for a slow start begins from nothing each time."""
    batches = Batches()
    batches.clock.moved(7)
    for limit_s in (FIRST_BATCH_S, 2 * FIRST_BATCH_S):
        batches.clock.begin()
        assert batches.wait(1, 9) == []
        assert batches.wait(limit_s, 10) == []
        assert batches.wait(1, 10) == [
            f"no batch has ended for {limit_s:.0f} s, though the log has grown"
        ]
    batches.clock.begin()
    batches.clock.moved(10)
    assert batches.wait(BATCH_S, 11) == []
    assert len(batches.wait(1, 11)) == 1


def test_the_first_query_has_the_time_of_a_first_batch() -> None:
    """From the start on, when it is not known how far the log was folded."""
    batches = Batches()
    assert batches.wait(1, 9) == []
    assert batches.wait(FIRST_BATCH_S, 10) == []
    assert len(batches.wait(1, 10)) == 1


def test_a_batch_that_ends_gives_the_next_one_the_usual_time() -> None:
    """However much time the one before was allowed."""
    batches = Batches()
    batches.clock.moved(7)
    assert batches.wait(BATCH_S + 1, 8)
    batches.clock.moved(8)
    assert batches.wait(BATCH_S * 5, 8) == []
    assert len(batches.wait(BATCH_S + 1, 9)) == 1


def test_a_suspended_machine_does_not_count_as_a_query_that_hangs() -> None:
    """An hour between two counts is a second: neither service nor query worked in it."""
    batches = Batches()
    batches.clock.moved(7)
    for _ in range(10):
        batches._now_s += 3600
        assert batches.wait(POLL_S, 8) == []


def test_a_quiet_log_or_an_outage_of_kafka_is_not_a_hung_query() -> None:
    """If there is nothing to fold, or Kafka does not say whether there is, the query may wait for ever."""
    batches = Batches()
    batches.clock.begin()
    assert batches.wait(BATCH_S * 3, 7) == []
    batches.clock.moved(7)
    assert batches.wait(BATCH_S * 3, None) == []
    assert batches.wait(BATCH_S - 1, 9) == []
    assert batches.wait(1, None) == []
    assert batches.wait(BATCH_S - 1, 9) == []
