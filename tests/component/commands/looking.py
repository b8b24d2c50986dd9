"""A running `kcm look`, as a process of its own or in a thread of this one."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from kcm.cli.parts import import_service, load_all, watch_part
from kcm.run import look as look_module
from kcm.run.look import Look
from pipeline.stop_signal import StopSignal
from tests.support.looked import NotedTopics
from tests.support.waiting import DEADLINE_S, wait_until

CLUSTER = "looked"
STOPPED_S = 30.0
"""Kubernetes' own terminationGracePeriodSeconds."""


class Command:
    """A process whose output is a file."""

    def __init__(self, folder: Path, *arguments: str) -> None:
        """Start it on a free port, in an empty folder that is its home."""
        self.home = folder / f"home-{uuid.uuid4().hex[:6]}"
        self.home.mkdir()
        self._output = folder / f"{self.home.name}.out"
        own = {name: value for name, value in os.environ.items() if not name.startswith("KCM_")}
        own |= {"HOME": str(self.home), "http_proxy": "http://127.0.0.1:9"}
        with self._output.open("wb") as output:
            self.process = subprocess.Popen(
                [
                    *(sys.executable, "-P", "-m", "kcm", "look", "--cluster", CLUSTER),
                    *("--port", "0", *arguments),
                ],
                stdout=output,
                stderr=subprocess.STDOUT,
                env=own,
                cwd=self.home,
            )

    @property
    def output(self) -> str:
        """What it printed so far."""
        return self._output.read_text()

    def says(self, pattern: str, *, after: str = "") -> re.Match[str]:
        """Wait until its output matches, behind something that it printed before; return the match."""

        def seen() -> tuple[re.Match[str] | None, str, int | None]:
            text = self.output
            return re.search(pattern, text[text.find(after) :]), text, self.process.poll()

        match, text, code = wait_until(seen, lambda each: bool(each[0] or each[2] is not None))
        assert match, f"ended with {code} and never said {pattern!r}: {text}"
        return match

    @property
    def url(self) -> str:
        """Where it serves."""
        return self.says(r"the page: (http://\S+)/ ")[1]

    def status(self) -> str:
        """Return the status of the figures, as the API gives it."""
        answer = httpx.get(
            f"{self.url}/api/v1/clusters/{CLUSTER}", trust_env=False, timeout=DEADLINE_S
        )
        return str(answer.json()["completeness"]["status"])

    def wait_for_status(self, status: str) -> None:
        """Wait until the API gives this status: live figures may be late for a moment on a busy machine."""
        wait_until(self.status, lambda now: now == status)

    def end(self, number: signal.Signals = signal.SIGTERM) -> int:
        """Stop it by a signal, and return its exit code."""
        self.process.send_signal(number)
        return self.process.wait(STOPPED_S)


@contextmanager
def looking(folder: Path, *arguments: str) -> Iterator[Command]:
    """Run `kcm look`, and kill it at the end if it still runs."""
    command = Command(folder, *arguments)
    try:
        yield command
    finally:
        command.process.kill()
        command.process.wait()


@contextmanager
def noted_look(monkeypatch: pytest.MonkeyPatch, **options: str) -> Iterator[NotedTopics]:
    """Look from a thread of this process; at the end all that the watcher wrote is folded."""
    noted: list[NotedTopics] = []

    def topics(*about: object) -> NotedTopics:
        noted.append(NotedTopics(*about))
        return noted[-1]

    monkeypatch.setattr(look_module, "LookTopics", topics)
    given = {"cluster": CLUSTER, "port": "0", **options}
    look, stop = Look(load_all(None, given)), StopSignal()
    run_term = import_service(watch_part(None, given), "run_term")
    failures: list[BaseException] = []

    def run() -> None:
        try:
            look.until(stop, run_term)
        except BaseException as error:  # noqa: BLE001  # the test raises it
            failures.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    try:
        yield noted[0]
    finally:
        stop.set()
        thread.join(STOPPED_S)
    assert not thread.is_alive()
    if failures:
        raise failures[0]
    while not noted[0].waiting.empty():
        noted[0].feed()
