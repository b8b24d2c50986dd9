"""What several folders of component tests ask: an exporter that has something to show, and logs apart from output."""

from __future__ import annotations

import sys

import pytest
import structlog

from tests.support.api_server import Served
from tests.support.live_story import BAD_HOUR, LiveStory, served
from tests.support.samples import T0


@pytest.fixture(autouse=True)
def _logs_beside_what_is_captured() -> None:
    """Keep the logs of parts that run in this process out of a command's output, whenever they come."""
    structlog.configure(logger_factory=structlog.PrintLoggerFactory(file=sys.__stderr__))


@pytest.fixture
def bad() -> Served:
    """An exporter of a cluster after a bad hour."""
    return served(LiveStory(until=T0), BAD_HOUR)
