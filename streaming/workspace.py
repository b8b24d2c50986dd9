"""Manages the checkpoint folder: its lock, its scratch space, its logs.

The rule: one fold at a time. The lock is a flock that Spark's JVM inherits, so it is held until
both this process and its JVM are gone, also when this process was killed. A successor waits for a
JVM that still writes, and never writes at the same time.
"""

import errno
import fcntl
import os
import shutil
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Self

from pipeline.runtime import ConflictError, EnvironmentProblemError

LOCK_DEADLINE_S = 20.0
"""How long to wait for a predecessor's JVM: it ends some seconds after its parent was killed."""

LOCK_POLL_S = 0.1

ROOM_BYTES = 4 * 1024 * 1024
"""With less free space than this, the next batch or snapshot may not fit."""

_SOCKET_NAME_BYTES = 43
"""A file name one byte longer than those that Spark gives: `.UUID.sock`."""

_LOG4J = """\
status = error
rootLogger.level = warn
rootLogger.appenderRef.file.ref = file
logger.state.name = org.apache.spark.sql.execution.python.streaming
logger.state.level = error
appender.file.type = RollingFile
appender.file.name = file
appender.file.fileName = {path}
appender.file.filePattern = {path}.%i
appender.file.layout.type = PatternLayout
appender.file.layout.pattern = %d{{yyyy-MM-dd'T'HH:mm:ss.SSS}} %p %c{{1}}: %m%n%ex
appender.file.policies.type = Policies
appender.file.policies.size.type = SizeBasedTriggeringPolicy
appender.file.policies.size.size = 8MB
appender.file.strategy.type = DefaultRolloverStrategy
appender.file.strategy.max = 2
"""


class Workspace:
    """A checkpoint folder that this process holds, from `__enter__` to `__exit__`."""

    def __init__(
        self, root: Path, *, stop: threading.Event, lock_deadline_s: float = LOCK_DEADLINE_S
    ) -> None:
        self.root = root.resolve()
        self.scratch = self.root / "scratch"
        """Spark's temporary files and sockets, for our user alone; emptied at each start."""
        self.spark_log = self.root / "spark.log"
        """Where Spark's JVM writes its warnings."""
        self.spark_output = self.root / "spark.out"
        """Where the standard output and error of Spark's processes are written."""
        self.log4j_config = self.root / "log4j2.properties"
        """Log4j's configuration, which keeps Spark's log off the console."""
        self._stop = stop
        self._lock_deadline_s = lock_deadline_s
        self.lock_fd = -1
        """The lock's file descriptor, for the JVM to inherit; -1 while the folder is not held."""

    def __enter__(self) -> Self:
        with disk_problems(self.root), ExitStack() as failed:
            self.root.mkdir(parents=True, exist_ok=True)
            fd = os.open(self.root / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
            failed.callback(os.close, fd)
            self._lock(fd)
            shutil.rmtree(self.scratch, ignore_errors=True)
            self.scratch.mkdir(mode=0o700)  # Unix sockets in it ask for no password
            self.log4j_config.write_text(_LOG4J.format(path=self.spark_log))
            failed.pop_all()
        self.lock_fd = fd
        return self

    def __exit__(self, *_: object) -> None:
        shutil.rmtree(self.scratch, ignore_errors=True)
        os.close(self.lock_fd)
        self.lock_fd = -1

    def takes_unix_sockets(self) -> bool:
        """Return whether Spark can make a Unix socket in the scratch folder.

        Its path may be too long (the limit is 107 bytes on Linux, 103 on macOS), or its file system
        may not support sockets.
        """
        probe = self.scratch / ("x" * _SOCKET_NAME_BYTES)
        with socket.socket(socket.AF_UNIX) as listener:
            try:
                listener.bind(os.fspath(probe))
            except OSError:
                return False
        probe.unlink()
        return True

    def check_room(self) -> None:
        """Raise EnvironmentProblemError when the folder cannot be written or has too little space."""
        probe = self.root / "probe"
        try:
            with disk_problems(self.root):
                probe.write_bytes(bytes(ROOM_BYTES))
        finally:
            probe.unlink(missing_ok=True)

    def _lock(self, fd: int) -> None:
        deadline = time.monotonic() + self._lock_deadline_s
        while True:
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                if time.monotonic() >= deadline or self._stop.wait(LOCK_POLL_S):
                    raise ConflictError(
                        f"checkpoint folder {self.root} is in use by another fold (or by a "
                        "Spark JVM that it left); stop that one or choose another checkpoint_dir"
                    ) from None
            else:
                return


@contextmanager
def disk_problems(root: Path) -> Iterator[None]:
    """Raise EnvironmentProblemError, with one line for the user, in place of an OSError: the folder cannot be written."""
    try:
        yield
    except OSError as error:
        advice = {
            errno.ENOSPC: "free some space or choose another checkpoint_dir",
            errno.EDQUOT: "raise the quota or choose another checkpoint_dir",
        }.get(error.errno or 0, "correct it or choose another checkpoint_dir")
        raise EnvironmentProblemError(
            f"checkpoint folder {root}: {error.strerror or error}; {advice}"
        ) from None
