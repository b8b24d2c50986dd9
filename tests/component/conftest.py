"""Fixtures of the component tests that need a browser; what drives it is loaded only for them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from tests.support.api_server import Served
from tests.support.live_story import BAD_HOUR, LiveStory, served
from tests.support.samples import T0

if TYPE_CHECKING:
    from playwright.sync_api import Browser

    from tests.component.live_desk import Desk


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """One Chromium for a module; skips where there is none."""
    from tests.component.chromium import chromium  # noqa: PLC0415  # other tests need no browser

    with chromium() as started:
        yield started


@pytest.fixture
def desk(browser: Browser) -> Iterator[Desk]:
    """A desk; no page on it may log an error or ask anybody but its exporter."""
    from tests.component.live_desk import Desk  # noqa: PLC0415  # other tests need no browser

    made = Desk(browser)
    try:
        yield made
        made.assert_no_complaints()
    finally:
        made.close()


@pytest.fixture
def bad() -> Served:
    """An exporter of a cluster after a bad hour."""
    return served(LiveStory(until=T0), BAD_HOUR)
