"""A Prometheus server: its configuration, its programs, and whether it is ready."""

from __future__ import annotations

import http.client
import json
import os
import subprocess
import urllib.request
from pathlib import Path

import pytest

from kcm.servers import prometheus
from kcm.servers.prometheus import Prometheus, program_of_prometheus, why_not_ready
from kcm.servers.supervisor import Supervisor
from pipeline.runtime import EnvironmentProblemError
from tests.support.fake_http import FakeServer
from tests.support.processes import python

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
        ((200, b"ready"), None),
        ((503, b"Service Unavailable"), "HTTP Error 503: Service Unavailable"),
        (ConnectionRefusedError("refused"), "refused"),
        (TimeoutError("timed out"), "timed out"),
        (http.client.BadStatusLine("x"), "x"),
    ],
)
def test_a_server_is_ready_or_says_why_not(
    answer: tuple[int, bytes] | Exception, seen: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Any answer on its port will do: a caller that waits continues, and can report what was seen."""
    server = FakeServer(answer)
    monkeypatch.setattr(prometheus, "DIRECTLY", urllib.request.build_opener(server))
    assert why_not_ready(URL) == (None if seen is None else f"{URL}/-/ready: {seen}")
    assert server.asked == [(f"{URL}/-/ready", {})]


def test_no_proxy_is_asked_for_a_server_of_this_machine() -> None:
    """This holds although the environment names a proxy."""
    code = (
        "import urllib.request; from kcm.servers.prometheus import DIRECTLY\n"
        "print([h for h in DIRECTLY.handlers if isinstance(h, urllib.request.ProxyHandler)])"
    )
    environment = {**os.environ, "http_proxy": "http://127.0.0.1:9"}
    done = subprocess.run(python(code), env=environment, capture_output=True, check=True)
    assert done.stdout.strip() == b"[]"
