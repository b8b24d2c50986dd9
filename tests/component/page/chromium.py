"""A real headless Chromium, and errors of a page in it that no page of kcm may cause."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Browser, Page, Request, sync_playwright

from exporter.live.page_answers import PATH
from tests.support.waiting import DEADLINE_S

NAMES = ("chromium", "chromium-browser", "google-chrome")
SHOWN_TIMEOUT_S = 1.5
"""A change is on the page within it, unless the machine is busy with others: it polls each second."""

WAIT_MS = int(DEADLINE_S * 1000)
"""Long against everything that a page does; only a failing test waits so long."""


@contextmanager
def chromium() -> Iterator[Browser]:
    """A browser of this machine; the test is skipped where there is none."""
    path = next(filter(None, map(shutil.which, NAMES)), None)
    if path is None:
        pytest.skip("no Chromium is installed (Debian: apt-get install chromium)")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path)
        try:
            yield browser
        finally:
            browser.close()


class Watched:
    """A page whose complaints are kept, and whose requests are all to one server."""

    def __init__(self, page: Page, url: str) -> None:
        self.page = page
        self.url = url
        self.complaints: list[str] = []
        self.requests: list[str] = []
        page.set_default_timeout(WAIT_MS)
        page.on("console", lambda message: self._console(message.type, message.text))
        page.on("pageerror", lambda error: self.complaints.append(f"error: {error}"))
        page.on("request", self._request)

    def open(self, path: str = "/") -> Page:
        """Open a page of the server, and wait until it shows something."""
        self.page.goto(f"{self.url}{path}")
        self.page.wait_for_selector("#fleet:not([hidden]), #cluster:not([hidden])")
        return self.page

    def _console(self, kind: str, text: str) -> None:
        if kind in {"error", "warning"}:
            self.complaints.append(f"{kind}: {text}")

    def _request(self, request: Request) -> None:
        self.requests.append(request.url)

    @property
    def questions(self) -> list[str]:
        """Requests that were no polls."""
        return [url for url in self.requests if not urlsplit(url).path.endswith(PATH)]

    @property
    def outside(self) -> list[str]:
        """Requests that went elsewhere."""
        return [url for url in self.requests if not url.startswith(f"{self.url}/")]


@contextmanager
def watched(browser: Browser, url: str, **context: Any) -> Iterator[Watched]:
    """A page in a context of its own (viewport, color_scheme, ...)."""
    held = browser.new_context(timezone_id="UTC", locale="en-GB", **context)
    try:
        yield Watched(held.new_page(), url)
    finally:
        held.close()
