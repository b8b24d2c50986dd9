"""Read this machine's processes, and start small ones under guard, for tests of starting and ending."""

from __future__ import annotations

import sys
from pathlib import Path

from kcm.servers.guard import process_table
from kcm.servers.process import HealthCheck, Process
from kcm.servers.supervisor import Supervisor
from tests.support.waiting import wait_until

# A program with a family like Spark's: a child in its own process group and session, and an orphan
# whose parent has ended. Each writes its pid to a file in the given folder, and waits to be killed.
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

ALL_PIDS = ("session.pid", "orphan.pid", "program.pid")
"""The files of `FAMILY`."""


def command_lines() -> dict[int, bytes]:
    """Return the command line of each process by pid, its arguments separated by null bytes."""
    found = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            try:
                found[int(entry.name)] = (entry / "cmdline").read_bytes()
            except OSError:
                continue  # it has just ended
    return found


def pids_in(folder: Path, names: tuple[str, ...]) -> list[int]:
    """Wait until all these pid files exist, and read them."""
    wait_until(lambda: [n for n in names if not (folder / n).exists()], lambda missing: not missing)
    return [int((folder / name).read_text()) for name in names]


def living(pids: list[int]) -> list[int]:
    """Return the pids that are still processes, without zombies."""
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
