"""`make test`: what it says at its end, and that it leaves nothing running however it ends."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.support.processes import living, pids_in
from tests.support.waiting import wait_until

ROOT = Path(__file__).resolve().parents[3]
MAKE = shutil.which("make")
RUN = [sys.executable, "-m", "tools.run_tests", "test"]

WITH_CHILDREN = """
import pathlib, subprocess, sys, time

FOLDER = pathlib.Path(__file__).parent
CHILD = "import os,pathlib,sys,time; p=pathlib.Path(sys.argv[1]); q=p.with_suffix('.tmp'); q.write_text(str(os.getpid())); q.rename(p); time.sleep(600)"

def test_long():
    for name, apart in (("same.pid", False), ("apart.pid", True)):
        subprocess.Popen([sys.executable, "-c", CHILD, FOLDER / name], start_new_session=apart)
    while not (FOLDER / "go").exists():
        time.sleep(0.05)
"""
CHILDREN = ("same.pid", "apart.pid")


def begun(folder: Path, *options: str) -> tuple[subprocess.Popen[str], list[int]]:
    """Start the runner on a test that has started two children, one in a session of its own."""
    path = folder / "test_children.py"
    path.write_text(WITH_CHILDREN)
    runner = subprocess.Popen(
        [*RUN, "-p", "no:cacheprovider", "-q", *options, str(path)],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    return runner, pids_in(folder, CHILDREN)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interruption_leaves_nothing_running(tmp_path: Path, number: int) -> None:
    """Ctrl-C reaches the whole group of the terminal, what make passes on only the runner; either ends all."""
    runner, children = begun(tmp_path, "-n1")
    assert living(children) == children
    if number == signal.SIGINT:
        os.killpg(runner.pid, number)
    else:
        runner.send_signal(number)
    printed, _ = runner.communicate(timeout=120)
    assert living(children) == []
    assert runner.returncode == 128 + number
    assert printed.splitlines()[-1].startswith("make test: interrupted after "), printed


def test_a_killed_make_leaves_nothing_running(tmp_path: Path) -> None:
    """The runner ends everything when its parent has died without passing on a signal."""
    (tmp_path / "test_children.py").write_text(WITH_CHILDREN)
    command = [*RUN, "-p", "no:cacheprovider", "-n0", str(tmp_path / "test_children.py")]
    code = "import subprocess, sys; subprocess.run(sys.argv[1:], check=False)"
    with subprocess.Popen([sys.executable, "-c", code, *command], cwd=ROOT) as parent:
        children = pids_in(tmp_path, CHILDREN)
        parent.kill()
    wait_until(lambda: living(children), lambda left: left == [], deadline_s=60)


@pytest.mark.parametrize(
    ("content", "code", "how"),
    [
        ("def test_it(): pass", 0, "passed in"),
        ("def test_it(): raise ValueError", 1, r"FAILED \(pytest's exit code 1\) after"),
    ],
)
def test_the_last_line_says_how_it_went(tmp_path: Path, content: str, code: int, how: str) -> None:
    """It counts from where make began, and says how much of that was before the tests."""
    (tmp_path / "test_it.py").write_text(content)
    since = str(time.time() - 10_000)
    done = subprocess.run(
        [*RUN, "--since", since, "-p", "no:cacheprovider", "-n0", str(tmp_path / "test_it.py")],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == code
    last = done.stdout.splitlines()[-1]
    said = re.fullmatch(rf"make test: {how} (\d+) s \((\d+) s of it set-up\)", last)
    assert said is not None, done.stdout
    assert int(said[1]) >= int(said[2]) >= 10_000


def test_make_lets_python_keep_what_it_compiled() -> None:
    """Also where the environment forbids it: each process of a test would compile all that it imports."""
    asked = "asked: ; @$(PYTHON) -c 'import sys; print(sys.dont_write_bytecode)'"
    done = subprocess.run(
        [str(MAKE), "--no-print-directory", f"--eval={asked}", "asked", f"PYTHON={sys.executable}"],
        env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"},
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    assert done.stdout == "False\n"
