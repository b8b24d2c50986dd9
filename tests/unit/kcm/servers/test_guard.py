"""A program under guard: what it started ends with it, and it ends with its owner."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from kcm.servers.guard import family, has_stopped, process_table, signal_all
from kcm.servers.supervisor import Supervisor
from pipeline.runtime import EnvironmentProblemError
from tests.support.processes import ALL_PIDS, FAMILY, living, pids_in, python, started
from tests.support.waiting import wait_until

OWNER = """
import pathlib, sys, time
from kcm.servers.process import Process
from kcm.servers.supervisor import Supervisor
folder, program = pathlib.Path(sys.argv[1]), sys.argv[2]
with Supervisor(folder) as supervisor:
    process = Process(supervisor, "family", [sys.executable, "-c", program, folder])
    process.start()
    (folder / "guard.tmp").write_text(str(process._guard.pid))
    (folder / "guard.tmp").rename(folder / "guard.pid")
    time.sleep(600)
"""


def test_nothing_survives_when_the_owner_is_killed(tmp_path: Path) -> None:
    """SIGKILL of the owner ends the program, its children in other sessions, and orphans."""
    with subprocess.Popen([*python(OWNER), str(tmp_path), FAMILY]) as process:
        pids = pids_in(tmp_path, (*ALL_PIDS, "guard.pid"))
        assert living(pids) == pids
        process.kill()
    wait_until(lambda: living(pids), lambda left: not left)


@pytest.mark.skipif(sys.platform != "linux", reason="the parent-death signal is Linux's")
def test_a_killed_guard_takes_its_program_with_it(tmp_path: Path) -> None:
    """SIGKILL of the guard ends the program, and the owner sees how it ended."""
    with Supervisor(tmp_path) as supervisor:
        process = started(supervisor, "sleeper", python("import time; time.sleep(600)"))
        assert process.pid is not None
        pid = process.pid
        assert process._guard is not None
        os.kill(process._guard.pid, signal.SIGKILL)
        wait_until(lambda: living([pid]), lambda left: not left)
        wait_until(lambda: process.exit_code, lambda code: code == 137)
        with pytest.raises(EnvironmentProblemError, match="sleeper ended with exit code 137"):
            supervisor.check()


def test_kill_ends_the_whole_family(owner: Supervisor, tmp_path: Path) -> None:
    """When `kill` returns, the program and everything that it started have ended."""
    process = started(owner, "family", [*python(FAMILY), tmp_path])
    pids = pids_in(tmp_path, ALL_PIDS)
    process.kill()
    assert living(pids) == []
    assert process.exit_code == 137
    owner.check()  # it was killed on purpose


def test_a_crash_of_the_program_ends_its_family(owner: Supervisor, tmp_path: Path) -> None:
    """What a killed program leaves behind is ended before the program counts as ended."""
    process = started(owner, "family", [*python(FAMILY), tmp_path])
    pids = pids_in(tmp_path, ALL_PIDS)
    assert process.pid == pids[2]
    os.kill(process.pid, signal.SIGKILL)
    assert wait_until(lambda: process.exit_code, lambda code: code is not None) == 137
    assert living(pids) == []


def test_a_paused_process_does_nothing_until_resumed(owner: Supervisor, tmp_path: Path) -> None:
    """A paused process still exists; it can be resumed, and also stopped while paused."""
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


def test_a_long_log_moves_aside(owner: Supervisor) -> None:
    """Endless logging does not fill the disk, and the tail of the log stays readable."""
    code = "import time\nfor n in range(20): print('x' * (1 << 20), flush=True)\ntime.sleep(0.5); print('end')"
    process = started(owner, "talker", python(code))
    wait_until(lambda: process.running, lambda running: not running)
    aside = process.log_path.with_name("talker.log.1")
    assert aside.stat().st_size > 16 << 20
    assert process.log_path.stat().st_size < 16 << 20


def test_what_a_program_leaves_behind_may_end_in_its_own_way(
    owner: Supervisor, tmp_path: Path
) -> None:
    """It gets SIGTERM and time to end: a JVM cleans up after itself."""
    left = (
        "import pathlib,signal,sys,time\n"
        "def end(*_):\n"
        "    pathlib.Path(sys.argv[1], 'cleaned').touch()\n"
        "    sys.exit()\n"
        "signal.signal(signal.SIGTERM, end)\n"
        "pathlib.Path(sys.argv[1], 'ready').touch()\n"
        "time.sleep(600)\n"
    )
    code = (
        "import pathlib,subprocess,sys,time\n"
        f"subprocess.Popen([sys.executable, '-c', {left!r}, sys.argv[1]])\n"
        "while not pathlib.Path(sys.argv[1], 'ready').exists(): time.sleep(0.01)\n"
        "sys.exit(7)\n"
    )
    process = started(owner, "short", [*python(code), tmp_path])
    assert wait_until(lambda: process.exit_code, lambda code: code is not None) == 7
    assert (tmp_path / "cleaned").exists()


@pytest.mark.skipif(sys.platform != "linux", reason="only there a process names itself")
def test_a_process_is_in_the_table_with_its_parent_and_group() -> None:
    """The name does not matter: it may hold blanks and parentheses."""
    name = "a) Z 1 (b"
    rename = f"import sys; open('/proc/self/comm', 'w').write({name!r}); print('.', flush=True); sys.stdin.read()"
    with subprocess.Popen(
        python(rename), stdin=subprocess.PIPE, stdout=subprocess.PIPE, process_group=0
    ) as process:
        assert process.stdout is not None
        process.stdout.readline()
        rows = {pid: (parent, group, state) for pid, parent, group, state in process_table()}
        parent, group, state = rows[process.pid]
        assert (parent, group) == (os.getpid(), process.pid)
        assert state in "SR"
        assert not has_stopped(process.pid)
        os.kill(process.pid, signal.SIGSTOP)
        wait_until(lambda: has_stopped(process.pid))
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
        assert has_stopped(process.pid)


def test_a_family_is_all_that_is_below_and_the_group(tmp_path: Path) -> None:
    """It includes grandchildren, each once, and no process that has ended."""
    below = "import subprocess,sys; subprocess.run([sys.executable, '-c', 'import sys; print(1, flush=True); sys.stdin.read()'])"
    with subprocess.Popen(
        python(below), stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=tmp_path
    ) as process:
        assert process.stdout is not None
        process.stdout.readline()
        parents = {pid: parent for pid, parent, _, _ in process_table()}
        (grandchild,) = [pid for pid, parent in parents.items() if parent == process.pid]
        found = family(process.pid)
        assert {process.pid, grandchild} <= set(found)
        assert os.getpid() not in found
        assert found == sorted(set(found))
        signal_all([process.pid, grandchild], signal.SIGKILL)
        process.wait()
    assert not {process.pid, grandchild} & set(family(process.pid))
    signal_all([process.pid], signal.SIGKILL)
