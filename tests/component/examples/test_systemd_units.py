"""The systemd units of examples: systemd accepts them, each command line exists, and what one starts ends as the unit says."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import httpx
import pytest

from kcm.__main__ import main
from kcm.servers.ports import free_port
from pipeline.runtime import EnvironmentProblemError, UsageError
from tests.support.waiting import wait_until

UNITS = sorted((Path(__file__).resolve().parents[3] / "examples" / "systemd").glob("*.service"))
PROGRAM = "/opt/kcm/.venv/bin/kcm"
INSTANCE = "prod"
SYSTEMD_ANALYZE = shutil.which("systemd-analyze") or ""
EACH_UNIT = pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.name)


def setting(unit: Path, name: str) -> str:
    """Return the only value of a setting of a unit, for the instance."""
    (value,) = re.findall(rf"^{name}=(.*)$", unit.read_text(), re.MULTILINE)
    return str(value).replace("%i", INSTANCE)


def verified(unit: Path, folder: Path) -> str:
    """Return what systemd-analyze says of a unit whose program is here."""
    own = folder / unit.name
    kcm = Path(sys.executable).with_name("kcm")
    own.write_text(unit.read_text().replace(PROGRAM, str(kcm)))
    named = str(own).replace("@.", f"@{INSTANCE}.")
    done = subprocess.run(
        [SYSTEMD_ANALYZE, "verify", "--man=no", named],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    return done.stdout + done.stderr


@pytest.mark.skipif(not SYSTEMD_ANALYZE, reason="needs systemd-analyze")
def test_systemd_accepts_the_units(tmp_path: Path) -> None:
    """It says nothing of any; of one with a wrong name it does."""
    assert len(UNITS) == 4
    assert {unit.name: verified(unit, tmp_path) for unit in UNITS} == dict.fromkeys(
        (unit.name for unit in UNITS), ""
    )
    spoiled = tmp_path / "spoiled" / "kcm.service"
    spoiled.parent.mkdir()
    spoiled.write_text(UNITS[0].read_text().replace("Restart=", "Restarts="))
    assert "Restarts" in verified(spoiled, tmp_path)


@EACH_UNIT
def test_each_command_line_is_one_of_kcm(unit: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The verb and each option exist; codes that a start cannot mend end the service for good."""
    program, *arguments = shlex.split(setting(unit, "ExecStart"))
    assert program == PROGRAM
    assert main([*arguments, "--help"]) == 0, capsys.readouterr().err
    never = {UsageError.exit_code, EnvironmentProblemError.exit_code}
    assert set(map(int, setting(unit, "RestartPreventExitStatus").split())) == never


def test_a_service_ends_by_sigterm_in_time_and_without_an_error(tmp_path: Path) -> None:
    """Here the exporter, which serves while it waits for its Kafka."""
    (unit,) = (each for each in UNITS if each.name == "kcm-export.service")
    port = free_port()
    config = tmp_path / "kcm.toml"
    config.write_text(f'port = {port}\nbootstrap_servers = "127.0.0.1:9"\n')
    command = setting(unit, "ExecStart").replace("/etc/kcm/kcm.toml", str(config))
    _, *arguments = shlex.split(command)
    own = {name: value for name, value in os.environ.items() if not name.startswith("KCM_")}
    with subprocess.Popen([sys.executable, "-P", "-m", "kcm", *arguments], env=own) as process:
        try:
            wait_until(lambda: answers(port))
            process.send_signal(signal.SIGTERM)
            assert process.wait(float(setting(unit, "TimeoutStopSec"))) == 0
        finally:
            process.kill()


def answers(port: int) -> bool:
    """Return whether somebody answers on the port, well."""
    try:
        return httpx.get(f"http://127.0.0.1:{port}/healthz", trust_env=False).is_success
    except httpx.TransportError:
        return False
