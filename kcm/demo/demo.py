"""`kcm demo`: run a real cluster and the whole pipeline, play the story, and print the comparison.

The rule: nothing is simulated and nothing is left behind. The servers are real, the pipeline is the
one that users run, and the cluster's truth is read by other means. Every figure must be equal at
every step, or the exit code reports it. All processes end in any case. The data is removed, except
after a failure: then the logs stay and the last line says where.
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
from kcm.servers.jars import ensure_jars
from kcm.servers.supervisor import Supervisor
from pipeline.runtime import KcmError

EXIT_FAILED = 1
EXIT_TERMINATED = 128 + signal.SIGTERM
PLAIN_WIDTH_COLUMNS = 140  # without a terminal, no line of the table needs to be broken
WATCH_OVER_S = 1.0  # how often, after the story, all processes are checked


def run_demo(*, keep: bool, fast: bool, plain: bool) -> int:
    """Run the demo and return its exit code.

    `keep` leaves everything running after the story until Ctrl-C. `fast` shortens waits (not
    steps). `plain` writes lines instead of a live picture; without a terminal this is done anyway.
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
        stack.callback(_ignore_interrupts)  # stopping takes a second: finish it despite Ctrl-C
        scene = stack.enter_context(Scene(supervisor, jars, folder / "data", story))
        with PlainScreen(console, scene) if plain else live_screen(console, scene):
            scene.start(prometheus=keep and shutil.which("prometheus") is not None)
            Storyteller(scene, FAST if fast else UNHURRIED).run()
        console.print(outcome_table(story.outcomes, width=console.width))
        line = ending(story.outcomes, steps=story.steps)
        ok = len(story.outcomes) == story.steps and all(outcome.ok for outcome in story.outcomes)
        console.print(line, style="bold green" if ok else "bold red", markup=False, soft_wrap=True)
        if keep:
            _stay(console, scene, plain=plain)
    return 0 if ok else EXIT_FAILED


def _stay(console: Console, scene: Scene, *, plain: bool) -> None:
    """Leave everything running until Ctrl-C, then return; raises KcmError when a process dies."""
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
