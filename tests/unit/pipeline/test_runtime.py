"""How a part runs: pauses, stop signals, logs, its own /metrics."""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from pipeline.runtime import (
    Backoff,
    ConflictError,
    EnvironmentProblemError,
    KcmError,
    UnreachableError,
    UsageError,
    configure_logging,
    get_logger,
    install_stop_signal,
)


def test_each_kind_of_trouble_has_its_exit_code() -> None:
    """A script can distinguish the kinds of problems by the exit code alone."""
    kinds = (KcmError, UsageError, UnreachableError, ConflictError, EnvironmentProblemError)
    assert [kind.exit_code for kind in kinds] == [1, 2, 3, 4, 5]


def test_pauses_grow_up_to_their_limit_and_start_small_after_a_success() -> None:
    """A server that is down is asked ever less often, and soon again after it was up."""
    pause = Backoff(first_s=1, most_s=5)
    assert [pause.next_s() for _ in range(5)] == [1, 2, 4, 5, 5]
    pause.reset()
    assert pause.next_s() == 1


@pytest.mark.usefixtures("signals_as_before")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_asks_to_stop_and_a_second_one_ends_at_once(number: int) -> None:
    """The first signal sets the event; a second one ends the process with the exit code of the signal."""
    stop = install_stop_signal()
    assert not stop.is_set()
    os.kill(os.getpid(), number)
    assert stop.is_set()
    with pytest.raises(SystemExit) as caught:
        os.kill(os.getpid(), number)
    assert caught.value.code == 128 + number


ASKS_AND_ENDS = """
import ctypes, sys, threading
from confluent_kafka import TopicCollection
from confluent_kafka.admin import AdminClient
from pipeline.runtime import run_program

admin = AdminClient({"bootstrap.servers": "127.0.0.1:1", "log_level": 0}, logger=None)
asked = threading.Event()

def ask():
    answers = admin.describe_topics(TopicCollection(["a"]), request_timeout=0.5)
    asked.set()
    answers["a"].result()

def main():
    # C's exit handlers run when Python is gone: sleep(1), 1 being the exit code.
    libc = ctypes.CDLL(None)
    libc.on_exit(libc.sleep, None)
    threading.Thread(target=ask, daemon=True).start()
    asked.wait()
    print("last words")
    return 1

END
"""
"""A program that ends while one of its threads waits for an answer of Kafka, which comes during the end."""


@pytest.mark.parametrize("end", ["run_program(main)", "run_program(lambda: sys.exit(main()))"])
def test_a_program_ends_in_order_during_a_request_to_kafka(end: str) -> None:
    """It ends with its own exit code, and what it printed is written."""
    program = ASKS_AND_ENDS.replace("END", end)
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, check=False)
    assert (ended.returncode, ended.stdout) == (1, b"last words\n"), ended.stderr


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="only Linux has /dev/full")
@pytest.mark.parametrize(("unbuffered", "code"), [("", 120), ("1", 1)])
def test_lost_output_shows_in_the_exit_code_also_during_a_request(
    unbuffered: str, code: int
) -> None:
    """As when Python ends by itself: it is lost at the end, or where it is printed, by an exception."""
    program = ASKS_AND_ENDS.replace("END", "run_program(main)")
    environ = os.environ | {"PYTHONUNBUFFERED": unbuffered}
    with Path("/dev/full").open("wb") as full:
        ended = subprocess.run(
            [sys.executable, "-c", program],
            stdout=full,
            stderr=subprocess.PIPE,
            env=environ,
            check=False,
        )
    assert ended.returncode == code
    assert (b"No space left" in ended.stderr) is bool(unbuffered)


def test_a_program_without_threads_ends_as_python_does() -> None:
    """What is to be done at the end is done."""
    program = (
        "import atexit; from pipeline.runtime import run_program\n"
        "atexit.register(print, 'the end'); run_program(lambda: 3)"
    )
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, check=False)
    assert (ended.returncode, ended.stdout) == (3, b"the end\n"), ended.stderr


def test_logs_are_json_lines_without_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    """A log line in a file is one JSON object that names the part, the level and the time."""
    configure_logging("info", "auto")
    get_logger("watcher").warning("it rains", where="here")
    entry = json.loads(capsys.readouterr().err)
    assert (entry["part"], entry["level"], entry["event"], entry["where"]) == (
        "watcher",
        "warning",
        "it rains",
        "here",
    )
    assert entry["timestamp"].endswith("Z")


def test_lines_below_the_level_are_not_written(capsys: pytest.CaptureFixture[str]) -> None:
    """The log level is the least important line that is written."""
    configure_logging("warning", "console")
    get_logger("watcher").info("a detail")
    get_logger("watcher").warning("it rains")
    written = capsys.readouterr().err
    assert "it rains" in written
    assert "a detail" not in written


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="only Linux has /dev/full")
def test_a_log_on_a_full_disk_raises_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """The line is lost, and the code that wrote it continues."""
    full = Path("/dev/full").open("w", buffering=1)  # noqa: SIM115  # closing it would flush, and fail
    with pytest.raises(OSError, match="No space left"):
        full.write("what anybody else may not do\n")
    monkeypatch.setattr(sys, "stderr", full)
    configure_logging("info", "json")
    get_logger("stream").error("the disk is full")
    with suppress(OSError):
        full.close()


def test_a_closed_log_file_raises_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that lost its standard error loses lines, and continues."""
    closed = io.StringIO()
    closed.close()
    monkeypatch.setattr(sys, "stderr", closed)
    configure_logging("info", "json")
    get_logger("stream").error("nobody reads this")
