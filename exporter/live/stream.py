"""The live page's stream: server-sent events to one viewer, until one of the two goes.

The rule: nothing waits for a viewer. What is sent has a deadline; a viewer that does not take it is
dropped, and comes again by itself if it is alive.
"""

from __future__ import annotations

import asyncio

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from exporter.live.feed import LiveFeed
from exporter.live.viewer import Viewer

SEND_WITHIN_S = 10.0
"""How long a viewer may take to read what fills its buffers: a phone that is in a tunnel."""

_HEADERS = {
    "content-type": "text/event-stream; charset=utf-8",
    "cache-control": "no-store",
    # nginx keeps back what comes in small pieces, unless this header forbids it.
    "x-accel-buffering": "no",
}


class EventStream(Response):
    """An answer without an end."""

    def __init__(
        self, feed: LiveFeed, viewer: Viewer, *, send_within_s: float = SEND_WITHIN_S
    ) -> None:
        super().__init__(headers=_HEADERS)
        # It has no length: Response has put that of an empty body.
        self.raw_headers = [each for each in self.raw_headers if each[0] != b"content-length"]
        self._feed = feed
        self._viewer = viewer
        self._send_within_s = send_within_s

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send what is new until the viewer has gone, is too slow, or the feed ends."""
        gone = asyncio.get_running_loop().create_task(_gone(receive, self._viewer))
        try:
            await send(
                {
                    "type": "http.response.start",
                    "status": self.status_code,
                    "headers": self.raw_headers,
                }
            )
            # Of who takes nothing not even an end would be taken: the server closes the connection.
            if scope["method"] == "HEAD" or await self._send_all(send):
                await send({"type": "http.response.body", "body": b"", "more_body": False})
        finally:
            self._feed.leave(self._viewer)
            gone.cancel()

    async def _send_all(self, send: Send) -> bool:
        """Send until there is an end; False when the viewer took too long."""
        viewer = self._viewer
        while True:
            await viewer.news.wait()
            if viewer.ended:
                return True
            message = {"type": "http.response.body", "body": viewer.take(), "more_body": True}
            try:
                await asyncio.wait_for(send(message), self._send_within_s)
            except TimeoutError:
                return False


async def _gone(receive: Receive, viewer: Viewer) -> None:
    """End the viewer's stream when it hangs up."""
    while (await receive())["type"] != "http.disconnect":
        pass
    viewer.end()
