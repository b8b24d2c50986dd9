"""What can go wrong while servers are started, in the words a user needs.

Each error's first line names what failed, where, and what to do about it, so that a command can
print it as it is. What follows the first line, if anything, is the tail of a server's log.
"""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING

from pipeline.runtime import ConflictError, EnvironmentProblemError, UnreachableError

if TYPE_CHECKING:
    from pathlib import Path


class StackError(EnvironmentProblemError):
    """A server or something that it needs could not be had."""


class JavaError(StackError):
    """No Java that is new enough was found."""


class MissingJarsError(StackError):
    """The servers' jars are neither in the cache nor to be downloaded."""


class PortInUseError(StackError):
    """Somebody else listens on the port that a server was to use."""

    exit_code = ConflictError.exit_code

    def __init__(self, name: str, host: str, port: int) -> None:
        """Name the server that wanted the port, and the port."""
        super().__init__(
            f"{name} cannot listen on {host}:{port}: the port is in use; "
            "stop what listens there or choose another port"
        )
        self.name = name
        self.port = port


class ProcessFailedError(StackError):
    """A child process ended although it should run; carries its log's tail."""

    def __init__(self, name: str, exit_code: int, log_path: Path, log_tail: str) -> None:
        """Say which process ended, how, and what it logged last."""
        super().__init__(
            _with_tail(f"{name} ended with {_exit_text(exit_code)}", log_path, log_tail)
        )
        self.name = name
        self.ended_with = exit_code
        self.log_path = log_path
        self.log_tail = log_tail


class NotReadyError(StackError):
    """A child process runs but did not become healthy in time."""

    exit_code = UnreachableError.exit_code

    def __init__(
        self, name: str, deadline_s: float, last_seen: str, log_path: Path, log_tail: str
    ) -> None:
        """Say which process, how long it had, and what its health check saw last."""
        what = f"{name} was not ready within {deadline_s:g} s; last seen: {last_seen}"
        super().__init__(_with_tail(what, log_path, log_tail))
        self.name = name
        self.log_path = log_path
        self.log_tail = log_tail


def _with_tail(what: str, log_path: Path, log_tail: str) -> str:
    if not log_tail:
        return f"{what}; its log is empty: {log_path}"
    return f"{what}; the end of {log_path}:\n{textwrap.indent(log_tail, '    ')}"


def _exit_text(exit_code: int) -> str:
    signal_base = 128  # how a shell encodes a signal in an exit code
    if exit_code > signal_base:
        return f"exit code {exit_code} (signal {exit_code - signal_base})"
    return f"exit code {exit_code}"
