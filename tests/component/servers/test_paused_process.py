"""Child processes under guard: what starts, stops, fails, and that nothing survives its owner."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from kcm.processes.guard import process_table
from kcm.processes.ports import HOST, free_port, is_free, require_free
from kcm.processes.process import HealthCheck, Process
from kcm.processes.supervisor import Supervisor
from pipeline.runtime import ConflictError, EnvironmentProblemError, UnreachableError
from tests.support.waiting import wait_until

# A program with a family like Spark's: a child in its own process group and session, and an orphan
# whose parent is gone. Each writes its pid to a file of the folder given, and waits to be killed.
FAMILY = """
import os, pathlib, subprocess, sys, signal, time
folder = pathlib.Path(sys.argv[1])
wait = "import os,pathlib,sys,time; p=pathlib.Path(sys.argv[1]); q=p.with_suffix('.tmp'); q.write_text(str(os.getpid())); q.rename(p); time.sleep(600)"
subprocess.Popen([sys.executable, "-c", wait, str(folder / "session.pid")], start_new_session=True)
if os.fork() == 0:
    os.setsid()
    subprocess.Popen([sys.executable, "-c", wait, str(folder / "orphan.pid")], start_new_session=True)
    os._exit(0)
exec(wait.replace("sys.argv[1]", "sys.argv[1] + '/program.pid'"))
"""

OWNER = """
import pathlib, sys, time
from kcm.processes.process import Process
from kcm.processes.supervisor import Supervisor
folder, program = pathlib.Path(sys.argv[1]), sys.argv[2]
with Supervisor(folder) as supervisor:
    process = Process(supervisor, "family", [sys.executable, "-c", program, folder])
    process.start()
    (folder / "guard.tmp").write_text(str(process._guard.pid))
    (folder / "guard.tmp").rename(folder / "guard.pid")
    time.sleep(600)
"""

ALL_PIDS = ("session.pid", "orphan.pid", "program.pid")


@pytest.fixture
def owner(tmp_path: Path) -> Iterator[Supervisor]:
    """A supervisor of this test's own."""
    with Supervisor(tmp_path) as supervisor:
        yield supervisor


def pids_in(folder: Path, names: tuple[str, ...]) -> list[int]:
    """Wait until all the named pid files are there, and read them."""
    wait_until(lambda: [n for n in names if not (folder / n).exists()], lambda missing: not missing)
    return [int((folder / name).read_text()) for name in names]


def living(pids: list[int]) -> list[int]:
    """Return those of the pids that are processes still, zombies not counted."""
    alive = {pid for pid, _, _, state in process_table() if state != "Z"}
    return [pid for pid in pids if pid in alive]


def python(code: str) -> list[str | Path]:
    """Return the command line of a Python one-liner."""
    return [sys.executable, "-c", code]


def started(
    owner: Supervisor,
    name: str,
    argv: list[str | Path],
    *,
    health: HealthCheck | None = None,
    ready_deadline_s: float = 30.0,
) -> Process:
    """Start a process and wait until it is ready."""
    process = Process(owner, name, argv, health=health, ready_deadline_s=ready_deadline_s)
    process.start()
    process.wait_ready()
    return process


def test_nothing_survives_when_the_owner_is_killed(tmp_path: Path) -> None:
    """SIGKILL of the owner ends the program, its children in other sessions, and orphans."""
    with subprocess.Popen([*python(OWNER), str(tmp_path), FAMILY]) as process:
        pids = pids_in(tmp_path, (*ALL_PIDS, "guard.pid"))
        assert living(pids) == pids
        process.kill()
    wait_until(lambda: living(pids), lambda left: not left)


@pytest.mark.skipif(sys.platform != "linux", reason="the parent-death signal is Linux's")
def test_a_killed_guard_takes_its_program_with_it(tmp_path: Path) -> None:
    """SIGKILL of the guard ends the program, and the owner learns how."""
    with Supervisor(tmp_path) as supervisor:
        process = started(supervisor, "sleeper", python("import time; time.sleep(600)"))
        assert process.pid is not None
        pid = process.pid
        assert process._guard is not None
        os.kill(process._guard.pid, signal.SIGKILL)
        wait_until(lambda: living([pid]), lambda left: not left)
        wait_until(lambda: process.exit_code, lambda code: code == 137)
        assert supervisor.failed() == [process]


def test_kill_ends_the_whole_family(owner: Supervisor, tmp_path: Path) -> None:
    """When `kill` returns, neither the program nor anything that it started is there."""
    process = started(owner, "family", [*python(FAMILY), tmp_path])
    pids = pids_in(tmp_path, ALL_PIDS)
    process.kill()
    assert living(pids) == []
    assert process.exit_code == 137
    assert owner.failed() == []


def test_a_crash_of_the_program_ends_its_family(owner: Supervisor, tmp_path: Path) -> None:
    """What a killed program leaves behind is ended before it counts as ended."""
    process = started(owner, "family", [*python(FAMILY), tmp_path])
    pids = pids_in(tmp_path, ALL_PIDS)
    assert process.pid == pids[2]
    os.kill(process.pid, signal.SIGKILL)
    assert wait_until(lambda: process.exit_code, lambda code: code is not None) == 137
    assert living(pids) == []


def test_stop_is_clean_and_has_a_deadline(owner: Supervisor) -> None:
    """A program may end in its own way on SIGTERM; one that does not is killed at the deadline."""
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


def test_a_paused_process_does_nothing_until_resumed(owner: Supervisor, tmp_path: Path) -> None:
    """Pause freezes a process that lives on; it can be resumed, and stopped while paused."""
    process = started(owner, "family", [*python(FAMILY), tmp_path])
    pids = pids_in(tmp_path, ALL_PIDS)

    def states() -> set[str]:
        return {state for pid, _, _, state in process_table() if pid in pids}

    process.pause()
    assert states() == {"T"}
    process.resume()
    wait_until(states, lambda seen: "T" not in seen)
    process.pause()
    assert process.stop() == 143
    assert living(pids) == []


def test_a_pause_has_begun_when_it_returns(owner: Supervisor, tmp_path: Path) -> None:
    """Not one of its threads does anything between the return of pause and its resumption."""
    code = (
        "import pathlib,sys,threading\n"
        "def count(path):\n"
        "    with path.open('wb', buffering=0) as file:\n"
        "        while True: file.write(b'x')\n"
        "for n in range(4):\n"
        "    threading.Thread(target=count, args=(pathlib.Path(sys.argv[1], str(n)),)).start()\n"
    )
    process = started(owner, "busy", [*python(code), tmp_path])
    files = [tmp_path / str(number) for number in range(4)]

    def written() -> list[int]:
        return [file.stat().st_size if file.exists() else 0 for file in files]

    wait_until(written, all)
    for _ in range(20):
        process.pause()
        frozen = written()
        time.sleep(0.05)
        assert written() == frozen
        process.resume()
        wait_until(written, frozen.__ne__)


def test_a_pause_of_what_has_ended_does_nothing(owner: Supervisor) -> None:
    """It returns at once; there is nothing to freeze."""
    process = started(owner, "short", python("pass"))
    wait_until(lambda: not process.running)
    process.pause()
    process.resume()
    assert process.exit_code == 0


def test_a_process_that_ends_too_early_shows_its_log(owner: Supervisor) -> None:
    """One error holds the name, the exit code and the end of the log, of this run only."""
    code = "import sys; print('\\n'.join(f'line {n}' for n in range(100))); sys.exit('disk is on fire')"
    for _ in range(2):
        with pytest.raises(
            EnvironmentProblemError, match="burning ended with exit code 1"
        ) as caught:
            started(owner, "burning", python(code), health=lambda: "not yet")
        assert "disk is on fire" in str(caught.value)
        assert "line 10\n" not in str(caught.value)


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
    """A restart gives another pid under the same name; a second start of a running one does not."""
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


def test_a_process_that_ended_by_itself_is_reported(owner: Supervisor) -> None:
    """`failed` and `check` name a process that nobody asked to end, and of no other."""
    stopped = started(owner, "stopped", python("import time; time.sleep(600)"))
    stopped.stop()
    owner.check()
    ended = started(owner, "ended", python("raise SystemExit(7)"))
    wait_until(owner.failed, lambda failed: failed == [ended])
    with pytest.raises(EnvironmentProblemError, match="ended ended with exit code 7"):
        owner.check()


def test_leaving_the_supervisor_ends_all(tmp_path: Path) -> None:
    """An error inside the `with` block ends every process before it goes on."""
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


def test_a_long_log_moves_aside(owner: Supervisor) -> None:
    """A process that logs without end does not fill the disk, and its tail stays readable."""
    code = "import time\nfor n in range(20): print('x' * (1 << 20), flush=True)\ntime.sleep(0.5); print('end')"
    process = started(owner, "talker", python(code))
    wait_until(lambda: process.running, lambda running: not running)
    aside = process.log_path.with_name("talker.log.1")
    assert aside.stat().st_size > 16 << 20
    assert process.log_path.stat().st_size < 16 << 20


def test_ports_are_given_once() -> None:
    """No two calls give the same port, and each can be listened on."""
    ports = [free_port() for _ in range(50)]
    assert len(set(ports)) == len(ports)
    assert all(is_free(port) for port in ports)


def test_ports_of_another_process_are_not_given() -> None:
    """A port that another process holds for itself is not given here, while that process lives."""
    code = "from kcm.processes.ports import *; from kcm.processes import ports; import sys\nports.FIRST_PORT, ports.LAST_PORT = 16990, 16991\n"
    hold = code + "print(free_port(), flush=True); sys.stdin.read()"
    ask = code + "print(free_port())"
    with subprocess.Popen(python(hold), stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        held = int(holder.stdout.readline())
        other = subprocess.run(python(ask), capture_output=True, check=True)
        assert {held, int(other.stdout)} == {16990, 16991}
        holder.kill()


def test_a_port_in_use_is_named() -> None:
    """The error names who wanted the port, and the port."""
    with socket.create_server((HOST, free_port())) as listener:
        port = listener.getsockname()[1]
        assert not is_free(port)
        with pytest.raises(ConflictError, match=f"kafka-1 cannot listen on {HOST}:{port}"):
            require_free("kafka-1", port)
