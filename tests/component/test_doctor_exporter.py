"""What `kcm doctor` says of an exporter, asked over HTTP."""

from __future__ import annotations

import threading
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from exporter.server import HttpServer
from exporter.status import ReadingStatus
from kcm.api_client import ExporterApi
from kcm.doctor_exporter import ask_ready, check_exporter
from kcm.doctor_findings import Finding, Level
from kcm.stack.ports import free_port
from tests.unit.exporter.api_server import Served
from tests.unit.exporter.samples import T0, cluster_view


def first(url: str) -> Finding:
    """Return the finding about the exporter itself."""
    return next(iter(check_exporter(ExporterApi(url))))


def test_an_exporter_that_is_ready_tells_its_lag_and_its_clusters() -> None:
    """The figures of each cluster follow it, by the exporter's own clock."""
    served = Served()
    served.write(cluster_view("a"), cluster_view("b"))
    served.status = ReadingStatus(read_to_end_once=True, kafka_answered_at=T0, records_left=3)
    with HttpServer(served.app, "127.0.0.1", 0) as server:
        found = list(check_exporter(ExporterApi(server.url)))
    assert found[0].level is Level.OK
    assert found[0].text.endswith("lag 3 records; clusters: a, b")
    assert {f.about for f in found} >= {"figures of a", "figures of b", "clock, here"}


def test_an_exporter_that_is_not_ready_fails_with_its_reasons() -> None:
    """What /readyz says is told, though its status is 503."""
    served = Served()
    served.status = ReadingStatus(topics_gone=("kcm.views",), read_to_end_once=True)
    with HttpServer(served.app, "127.0.0.1", 0) as server:
        found = first(server.url)
    assert found.level is Level.FAIL
    assert found.text.endswith("not ready: topic kcm.views is gone")


def test_an_exporter_without_clusters_is_a_warning() -> None:
    """It is well, and yet it shows nothing."""
    with HttpServer(Served().app, "127.0.0.1", 0) as server:
        assert first(server.url).level is Level.WARN


def test_the_clocks_difference_is_bounded_by_what_http_tells() -> None:
    """This machine's clock is its own: zero lies within the bounds, which are a second or so apart."""
    with HttpServer(Served().app, "127.0.0.1", 0) as server:
        bounds = ask_ready(server.url).clock_ahead_ms
    assert bounds is not None
    assert bounds[0] <= 0 <= bounds[1]


@pytest.mark.parametrize("body", [b"<html>", b"{}", b"[]"])
def test_another_server_is_told_as_such(body: bytes) -> None:
    """What answers and is no exporter of ours is a failure, not a stack trace."""

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
    assert "no exporter of kcm" in found.text


def test_an_exporter_that_is_away_fails_with_what_to_do() -> None:
    """One line, with its address."""
    url = f"http://127.0.0.1:{free_port()}"
    found = first(url)
    assert found.level is Level.FAIL
    assert url in found.text
    assert "--exporter" in found.todo
