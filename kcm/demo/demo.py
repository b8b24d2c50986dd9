"""`kcm demo`: a real cluster, the whole pipeline, a story of failures, and the comparison at its end.

The rule: nothing is faked and nothing is left behind. Real servers, the pipeline that users run,
the cluster's own truth read by other means; every figure equal at every step, or the exit code says
that it was not. Whatever happens, all processes end and the data goes, except after a failure,
when the logs stay and the last line says where.
"""

from __future__ import annotations

import shutil
import signal
import sys
import tempfile
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console

from kcm.demo.scene import Scene
from kcm.demo.screen import LiveScreen, PlainScreen
from kcm.demo.story_state import StoryState
from kcm.demo.storyteller import FAST, UNHURRIED, Storyteller
from kcm.demo.table import ending, outcome_table
from kcm.jars.jars import ensure_jars
from kcm.processes.errors import StackError
from kcm.processes.supervisor import Supervisor
from kcm.stack.prometheus import find_prometheus

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import FrameType

    from kcm.demo.screen import Screen

EXIT_FAILED = 1
EXIT_INTERRUPTED = 128 + signal.SIGINT
EXIT_TERMINATED = 128 + signal.SIGTERM
PLAIN_WIDTH_COLUMNS = 140  # where there is no terminal, no line of the table need be broken


class _TerminatedError(BaseException):
    """SIGTERM came: unwinds like KeyboardInterrupt does for Ctrl-C."""


def run_demo(*, keep: bool, fast: bool, plain: bool) -> int:
    """Run the demo and return its exit code.

    `keep` leaves all running after the story until Ctrl-C, `fast` shortens waits (not steps),
    `plain` writes lines instead of a live picture, as is done anyway where there is no terminal.
    """
    console = Console()
    plain = plain or not console.is_terminal
    if not console.is_terminal:
        console = Console(width=PLAIN_WIDTH_COLUMNS)
    folder = Path(tempfile.mkdtemp(prefix="kcm-demo-"))
    code = EXIT_FAILED
    try:
        with _sigterm_raises():
            code = _run_story(console, folder, keep=keep, fast=fast, plain=plain)
    except KeyboardInterrupt:
        console.print("stopped by Ctrl-C; everything has ended")
        code = EXIT_INTERRUPTED
    except _TerminatedError:
        code = EXIT_TERMINATED
    except StackError as error:
        print(f"kcm: {error}", file=sys.stderr)  # noqa: T201 - what the user must know
    finally:
        if code == EXIT_FAILED and any(folder.iterdir()):
            console.print(f"the logs of all processes are in {folder / 'logs'}", soft_wrap=True)
        else:
            shutil.rmtree(folder, ignore_errors=True)
    return code


def _run_story(console: Console, folder: Path, *, keep: bool, fast: bool, plain: bool) -> int:
    """Start everything, run the story, print the table; return the exit code."""
    jars = ensure_jars(progress=True)
    story = StoryState()
    with ExitStack() as stack:
        supervisor = stack.enter_context(Supervisor(folder, kill_on_exit=True))
        stack.callback(_ignore_interrupts)  # the end takes a second: let it come to its end
        scene = stack.enter_context(Scene(supervisor, jars, folder / "data", story))
        screen: Screen = PlainScreen(console, story) if plain else LiveScreen(console, story)
        with screen:
            scene.start(prometheus=keep and find_prometheus() is not None)
            storyteller = Storyteller(scene, story, screen, FAST if fast else UNHURRIED)
            storyteller.run()
        console.print(outcome_table(story.outcomes, width=console.width))
        line = ending(story.outcomes, steps=story.steps)
        ok = len(story.outcomes) == story.steps and all(outcome.ok for outcome in story.outcomes)
        console.print(line, style="bold green" if ok else "bold red", markup=False, soft_wrap=True)
        if keep:
            _stay(console, scene, plain=plain)
    return 0 if ok else EXIT_FAILED


def _stay(console: Console, scene: Scene, *, plain: bool) -> None:
    """Leave all running until Ctrl-C, then return."""
    for name, place in scene.places():
        console.print(f"{name:22} {place}", highlight=False, soft_wrap=True)
    console.print("running until Ctrl-C", style="" if plain else "bold")
    try:
        scene.watch_over()
    except KeyboardInterrupt:
        console.print("stopping")


@contextmanager
def _sigterm_raises() -> Iterator[None]:
    """Let SIGTERM unwind the main thread while the context is open."""

    def on_sigterm(_number: int, _frame: FrameType | None) -> None:
        raise _TerminatedError

    before = (signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGINT))
    signal.signal(signal.SIGTERM, on_sigterm)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before[0])
        signal.signal(signal.SIGINT, before[1])


def _ignore_interrupts() -> None:
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
