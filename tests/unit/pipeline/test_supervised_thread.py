"""The owner of a thread learns what happened to it."""

from __future__ import annotations

import threading
import time

import pytest

from pipeline.supervised_thread import (
    STANDSTILL_S,
    StandstillError,
    SupervisedThread,
    where,
)
from tests.support.waiting import DEADLINE_S, wait_until


def test_check_raises_the_exception_that_ended_the_thread() -> None:
    """The exception of a turn is not lost with its thread, and no further turn begins."""
    turns: list[int] = []

    def turn() -> None:
        turns.append(1)
        raise ValueError("a mistake of ours")

    thread = SupervisedThread("test", turn)
    thread.check()
    thread.start()
    thread.close(DEADLINE_S)
    with pytest.raises(ValueError, match="a mistake of ours"):
        thread.check()
    assert len(turns) == 1


def test_turns_keep_their_pace_and_end_with_close() -> None:
    """A long pause between turns does not delay the end."""
    began = threading.Event()
    thread = SupervisedThread("test", began.set, every_s=3600)
    thread.start()
    assert began.wait(DEADLINE_S)
    closed_at = time.monotonic()
    thread.close(DEADLINE_S)
    assert time.monotonic() - closed_at < DEADLINE_S
    thread.check()


def test_check_detects_a_thread_that_hangs() -> None:
    """When no turn ends for a minute of checks, that is an error; a turn that ends restarts the time."""
    go_on, done = threading.Event(), threading.Semaphore(0)

    def turn() -> None:
        go_on.wait(DEADLINE_S)
        go_on.clear()
        done.release()

    thread = SupervisedThread("test", turn)
    thread.start()
    began_s = time.monotonic()

    def check_until(after_s: float) -> None:
        for second in range(int(checked_s) + 1, int(after_s) + 1):
            thread.check(began_s + second)

    checked_s = 0.0
    check_until(STANDSTILL_S - 1)
    go_on.set()
    assert done.acquire(timeout=DEADLINE_S)
    wait_until(lambda: thread.turns, lambda turns: turns == 1)
    checked_s = STANDSTILL_S - 1
    check_until(2 * STANDSTILL_S - 1)
    checked_s = 2 * STANDSTILL_S - 1
    with pytest.raises(
        StandstillError, match=r"test has stood still for 60 s, in wait \(.*, turn \("
    ):
        check_until(2 * STANDSTILL_S + 2)
    go_on.set()
    thread.close(DEADLINE_S)


def test_a_paused_process_does_not_count_as_a_hung_thread() -> None:
    """Hours may pass between two checks while the whole process is stopped: the thread did not hang."""
    go_on = threading.Event()

    def turn() -> None:
        go_on.wait(DEADLINE_S)

    thread = SupervisedThread("test", turn)
    thread.start()
    thread.check(time.monotonic() + 3600)
    go_on.set()
    thread.close(DEADLINE_S)


def test_a_thread_that_does_not_run_has_no_stack() -> None:
    """Neither before it started nor after it ended."""
    thread = threading.Thread(target=lambda: None)
    assert where(thread) == ""
    thread.start()
    thread.join()
    assert where(thread) == ""
