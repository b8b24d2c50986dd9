"""What several folders of component tests ask: an exporter that has something to show."""

from __future__ import annotations

import pytest

from tests.support.api_server import Served
from tests.support.live_story import BAD_HOUR, LiveStory, served
from tests.support.samples import T0


@pytest.fixture
def bad() -> Served:
    """An exporter of a cluster after a bad hour."""
    return served(LiveStory(until=T0), BAD_HOUR)
