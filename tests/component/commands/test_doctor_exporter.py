"""What `kcm doctor` reports of an exporter that it queries over HTTP."""

from __future__ import annotations

import json
import socket
import threading
import time
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from exporter.core.status import ReadingStatus
from exporter.serve.server import HttpServer
from kcm.__main__ import main
from kcm.doctor.exporter import ask_ready, check_exporter
from kcm.doctor.findings import Finding, Level
from kcm.queries.api_client import ExporterApi
from kcm.servers.ports import free_port
from tests.support.api_server import Served
from tests.support.samples import T0, cluster_view


def first(url: str) -> Finding:
    """Return the finding about the exporter itself."""
    return next(iter(check_exporter(ExporterApi(url))))


def test_a_ready_exporter_reports_its_lag_and_its_clusters() -> None:
    """The figures of each cluster follow it, by the exporter's own clock."""
    served = Served()
    served.write(cluster_view("a"), cluster_view("b"))
    served.state.status = ReadingStatus(read_to_end_once=True, kafka_answered_at=T0, records_left=3)
    with HttpServer(served.app, "127.0.0.1", 0) as server:
        found = list(check_exporter(ExporterApi(server.url)))
    assert found[0].level is Level.OK
    assert found[0].text.endswith("lag 3 records; clusters: a, b")
    assert {f.about for f in found} >= {"figures of a", "figures of b", "clock, here"}


def test_an_exporter_that_is_not_ready_fails_with_its_reasons() -> None:
    """What /readyz says is reported, though its status is 503."""
    served = Served()
    served.state.status = ReadingStatus(topics_gone=("kcm.views",), read_to_end_once=True)
    with HttpServer(served.app, "127.0.0.1", 0) as server:
        found = first(server.url)
    assert found.level is Level.FAIL
    assert found.text.endswith("not ready: topic kcm.views is gone")


def test_an_exporter_without_clusters_is_a_warning() -> None:
    """It is well, and yet it shows nothing."""
    with HttpServer(Served().app, "127.0.0.1", 0) as server:
        assert first(server.url).level is Level.WARN


def test_the_clock_offset_is_bounded_by_the_http_date() -> None:
    """This machine's clock is its own: zero lies within the bounds, which are a second or so apart."""
    with HttpServer(Served().app, "127.0.0.1", 0) as server:
        bounds = ask_ready(ExporterApi(server.url)).clock_ahead_ms
    assert bounds is not None
    assert bounds[0] <= 0 <= bounds[1]


@pytest.mark.parametrize("body", [b"<html>", b"{}", b"[]"])
def test_another_server_is_reported_as_such(body: bytes) -> None:
    """An answer of a program other than kcm's exporter is a failure, not a stack trace."""

    class Other(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    with HTTPServer(("127.0.0.1", 0), Other) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            found = first(f"http://127.0.0.1:{server.server_port}")
        finally:
            server.shutdown()
            thread.join()
    assert found.level is Level.FAIL
    assert "not a kcm exporter" in found.text


def test_an_exporter_that_is_away_fails_with_what_to_do() -> None:
    """One line, with its address."""
    url = f"http://127.0.0.1:{free_port()}"
    found = first(url)
    assert found.level is Level.FAIL
    assert url in found.text
    assert "--exporter" in found.todo


TIMEOUT_S = 5


def test_the_timeout_also_bounds_a_check_that_waits_for_another(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A silent server is named on its own line; a comparison with it is not measured."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"127.0.0.1:{silent.getsockname()[1]}"
        monkeypatch.setenv("KCM_ZOOKEEPER", address)
        monkeypatch.setenv("KCM_BOOTSTRAP_SERVERS", address)
        began = time.monotonic()
        assert (
            main(["doctor", "--json", f"--timeout={TIMEOUT_S}", f"--exporter=http://{address}"])
            == 6
        )
        assert time.monotonic() - began < 3 * TIMEOUT_S, "one after the other they take longer"
    found = {each["about"]: each for each in json.loads(capsys.readouterr().out)}
    assert found["session"]["text"].startswith("none: ")
    assert "does not answer" in found["pipeline's Kafka"]["text"]
    assert {found[name]["level"] for name in ("apart", "same cluster")} == {"-"}
