"""The owner of child processes: failures, names in use, and that all processes end with it."""

from __future__ import annotations

from pathlib import Path

import pytest

from kcm.servers.process import Process
from kcm.servers.supervisor import Supervisor
from pipeline.runtime import EnvironmentProblemError
from tests.support.processes import living, python, started
from tests.support.waiting import wait_until


def test_a_process_that_ended_by_itself_is_reported(owner: Supervisor) -> None:
    """`check` reports a process that ended without being stopped, and no other."""
    stopped = started(owner, "stopped", python("import time; time.sleep(600)"))
    stopped.stop()
    owner.check()
    ended = started(owner, "ended", python("raise SystemExit(7)"))
    wait_until(lambda: not ended.running)
    with pytest.raises(EnvironmentProblemError, match="ended ended with exit code 7"):
        owner.check()


def test_leaving_the_supervisor_ends_all(tmp_path: Path) -> None:
    """An error inside the `with` block ends every process before it is re-raised."""
    pids: list[int] = []

    def fail_with_two_processes() -> None:
        with Supervisor(tmp_path) as supervisor:
            for name in ("a", "b"):
                process = started(supervisor, name, python("import time; time.sleep(600)"))
                pids.append(process.pid or 0)
            assert living(pids) == pids
            raise RuntimeError("raised by the test")

    with pytest.raises(RuntimeError, match="raised by the test"):
        fail_with_two_processes()
    assert len(pids) == 2
    assert living(pids) == []


def shell(script: str) -> list[str | Path]:
    """Return the command line of a shell with a handler for its end, which it waits for."""
    return ["/bin/sh", "-c", f"{script}\necho up\nwhile :; do sleep 0.01; done"]


def test_processes_end_in_the_reverse_order_of_their_start(tmp_path: Path) -> None:
    """A process may need those started before it until it has ended."""
    ended = tmp_path / "ended"
    with Supervisor(tmp_path) as supervisor:
        for name in ("a", "b", "c"):
            process = started(supervisor, name, shell(f"trap 'echo {name} >> {ended}; exit' TERM"))
            wait_until(process.log_tail)
    assert ended.read_text().split() == ["c", "b", "a"]


@pytest.mark.parametrize(("kill_on_exit", "code"), [(True, 137), (False, 3)])
def test_kill_on_exit_kills_without_waiting_for_a_clean_end(
    tmp_path: Path, *, kill_on_exit: bool, code: int
) -> None:
    """Where nothing is kept, a clean end is not waited for."""
    with Supervisor(tmp_path, kill_on_exit=kill_on_exit) as supervisor:
        process = started(supervisor, "polite", shell("trap 'exit 3' TERM"))
        wait_until(process.log_tail)
    assert process.exit_code == code


def test_stop_signals_all_processes_before_it_waits(tmp_path: Path) -> None:
    """Brokers that end together need not wait for each other: here the first ends after the second."""
    asked = tmp_path / "asked"
    with Supervisor(tmp_path) as supervisor:
        first = started(
            supervisor,
            "first",
            shell(f"trap 'while ! test -e {asked}; do sleep 0.01; done; exit 4' TERM"),
        )
        second = started(supervisor, "second", shell(f"trap 'touch {asked}; exit 5' TERM"))
        for process in (first, second):
            wait_until(process.log_tail)
        supervisor.stop(iter([first, second]))
        assert (first.exit_code, second.exit_code) == (4, 5)
        supervisor.check()  # both were stopped on purpose


def test_a_name_is_free_again_once_its_process_has_ended(tmp_path: Path) -> None:
    """It is not free before; the log continues in the same file."""
    with Supervisor(tmp_path) as supervisor:
        assert supervisor.log_path("again") == tmp_path / "logs" / "again.log"
        first = started(supervisor, "again", shell("echo one"))
        wait_until(first.log_tail)
        other = Process(supervisor, "again", shell("echo two"))
        with pytest.raises(EnvironmentProblemError, match="again already runs"):
            other.start()
        first.kill()
        other.start()
        wait_until(other.log_tail, lambda log: "up" in log)
        assert supervisor.log_path("again").read_text().split() == ["one", "up", "two", "up"]
        assert first.exit_code == 137
        other.kill()
