"""Fixtures that tests of several folders of the exporter use."""

from __future__ import annotations

import pytest

from tests.support.api_server import Served
from tests.support.sick_cluster import sick_cluster


@pytest.fixture
def served() -> Served:
    """A cluster of two live brokers and one that is gone."""
    return sick_cluster()
