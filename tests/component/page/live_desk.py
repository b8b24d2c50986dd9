"""A desk for tests of the live page: servers, pages in a real Chromium, and their texts."""

from __future__ import annotations

import re
from contextlib import ExitStack
from typing import Any

from playwright.sync_api import Browser, Locator, Page, expect

from controller_model.records.views import ControllerView, Counts
from exporter.serve.server import HttpServer
from tests.component.page.chromium import WAIT_MS, Watched, watched
from tests.support.api_server import Served
from tests.support.samples import T0, broker_view, cluster_view

PHONE = {"width": 360, "height": 740}
DESK = {"width": 1280, "height": 900}
expect.set_options(timeout=WAIT_MS)


class Desk:
    """Servers and pages of one test; what pages complained of fails it at the end."""

    def __init__(self, browser: Browser) -> None:
        self._browser = browser
        self._stack = ExitStack()
        self.pages: list[Watched] = []

    def serve(self, served: Served, port: int = 0) -> HttpServer:
        """Serve on a port of its own."""
        return self._stack.enter_context(HttpServer(served.app, "127.0.0.1", port))

    def page(self, url: str, **context: Any) -> Watched:
        """Return a new page."""
        made = self._stack.enter_context(watched(self._browser, url, **context))
        self.pages.append(made)
        return made

    def assert_no_complaints(self) -> None:
        """Fail if a page logged an error, or sent a request to another server than its exporter."""
        answer = [(page.complaints, page.outside) for page in self.pages]
        assert answer == [([], [])] * len(answer)

    def close(self) -> None:
        """End all pages, then all servers."""
        self._stack.close()


def texts(place: Locator) -> list[str]:
    """Return the texts of all elements, without spare spaces."""
    return [" ".join(text.split()) for text in place.all_inner_texts()]


def wait_for_lists(page: Page) -> None:
    """Wait until the page has shown what it asked the API for: until then it gets new rows and controls."""
    for name in ("partition-note", "incidents-lead", "flapping-lead", "advice-lead"):
        expect(page.locator(f"#{name}")).not_to_be_empty()


def row_of(page: Page, table: str, name: str) -> list[str]:
    """Return the cells of the row that begins with this name."""
    row = page.locator(f"#{table} tbody tr", has=page.locator("th", has_text=re.compile(name)))
    return texts(row.locator("th, td"))


def fleet(clusters: int = 50) -> Served:
    """Return a fleet in which two clusters have trouble."""
    served = Served()
    for number in range(clusters):
        offline = 5 if number == 31 else 0
        counts = Counts(topics=400, partitions=4000, offline=offline, under_min_isr=0)
        controller = ControllerView(id=-1, vacant_since=T0) if number == 40 else None
        fields: dict[str, Any] = {} if controller is None else {"controller": controller}
        served.write(
            broker_view(0, cluster=f"c{number:02}"),
            cluster_view(f"c{number:02}", counts=counts, **fields),
        )
    return served
