"""What the commands that query the exporter share: options, output, and polling.

A table for a terminal, plain text for a pipe, JSON for programs. Text from a cluster is
data: it is neither markup nor able to steer the terminal. Before figures that are not live, a
warning is printed.
"""

import json
import os
import re
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, TypeVar

import typer
from rich.console import Console
from rich.text import Text

from kcm.cli.text import printable, read_milliseconds, warn
from kcm.queries.api_client import DEFAULT_URL, ExporterApi
from kcm.queries.http_config import OPTION
from pipeline.clock import clock_ms
from pipeline.durations import DURATION, duration_ms
from pipeline.runtime import KcmError, UnreachableError, UsageError

T = TypeVar("T")

EXPORTER_VARIABLE = "KCM_EXPORTER"
HTTP_CONFIG_VARIABLE = "KCM_HTTP_CONFIG_FILE"
PIPE_WIDTH = 1000
"""Columns where no terminal limits them: a line is never broken for a program that reads it."""
COMPLETED_TIMEOUT_S = 0.5
"""How long completion by the Tab key may take."""

Exporter = Annotated[
    str,
    typer.Option(
        "--exporter",
        metavar="URL",
        envvar=EXPORTER_VARIABLE,
        show_envvar=False,
        help=f"URL of the exporter; or {EXPORTER_VARIABLE}.",
    ),
]


HttpConfigFile = Annotated[
    Path | None,
    typer.Option(
        OPTION,
        metavar="FILE",
        envvar=HTTP_CONFIG_VARIABLE,
        show_envvar=False,
        help="Prometheus' HTTP client configuration (tls_config, basic_auth), for an exporter that uses TLS or "
        f"asks for a password; or {HTTP_CONFIG_VARIABLE}.",
    ),
]


def complete_cluster(context: typer.Context, incomplete: str) -> list[str]:
    """Return the clusters for completion; none where the exporter does not answer soon."""
    url = context.params.get("exporter") or DEFAULT_URL
    try:
        config = context.params.get("http_config_file")
        names = ExporterApi(url, config, within_s=COMPLETED_TIMEOUT_S).cluster_names()
    except KcmError:
        return []
    return [name for name in names if name.startswith(incomplete)]


Cluster = Annotated[
    str | None,
    typer.Option(
        "--cluster",
        metavar="NAME",
        help="Which cluster, if the exporter shows several.",
        autocompletion=complete_cluster,
    ),
]
PreferredBroker = Annotated[
    int | None,
    typer.Option(metavar="N", min=0, help="Only partitions that this broker is to lead."),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
AsJsonLines = Annotated[bool, typer.Option("--json", help="Print JSON, one object per line.")]


def console(pipe_width: int = PIPE_WIDTH) -> Console:
    """Return standard output: wide and without styles in a pipe; no text is read as markup."""
    return Console(
        file=sys.stdout,
        width=None if sys.stdout.isatty() else pipe_width,
        markup=False,
        emoji=False,
        highlight=False,
    )


def print_json(body: Any, *, indent: int | None = 2) -> None:
    """Print a value as JSON."""
    sys.stdout.write(f"{json.dumps(body, indent=indent)}\n")


@contextmanager
def printing() -> Iterator[None]:
    """Run a block that prints; end quietly when the output is closed."""
    try:
        yield
        sys.stdout.flush()
    except BrokenPipeError:
        discard_output()


def discard_output() -> None:
    """Discard the output from now on, so that Python ends without an error."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def print_not_live_warning(answer: dict[str, Any], *, as_json: bool) -> None:
    """Warn before an answer whose figures are not live; with JSON, on standard error."""
    status = answer["completeness"]["status"]
    if status == "live":
        return
    since = blame(answer["completeness"], clock_ms())
    line = printable(
        f"the figures of {answer['name']} are {status}{since}: what follows "
        "is what was known last, not what is true now; see kcm status"
    )
    if as_json:
        warn(line)
    else:
        console().print(Text(line, style="bold red"), soft_wrap=True)


def poll(
    ask: Callable[[], T],
    *,
    every_s: float,
    on_unreachable: Callable[[str], None] = warn,
    begun: bool = False,
) -> Iterator[T]:
    """Yield the answer repeatedly; while an exporter is down, wait for it.

    The first answer must arrive, unless an earlier call had one. `on_unreachable` gets a line
    about each outage once.
    """
    away = False
    while True:
        try:
            answer = ask()
        except (UnreachableError, UsageError) as error:
            # An exporter that has just started does not know the cluster yet.
            if not begun:
                raise
            if not away:
                on_unreachable(f"{error}; waiting for it")
            away = True
        else:
            begun, away = True, False
            yield answer
        time.sleep(every_s)


def read_since(text: str, now_ms: int) -> int:
    """Return a time in milliseconds, from a full time or from a duration before now.

    >>> read_since("30m", 3_600_000)
    1800000
    """
    if re.fullmatch(DURATION, text):
        return max(0, now_ms - duration_ms(text))
    return read_milliseconds("--since", text)


def blame(completeness: dict[str, Any], now_ms: int) -> str:
    """Return since when figures are not live and which part causes it, as far as it is known.

    >>> blame({"since": 0, "stage": "watcher"}, 59_000)
    ' for 59 s, by the watcher'
    """
    since, stage = lasting(completeness["since"], now_ms), completeness["stage"]
    return since if stage is None else f"{since}, by the {stage}"


def lasting(since_ms: int | None, now_ms: int) -> str:
    """Return how long something has lasted, as the end of a sentence; empty: not known.

    >>> lasting(0, 59_000)
    ' for 59 s'
    """
    return "" if since_ms is None else f" for {ago(since_ms, now_ms)}"


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
