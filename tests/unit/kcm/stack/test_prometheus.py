"""The configuration of a Prometheus server; nothing downloads it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kcm.processes.supervisor import Supervisor
from kcm.stack.prometheus import Prometheus
from pipeline.runtime import EnvironmentProblemError


@pytest.fixture
def server(tmp_path: Path) -> Prometheus:
    """A server with one target, not started."""
    return Prometheus(
        Supervisor(tmp_path),
        tmp_path,
        targets={"kcm": ["127.0.0.1:9640"]},
        rule_files=[tmp_path / "rules.yaml"],
        scrape_interval_s=0.5,
        port=9090,
    )


def test_targets_and_rules_are_written(
    server: Prometheus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It scrapes its targets at the given interval, and listens on its own port only."""
    program = tmp_path / "prometheus"
    program.touch(mode=0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    command = server.prepare()
    assert command[0] == str(program)
    assert "--web.listen-address=127.0.0.1:9090" in command
    config = json.loads((tmp_path / "prometheus.yml").read_text())
    assert config["global"]["scrape_interval"] == "500ms"
    assert config["rule_files"] == [str(tmp_path / "rules.yaml")]
    (job,) = config["scrape_configs"]
    assert job == {"job_name": "kcm", "static_configs": [{"targets": ["127.0.0.1:9640"]}]}


def test_a_program_that_is_not_installed_is_named(
    server: Prometheus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The error is one line that says how to install it."""
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(EnvironmentProblemError, match="apt install prometheus"):
        server.prepare()
