"""A cluster that elects, shown by an exporter in this process."""

from __future__ import annotations

import pytest

from tests.support.api_server import Served
from tests.support.elections import Cluster


@pytest.fixture
def cluster() -> Cluster:
    """Seven partitions of t are led by a replica other than the preferred one."""
    cluster = Cluster(Served())
    cluster.show()
    return cluster
