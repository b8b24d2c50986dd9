"""The server: every request is counted by its route, and addresses work behind a prefix."""

from __future__ import annotations

import json
import re
import time
from contextlib import ExitStack
from urllib.parse import urljoin

import pytest

from exporter.live.page_answers import PATH
from exporter.serve.server import HttpServer
from pipeline.runtime import API_HEADER, API_VERSION
from tests.support.api_server import Served
from tests.support.samples import broker_view, cluster_view
from tests.support.web import connected, exchange, request, status

PROD = "/api/v1/clusters/prod"


def test_every_request_is_counted_by_route_and_status_code() -> None:
    """A refusal and an unknown cluster count for their route; a path that is not served counts for none."""
    served = Served()
    served.write(broker_view(0), cluster_view())
    for path, wanted in (
        (f"{PROD}/topics", 200),
        (f"{PROD}/topics?limit=0", 400),
        ("/api/v1/clusters/nobody/topics", 404),
        ("/api/v1/", 404),
        ("/nowhere", 404),
    ):
        answer = served.get(path)
        assert answer.status_code == wanted
        assert "location" not in answer.headers, "nobody is sent to the Host that was asked for"
        if wanted == 200:
            assert answer.headers[API_HEADER] == API_VERSION
    lines = [
        line
        for line in served.get("/metrics").text.splitlines()
        if line.startswith("kcm_exporter_http_requests_total")
    ]
    topics = "/api/v1/clusters/{name}/topics"
    assert lines == [
        f'kcm_exporter_http_requests_total{{code="200",route="{topics}"}} 1.0',
        f'kcm_exporter_http_requests_total{{code="400",route="{topics}"}} 1.0',
        f'kcm_exporter_http_requests_total{{code="404",route="{topics}"}} 1.0',
        'kcm_exporter_http_requests_total{code="404",route="none"} 2.0',
    ]
    assert API_HEADER not in served.get("/").headers


def test_an_unexpected_exception_is_a_problem_and_is_counted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its text is for the log only; other pages are answered."""
    served = Served()
    served.write(broker_view(0), cluster_view())

    def fail(*_: object) -> None:
        raise ZeroDivisionError("secret")

    monkeypatch.setattr(served.collector, "completeness", fail)
    with HttpServer(served.app, "127.0.0.1", 0) as server:
        answer = exchange(server, request(path=f"{PROD}/brokers"))
        shown = exchange(server, request(path="/metrics"))
    assert status(answer) == 500
    head, _, body = answer.partition(b"\r\n\r\n")
    assert b"content-type: application/problem+json" in head
    assert json.loads(body)["detail"] == "an internal error; see the exporter's log"
    assert b'_http_requests_total{code="500",route="/api/v1/clusters/{name}/brokers"} 1.0' in shown


def test_a_request_for_another_host_is_counted() -> None:
    """A request for another Host counts for no route."""
    served = Served()
    with HttpServer(served.app, "127.0.0.1", 0) as server:
        assert status(exchange(server, request("Host: evil.com"))) == 421
        shown = exchange(server, request(path="/metrics"))
    assert b'kcm_exporter_http_requests_total{code="421",route="none"} 1.0' in shown


def test_links_in_answers_work_behind_a_path_prefix() -> None:
    """They are relative to the address of the answer that contains them."""
    served = Served()
    served.write(broker_view(0), cluster_view())
    for before in ("http://kcm", "https://proxy/kafka/monitor"):
        root = served.json("/api/v1")
        clusters = urljoin(f"{before}/api/v1", root["clusters"])
        assert clusters == f"{before}/api/v1/clusters"
        assert urljoin(f"{before}/api/v1", root["openapi"]) == f"{before}/api/v1/openapi.json"
        (cluster,) = served.json("/api/v1/clusters")["clusters"]
        assert urljoin(clusters, cluster["href"]) == f"{before}{PROD}"


def test_a_client_that_polls_without_a_pause_does_not_lock_others_out() -> None:
    """It uses all its connections, with many polls waiting on each; another client is answered in between."""
    served = Served()
    served.write(broker_view(0), cluster_view())
    polls = 100 * request(path=PATH).replace(b"Connection: close\r\n", b"")
    with HttpServer(served.app, "127.0.0.1", 0) as server, ExitStack() as stack:
        clients = [stack.enter_context(connected(server)) for _ in range(100)]
        for client in clients:
            client.sendall(polls)
        with connected(server) as one_too_many:
            assert one_too_many.recv(1) == b"", "it has all the connections that a client may have"
        began = time.monotonic()
        answer = exchange(server, request(path=PATH), of="127.0.0.2")
        took_s = time.monotonic() - began
        shown = exchange(server, request(path="/metrics"), of="127.0.0.2")
    assert status(answer) == 200
    (polled,) = re.findall(rb'http_requests_total\{code="200",route="/api/v1/page"\} (\d+)', shown)
    assert int(polled) < 100 * 100 or took_s < 1, (
        "it did not wait for all polls of the other client"
    )
