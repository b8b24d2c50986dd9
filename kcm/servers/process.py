"""One child process under guard: start, health, stop, kill, pause.

A process is reached only through its guard (see `guard`), which owns its whole family: `kill` of a
Spark driver ends its JVM and Python workers too, and so does the death of this process. Health is a
callable that returns None when all is well and else what it saw, so that a wait that times out can
report what was seen last. An error's first line names what failed and where; the end of the log
follows it.
"""

import os
import socket
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from kcm.servers.supervisor import Supervisor
from pipeline.runtime import ENV_PREFIX, EnvironmentProblemError, UnreachableError

HealthCheck = Callable[[], str | None]

GUARD_PATH = Path(__file__).with_name("guard.py")
GUARD_START_DEADLINE_S = 30.0  # a Python start takes 0.05 s, on a machine that swaps much longer
READY_DEADLINE_S = 30.0  # the default
HEALTH_POLL_S = 0.05  # how often a health check is repeated while a process starts
STOP_DEADLINE_S = 15.0  # a broker's controlled shutdown takes 1-5 s
KILL_DEADLINE_S = 30.0  # the guard's own deadline, with a margin
PAUSE_DEADLINE_S = 20.0  # the guard's own deadline, with a margin
JAVA_FRAMES = ("\tat ", "\t... ")
LOG_TAIL_LINES = 25  # enough for the exceptions of a Java program with what led to them
SIGNAL_BASE = 128  # a shell reports a signal as this and its number


def without_settings() -> dict[str, str]:
    """Return variables that hide kcm's settings from a child process: an empty one counts as not given."""
    return {name: "" for name in os.environ if name.upper().startswith(ENV_PREFIX)}


class Process:
    """A named child process of a supervisor; it can be started again under the same name and log."""

    def __init__(
        self,
        supervisor: Supervisor,
        name: str,
        argv: Sequence[str | Path] = (),
        *,
        env: Mapping[str, str] | None = None,
        health: HealthCheck | None = None,
        ready_deadline_s: float = READY_DEADLINE_S,
        stop_deadline_s: float = STOP_DEADLINE_S,
    ) -> None:
        """Describe the process; `env` is added to this process's, None for `health` means running is enough."""
        self.name = name
        self.argv = argv
        self.log_path = supervisor.log_path(name)
        self.env = dict(env or {})
        self.ready_deadline_s = ready_deadline_s
        self.stop_deadline_s = stop_deadline_s
        self.expected_running = False
        self._supervisor = supervisor
        self._health = health
        self._guard: subprocess.Popen[bytes] | None = None
        self._control: socket.socket | None = None
        self._pid: int | None = None
        self._log_start = 0

    @property
    def pid(self) -> int | None:
        """The program's pid (not the guard's); None when it does not run."""
        return self._pid if self.running else None

    @property
    def running(self) -> bool:
        """Whether the program, or something that it started, still runs."""
        return self._guard is not None and self._guard.poll() is None

    @property
    def exit_code(self) -> int | None:
        """The exit code of the last run, 128 + signal if by a signal; None while running or never run."""
        if self._guard is None or (code := self._guard.poll()) is None:
            return None
        return code if code >= 0 else SIGNAL_BASE - code

    def start(self) -> None:
        """Start it, without waiting for health; does nothing when it runs already."""
        if self.running:
            return
        self._supervisor.own(self)
        self._close_control()
        ours, theirs = socket.socketpair()
        self.log_path.parent.mkdir(parents=True, exist_ok=True)
        with theirs, self.log_path.open("ab") as log:
            self._log_start = log.tell()
            self._guard = subprocess.Popen(
                [
                    *(sys.executable, "-I", "-S", GUARD_PATH),
                    *(str(theirs.fileno()), self.log_path, *self.argv),
                ],
                pass_fds=(theirs.fileno(),),
                start_new_session=True,  # Ctrl-C reaches only the owner, which stops all in order
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env={**os.environ, **self.env},
            )
        self._control = ours
        self._pid = self._read_pid(ours)
        self.expected_running = True

    def seen(self) -> str | None:
        """Run the health check; return None when all is well, else what was seen."""
        return self._health() if self._health else None

    def wait_ready(self) -> None:
        """Wait until the health check succeeds.

        Raises EnvironmentProblemError when the process ends instead, UnreachableError at the deadline.
        """
        deadline = time.monotonic() + self.ready_deadline_s
        while True:
            self.check()
            seen = self.seen()
            if seen is None:
                return
            if time.monotonic() >= deadline:
                self.check()
                raise self.not_ready(self.name, self.ready_deadline_s, seen)
            time.sleep(HEALTH_POLL_S)

    def check(self) -> None:
        """Raise EnvironmentProblemError when the process has ended."""
        if self.running:
            return
        code = self.exit_code
        if code is None:
            raise EnvironmentProblemError(f"{self.name} was never started")
        signal = f" (signal {code - SIGNAL_BASE})" if code > SIGNAL_BASE else ""
        raise EnvironmentProblemError(
            self._with_log(f"{self.name} ended with exit code {code}{signal}")
        )

    def not_ready(self, what: str, deadline_s: float, seen: str) -> UnreachableError:
        """Return the error that names what did not become ready in time, and what was seen last."""
        return UnreachableError(
            self._with_log(f"{what} was not ready within {deadline_s:g} s; last seen: {seen}")
        )

    def stop(self) -> int | None:
        """Stop it cleanly (SIGTERM), kill what is left at the deadline; return its exit code."""
        self.request_stop()
        if self._guard is not None:
            try:
                self._guard.wait(self.stop_deadline_s)
            except subprocess.TimeoutExpired:
                self.kill()
        self._close_control()
        return self.exit_code

    def request_stop(self) -> None:
        """Send SIGTERM, also to a paused process, and do not wait."""
        self.expected_running = False
        self._send(b"CT")

    def kill(self) -> None:
        """Kill it and everything that it started (SIGKILL), and wait until all have ended."""
        self.expected_running = False
        self._send(b"K")
        if self._guard is not None:
            try:
                self._guard.wait(KILL_DEADLINE_S)
            except subprocess.TimeoutExpired:
                self._guard.kill()
                self._guard.wait()
        self._close_control()

    def request_kill(self) -> None:
        """Kill it and everything that it started, also when paused, and do not wait."""
        self._send(b"K")

    def pause(self) -> None:
        """Pause it and everything that it started (SIGSTOP): they live, but do nothing, when this returns.

        Raises EnvironmentProblemError when something did not stop; does nothing when it does not run.
        """
        self._send(b"S")
        if self._control is None or not self.running:
            return
        self._control.settimeout(PAUSE_DEADLINE_S)
        try:
            self._control.recv(1)  # empty when it has ended meanwhile
        except TimeoutError:
            raise EnvironmentProblemError(
                f"{self.name} did not stop within {PAUSE_DEADLINE_S:g} s of being paused"
            ) from None
        except ConnectionResetError:
            return

    def resume(self) -> None:
        """Resume a paused process (SIGCONT)."""
        self._send(b"C")

    def log_tail(self) -> str:
        """Return the last lines that this run logged, without the frames of Java's stacks; empty when it logged nothing."""
        try:
            with self.log_path.open("rb") as log:
                size = log.seek(0, os.SEEK_END)
                # after the log was moved aside it is shorter than where this run began
                log.seek(max(self._log_start if size >= self._log_start else 0, size - 64 * 1024))
                text = log.read().decode(errors="replace")
        except FileNotFoundError:
            return ""
        # The frames of one stack would leave no room for what came before it: the cause.
        lines = [line for line in text.splitlines() if not line.startswith(JAVA_FRAMES)]
        return "\n".join(lines[-LOG_TAIL_LINES:])

    def _with_log(self, what: str) -> str:
        tail = self.log_tail()
        if not tail:
            return f"{what}; its log is empty: {self.log_path}"
        return f"{what}; the end of {self.log_path}:\n{textwrap.indent(tail, '    ')}"

    def _read_pid(self, control: socket.socket) -> int:
        control.settimeout(GUARD_START_DEADLINE_S)
        with control.makefile("rb") as answers:
            pid = answers.readline()
        if not pid:
            raise EnvironmentProblemError(
                f"the guard of {self.name} did not start; see {self.log_path}"
            )
        return int(pid)

    def _send(self, orders: bytes) -> None:
        if self._control is not None and self.running:
            try:
                self._control.sendall(orders)
            except OSError:
                return  # the guard has just ended, and with it all that could be signalled

    def _close_control(self) -> None:
        if self._control is not None:
            self._control.close()
            self._control = None
