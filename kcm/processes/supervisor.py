"""Own child processes, so that none of them survives: not an error, Ctrl-C, or our own SIGKILL.

A supervisor is a context manager. Its processes end in the reverse order of their start when it is
left, and by their guards when this process dies without leaving it (see `guard`). Everything that
the processes write lies in one folder, one log per process.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

from kcm.processes.errors import StackError
from kcm.processes.process import STOP_DEADLINE_S, HealthCheck, Process

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path


class Supervisor:
    """The owner of child processes whose logs lie in `<folder>/logs/<name>.log`."""

    def __init__(self, folder: Path, *, kill_on_exit: bool = False) -> None:
        """Own nothing yet.

        `kill_on_exit` spares the time of a clean stop where the data is thrown away anyway.
        """
        self.folder = folder
        self._kill_on_exit = kill_on_exit
        self._processes: dict[str, Process] = {}

    def __enter__(self) -> Self:
        """Return the supervisor itself; processes start by `start` only."""
        return self

    def __exit__(self, *_error: object) -> None:
        """End all processes, whatever happened."""
        self.close()

    @property
    def processes(self) -> list[Process]:
        """All processes in the order of their start, ended ones included."""
        return list(self._processes.values())

    def start(
        self,
        name: str,
        argv: Sequence[str | Path],
        *,
        env: Mapping[str, str] | None = None,
        health: HealthCheck | None = None,
        ready_deadline_s: float = 30.0,
        stop_deadline_s: float = STOP_DEADLINE_S,
        wait: bool = True,
    ) -> Process:
        """Start a process and wait until it is healthy; with `wait=False` call `wait_ready` later.

        `env` is added to our environment. `health` returns None when the process is ready and else
        what it saw; None for `health` means that running is enough. A name of a process that has
        ended can be used again.
        """
        if name in self._processes and self._processes[name].running:
            message = f"{name} already runs"
            raise StackError(message)
        process = Process(
            name,
            argv,
            log_path=self.folder / "logs" / f"{name}.log",
            env=env,
            health=health,
            ready_deadline_s=ready_deadline_s,
            stop_deadline_s=stop_deadline_s,
        )
        if (ended := self._processes.pop(name, None)) is not None:
            ended.stop()  # it has ended; this lets go of what it held
        self._processes[name] = process
        process.start()
        if wait:
            process.wait_ready()
        return process

    def failed(self) -> list[Process]:
        """Return the processes that ended without having been stopped."""
        return [p for p in self._processes.values() if p.expected_running and not p.running]

    def check(self) -> None:
        """Raise ProcessFailedError for the first process that ended without having been stopped."""
        for process in self.failed():
            process.check()

    def stop(self, processes: Iterable[Process]) -> None:
        """Ask several to stop at once, then wait for each."""
        chosen = list(processes)
        for process in chosen:
            process.request_stop()
        for process in chosen:
            process.stop()

    def close(self) -> None:
        """End every process, the last started first."""
        for process in reversed(self.processes):
            if self._kill_on_exit:
                process.kill()
            else:
                process.stop()
