"""Stream server-sent events to one viewer of the live page, until either side ends.

The rule: nothing waits for a viewer. Each write has a deadline; a viewer that does not read in time is
disconnected, and connects again by itself if it is alive.
"""

import asyncio
from collections.abc import AsyncIterator

from starlette.responses import StreamingResponse
from starlette.types import Message, Receive, Scope, Send

from exporter.live.feed import LiveFeed
from exporter.live.messages import GZIP_HEADER, Viewer

SEND_TIMEOUT_S = 10.0
"""How long a viewer whose buffers are full may take to read: a phone in a tunnel."""

_HEADERS = {
    "cache-control": "no-store",
    "vary": "Accept-Encoding",
    # nginx buffers small pieces unless this header forbids it.
    "x-accel-buffering": "no",
}


class EventStream(StreamingResponse):
    """A response without an end: starlette ends it when the viewer disconnects, this class when it is too slow."""

    def __init__(
        self, feed: LiveFeed, viewer: Viewer, *, send_within_s: float = SEND_TIMEOUT_S
    ) -> None:
        packing = {"content-encoding": "gzip"} if viewer.is_packed else {}
        headers = _HEADERS | packing
        super().__init__(_news(viewer), headers=headers, media_type="text/event-stream")
        self._feed = feed
        self._viewer = viewer
        self._send_within_s = send_within_s

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send news until the viewer disconnects or is too slow, or the feed ends."""

        async def send_in_time(message: Message) -> None:
            await asyncio.wait_for(send(message), self._send_within_s)

        if scope["method"] == "HEAD":
            self._viewer.end()
        try:
            await super().__call__(scope, receive, send_in_time)
        except TimeoutError:
            return  # such a viewer would not read the end of the response either: the server closes the connection
        finally:
            self._feed.leave(self._viewer)


async def _news(viewer: Viewer) -> AsyncIterator[bytes]:
    """Yield the viewer's messages until its stream is to end."""
    if viewer.is_packed:
        yield GZIP_HEADER
    while True:
        await viewer.news.wait()
        if viewer.ended:
            return
        yield viewer.take()
