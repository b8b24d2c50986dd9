"""What all servers have in common: one process each, under a supervisor, on fixed ports.

A server object outlives its process, so that a story can kill, pause and restart it under the same
name, ports and data folder.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

from kcm.processes.errors import StackError
from kcm.processes.ports import require_free

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from kcm.processes.process import Process
    from kcm.processes.supervisor import Supervisor

JVM_ENV = {"MALLOC_ARENA_MAX": "2"}  # glibc's arenas cost a small JVM tens of megabytes
LOG_PROPERTIES = {
    "org.slf4j.simpleLogger.defaultLogLevel": "warn",
    "org.slf4j.simpleLogger.showDateTime": "true",
    "org.slf4j.simpleLogger.dateTimeFormat": "yyyy-MM-dd HH:mm:ss,SSS",
}


class Server(ABC):
    """One server: `start` it first, then stop, kill, pause, resume and start it again at will."""

    def __init__(
        self, name: str, supervisor: Supervisor, data_dir: Path, *, ready_deadline_s: float
    ) -> None:
        """Describe a server that keeps its data in `data_dir`; nothing is written or started yet."""
        self.name = name
        self.data_dir = data_dir
        self.ready_deadline_s = ready_deadline_s
        self._supervisor = supervisor
        self._process: Process | None = None

    @abstractmethod
    def ports(self) -> list[int]:
        """Return the ports that it listens on."""

    @abstractmethod
    def prepare(self) -> list[str]:
        """Write its configuration and return its command line."""

    @abstractmethod
    def seen(self) -> str | None:
        """Ask it how it is; None when it is ready to serve, else what was seen."""

    def env(self) -> Mapping[str, str]:
        """Return what its process has in its environment beyond ours."""
        return JVM_ENV

    @property
    def process(self) -> Process:
        """Its process; a StackError when it was never started."""
        if self._process is None:
            message = f"{self.name} was never started"
            raise StackError(message)
        return self._process

    @property
    def running(self) -> bool:
        """Whether its process is there, ready or not."""
        return self._process is not None and self._process.running

    def start(self, *, wait: bool = True) -> None:
        """Start it and wait until it serves; with `wait=False` call `wait_ready` later.

        Raises PortInUseError, ProcessFailedError or NotReadyError.
        """
        if self.running:
            return
        for port in self.ports():
            require_free(self.name, port)
        self.data_dir.mkdir(parents=True, exist_ok=True)
        self._process = self._supervisor.start(
            self.name,
            self.prepare(),
            env=self.env(),
            health=self.seen,
            ready_deadline_s=self.ready_deadline_s,
            wait=wait,
        )

    def wait_ready(self, deadline_s: float | None = None) -> None:
        """Wait until it serves; None takes its own deadline."""
        self.process.wait_ready(deadline_s)

    def stop(self, deadline_s: float | None = None) -> None:
        """Stop it cleanly (a broker: by a controlled shutdown); kill it at the deadline."""
        self.process.stop(deadline_s)

    def kill(self) -> None:
        """Kill it (SIGKILL), as a crash or a power cut would."""
        self.process.kill()

    def pause(self) -> None:
        """Freeze it (SIGSTOP), as a long garbage collection or a sick machine would."""
        self.process.pause()

    def resume(self) -> None:
        """Let it go on after a pause."""
        self.process.resume()
