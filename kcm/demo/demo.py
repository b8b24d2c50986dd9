"""`kcm demo`: a real cluster, the whole pipeline, a story of failures, and the comparison at its end.

The rule: nothing is faked and nothing is left behind. Real servers, the pipeline that users run,
the cluster's own truth read by other means; every figure equal at every step, or the exit code says
that it was not. Whatever happens, all processes end and the data goes, except after a failure,
when the logs stay and the last line says where.
"""

import shutil
import signal
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from types import FrameType
from typing import NoReturn

from rich.console import Console

from kcm.cli.exits import INTERRUPTED, print_error
from kcm.demo.scene import Scene
from kcm.demo.screen import PlainScreen, live_screen
from kcm.demo.story_state import StoryState
from kcm.demo.storyteller import FAST, UNHURRIED, Storyteller
from kcm.demo.table import ending, outcome_table
from kcm.jars.jars import ensure_jars
from kcm.processes.prometheus import find_prometheus
from kcm.processes.supervisor import Supervisor
from pipeline.runtime import KcmError

EXIT_FAILED = 1
EXIT_TERMINATED = 128 + signal.SIGTERM
PLAIN_WIDTH_COLUMNS = 140  # where there is no terminal, no line of the table need be broken
WATCH_OVER_S = 1.0  # how often, after the story, it is checked that all still runs


def run_demo(*, keep: bool, fast: bool, plain: bool) -> int:
    """Run the demo and return its exit code.

    `keep` leaves all running after the story until Ctrl-C, `fast` shortens waits (not steps),
    `plain` writes lines instead of a live picture, as is done anyway where there is no terminal.
    """
    console = Console()
    if not console.is_terminal:
        console = Console(width=PLAIN_WIDTH_COLUMNS)
        plain = True
    folder = Path(tempfile.mkdtemp(prefix="kcm-demo-"))
    code = EXIT_FAILED
    try:
        signal.signal(signal.SIGTERM, _terminate)
        code = _run_story(console, folder, keep=keep, fast=fast, plain=plain)
    except KeyboardInterrupt:
        console.print("stopped by Ctrl-C; everything has ended")
        code = INTERRUPTED
    except SystemExit:
        code = EXIT_TERMINATED
    except KcmError as error:
        print_error(error)
    finally:
        if code == EXIT_FAILED and any(folder.iterdir()):
            console.print(f"the logs of all processes are in {folder / 'logs'}", soft_wrap=True)
        else:
            shutil.rmtree(folder, ignore_errors=True)
    return code


def _run_story(console: Console, folder: Path, *, keep: bool, fast: bool, plain: bool) -> int:
    """Start everything, run the story, print the table; return the exit code."""
    jars = ensure_jars()
    story = StoryState()
    with ExitStack() as stack:
        supervisor = stack.enter_context(Supervisor(folder, kill_on_exit=True))
        stack.callback(_ignore_interrupts)  # the end takes a second: let it come to its end
        scene = stack.enter_context(Scene(supervisor, jars, folder / "data", story))
        with PlainScreen(console, story) if plain else live_screen(console, story):
            scene.start(prometheus=keep and find_prometheus() is not None)
            Storyteller(scene, story, FAST if fast else UNHURRIED).run()
        console.print(outcome_table(story.outcomes, width=console.width))
        line = ending(story.outcomes, steps=story.steps)
        ok = len(story.outcomes) == story.steps and all(outcome.ok for outcome in story.outcomes)
        console.print(line, style="bold green" if ok else "bold red", markup=False, soft_wrap=True)
        if keep:
            _stay(console, scene, plain=plain)
    return 0 if ok else EXIT_FAILED


def _stay(console: Console, scene: Scene, *, plain: bool) -> None:
    """Leave all running until Ctrl-C, then return; raise KcmError when something dies."""
    for name, place in scene.places().items():
        console.print(f"{name:22} {place}", highlight=False, soft_wrap=True)
    console.print("running until Ctrl-C", style="" if plain else "bold")
    try:
        while True:
            scene.supervisor.check()
            time.sleep(WATCH_OVER_S)
    except KeyboardInterrupt:
        console.print("stopping")


def _terminate(_number: int, _frame: FrameType | None) -> NoReturn:
    """Let SIGTERM unwind the main thread, as Ctrl-C does."""
    sys.exit(EXIT_TERMINATED)


def _ignore_interrupts() -> None:
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
