"""What counts as silence of a part, and what does not."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from kcm.run.health_watch import ANSWER_TIMEOUT_S, EVERY_S, HANGS_AFTER_S, HealthWatch
from kcm.servers.ports import HOST, free_port
from tests.faults.cells import PARTS
from tests.support.waiting import wait_until

STEP_S = 0.25


class Part:
    """A part whose port accepts connections, and that answers when the test says so."""

    def __init__(self, stack: ExitStack) -> None:
        self._stack = stack
        self._listening = stack.enter_context(socket.create_server((HOST, 0)))
        self._listening.settimeout(20)
        self.watch = HealthWatch(HOST, self._listening.getsockname()[1])
        self.now = 1_000.0

    def pass_time(self, seconds: float, *, step_s: float = STEP_S) -> None:
        """Let time pass while `step` is called."""
        for _ in range(round(seconds / step_s)):
            self.now += step_s
            self.watch.step(self.now)

    def accept(self) -> socket.socket:
        """Take the next connection."""
        return self._stack.enter_context(self._listening.accept()[0])

    def until_answered(self) -> None:
        """Step until an answer is seen; no time passes meanwhile."""

        def look() -> bool:
            self.watch.step(self.now)
            return self.watch._asked is None

        wait_until(look)


@pytest.fixture
def part() -> Iterator[Part]:
    """A part that has just got its first health request."""
    with ExitStack() as stack:
        made = Part(stack)
        made.watch.step(made.now)
        yield made
        made.watch.forget()


def test_a_part_that_accepts_connections_without_an_answer_hangs(part: Part) -> None:
    """The kernel accepts connections for a stopped process; each new request stays unanswered."""
    part.pass_time(HANGS_AFTER_S - STEP_S)
    assert part.watch.silent_s < HANGS_AFTER_S
    part.pass_time(STEP_S)
    assert part.watch.silent_s == HANGS_AFTER_S
    asked = [part.accept() for _ in range(int(HANGS_AFTER_S // ANSWER_TIMEOUT_S))]
    assert asked[0].recv(100).startswith(b"GET /healthz HTTP/1.0\r\nHost: ")


@pytest.mark.parametrize("answer", [b"HTTP/1.1 200 OK\r\n\r\n", b"\x15\x03\x03\x00\x02", b""])
def test_any_answer_of_a_part_resets_its_silence(part: Part, answer: bytes) -> None:
    """TLS's refusal of a plain request counts, and so does a connection closed without a byte."""
    part.pass_time(10)
    assert part.watch.silent_s == 10
    with part.accept() as connection:
        connection.sendall(answer)
    part.until_answered()
    assert part.watch.silent_s == 0
    part.pass_time(EVERY_S - STEP_S)
    assert part.watch._asked is None
    part.pass_time(2 * STEP_S)
    assert part.watch.silent_s == STEP_S


def test_an_answer_to_a_later_request_resets_the_silence(part: Part) -> None:
    """The first request may have been lost to a bug."""
    part.pass_time(ANSWER_TIMEOUT_S + 1)
    part.accept()
    part.accept().sendall(b"H")
    part.until_answered()
    assert part.watch.silent_s == 0


def test_time_in_which_the_watch_was_paused_is_no_silence(part: Part) -> None:
    """The machine or this program stood still: the part had no time to answer, or its answer is there."""
    part.pass_time(2)
    part.pass_time(3600, step_s=3600)
    assert part.watch.silent_s == 7
    part.accept()
    part.accept().sendall(b"H")  # it was asked again
    part.until_answered()
    assert part.watch.silent_s == 0


@pytest.mark.parametrize("host", [HOST, "::1", "no.such.host.invalid"])
def test_a_part_that_does_not_listen_is_not_silent(host: str) -> None:
    """It is starting or stopping: both are detected elsewhere."""
    watch = HealthWatch(host, free_port())
    for step in range(400):
        watch.step(step * STEP_S)
    assert watch.silent_s < 1
    watch.forget()


def test_the_silence_limit_exceeds_the_longest_pause_of_a_part() -> None:
    """The page about reliability has each part's pauses: each must be shorter than the limit."""
    pauses = {part.name: part.pause_s for part in PARTS}
    assert max(pauses[name] for name in ("watcher", "driver", "exporter")) < HANGS_AFTER_S - EVERY_S
