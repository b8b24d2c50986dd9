"""Fixtures of the tests in a browser; what drives it is loaded only for them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from playwright.sync_api import Browser

    from tests.component.page.live_desk import Desk


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """One Chromium for a module; skips where there is none."""
    from tests.component.page.chromium import chromium  # noqa: PLC0415  # other tests need no browser

    with chromium() as started:
        yield started


@pytest.fixture
def desk(browser: Browser) -> Iterator[Desk]:
    """A desk; no page on it may log an error or ask anybody but its exporter."""
    from tests.component.page.live_desk import Desk  # noqa: PLC0415  # other tests need no browser

    made = Desk(browser)
    try:
        yield made
        made.assert_no_complaints()
    finally:
        made.close()
