"""One child process: start, readiness and end, and the errors made from its log."""

from __future__ import annotations

from pathlib import Path

import pytest

from kcm.servers.process import LOG_TAIL_LINES, Process
from kcm.servers.supervisor import Supervisor
from pipeline.runtime import EnvironmentProblemError, UnreachableError
from tests.support.processes import python, started
from tests.support.waiting import wait_until


@pytest.fixture
def process(tmp_path: Path) -> Process:
    """A process that was never started."""
    process = Process(Supervisor(tmp_path), "kafka-1")
    process.log_path.parent.mkdir()
    return process


def test_an_error_shows_the_end_of_the_log(process: Process) -> None:
    """The first line has the process, its time and what was seen; the last lines of the log follow."""
    process.log_path.write_text("".join(f"line {number}\n" for number in range(100)))
    first, *rest = str(process.not_ready("kafka-1", 60.0, "connection refused")).splitlines()
    assert first == (
        "kafka-1 was not ready within 60 s; last seen: connection refused; "
        f"the end of {process.log_path}:"
    )
    assert rest == [f"    line {number}" for number in range(100 - LOG_TAIL_LINES, 100)]


def test_an_empty_log_is_named(process: Process) -> None:
    """The path may still help to find the reason."""
    error = process.not_ready("kafka-1", 60.0, "nothing")
    assert str(error).endswith(f"; its log is empty: {process.log_path}")
    assert error.exit_code == 3


def test_a_process_that_was_never_started_can_be_stopped(process: Process) -> None:
    """It can be stopped, killed and paused without effect; only a check reports that it does not run."""
    assert process.stop() is None
    process.kill()
    process.pause()
    process.resume()
    assert not process.running
    with pytest.raises(EnvironmentProblemError, match="kafka-1 was never started"):
        process.check()


def test_stop_is_clean_and_has_a_deadline(owner: Supervisor) -> None:
    """A program may end cleanly on SIGTERM; one that does not is killed at the deadline."""
    polite = started(
        owner,
        "polite",
        python(
            "import signal,sys,time; signal.signal(signal.SIGTERM, lambda *_: sys.exit(3));"
            "print('up', flush=True); time.sleep(600)"
        ),
    )
    deaf = started(
        owner,
        "deaf",
        python(
            "import signal,time; signal.signal(signal.SIGTERM, signal.SIG_IGN);"
            "print('up', flush=True); time.sleep(600)"
        ),
    )
    for process in (polite, deaf):
        wait_until(process.log_tail)
    assert polite.stop() == 3
    deaf.stop_deadline_s = 0.2
    assert deaf.stop() == 137


def test_a_pause_of_what_has_ended_does_nothing(owner: Supervisor) -> None:
    """It returns at once: there is nothing to pause."""
    process = started(owner, "short", python("pass"))
    wait_until(lambda: not process.running)
    process.pause()
    process.resume()
    assert process.exit_code == 0


def test_a_process_that_ends_too_early_shows_its_log(owner: Supervisor) -> None:
    """The error has the name, the exit code and the end of this run's log only."""
    code = "import sys; print('\\n'.join(f'line {n}' for n in range(100))); sys.exit('disk is on fire')"
    for _ in range(2):
        with pytest.raises(
            EnvironmentProblemError, match="burning ended with exit code 1"
        ) as caught:
            started(owner, "burning", python(code), health=lambda: "not yet")
        assert "disk is on fire" in str(caught.value)
        assert "line 10\n" not in str(caught.value)


def test_the_cause_is_shown_in_place_of_the_frames_of_a_stack(owner: Supervisor) -> None:
    """A Java program's last words are its stacks, longer than what is shown."""
    code = "print('cause\\nException: end'); print('\\tat a.B.c(B.java:1)\\n' * 60 + '\\t... 9 more'); exit(1)"
    with pytest.raises(EnvironmentProblemError, match=r"cause\n +Exception: end") as caught:
        started(owner, "java", python(code), health=lambda: "not yet")
    assert "B.java" not in str(caught.value)
    assert "9 more" not in str(caught.value)


def test_a_program_that_cannot_run_is_named(owner: Supervisor) -> None:
    """A missing program is an error that names it."""
    with pytest.raises(EnvironmentProblemError, match="cannot run /no/such/program: No such file"):
        started(owner, "nobody", ["/no/such/program"], health=lambda: "not yet")


def test_a_process_that_is_never_ready_tells_what_was_seen_last(owner: Supervisor) -> None:
    """The deadline's error names the process, the time it had, and the last thing seen."""
    words = iter(range(10**6))
    with pytest.raises(
        UnreachableError, match=r"slow was not ready within 0.3 s; last seen: try \d"
    ):
        started(
            owner,
            "slow",
            python("import time; time.sleep(600)"),
            health=lambda: f"try {next(words)}",
            ready_deadline_s=0.3,
        )


def test_a_process_can_start_again(owner: Supervisor) -> None:
    """A restart gives another pid under the same name; a second start while it runs does nothing."""
    process = started(owner, "again", python("import time; time.sleep(600)"))
    first = process.pid
    process.start()
    assert process.pid == first
    process.stop()
    process.start()
    assert process.running
    assert process.pid != first
    with pytest.raises(EnvironmentProblemError, match="again already runs"):
        started(owner, "again", python("pass"))
