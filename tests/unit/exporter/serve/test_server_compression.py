"""Answers are compressed for clients that accept gzip, and only for those."""

from __future__ import annotations

import gzip

import pytest

from tests.support.api_server import Served
from tests.support.samples import broker_view, cluster_view


def served() -> Served:
    """Return an exporter of a cluster with a broker."""
    found = Served()
    found.write(broker_view(0), cluster_view())
    return found


@pytest.mark.parametrize("path", ["/metrics", "/api/v1/openapi.json", "/page/main.js"])
def test_a_client_that_accepts_gzip_gets_gzip(path: str) -> None:
    """The content is the same, and `Vary` names the header that it depends on."""
    plain = served().get(path, headers={"accept-encoding": "identity"})
    packed = served().get(path, headers={"accept-encoding": "gzip"})
    assert "content-encoding" not in plain.headers
    assert packed.headers["content-encoding"] == "gzip"
    assert "accept-encoding" in packed.headers["vary"].lower()
    assert int(packed.headers["content-length"]) < len(plain.content) / 2


def test_gzip_shrinks_a_scrape_to_less_than_a_quarter() -> None:
    """The lines of metrics are repetitive."""
    text = served().get("/metrics", headers={"accept-encoding": "identity"}).content
    assert len(gzip.compress(text, 4)) < len(text) / 4
