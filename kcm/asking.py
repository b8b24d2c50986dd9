"""What the commands that ask the exporter share: their options, and how they print.

The rule: a table for whoever sits at a terminal, plain text for a pipe, JSON for programs; and
text from a cluster never steers the terminal.
"""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, Any

import typer
from rich.console import Console

from kcm.api_client import DEFAULT_URL
from kcm.written import read_milliseconds
from pipeline.runtime import UsageError

EXPORTER_VARIABLE = "KCM_EXPORTER"
PIPE_WIDTH = 1000
"""Columns where no terminal limits them: a line is never broken for a program that reads it."""
_DURATION = re.compile(r"([0-9]{1,6})(ms|s|m|h|d)")
_UNIT_MS = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}

Exporter = Annotated[
    str,
    typer.Option(
        "--exporter",
        metavar="URL",
        envvar=EXPORTER_VARIABLE,
        show_envvar=False,
        help=f"Where the exporter is; {EXPORTER_VARIABLE} names it too.",
    ),
]
Cluster = Annotated[
    str | None,
    typer.Option("--cluster", metavar="NAME", help="Which cluster, if the exporter shows several."),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]

__all__ = ["DEFAULT_URL", "AsJson", "Cluster", "Exporter"]


def console() -> Console:
    """Return standard output: in a pipe without styles, and wide."""
    terminal = sys.stdout.isatty()
    return Console(file=sys.stdout, width=None if terminal else PIPE_WIDTH, highlight=False)


def print_json(body: Any, *, indent: int | None = 2) -> None:
    """Print a value as JSON."""
    sys.stdout.write(f"{json.dumps(body, indent=indent)}\n")


@contextmanager
def printing() -> Iterator[None]:
    """Print, and take it as enough when whoever reads it goes away."""
    try:
        yield
        sys.stdout.flush()
    except BrokenPipeError:
        # Nothing more must be written when Python ends.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def read_since(text: str, now_ms: int) -> int:
    """Return a time in milliseconds: one that is written out, or so long before now.

    >>> read_since("30m", 3_600_000)
    1800000
    """
    match = _DURATION.fullmatch(text)
    if match is not None:
        return max(0, now_ms - int(match[1]) * _UNIT_MS[match[2]])
    return read_milliseconds("--since", text)


def read_duration(option: str, text: str) -> int:
    """Return a length of time in milliseconds; raises UsageError.

    >>> read_duration("--for", "30m")
    1800000
    """
    match = _DURATION.fullmatch(text)
    if match is None:
        raise UsageError(f"option {option}: {text!r} is no length of time; write 90s, 30m, 2h")
    return int(match[1]) * _UNIT_MS[match[2]]


def ago(since_ms: int | None, now_ms: int) -> str:
    """Return how long ago something was.

    >>> ago(0, 59_000), ago(0, 150_000), ago(0, 7_300_000), ago(None, 0)
    ('59 s', '2 min', '2 h', '-')
    """
    if since_ms is None:
        return "-"
    seconds = max(0, now_ms - since_ms) // 1000
    for name, size in (("d", 86_400), ("h", 3_600), ("min", 60)):
        if seconds >= 2 * size or (name == "min" and seconds >= size):
            return f"{seconds // size} {name}"
    return f"{seconds} s"
