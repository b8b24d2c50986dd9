"""A feed of the live page over views that a test writes, and a viewer that listens to it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

from controller_model.insight.thresholds import THRESHOLDS, Threshold
from exporter.live.feed import LiveFeed
from exporter.live.messages import Viewer
from tests.support.api_server import Served
from tests.support.samples import broker_view, cluster_view

SOON_S = 5.0
"""Long compared with an update; only a failing test waits that long."""


def feed_of(
    served: Served,
    update_every_s: float = 0.005,
    *,
    thresholds: Mapping[str, Threshold] = THRESHOLDS,
) -> LiveFeed:
    """Return a feed of what is served."""
    return LiveFeed(
        served.collector,
        served.events,
        clock=lambda: served.now,
        reasons=lambda: ["a reason"],
        page="7f3a",
        thresholds=thresholds,
        update_every_s=update_every_s,
    )


@asynccontextmanager
async def watching(feed: LiveFeed, cluster: str | None = "prod") -> AsyncIterator[Viewer]:
    """A viewer, for the time of a test."""
    viewer = feed.join(cluster)
    try:
        yield viewer
    finally:
        feed.leave(viewer)


async def next_message(viewer: Viewer, kind: str) -> Any:
    """Return the next message of a kind."""
    async with asyncio.timeout(SOON_S):
        while True:
            await viewer.news.wait()
            for name, data in messages(viewer.take()):
                if name == kind:
                    return data


def messages(taken: bytes) -> list[tuple[str, Any]]:
    """Return the server-sent events in these bytes."""
    found = []
    for block in taken.decode().split("\n\n")[:-1]:
        name, data = block.split("\n", 1)
        found.append((name.removeprefix("event: "), json.loads(data.removeprefix("data: "))))
    return found


def shown() -> Served:
    """Return a cluster of two brokers."""
    served = Served()
    served.write(broker_view(0), broker_view(1), cluster_view())
    return served
