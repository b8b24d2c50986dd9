"""Prometheus's own programs: found on PATH or reported, and queried without a proxy."""

from __future__ import annotations

import http.client
import os
import subprocess
import urllib.request
from pathlib import Path

import pytest

from kcm.processes import prometheus
from kcm.processes.prometheus import program_of_prometheus, why_not_ready
from pipeline.runtime import EnvironmentProblemError
from tests.support.fake_http import FakeServer
from tests.support.processes import python

URL = "http://127.0.0.1:9090"


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
        "import urllib.request; from kcm.processes.prometheus import DIRECTLY\n"
        "print([h for h in DIRECTLY.handlers if isinstance(h, urllib.request.ProxyHandler)])"
    )
    environment = {**os.environ, "http_proxy": "http://127.0.0.1:9"}
    done = subprocess.run(python(code), env=environment, capture_output=True, check=True)
    assert done.stdout.strip() == b"[]"
