"""What `kcm up` reads of a part that has ended, and what it then does."""

from __future__ import annotations

import socket
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from kcm.run import process_restarter
from kcm.run.health_watch import SILENT_S
from kcm.run.process_restarter import ProcessRestarter, final_line
from kcm.servers.ports import HOST, free_port
from kcm.servers.process import Process
from kcm.servers.supervisor import Supervisor
from pipeline.runtime import EnvironmentProblemError
from tests.support.waiting import wait_until

DISK_FULL = ["sh", "-c", "echo 'kcm stream: no space left' >&2; exit 5"]


@pytest.mark.parametrize(
    ("log", "line"),
    [
        (
            '{"event": "started"}\nkcm watch: no Kafka at k1; correct it\n',
            "no Kafka at k1; correct it",
        ),
        ("kcm: older: trouble\nkcm: topic x has 1 partition\n", "topic x has 1 partition"),
        ("Traceback (most recent call last):\nValueError: 7\n", ""),
        ("", ""),
    ],
)
def test_the_last_kcm_line_of_the_log_is_the_reason_for_an_exit(
    tmp_path: Path, log: str, line: str
) -> None:
    """Only a line that begins with kcm is for the user, without the text before its colon."""
    process = Process(Supervisor(tmp_path), "watcher")
    process.log_path.parent.mkdir()
    process.log_path.write_text(log)
    assert final_line(process) == line


@pytest.fixture
def supervisor(tmp_path: Path) -> Iterator[Supervisor]:
    """The owner of the processes."""
    with Supervisor(tmp_path, kill_on_exit=True) as owner:
        yield owner


def restarter_of(process: Process, port: int = 9) -> ProcessRestarter:
    """Return a restarter of a pipeline with one part on this port; no server listens on port 9."""
    pipeline: Any = SimpleNamespace(
        broker=None,
        processes={process.name: process},
        listens_at={process.name: (HOST, port)},
        is_tls=False,
    )
    return ProcessRestarter(pipeline, fail_fast=False)


def ended(process: Process) -> None:
    """Start a process and wait until it has ended."""
    process.start()
    wait_until(lambda: process.running, lambda running: not running)


def test_a_full_disk_during_startup_is_fatal(supervisor: Supervisor) -> None:
    """The user who started it is still there to read the error."""
    process = Process(supervisor, "stream", DISK_FULL)
    ended(process)
    with pytest.raises(EnvironmentProblemError, match="stream: no space left"):
        list(restarter_of(process).step())


def test_a_part_that_ends_after_startup_is_restarted(supervisor: Supervisor) -> None:
    """It is restarted, so that the other parts continue, above all the exporter."""
    process = Process(supervisor, "stream", DISK_FULL)
    restarter = restarter_of(process)
    restarter.has_worked()
    ended(process)
    (line,) = restarter.step()
    assert line.startswith("stream ended: no space left; starting it again in 0.5 s")


class Unwritable(Process):
    """A process whose configuration cannot be written: the disk is full."""

    tries = 0

    def start(self) -> None:
        """Fail."""
        self.tries += 1
        raise OSError(28, "No space left on device")


@pytest.mark.parametrize("has_worked", [True, False])
def test_a_failed_start_is_retried_only_after_startup(
    supervisor: Supervisor, has_worked: bool
) -> None:
    """A full disk is no reason to stop the parts that work."""
    process = Unwritable(supervisor, "kafka")
    restarter = restarter_of(process)
    if has_worked:
        restarter.has_worked()
    said: list[str] = []

    def look() -> list[str]:
        said.extend(restarter.step())
        return said

    if not has_worked:
        with pytest.raises(OSError, match="No space left"):
            wait_until(look, lambda _lines: False)
        return
    lines = wait_until(look, lambda lines: len(lines) == 3)
    assert lines[1] == (
        "kafka cannot be started: [Errno 28] No space left on device; trying again in 1 s"
    )
    assert lines[2].endswith("trying again in 2 s")
    assert process.tries == 2


SERVER = """
import http.server
http.server.SimpleHTTPRequestHandler.log_message = lambda *_: None
http.server.ThreadingHTTPServer(("127.0.0.1", PORT), http.server.SimpleHTTPRequestHandler).serve_forever()
"""


def test_a_part_that_hangs_is_killed_and_started_again(
    supervisor: Supervisor, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It runs, and its port takes connections: only that it never answers shows it."""
    began = now = 1_000.0
    monkeypatch.setattr(process_restarter, "time", SimpleNamespace(monotonic=lambda: now))
    port = free_port()
    process = Process(
        supervisor, "watcher", [sys.executable, "-c", SERVER.replace("PORT", str(port))]
    )
    restarter = restarter_of(process, port)
    watch = restarter._watches[process.name]
    said: list[str] = []

    def is_answered() -> bool:
        said.extend(restarter.step())
        return watch._asked is None

    def look() -> list[str]:
        nonlocal now
        now += 1.0
        said.extend(restarter.step())
        return said

    process.start()
    first = process.pid
    wait_until(lambda: _is_listening(port))
    while now < began + 2 * SILENT_S:
        assert not look()
        wait_until(is_answered)  # no time passes meanwhile
    process.pause()
    lines = wait_until(look, lambda lines: len(lines) == 2)
    assert lines[0] == f"watcher has not answered for {SILENT_S:g} s: it hangs, and is killed"
    assert lines[1].startswith("watcher ended with exit code 137; starting it again in 0.5 s")
    wait_until(lambda: (look(), process.pid), lambda seen: seen[1] not in {None, first})
    restarter.close()


def test_closing_the_restarter_closes_its_health_connections(supervisor: Supervisor) -> None:
    """The listener sees the end of the connection at once, not at the next garbage collection."""
    process = Process(supervisor, "watcher", ["sleep", "60"])
    process.start()
    with socket.create_server((HOST, 0)) as listener:
        restarter = restarter_of(process, listener.getsockname()[1])
        assert list(restarter.step()) == []
        asked, _ = listener.accept()
        with asked:
            restarter.close()
            asked.settimeout(5.0)
            assert asked.recv(1) == b""


def _is_listening(port: int) -> bool:
    with socket.socket() as client:
        return client.connect_ex((HOST, port)) == 0
