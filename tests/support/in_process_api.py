"""A client of an exporter that runs in this process, without a port or a socket."""

from __future__ import annotations

import http.client
import io
import urllib.request
import urllib.response
from typing import Protocol

import httpx

from kcm.queries.api_client import ExporterApi


class Answering(Protocol):
    """An object that answers a GET of a path with its query."""

    def get(self, path: str, *, headers: dict[str, str]) -> httpx.Response:
        """Return the answer; raises OSError where there is none."""


class _Handler(urllib.request.HTTPHandler):
    """Passes requests to the application, and its answers back."""

    def __init__(self, served: Answering) -> None:
        super().__init__()
        self._served = served

    def http_open(self, req: urllib.request.Request) -> http.client.HTTPResponse:
        asked = {name: text for name, text in req.header_items() if name.lower() != "host"}
        answer = self._served.get(req.selector, headers=asked)
        headers = http.client.HTTPMessage()
        for name, text in answer.headers.items():
            headers[name] = text
        opened = urllib.response.addinfourl(
            io.BytesIO(answer.content), headers, req.full_url, answer.status_code
        )
        opened.msg = answer.reason_phrase  # type: ignore[attr-defined]  # urllib reads it where an answer is an error
        return opened  # type: ignore[return-value]  # urllib itself returns both


def api_of(served: Answering) -> ExporterApi:
    """Return a client of this exporter."""
    api = ExporterApi("http://exporter:9640")
    api._opener = urllib.request.build_opener(_Handler(served))  # it opens every connection
    return api
