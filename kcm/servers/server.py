"""What all servers have in common: a process with a port and a folder, configured before each start.

A server object outlives the runs of its process, so that a demo can kill, pause and restart it
under the same name, port and data folder.
"""

import os
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path

from kcm.servers.class_archive import KAFKA_CLASSES, find_class_archive
from kcm.servers.ports import free_port, require_free
from kcm.servers.process import READY_DEADLINE_S, Process
from kcm.servers.supervisor import Supervisor
from pipeline.java import find_java

JVM_ENV = {"MALLOC_ARENA_MAX": "2"}  # glibc's arenas cost a small JVM tens of megabytes
HEAP_MIB = 256
"""Enough for a server of the demo or of the pipeline's own topics."""
JVM_OPTIONS = (
    "-XX:+UseSerialGC",  # no pool of collector threads
    "-XX:TieredStopAtLevel=1",  # these servers live for minutes: compile quickly, once
    "-Xshare:auto",
    "-XX:-UsePerfData",  # no file in the temporary folder that stays after a SIGKILL
    "-XX:+ExitOnOutOfMemoryError",  # a JVM without memory serves nothing
    "-Djava.awt.headless=true",
    "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
    "-Dorg.slf4j.simpleLogger.showDateTime=true",
    "-Dorg.slf4j.simpleLogger.dateTimeFormat=yyyy-MM-dd HH:mm:ss,SSS",
)
"""Fast to start, and light on two cores."""


class Server(Process, ABC):
    """One server: `start` it first; then it can be stopped, killed, paused, resumed and started again."""

    def __init__(
        self,
        supervisor: Supervisor,
        name: str,
        data_dir: Path,
        *,
        port: int | None,
        ready_deadline_s: float = READY_DEADLINE_S,
    ) -> None:
        """Describe a server that keeps its data in `data_dir`; None for `port` takes a free one.

        Nothing is written or started yet.
        """
        super().__init__(supervisor, name, env=JVM_ENV, ready_deadline_s=ready_deadline_s)
        self.data_dir = data_dir
        self.port = free_port() if port is None else port
        self.ports = [self.port]
        """The ports on which it listens."""
        self.heap_mib = HEAP_MIB
        """The heap of its JVM in MiB, from the next start on. A broker of 10,000 replicas needs 1,024."""
        self.jvm_options: Sequence[str] = ()
        """More options of its JVM, from the next start on."""

    @abstractmethod
    def prepare(self) -> list[str]:
        """Write its configuration and return its command line."""

    def start(self, *, wait: bool = True) -> None:
        """Start it and wait until it serves; with `wait=False` call `wait_ready` later.

        Raises ConflictError for a port in use, and whatever `wait_ready` raises.
        """
        if self.running:
            return
        for port in self.ports:
            require_free(self.name, port)
        self.data_dir.mkdir(parents=True, exist_ok=True)
        self.argv = self.prepare()
        super().start()
        if wait:
            self.wait_ready()


def jvm_command(
    main_class: str,
    config_path: Path,
    config: Mapping[str, object],
    *,
    classpath: Sequence[Path],
    heap_mib: int = HEAP_MIB,
    options: Sequence[str] = (),
) -> list[str]:
    """Write a server's properties file; return the command line of a JVM that reads it.

    It maps the class archive of these jars, where one was made. Raises EnvironmentProblemError without a Java that is new enough.
    """
    config_path.write_text("".join(f"{key}={value}\n" for key, value in config.items()))
    java = find_java(os.environ)
    archive = find_class_archive(KAFKA_CLASSES, classpath, java)
    return [
        os.fspath(java.path),
        f"-Xmx{heap_mib}m",
        f"-Xmn{heap_mib // 8}m",
        *JVM_OPTIONS,
        *(() if archive is None else (f"-XX:SharedArchiveFile={archive}", "-Xlog:cds*=off")),
        *options,
        "-cp",
        os.pathsep.join(os.fspath(jar) for jar in classpath),
        main_class,
        os.fspath(config_path),
    ]
