"""The wheel in an environment that holds nothing else, on a machine without Java: what users get from `pip install`."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from exporter.serve.server import HttpServer
from pipeline.build import version
from tests.component.release.conftest import Built
from tests.support.api_server import Served
from tests.support.replaying import failing_over, lines, write
from tools.build_hook import revision_of
from tools.site import ROOT


class Installed:
    """An environment with the wheel alone."""

    def __init__(self, folder: Path) -> None:
        self._bin = folder / "bin"

    def run(self, program: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run a program of the environment, outside of the repository; no other is on its PATH."""
        return subprocess.run(
            [self._bin / program, *arguments],
            cwd=self._bin,
            env={"PATH": str(self._bin), "HOME": str(self._bin)},
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )

    def kcm(self, *arguments: str, code: int = 0) -> str:
        """Run `kcm`, which must end so; return what it printed."""
        done = self.run("kcm", *arguments)
        assert done.returncode == code, done.stdout + done.stderr
        return done.stdout + done.stderr


@pytest.fixture(scope="session")
def installed(built: Built, tmp_path_factory: pytest.TempPathFactory) -> Installed:
    """The wheel without extras: packages have the lock's versions, and are checked by its hashes."""
    folder = tmp_path_factory.mktemp("installed") / "venv"
    uv = str(Path(sys.executable).with_name("uv"))
    made = (uv, "venv", "-q", "--python", sys.executable, str(folder))
    wheel = str(built.one("*.whl"))
    into = ("-q", "--python", str(folder / "bin" / "python"), "-c", str(ROOT / "requirements.lock"))
    outside = {name: value for name, value in os.environ.items() if name != "VIRTUAL_ENV"}
    for command in (made, (uv, "pip", "install", *into, wheel)):
        done = subprocess.run(command, env=outside, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
    return Installed(folder)


def test_it_says_which_build_it_is(installed: Installed) -> None:
    """The version, and the commit that the wheel was made from."""
    assert installed.kcm("--version") == f"kcm {version()}\n"
    said = installed.run("python", "-c", "from pipeline.build import revision; print(revision())")
    wanted = revision_of(ROOT) if shutil.which("git") and (ROOT / ".git").exists() else "unknown"
    assert said.stdout.strip() == wanted, said.stderr


def test_a_log_is_replayed(installed: Installed, tmp_path: Path) -> None:
    """The controller that the log ends with, and the election that made it one."""
    log = write(tmp_path / "changes.jsonl", lines(failing_over().changes))
    shown = json.loads(installed.kcm("replay", log, "--json").splitlines()[-1])
    assert shown["controller"]["id"] == 1
    assert "ControllerElected broker 0 -> 1" in installed.kcm("replay", log, "--events")


def test_an_exporter_is_asked_what_would_break(installed: Installed, bad: Served) -> None:
    """The answer of `kcm what-if` is that of the exporter's API."""
    with HttpServer(bad.app, "127.0.0.1", 0) as server:
        asked = ("what-if", "--exporter", server.url, "--lose-broker", "1", "--json")
        answer = json.loads(installed.kcm(*asked))
    assert answer == bad.json("/api/v1/clusters/prod/what-if", lose_broker=1)


def test_what_is_not_installed_is_named(installed: Installed) -> None:
    """The fold needs Spark, and the line says how to get it."""
    assert "pip install 'kafka-controller-monitor[stream]'" in installed.kcm("stream", code=5)


def test_type_checkers_read_its_annotations(installed: Installed) -> None:
    """PEP 561's file is beside each package that was installed."""
    listing = (
        "import importlib.metadata as m; "
        "files = m.files('kafka-controller-monitor'); "
        "roots = {f.parts[0] for f in files if f.name == '__init__.py' and len(f.parts) == 2}; "
        "print(sorted(roots - {f.parts[0] for f in files if f.name == 'py.typed'}), len(roots))"
    )
    said = installed.run("python", "-c", listing)
    assert said.stdout.startswith("[] "), said.stdout + said.stderr
    assert int(said.stdout.split()[-1]) > 5
