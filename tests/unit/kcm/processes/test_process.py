"""What is said of a process, from its log; that it starts and ends is tried on real ones."""

from __future__ import annotations

from pathlib import Path

import pytest

from kcm.processes.process import LOG_TAIL_LINES, Process
from kcm.processes.supervisor import Supervisor
from pipeline.runtime import EnvironmentProblemError


@pytest.fixture
def process(tmp_path: Path) -> Process:
    """A process that was never started."""
    process = Process(Supervisor(tmp_path), "kafka-1")
    process.log_path.parent.mkdir()
    return process


def test_an_error_shows_the_end_of_the_log(process: Process) -> None:
    """The first line names the process, its time and what was seen; the log's last lines follow."""
    process.log_path.write_text("".join(f"line {number}\n" for number in range(100)))
    first, *rest = str(process.not_ready("kafka-1", 60.0, "connection refused")).splitlines()
    assert first == (
        "kafka-1 was not ready within 60 s; last seen: connection refused; "
        f"the end of {process.log_path}:"
    )
    assert rest == [f"    line {number}" for number in range(100 - LOG_TAIL_LINES, 100)]


def test_an_empty_log_is_named(process: Process) -> None:
    """Somebody may still find the reason where the log is."""
    error = process.not_ready("kafka-1", 60.0, "nothing")
    assert str(error).endswith(f"; its log is empty: {process.log_path}")
    assert error.exit_code == 3


def test_what_was_never_started_is_no_failure_to_end(process: Process) -> None:
    """It can be stopped, killed and paused to no effect; only a check says that it does not run."""
    assert process.stop() is None
    process.kill()
    process.pause()
    process.resume()
    assert not process.running
    with pytest.raises(EnvironmentProblemError, match="kafka-1 was never started"):
        process.check()
