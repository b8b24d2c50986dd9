"""Run one program, and end it with all that it started when the program's owner is gone.

The owner (a `Supervisor`) starts this file as a script in its own session, with one end of a
socket. Nobody else holds the other end, so end-of-file on it means that the owner died, even by
SIGKILL; then everything below is killed. The guard adopts orphans (a "child subreaper" on Linux),
so that it also finds a Spark worker whose parents died and a process that left its process group.
If the guard itself is killed, Linux kills the program by the parent-death signal; this signal
follows the thread that forked, which is why the guard has only one thread.

Orders are single bytes on the socket: `T` terminate the program (SIGTERM), `K` kill everything, `S`
pause everything (SIGSTOP), `C` continue everything. The guard answers one line, the pid, then one
`S` for each pause once everything has stopped, and ends with the program's exit code, 128 + signal
if a signal ended it. It uses only the standard library and nothing of kcm: it must start fast and
run under `python -I -S`.
"""

import ctypes
import os
import select
import signal
import socket
import subprocess
import sys
import time
from contextlib import suppress

PR_SET_PDEATHSIG = 1  # from <linux/prctl.h>
PR_SET_CHILD_SUBREAPER = 36  # from <linux/prctl.h>
ORPHAN_GRACE_S = 3.0  # time for a JVM whose program ended to clean up after itself
KILL_DEADLINE_S = 20.0  # a process in an uninterruptible read may take its time to die
ORPHAN_POLL_S = 0.05  # how often to check whether orphans have gone
PAUSE_DEADLINE_S = 10.0  # a thread in an uninterruptible read stops after it
PAUSE_POLL_S = 0.001  # how often to check whether everything has stopped: mostly it takes less
LOG_CHECK_S = 5.0  # how often to check the size of the log
LOG_LIMIT_BYTES = 16 << 20  # a log beyond this moves to `<log>.1`, so that disks do not fill
EXEC_FAILED = 127  # a shell's exit code for a program that cannot be run
ON_LINUX = sys.platform == "linux"


def _prctl(option: int, value: int) -> None:
    """Set one attribute of this process; does nothing where there is no prctl."""
    if ON_LINUX:
        ctypes.CDLL(None, use_errno=True).prctl(option, value, 0, 0, 0)


def spawn(command: list[str]) -> int:
    """Start the program in a process group of its own and return its pid."""
    guard_pid = os.getpid()
    pid = os.fork()
    if pid:
        return pid
    try:
        os.setpgid(0, 0)  # a program that signals its group must not hit the guard
        _prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() == guard_pid:  # else the guard died before the death signal was set
            for number in (signal.SIGPIPE, signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
                signal.signal(number, signal.SIG_DFL)
            os.execvp(command[0], command)  # noqa: S606 - running the given program is the purpose
    except OSError as error:
        os.write(2, f"cannot run {command[0]}: {error.strerror}\n".encode())
    os._exit(EXEC_FAILED)


def process_table() -> list[tuple[int, int, int, str]]:
    """Return (pid, parent's pid, process group, state) of every process."""
    if ON_LINUX:
        with os.scandir("/proc") as entries:
            names = [entry.name for entry in entries if entry.name.isdigit()]
        return [row for name in names if (row := _stat(name))]
    listing = subprocess.run(
        ["/bin/ps", "-A", "-o", "pid=,ppid=,pgid=,stat="], capture_output=True, check=False
    )
    rows = [line.split() for line in listing.stdout.decode().splitlines()]
    return [(int(r[0]), int(r[1]), int(r[2]), r[3][0]) for r in rows if len(r) > 3]  # noqa: PLR2004 - columns


def _stat(pid: str) -> tuple[int, int, int, str] | None:
    """Read one row of the process table, of a process or PID/task/THREAD; None when it has just ended."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as stat:  # noqa: PTH123 - pathlib doubles the start time
            number, _, rest = stat.read().partition(b" (")
    except OSError:
        return None
    fields = rest.rpartition(b")")[2].split()  # the name before may hold spaces and parentheses
    return int(number), int(fields[1]), int(fields[2]), fields[0].decode()


def has_stopped(pid: int) -> bool:
    """Return whether a process no longer runs: each of its threads has stopped, or has ended."""
    if not ON_LINUX:
        return all(state in "TZ" for other, _, _, state in process_table() if other == pid)
    try:
        threads = os.listdir(f"/proc/{pid}/task")  # noqa: PTH208 - as above
    except OSError:
        return True
    rows = [_stat(f"{pid}/task/{thread}") for thread in threads]
    return all(row is None or row[3] in "TtZX" for row in rows)


def family(program: int) -> list[int]:
    """Return the pids of all living processes below this one, including the program's group."""
    table = process_table()
    children: dict[int, list[int]] = {}
    for pid, parent, _, _ in table:
        children.setdefault(parent, []).append(pid)
    below: set[int] = set()
    queue = [os.getpid()]
    while queue:
        fresh = [pid for pid in children.get(queue.pop(), ()) if pid not in below]
        below.update(fresh)
        queue.extend(fresh)
    grouped = {pid for pid, _, group, _ in table if group == program}
    dead = {pid for pid, _, _, state in table if state == "Z"}
    return sorted((below | grouped) - dead - {os.getpid()})


def signal_all(pids: list[int], number: int) -> None:
    """Send a signal to each; one that has ended meanwhile is ignored."""
    for pid in pids:
        with suppress(ProcessLookupError, PermissionError):
            os.kill(pid, number)


class Guard:
    """One program under guard: `run` returns its exit code when no process of it is left."""

    def __init__(self, control: socket.socket, log_path: str, command: list[str]) -> None:
        """Start the program and send its pid; its output goes to this process's, which is the log."""
        self._control = control
        self._log_path = log_path
        self._code: int | None = None
        self._wakeup, self._writer = socket.socketpair()
        self._writer.setblocking(False)
        signal.set_wakeup_fd(self._writer.fileno(), warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)  # only to wake up the loop
        self._program = spawn(command)
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, lambda *_: self._order(b"T"))
        with suppress(OSError):  # the owner may have ended already; the loop sees it at once
            control.sendall(b"%d\n" % self._program)

    def run(self) -> int:
        """Serve orders until the program has ended and nothing that it started is left."""
        while self._code is None:
            self._poll(LOG_CHECK_S)
            self._bound_log()
        signal_all(family(self._program), signal.SIGTERM)  # the rest may end cleanly
        deadline = time.monotonic() + ORPHAN_GRACE_S
        while family(self._program) and time.monotonic() < deadline:
            self._poll(ORPHAN_POLL_S)
        self._kill_everything()
        return self._code

    def _poll(self, timeout_s: float) -> None:
        readable, _, _ = select.select([self._control, self._wakeup], [], [], timeout_s)
        if self._wakeup in readable:
            self._wakeup.recv(4096)
        if self._control in readable:
            try:
                orders = self._control.recv(64)
            except OSError:
                orders = b""
            for order in orders or b"K":  # end-of-file: the owner has ended
                self._order(bytes([order]))
        self._reap()

    def _order(self, order: bytes) -> None:
        if order == b"K":
            self._kill_everything()
        elif order == b"T" and self._code is None:
            signal_all([self._program], signal.SIGTERM)
        elif order == b"S":
            self._pause_everything()
        elif order == b"C":
            signal_all(family(self._program), signal.SIGCONT)

    def _pause_everything(self) -> None:
        """Pause everything, and answer when the same processes had all stopped twice in a row.

        So a process that is forked meanwhile is found. There is no answer after the deadline.
        """
        deadline = time.monotonic() + PAUSE_DEADLINE_S
        known: list[int] = []
        while time.monotonic() < deadline:
            pids = family(self._program)
            moving = [pid for pid in pids if not has_stopped(pid)]
            if not moving and pids == known:
                with suppress(OSError):  # the owner may have ended
                    self._control.sendall(b"S")
                return
            known = pids
            signal_all(moving, signal.SIGSTOP)
            time.sleep(PAUSE_POLL_S if moving else 0)

    def _kill_everything(self) -> None:
        """Kill until the family is empty: a process that is forked meanwhile is killed in the next round."""
        deadline = time.monotonic() + KILL_DEADLINE_S
        while (pids := family(self._program)) and time.monotonic() < deadline:
            signal_all(pids, signal.SIGKILL)
            time.sleep(0.005)
            self._reap()
        self._reap()

    def _reap(self) -> None:
        with suppress(ChildProcessError):
            while True:
                pid, status = os.waitpid(-1, os.WNOHANG)
                if pid == 0:
                    return
                if pid == self._program:
                    code = os.waitstatus_to_exitcode(status)
                    self._code = code if code >= 0 else 128 - code

    def _bound_log(self) -> None:
        """Move aside a log that has grown too long; all writers append, so writing continues at 0."""
        with suppress(OSError):
            if os.fstat(1).st_size > LOG_LIMIT_BYTES:
                with open(self._log_path, "rb") as old, open(f"{self._log_path}.1", "wb") as aside:  # noqa: PTH123 - see _stat
                    while chunk := old.read(1 << 20):
                        aside.write(chunk)
                os.ftruncate(1, 0)


def main(arguments: list[str]) -> int:
    """Guard the program given as `<control fd> <log path> <program> <argument>...`."""
    control = socket.socket(fileno=int(arguments[0]))
    control.set_inheritable(False)
    _prctl(PR_SET_CHILD_SUBREAPER, 1)
    return Guard(control, arguments[1], arguments[2:]).run()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
