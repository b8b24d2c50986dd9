"""What counts as silence of a part, and what does not."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from kcm.run.health_watch import (
    ANSWER_TIMEOUT_S,
    EVERY_S,
    FIRST_ANSWER_S,
    KAFKA_REQUEST,
    SILENT_S,
    HealthWatch,
)
from kcm.servers.ports import HOST, free_port
from pipeline.settings import PipelineSettings, load
from tests.faults.cells import PARTS
from tests.support.certificates import make_authority, make_certificate
from tests.support.waiting import wait_until
from web.health import PartHealth
from web.server import metrics_server

STEP_S = 0.25


class Part:
    """A part whose port accepts connections, and that answers when the test says so."""

    def __init__(self, stack: ExitStack, **options: Any) -> None:
        self._stack = stack
        self._listening = stack.enter_context(socket.create_server((HOST, 0)))
        self._listening.settimeout(20)
        self.watch = HealthWatch(HOST, self._listening.getsockname()[1], **options)
        self.now = 1_000.0

    def pass_time(self, seconds: float, *, step_s: float = STEP_S) -> None:
        """Let time pass while `step` is called."""
        for _ in range(round(seconds / step_s)):
            self.now += step_s
            self.watch.step(self.now)

    def problem(self) -> str:
        """Return what shows that it hangs."""
        return self.watch.problem

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
    part.pass_time(SILENT_S - STEP_S)
    assert not part.problem()
    part.pass_time(STEP_S)
    assert part.problem() == "has not answered for 45 s"
    asked = [part.accept() for _ in range(int(SILENT_S // ANSWER_TIMEOUT_S))]
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
    assert max(pauses[name] for name in ("watcher", "driver", "exporter")) < SILENT_S - EVERY_S


@pytest.mark.parametrize(
    ("answers", "hangs"), [(["503", "503"], True), (["503", "200", "503"], False)]
)
def test_a_part_that_says_twice_that_it_hangs_hangs(
    part: Part, answers: list[str], *, hangs: bool
) -> None:
    """Its server answers in a thread of its own; an answer in between that it works counts as well."""
    for status in answers:
        assert not part.problem()
        part.accept().sendall(f"HTTP/1.1 {status} Whatever\r\n".encode())
        part.until_answered()
        part.pass_time(EVERY_S + STEP_S)
    assert part.problem() == ("answers that its main loop does not turn" if hangs else "")
    part.watch.forget()
    assert not part.problem()


@pytest.mark.usefixtures("no_settings_of_the_machine")
@pytest.mark.parametrize("tls", [False, True])
def test_a_real_part_says_that_it_hangs(tmp_path: Path, *, tls: bool) -> None:
    """Also by TLS, and to who has no password: the status is all that is needed."""
    config = (
        "basic_auth_users: {alice: $2b$04$QQQQQQQQQQQQQQQQQQQQQ.uAPMsbPFcsnhL4rbWhK8zYOzMhGkZ1e}\n"
    )
    if tls:
        make_authority(tmp_path)
        make_certificate(tmp_path, "server", HOST)
        config += "tls_server_config: {cert_file: server.pem, key_file: server.key}\n"
    file = tmp_path / "web.yaml"
    file.write_text(config)
    registry, ages_s = CollectorRegistry(), [0.0]
    health = PartHealth(registry, lambda: ages_s[0])
    settings = load(PipelineSettings, web_config_file=file)
    with metrics_server(registry, health, settings, 0) as server:
        watch = HealthWatch(server.host, server.port, tls=tls)
        now = 0.0

        def problem() -> str:
            nonlocal now
            if watch._asked is None:  # no time passes until it answers
                now += STEP_S
            watch.step(now)
            return watch.problem

        for _ in range(100):
            assert not problem()
            time.sleep(0.002)
        ages_s[0] = 61.0
        assert wait_until(problem) == "answers that its main loop does not turn"
        watch.forget()


@pytest.mark.parametrize(("answers", "limit_s"), [(False, FIRST_ANSWER_S), (True, SILENT_S)])
def test_a_kafka_may_take_long_for_its_first_answer(limit_s: float, *, answers: bool) -> None:
    """It accepts connections while it reads its logs after a crash. Later it is silent no longer than a part."""
    with ExitStack() as stack:
        kafka = Part(stack, request=KAFKA_REQUEST, first_answer_s=FIRST_ANSWER_S)
        stack.callback(kafka.watch.forget)
        kafka.watch.step(kafka.now)
        if answers:
            connection = kafka.accept()
            kafka.pass_time(STEP_S)
            assert connection.recv(100) == KAFKA_REQUEST
            connection.sendall(b"\0\0\0\x06")
            kafka.until_answered()
            kafka.pass_time(EVERY_S)
        kafka.pass_time(limit_s - 2 * STEP_S)
        assert not kafka.problem()
        kafka.pass_time(3 * STEP_S)
        assert kafka.problem() == f"has not answered for {limit_s:g} s"


def test_a_kafka_that_refused_connections_before_may_take_as_long() -> None:
    """Its port is closed while its JVM starts: that is no first answer."""
    port = free_port()
    watch = HealthWatch(HOST, port, KAFKA_REQUEST, first_answer_s=FIRST_ANSWER_S)
    now = 1_000.0

    def pass_time(seconds: float) -> None:
        nonlocal now
        for _ in range(round(seconds / STEP_S)):
            now += STEP_S
            watch.step(now)

    pass_time(4 * EVERY_S)
    with socket.create_server((HOST, port)):
        pass_time(SILENT_S + 2 * EVERY_S)
        assert watch.silent_s > SILENT_S
        assert not watch.problem
        pass_time(FIRST_ANSWER_S)
        assert watch.problem == f"has not answered for {FIRST_ANSWER_S:g} s"
        watch.forget()
