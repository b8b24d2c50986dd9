"""Runs a part of the pipeline (`python -m tests.support.hanging VERB ...`) that hangs on a signal, though it lives.

With the verb `up` the parts that `kcm up` starts are such parts.

From `HANG` to `GO_ON` the loop does not finish its turn, while all other threads of the process work: the
HTTP server answers, the clients of ZooKeeper and Kafka keep their sessions. From `NOBODY_READS` on its log is a full
pipe.
"""

from __future__ import annotations

import importlib
import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from kcm.__main__ import main
from kcm.run.pipeline_processes import Pipeline
from kcm.servers.process import Process
from pipeline.runtime import get_logger, run_program

HANG, GO_ON = signal.SIGUSR1, signal.SIGUSR2
NOBODY_READS = signal.SIGRTMIN

IN_EACH_TURN = {
    "watch": (
        ("zk_source.service.service", "WatcherService", "_poll"),
        ("kraft_source.service.service", "KraftService", "_poll"),
    ),
    "stream": (("streaming.service", "BatchClock", "hang_reason"),),
    "export": (("exporter.serve.main_loop", "MainLoop", "poll"),),
}
"""By verb, the methods of which the part's main loop calls one in each turn: module, class and name."""

_LINES = 10_000
_hangs = False


def _note(number: int, _frame: object) -> None:
    global _hangs  # noqa: PLW0603  # a signal has no other owner
    _hangs = number == HANG


def _block_log(*_signal: object) -> None:
    """Make standard error a pipe that is full, and log in the main thread what would fill it several times."""
    _reads, writes = os.pipe()
    os.dup2(writes, sys.stderr.fileno())
    log = get_logger("hanging")
    for line in range(_LINES):
        log.warning("nobody reads this", line=line, text="x" * 1_000)


def install(verb: str) -> None:
    """Let this process's main loop hang from signal to signal, and its log block."""
    for module, class_name, name in IN_EACH_TURN[verb]:
        owner = getattr(importlib.import_module(module), class_name)
        setattr(owner, name, _hanging(getattr(owner, name)))
    for number in (HANG, GO_ON):
        signal.signal(number, _note)
    signal.signal(NOBODY_READS, _block_log)


def _hanging(turn: Callable[..., Any]) -> Callable[..., Any]:
    def hanging(*args: Any, **options: Any) -> Any:
        while _hangs:
            time.sleep(0.05)
        return turn(*args, **options)

    return hanging


def command_line(verb: str) -> list[str | Path]:
    """Return the command line of a part whose main loop hangs on a signal; it is run in the repository."""
    return [sys.executable, "-m", "tests.support.hanging", verb]


def let_parts_hang() -> None:
    """Let this process start such parts in place of the usual ones."""
    describe = Pipeline._describe

    def described(self: Pipeline, name: str, part: Any) -> Process:
        process = describe(self, name, part)
        process.argv = command_line(part.verb)
        return process

    Pipeline._describe = described  # type: ignore[method-assign]  # only in this process


if __name__ == "__main__":
    if sys.argv[1] == "up":
        let_parts_hang()
    else:
        install(sys.argv[1])
    run_program(main)
