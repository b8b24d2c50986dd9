"""The units of examples/systemd: systemd takes them, and what they start is a part that works, with their own environment."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from kcm.__main__ import main
from kcm.servers.kafka import KraftBroker
from kcm.servers.ports import free_port
from kcm.servers.zookeeper import ZooKeeper
from pipeline.runtime import EnvironmentProblemError, UsageError
from tests.component.chart.chart import answer

UNITS = sorted((Path(__file__).resolve().parents[3] / "examples" / "systemd").glob("*.service"))
PARTS = [unit for unit in UNITS if unit.stem != "kcm"]
"""Those of one part; `kcm up` has tests of its own."""
INSTANCE = "prod"
STARTED_S = 150.0
"""Spark's JVM takes the most of it, on a machine that others use."""
STOPPED_S = 30.0
PORTS = {
    "watch": "KCM_WATCHER_METRICS_PORT",
    "stream": "KCM_STREAM_METRICS_PORT",
    "export": "KCM_PORT",
}


def settings(unit: Path) -> dict[str, list[str]]:
    """Return the settings of a unit's service, each with its values in order."""
    found: dict[str, list[str]] = {}
    section = ""
    for line in unit.read_text().splitlines():
        if line.startswith("["):
            section = line
        elif section == "[Service]" and line and not line.startswith("#"):
            name, _, value = line.partition("=")
            found.setdefault(name, []).append(value)
    return found


@contextmanager
def started(unit: Path, root: Path, common: dict[str, str]) -> Iterator[tuple[str, Path]]:
    """Start a unit's command as systemd would, below a folder; yield the URL of its port, and what it prints.

    The specifiers are those that the units use: %i, %S (/var/lib), %C (/var/cache).
    """
    service = settings(unit)
    places = {"%i": INSTANCE, "%S": str(root / "lib"), "%C": str(root / "cache")}

    def filled(text: str) -> str:
        for specifier, value in places.items():
            text = text.replace(specifier, value)
        return text

    environment = {"PATH": os.environ["PATH"], "HOME": str(root)}
    for assignments in service.get("Environment", ()):
        environment |= dict(each.split("=", 1) for each in shlex.split(filled(assignments)))
    assert service["EnvironmentFile"][0] == "/etc/kcm/kcm.env"
    environment |= common
    verb = service["ExecStart"][0].split()[-1]
    port = free_port()
    environment[PORTS[verb]] = str(port)
    for folder in ("StateDirectory", "CacheDirectory"):
        for name in service.get(folder, ()):
            place = {"StateDirectory": "%S", "CacheDirectory": "%C"}[folder]
            Path(places[place], name).mkdir(parents=True)
    program, *arguments = service["ExecStart"][0].split()
    assert program == "/opt/kcm/bin/kcm"
    output = root / "output"
    with output.open("wb") as file:
        process = subprocess.Popen(
            [str(Path(sys.executable).with_name("kcm")), *arguments],
            env=environment,
            stdout=file,
            stderr=subprocess.STDOUT,
            cwd="/",
            start_new_session=True,
        )
    try:
        yield f"http://127.0.0.1:{port}", output
        process.terminate()
        assert process.wait(STOPPED_S) == 0, output.read_text()
    finally:
        if process.poll() is None:
            process.kill()
        process.wait()


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd is not installed")
def test_systemd_finds_nothing_wrong_in_the_units(tmp_path: Path) -> None:
    """But that kcm is not installed in /opt here: each setting exists, and has a value that it takes."""
    for unit in UNITS:
        name = unit.name.replace("@", f"@{INSTANCE}")
        text = unit.read_text().replace("/opt/kcm/bin/kcm", sys.executable)
        (tmp_path / name).write_text(text)
    units = sorted(map(str, tmp_path.iterdir()))
    done = subprocess.run(
        [shutil.which("systemd-analyze") or "", "verify", "--man=no", *units],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("unit", UNITS, ids=lambda path: path.stem)
def test_each_command_line_is_one_of_kcm(unit: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The verb and each option exist; what a restart cannot mend ends the service for good."""
    service = settings(unit)
    _, *arguments = shlex.split(service["ExecStart"][0])
    assert main([*arguments, "--help"]) == 0, capsys.readouterr().err
    never = {UsageError.exit_code, EnvironmentProblemError.exit_code}
    assert set(map(int, service["RestartPreventExitStatus"][0].split())) == never


@pytest.mark.parametrize("unit", PARTS, ids=lambda path: path.stem)
def test_what_a_unit_starts_is_alive_and_ends_in_order(
    unit: Path, tmp_path: Path, zookeeper: ZooKeeper, pipeline_broker: KraftBroker
) -> None:
    """With the settings of its files alone; SIGTERM ends it with exit code 0 within its TimeoutStopSec."""
    assert settings(unit)["TimeoutStopSec"] == [f"{STOPPED_S:.0f}"]
    common = {
        "KCM_BOOTSTRAP_SERVERS": pipeline_broker.bootstrap_servers,
        "KCM_TOPIC_PREFIX": f"units-{unit.stem.strip('@')}",
        "KCM_REPLICATION_FACTOR": "1",
        "KCM_ZOOKEEPER": zookeeper.connect_string,
    }
    # Jars that were downloaded for other tests; systemd would give the fold a cache of its own.
    shared = os.environ.get("XDG_CACHE_HOME", str(Path.home() / ".cache"))
    with started(unit, tmp_path, common | {"XDG_CACHE_HOME": shared}) as (url, output):
        # A JVM that is being started is not ended halfway.
        works = b"\nkcm_fold_up 1.0" if unit.stem == "kcm-stream" else b"\nkcm_build_info{"
        until = time.monotonic() + STARTED_S
        while works not in (found := answer(f"{url}/metrics")[1]):
            assert time.monotonic() < until, f"{found[:300]!r}: {output.read_text()}"
            time.sleep(0.2)
        assert answer(f"{url}/healthz")[0] == 200
