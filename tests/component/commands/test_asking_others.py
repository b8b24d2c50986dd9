"""The commands that ask the exporter, against servers that are none, or of another release."""

from __future__ import annotations

import itertools
import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from kcm.__main__ import main
from pipeline.runtime import API_HEADER, API_VERSION
from tests.component.commands.test_asking import ASKING, Shown
from tests.support.api_server import Served

Answers = Callable[[str], tuple[int, bytes]]


@contextmanager
def other_server(answers: Answers, version: str | None = API_VERSION) -> Iterator[str]:
    """Serve what answers to a path with a status and a body, and yield its address.

    `version`: of the API that it claims to serve; None: it claims nothing.
    """

    class Other(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            status, body = answers(self.path)
            self.send_response(status)
            if version is not None:
                self.send_header(API_HEADER, version)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    with HTTPServer(("127.0.0.1", 0), Other) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


def test_another_server_is_reported_as_such(capsys: pytest.CaptureFixture[str]) -> None:
    """A server that answers but is not kcm's exporter is reported as such."""

    def answers(path: str) -> tuple[int, bytes]:
        return 200 if path.endswith("clusters") else 404, b"<html>hello</html>"

    with other_server(answers, version=None) as url:
        shown = Shown(url, Served(), capsys)
        assert "not a kcm exporter" in shown.complaint("status", code=3)
        assert "not a kcm exporter" in shown.complaint("events", "--cluster", "x", code=3)


@pytest.mark.parametrize("verb", ASKING)
@pytest.mark.parametrize(
    "body", [b'{"clusters":null}', b'{"clusters":[[]],"name":1,"counts":"x"}', b'{"name":{}}']
)
def test_json_of_another_server_is_reported_as_such(
    verb: str, body: bytes, capsys: pytest.CaptureFixture[str]
) -> None:
    """Whatever the types in it are: it is not read at all."""
    with other_server(lambda _: (200, body), version=None) as url:
        assert "not a kcm exporter" in Shown(url, Served(), capsys).complaint(verb, code=3)


@pytest.mark.parametrize(
    ("body", "answer"),
    [
        (b'{"name":"prod","next":null}', "it is another release than this command"),
        (b"[]", "not a kcm exporter"),
    ],
)
@pytest.mark.parametrize("verb", ASKING)
def test_an_exporter_of_another_release_is_reported_as_such(
    verb: str, body: bytes, answer: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """An answer that lacks what is read from it is one line with its address, not a stack trace."""
    with other_server(lambda _: (200, body)) as url:
        line = Shown(url, Served(), capsys).complaint(verb, "--cluster", "prod", code=3)
    assert answer in line
    assert url in line


def test_a_path_that_an_older_exporter_does_not_serve_is_reported_as_such(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """It is not reported as a mistake of the user."""
    with other_server(lambda _: (404, b'{"status":404,"detail":"Not Found"}')) as url:
        line = Shown(url, Served(), capsys).complaint("what-if", "--cluster", "prod", code=3)
    assert "serves no /api/v1/clusters/prod/what-if" in line


def chunk_of(number: int) -> dict[str, Any]:
    """Return a chunk of a recommendation of three."""
    partitions = [{"topic": "t", "partition": number}]
    return {"number": number, "partition_count": 1, "election": {"partitions": partitions}}


@pytest.mark.parametrize(("refusals", "code"), [(1, 0), (99, 3)])
def test_a_recommendation_that_changes_between_pages_is_read_again(
    refusals: int, code: int, capsys: pytest.CaptureFixture[str]
) -> None:
    """Pages of two recommendations are never combined; endless changes are reported."""
    asked = itertools.count()

    def answers(path: str) -> tuple[int, bytes]:
        after = parse_qs(urlsplit(path).query).get("after")
        if after == ["x2"] and next(asked) < refusals:
            return 400, b'{"detail":"start over"}'
        number = 1 if after is None else int(after[0][1:])
        answer = {
            "name": "prod",
            "completeness": {"status": "live"},
            "partition_count": 3,
            "chunk_count": 3,
            "chunks": [chunk_of(number)],
            "next": None if number == 3 else f"x{number + 1}",
        }
        return 200, json.dumps(answer).encode()

    with other_server(answers) as url:
        options = ("--cluster", "prod", "--json", "--exporter", url)
        assert main(["recommend", *options]) == code
        captured = capsys.readouterr()
        if code:
            assert "changed 5 times" in captured.err
            return
        elected = json.loads(captured.out)["partitions"]
        assert [each["partition"] for each in elected] == [1, 2, 3]
        assert main(["recommend", "--chunk", "2", *options]) == 0
        elected = json.loads(capsys.readouterr().out)["partitions"]
        assert [each["partition"] for each in elected] == [2]
