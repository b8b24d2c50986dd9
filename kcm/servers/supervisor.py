"""Own child processes so that none survives: not an error, not Ctrl-C, not a SIGKILL of their owner.

A supervisor is a context manager. On exit its processes end in the reverse order of their start;
when this process dies without that, their guards end them (see `guard`). Everything that the
processes write is in one folder, with one log per process.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

from pipeline.runtime import EnvironmentProblemError

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from kcm.servers.process import Process


class Supervisor:
    """The owner of child processes; their logs are `<folder>/logs/<name>.log`."""

    def __init__(self, folder: Path, *, kill_on_exit: bool = False) -> None:
        """Own no process yet.

        `kill_on_exit` saves the time of a clean stop where the data is thrown away anyway.
        """
        self.folder = folder
        self._kill_on_exit = kill_on_exit
        self._processes: dict[str, Process] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        """End every process, the last started first, whatever happened."""
        for process in reversed(self._processes.values()):
            if self._kill_on_exit:
                process.kill()
            else:
                process.stop()

    def log_path(self, name: str) -> Path:
        """Return the path of a process's log, also before it runs."""
        return self.folder / "logs" / f"{name}.log"

    def own(self, process: Process) -> None:
        """Register a process that is about to start; the name of one that has ended is free again.

        Raises EnvironmentProblemError while another process of that name runs.
        """
        older = self._processes.get(process.name)
        if older is not None and older.running:
            raise EnvironmentProblemError(f"{process.name} already runs")
        if older is not None:
            older.stop()  # it has ended; this releases its resources
            del self._processes[process.name]
        self._processes[process.name] = process

    def check(self) -> None:
        """Raise EnvironmentProblemError for the first process that ended without being stopped."""
        for process in self._processes.values():
            if process.expected_running:
                process.check()

    def stop(self, processes: Iterable[Process]) -> None:
        """Ask several to stop at once, then wait for each."""
        chosen = list(processes)
        for process in chosen:
            process.request_stop()
        for process in chosen:
            process.stop()
