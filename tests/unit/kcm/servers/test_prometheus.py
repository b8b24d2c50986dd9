"""A Prometheus server: its configuration, its programs, and whether it is ready."""

from __future__ import annotations

import json
from pathlib import Path

import httpx
import pytest

from kcm.servers.prometheus import Prometheus, program_of_prometheus, why_not_ready
from kcm.servers.supervisor import Supervisor
from pipeline.runtime import EnvironmentProblemError

URL = "http://127.0.0.1:9090"


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


def test_a_program_is_found_on_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each is found by its own name; a file that is not executable does not count."""
    monkeypatch.setenv("PATH", str(tmp_path))
    (tmp_path / "promtool").touch(mode=0o644)
    (tmp_path / "prometheus").touch(mode=0o755)
    assert program_of_prometheus("prometheus") == str(tmp_path / "prometheus")
    with pytest.raises(EnvironmentProblemError, match="the program promtool is not on PATH"):
        program_of_prometheus("promtool")


@pytest.mark.parametrize(
    ("answer", "seen"),
    [
        (httpx.Response(200), None),
        (httpx.Response(503), "503 Service Unavailable"),
        (httpx.ConnectError("refused"), "refused"),
    ],
)
def test_a_server_is_ready_or_says_why_not(
    answer: httpx.Response | Exception, seen: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is on this machine, so no proxy of the environment is asked."""

    def get(address: str, *, trust_env: bool, **_options: object) -> httpx.Response:
        assert (address, trust_env) == (f"{URL}/-/ready", False)
        if isinstance(answer, Exception):
            raise answer
        return answer

    monkeypatch.setattr(httpx, "get", get)
    assert why_not_ready(URL) == (None if seen is None else f"{URL}/-/ready: {seen}")
