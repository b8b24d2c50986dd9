"""A played cluster that elects, and the real exporter that shows it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from exporter.serve.server import HttpServer
from tests.support.api_server import Served
from tests.support.elections import Cluster


@pytest.fixture
def cluster() -> Cluster:
    """A played cluster."""
    played = Cluster(Served())
    played.show()
    return played


@pytest.fixture
def url(cluster: Cluster) -> Iterator[str]:
    """The exporter that shows it."""
    with HttpServer(cluster.served.app, "127.0.0.1", 0) as server:
        yield server.url
