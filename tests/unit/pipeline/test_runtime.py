"""How a part runs: pauses, stop signals, logs, its own /metrics."""

from __future__ import annotations

import io
import json
import os
import re
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.queued_file import QueuedFile
from pipeline.runtime import (
    Backoff,
    ConflictError,
    EnvironmentProblemError,
    KcmError,
    UnreachableError,
    UsageError,
    configure_logging,
    finish_log,
    get_logger,
    install_stop_signal,
    lost_log_lines,
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


HOSTILE = st.text(st.characters(categories=("Cc", "Cf", "Cs", "Zl", "Zp", "L")))


@given(HOSTILE, HOSTILE)
def test_no_entry_of_the_console_log_steers_the_terminal(event: str, text: str) -> None:
    """Each entry is one line without a control character but those of the log's own colours."""
    written = io.StringIO()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "stderr", written)
        configure_logging("info", "console")
        get_logger("web").info(event, path=text)
        assert finish_log()
    line = re.sub(r"\x1b\[\d*m", "", written.getvalue())
    assert line.endswith("\n"), "none is lost"
    assert line[:-1].isprintable()


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
    assert finish_log()
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
    assert finish_log()
    written = capsys.readouterr().err
    assert "it rains" in written
    assert "a detail" not in written


def lost_after_all_is_written() -> int:
    """Return how many log lines were lost, once none waits any more."""
    log = sys.stderr
    assert isinstance(log, QueuedFile)
    assert log.finish(10)
    return lost_log_lines()


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="only Linux has /dev/full")
def test_a_log_on_a_full_disk_raises_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """The line is lost, and the code that wrote it continues."""
    full = Path("/dev/full").open("w", buffering=1)  # noqa: SIM115  # closing it would flush, and fail
    with pytest.raises(OSError, match="No space left"):
        full.write("what anybody else may not do\n")
    monkeypatch.setattr(sys, "stderr", full)
    configure_logging("info", "json")
    get_logger("stream").error("the disk is full")
    assert lost_after_all_is_written() == 1
    with suppress(OSError):
        full.close()


def test_a_closed_log_file_raises_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that lost its standard error loses lines, and continues."""
    closed = io.StringIO()
    closed.close()
    monkeypatch.setattr(sys, "stderr", closed)
    configure_logging("info", "json")
    get_logger("stream").error("nobody reads this")
    assert lost_after_all_is_written() == 1


LOGS_AND_ENDS = """
import sys, threading, time
from pathlib import Path
from pipeline.runtime import configure_logging, end_at_once, get_logger, lost_log_lines, run_program

def main():
    configure_logging("info", "json")
    log = get_logger("watcher")
    for number in range(LINES):
        log.warning("it rains", number=number, where="here" * 2_000)
    Path(sys.argv[1]).write_text(str(lost_log_lines()))
    END

run_program(main)
"""
"""A program that logs many lines at once, writes how many were lost to a file, and ends."""

ENDS = {
    "return 3": 3,
    "sys.exit(3)": 3,
    "raise ValueError('the last words')": 1,
    "threading.Thread(target=end_at_once, args=(3,)).start(); time.sleep(60)": 3,
}
"""How the program ends, and its exit code."""


@pytest.mark.parametrize("end", ENDS)
def test_all_lines_are_written_however_a_program_ends(tmp_path: Path, end: str) -> None:
    """Each is there, in order; a traceback follows them."""
    program = LOGS_AND_ENDS.replace("END", end).replace("LINES", "500")
    ended = subprocess.run(
        [sys.executable, "-c", program, tmp_path / "lost"], capture_output=True, check=False
    )
    lines = ended.stderr.decode().splitlines()
    assert [json.loads(line)["number"] for line in lines[:500]] == list(range(500))
    assert ended.returncode == ENDS[end]
    assert ("raise" in end) is lines[-1].endswith("the last words")
    assert (tmp_path / "lost").read_text() == "0"


@pytest.mark.parametrize("end", ENDS)
def test_a_log_that_nobody_reads_stops_no_program(tmp_path: Path, end: str) -> None:
    """It does its work and ends with its own code, soon; lines that find no room are counted."""
    program = LOGS_AND_ENDS.replace("END", end).replace("LINES", "1000")
    reads, writes = os.pipe()
    with (
        os.fdopen(reads),
        os.fdopen(writes) as blocked,
        subprocess.Popen(
            [sys.executable, "-c", program, tmp_path / "lost"], stderr=blocked
        ) as running,
    ):
        assert running.wait(60) == ENDS[end]
    assert 0 < int((tmp_path / "lost").read_text()) < 1000
