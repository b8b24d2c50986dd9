"""`kcm demo`: run a real cluster and the whole pipeline, break the cluster, and print the comparison.

Nothing is simulated and nothing is left behind. The servers are real, the pipeline is the
one that users run, and the cluster's truth is read by other means. Every figure must be equal at
every step, or the exit code reports it. All processes end in any case. The data is removed, except
after a failure: then the logs stay and the last line says where.
"""

import os
import shutil
import signal
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from types import FrameType
from typing import Any, NoReturn

from rich.console import Console

from kcm.cli.exits import INTERRUPTED, print_error
from kcm.demo.kraft_steps import KRAFT
from kcm.demo.run import CLUSTER_NAME, DemoRun, Progress
from kcm.demo.screen import PlainScreen, ending, live_screen, outcome_table
from kcm.demo.steps import ZOOKEEPER
from kcm.demo.story import Story
from kcm.servers.class_archive import KAFKA_CLASSES, ensure_class_archive
from kcm.servers.jars import ensure_jars
from kcm.servers.supervisor import Supervisor
from pipeline.java import find_java
from pipeline.runtime import KcmError

EXIT_FAILED = 1
EXIT_TERMINATED = 128 + signal.SIGTERM
PLAIN_WIDTH_COLUMNS = 140  # without a terminal, no line of the table needs to be broken
CHECK_INTERVAL_S = 1.0  # how often, after the last step, all processes are checked


def run_demo(*, kraft: bool, keep: bool, fast: bool, plain: bool) -> int:
    """Run the demo and return its exit code.

    `kraft` plays the story of a KRaft cluster instead of that of a cluster with ZooKeeper. `keep`
    leaves everything running after the last step until Ctrl-C. `fast` shortens waits (not steps).
    `plain` writes lines instead of a live picture; without a terminal this is done anyway.
    """
    console = Console()
    if not console.is_terminal:
        console = Console(width=PLAIN_WIDTH_COLUMNS)
        plain = True
    folder = Path(tempfile.mkdtemp(prefix="kcm-demo-"))
    code = EXIT_FAILED
    try:
        signal.signal(signal.SIGTERM, _terminate)
        story: Story[Any] = KRAFT if kraft else ZOOKEEPER
        code = _run(console, story, folder, keep=keep, fast=fast, plain=plain)
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


def _run(
    console: Console, story: Story[Any], folder: Path, *, keep: bool, fast: bool, plain: bool
) -> int:
    """Start everything, run the steps, print the table; return the exit code."""
    jars = ensure_jars()
    ensure_class_archive(KAFKA_CLASSES, jars.broker, find_java(os.environ))
    progress = Progress.of(story)
    with ExitStack() as stack:
        supervisor = stack.enter_context(Supervisor(folder, kill_on_exit=True))
        stack.callback(_ignore_interrupts)  # stopping takes a second: finish it despite Ctrl-C
        run = stack.enter_context(
            DemoRun(story, supervisor, jars, folder / "data", progress, fast=fast)
        )
        with PlainScreen(console, run) if plain else live_screen(console, run):
            run.start(prometheus=keep and shutil.which("prometheus") is not None)
            run.run_steps()
        console.print(outcome_table(progress, width=console.width))
        line, ok = ending(progress)
        console.print(line, style="bold green" if ok else "bold red", markup=False, soft_wrap=True)
        if keep:
            _wait_for_interrupt(console, run, plain=plain)
    return 0 if ok else EXIT_FAILED


def _wait_for_interrupt(console: Console, run: DemoRun[Any], *, plain: bool) -> None:
    """Leave everything running until Ctrl-C, then return; raises KcmError when a process dies."""
    url = run.pipeline.exporter_url
    places = {
        "metrics": f"{url}/metrics",
        "API": f"{url}/api/v1/clusters/{CLUSTER_NAME}",
        "Prometheus": run.prometheus.url if run.prometheus else "not on PATH",
        **run.cluster.places,
        "watched brokers": run.cluster.bootstrap_servers,
        "pipeline's own Kafka": run.pipeline.bootstrap_servers,
        "logs": run.supervisor.folder / "logs",
    }
    for name, place in places.items():
        console.print(f"{name:22} {place}", highlight=False, soft_wrap=True)
    console.print("running until Ctrl-C", style="" if plain else "bold")
    try:
        while True:
            run.supervisor.check()
            time.sleep(CHECK_INTERVAL_S)
    except KeyboardInterrupt:
        console.print("stopping")


def _terminate(_number: int, _frame: FrameType | None) -> NoReturn:
    """Let SIGTERM unwind the main thread, as Ctrl-C does."""
    sys.exit(EXIT_TERMINATED)


def _ignore_interrupts() -> None:
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
