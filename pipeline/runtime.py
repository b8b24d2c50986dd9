"""Provides what every running part needs: exit codes, one-line errors, stop signals, logs.

What a user must see is a `KcmError`. It has one line that names what, where and what to
do, and an exit code from which a script learns the kind of problem. Every command loads this
module, so what only a running part needs (logs) is loaded when it is used.
"""

from __future__ import annotations

import logging
import os
import signal
import sys
import threading
from collections.abc import Callable, Mapping, MutableMapping
from types import FrameType
from typing import TYPE_CHECKING, Any, Literal, NoReturn, TextIO, cast

from pipeline.queued_file import QueuedFile
from pipeline.stop_signal import StopSignal

if TYPE_CHECKING:
    from structlog.typing import FilteringBoundLogger

LogFormat = Literal["auto", "console", "json"]

ENV_PREFIX = "KCM_"
"""Of the environment variables that hold settings."""

EXPORTER_PORT = 9640
"""The exporter's default port; the watcher's and the fold's metrics are on 9641 and 9642."""

API_HEADER = "Kcm-Api"
"""A header of each answer of the exporter's API, with API_VERSION as value: it shows a command that an exporter answers."""

LOST_OUTPUT = 120
"""Python's own exit code when what was printed cannot be written."""

LAST_LINES_S = 1.0
"""How long the end of a process waits for its last log lines to be written: to a pipe that nobody reads they never are."""

API_VERSION = "v1"
"""The version of the API, which is also part of each path."""


class KcmError(Exception):
    """A problem that is reported to the user in one line; its kind has its own exit code."""

    exit_code: int = 1


class UsageError(KcmError):
    """An option, an environment variable or a line of the configuration file is invalid."""

    exit_code = 2


class UnreachableError(KcmError):
    """A server that the command needs (ZooKeeper, Kafka or an exporter) does not answer."""

    exit_code = 3


class ConflictError(KcmError):
    """Another process uses a resource that the command needs: a port, a checkpoint, a cluster's log."""

    exit_code = 4


class EnvironmentProblemError(KcmError):
    """A requirement of the machine is missing: Java, jars, disk space or a permission."""

    exit_code = 5


class Backoff:
    """Waiting times that double up to a limit; call `reset` after a success.

    >>> pause = Backoff(first_s=1, most_s=3)
    >>> pause.next_s(), pause.next_s(), pause.next_s()
    (1, 2, 3)
    """

    def __init__(self, *, first_s: float = 0.25, most_s: float = 15.0) -> None:
        self._first_s = first_s
        self._most_s = most_s
        self._next_s = first_s

    def next_s(self) -> float:
        """Return how long to wait now, and double the next wait."""
        now_s = self._next_s
        self._next_s = min(self._most_s, now_s * 2)
        return now_s

    def reset(self) -> None:
        """Start with the shortest wait again."""
        self._next_s = self._first_s


def install_stop_signal() -> StopSignal:
    """Return a stop signal that SIGINT and SIGTERM set; a second signal ends the process at once."""
    stop = StopSignal()

    def on_signal(number: int, _frame: FrameType | None) -> None:
        if stop.is_set():
            sys.exit(128 + number)
        stop.set()

    signal.signal(signal.SIGINT, on_signal)
    signal.signal(signal.SIGTERM, on_signal)
    return stop


def run_program(main: Callable[[], int]) -> NoReturn:
    """Run a program's main function, and end the process with the exit code that it returns.

    If a thread is still in a request then, Python is not finalized. librdkafka answers on a thread
    of its own, and an answer that finds Python gone ends the process by SIGSEGV.
    """
    try:
        code = main()
    except SystemExit as ended:
        if not isinstance(ended.code, int):
            raise
        code = ended.code
    except Exception:  # noqa: BLE001  # as Python does it, but the process still has to end in order
        sys.excepthook(*sys.exc_info())
        code = KcmError.exit_code
    if not finish_log() or any(thread.daemon for thread in threading.enumerate()):
        if not sys.stdout.closed:
            try:
                sys.stdout.flush()
            except OSError:
                code = LOST_OUTPUT
        os._exit(code)
    sys.exit(code)


def end_at_once(code: int) -> NoReturn:
    """End the process from any thread, whatever the others do; write its last log lines if that is possible."""
    finish_log()
    os._exit(code)


def configure_logging(level: str, log_format: LogFormat) -> None:
    """Write kcm's logs to standard error: for people on a terminal, as JSON lines elsewhere.

    From now on nothing that is written to `sys.stderr` waits for who reads it: neither logs nor a
    traceback nor the warning of a library.
    """
    import structlog  # noqa: PLC0415  # see above

    as_json = log_format == "json" or (log_format == "auto" and not sys.stderr.isatty())
    processors: list[Any] = [
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        structlog.processors.StackInfoRenderer(),
        structlog.processors.format_exc_info,
        *(() if as_json else (_escape,)),  # JSON escapes by itself
        structlog.processors.JSONRenderer() if as_json else structlog.dev.ConsoleRenderer(),
    ]

    def lost(lines: int) -> str:
        entry: Any = {"event": "lines of this log were lost: nobody took them", "lines": lines}
        for process in processors:
            entry = process(None, "warning", entry)
        return f"{entry}\n"

    if isinstance(sys.stderr, QueuedFile):
        finish_log()
    sys.stderr = QueuedFile(sys.stderr, lost)
    structlog.configure(
        processors=processors,
        wrapper_class=structlog.make_filtering_bound_logger(
            logging.getLevelNamesMapping()[level.upper()]
        ),
        logger_factory=structlog.WriteLoggerFactory(file=cast("TextIO", sys.stderr)),
    )


def lost_log_lines() -> int:
    """Return how many lines of this process's log were lost: nobody read them, or the disk was full."""
    return sys.stderr.lost_lines if isinstance(sys.stderr, QueuedFile) else 0


def _escape(_logger: object, _method: str, entry: MutableMapping[str, Any]) -> Mapping[str, Any]:
    r"""Escape control characters in the texts of an entry: whoever sends them must not steer the terminal.

    >>> _escape(None, "info", {"path": "/\x1b[2J", "exception": "a\nb"})
    {'path': '/\\x1b[2J', 'exception': 'a\nb'}
    """
    return {
        name: "".join(
            character
            if character.isprintable() or (character == "\n" and name in {"exception", "stack"})
            else repr(character)[1:-1]
            for character in value
        )
        if isinstance(value, str)
        else value
        for name, value in entry.items()
    }


def queue_output() -> None:
    """From now on let nothing that is written to `sys.stdout` wait for who reads it."""

    def lost(lines: int) -> str:
        return f"{lines} lines of this output were lost: nobody took them\n"

    sys.stdout = QueuedFile(sys.stdout, lost)


def finish_log() -> bool:
    """Write what waits to be logged or printed, within a short limit; return whether all was written."""
    is_written = True
    for name in ("stdout", "stderr"):
        file = getattr(sys, name)
        if isinstance(file, QueuedFile):
            if file.finish(LAST_LINES_S):
                setattr(sys, name, file.file)
            else:
                is_written = False
    return is_written


def get_logger(part: str) -> FilteringBoundLogger:
    """Return the logger of a part of the pipeline."""
    import structlog  # noqa: PLC0415  # see above

    logger: FilteringBoundLogger = structlog.get_logger(part=part)
    return logger
