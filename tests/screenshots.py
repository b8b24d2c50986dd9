"""`python -m tests.screenshots [FOLDER]`: the pictures of the live page in docs/screenshots, made again.

The rule: a picture shows what the page shows, of a cluster whose every write the miniature
controller made and the fold folded; nothing in it is drawn or typed.
"""

from __future__ import annotations

import base64
import sys
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, expect

from exporter.serve.server import HttpServer
from tests.component.page.chromium import chromium, watched
from tests.support.live_story import BAD_HOUR, QUIET_HOUR, LiveStory, served
from tests.support.samples import T0

FOLDER = Path(__file__).parent.parent / "docs" / "screenshots"
QUALITY = 85
"""Of WebP: text stays sharp, at a third of what a PNG takes."""
MAX_BYTES = 150_000
"""A picture is looked at in a README, over any line."""

PICTURES: dict[str, tuple[Any, dict[str, Any]]] = {
    "live-light": (
        BAD_HOUR,
        {"viewport": {"width": 1280, "height": 1000}, "color_scheme": "light"},
    ),
    "live-dark": (
        QUIET_HOUR,
        {"viewport": {"width": 1280, "height": 860}, "color_scheme": "dark"},
    ),
    "live-phone": (
        BAD_HOUR,
        {"viewport": {"width": 360, "height": 780}, "color_scheme": "dark"},
    ),
}
"""By name: the script that is played, and how the browser is set."""

TOUR = ("health", "controller", "figures", "brokers", "incidents", "advice")
"""The parts of the page that docs/tour.md shows, each as a picture of its own."""


def take_picture(browser: Browser, name: str, folder: Path) -> int:
    """Take a picture; return its size in bytes."""
    part = name.removeprefix("tour-")
    script, context = PICTURES["live-light" if part in TOUR else name]
    exporter = served(LiveStory(until=T0), script)
    path = folder / f"{name}.webp"
    with (
        HttpServer(exporter.app, "127.0.0.1", 0) as server,
        watched(browser, server.url, **context) as one,
    ):
        page = one.open()
        # What is asked for beside the polls has come.
        expect(page.locator("#partition-note")).not_to_be_empty()
        expect(page.locator("#advice-lead")).not_to_be_empty()
        expect(page.locator("#incidents-lead")).not_to_be_empty()
        shown = page.viewport_size if part == name else page.locator(f"#{part}").bounding_box()
        assert shown is not None
        clip = {"x": 0, "y": 0, **shown, "scale": 2 if name == "live-phone" else 1}
        taken = page.context.new_cdp_session(page).send(
            "Page.captureScreenshot",
            {"format": "webp", "quality": QUALITY, "clip": clip, "captureBeyondViewport": True},
        )
        path.write_bytes(base64.b64decode(taken["data"]))
    return path.stat().st_size


def main(arguments: list[str]) -> int:
    """Take all pictures; return 1 when one is too large."""
    folder = Path(arguments[0]) if arguments else FOLDER
    folder.mkdir(parents=True, exist_ok=True)
    too_large = 0
    with chromium() as browser:
        for name in (*PICTURES, *(f"tour-{part}" for part in TOUR)):
            size = take_picture(browser, name, folder)
            sys.stdout.write(f"{folder / name}.webp: {size:,} bytes\n")
            too_large += size > MAX_BYTES
    return 1 if too_large else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
