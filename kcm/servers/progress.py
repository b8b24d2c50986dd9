"""Show the progress of a download of jars, from the lines that Ivy prints.

Ivy first finds modules ("found ...", most of the time) and then downloads files ("[SUCCESSFUL ]");
each of the two counts half. A terminal gets a bar, anything else a line every few steps, so that a
CI log stays short.
"""

from pathlib import Path
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

LINE_EVERY = 20  # steps between two plain lines


class JarsProgress:
    """A context manager that takes Ivy's lines one by one."""

    def __init__(
        self, files: int, cache: Path, *, what: str, console: Console | None = None
    ) -> None:
        """Take the expected number of files, called `what`; None for `console` is standard error."""
        self._console = console or Console(stderr=True)
        self._plain = not self._console.is_terminal
        self._total = 2 * files
        self._done = 0
        self._first_line = f"downloading {what} to {cache}"
        self._bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            console=self._console,
            disable=self._plain,
        )
        self._task = self._bar.add_task("Downloading jars", total=self._total)

    def __enter__(self) -> Self:
        self._bar.start()
        if self._plain:
            self._line(self._first_line)
        return self

    def __exit__(self, *_error: object) -> None:
        self._bar.stop()

    def read(self, line: str) -> None:
        """Take one line of Ivy's output."""
        step = _step_of(line)
        if step is None or self._done >= self._total:
            return
        self._done += 1
        self._bar.update(self._task, completed=self._done, description=step)
        if self._plain and self._done % LINE_EVERY == 0:
            self._line(f"jars: {self._done} of {self._total} steps, {step}")

    def _line(self, text: str) -> None:
        self._console.print(text, highlight=False, markup=False, soft_wrap=True)


def _step_of(line: str) -> str | None:
    r"""Return the step that the line reports; None when it reports none.

    >>> _step_of("\tfound org.lz4#lz4-java;1.8.0 in public")
    'found lz4-java'
    >>> _step_of("\t[SUCCESSFUL ] org.lz4#lz4-java;1.8.0!lz4-java.jar (111ms)")
    'downloaded lz4-java'
    >>> _step_of(".......") is None
    True
    """
    words = line.split()
    if line.startswith("\tfound ") and len(words) > 1:
        return f"found {_module(words[1])}"
    if line.startswith("\t[SUCCESSFUL ]"):
        return f"downloaded {_module(words[2])}"
    return None


def _module(coordinates: str) -> str:
    return coordinates.partition("#")[2].partition(";")[0]
