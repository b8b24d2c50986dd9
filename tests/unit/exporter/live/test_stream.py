"""One viewer's stream: each write has a deadline, and the viewer's place is free afterwards."""

from __future__ import annotations

import asyncio
import zlib

from starlette.types import Message

from exporter.live.messages import Viewer
from exporter.live.stream import EventStream
from tests.support.live_feed import SOON_S, feed_of, messages, shown


def test_a_viewer_that_does_not_read_is_dropped_after_a_deadline() -> None:
    """Each write has a deadline; the viewer's place is free afterwards."""

    async def look() -> set[Viewer]:
        feed = feed_of(shown())
        stream = EventStream(feed, feed.join("prod"), send_within_s=0.05)

        async def send(message: Message) -> None:
            if message["type"] == "http.response.body":
                await asyncio.Event().wait()

        async def receive() -> Message:
            await asyncio.Event().wait()
            raise AssertionError

        async with asyncio.timeout(SOON_S):
            await stream({"type": "http", "method": "GET"}, receive, send)
        return feed._viewers

    assert asyncio.run(look()) == set()


def test_a_head_request_is_answered_without_a_stream() -> None:
    """A probe with HEAD gets the type of the stream, no stream, and takes no place."""

    async def look() -> tuple[list[Message], set[Viewer]]:
        feed = feed_of(shown())
        sent: list[Message] = []

        async def send(message: Message) -> None:
            sent.append(message)

        async def receive() -> Message:
            await asyncio.Event().wait()
            raise AssertionError

        async with asyncio.timeout(SOON_S):
            await EventStream(feed, feed.join(None))(
                {"type": "http", "method": "HEAD"}, receive, send
            )
        return sent, feed._viewers

    sent, viewers = asyncio.run(look())
    assert (b"content-type", b"text/event-stream; charset=utf-8") in sent[0]["headers"]
    assert [message.get("more_body") for message in sent] == [None, False]
    assert viewers == set()


def test_a_viewer_that_accepts_gzip_gets_each_message_packed() -> None:
    """The first bytes are the stream's header, and each message can be read when it arrives."""

    async def look() -> tuple[Message, list[str]]:
        feed = feed_of(shown())
        sent: list[Message] = []
        unpack = zlib.decompressobj(wbits=zlib.MAX_WBITS | 16)
        text = ""

        async def send(message: Message) -> None:
            nonlocal text
            sent.append(message)
            text += unpack.decompress(message.get("body", b"")).decode()
            if "event: cluster" in text:
                feed.end()

        async def receive() -> Message:
            await asyncio.Event().wait()
            raise AssertionError

        async with asyncio.timeout(SOON_S):
            stream = EventStream(feed, feed.join("prod", is_packed=True))
            await stream({"type": "http", "method": "GET"}, receive, send)
        return sent[0], [kind for kind, _ in messages(text.encode())]

    start, kinds = asyncio.run(look())
    assert (b"content-encoding", b"gzip") in start["headers"]
    assert set(kinds) == {"beat", "fleet", "brokers", "cluster"}


def test_a_viewer_that_disconnects_is_removed_at_once() -> None:
    """It leaves at once, although nothing was to be sent."""

    async def look() -> tuple[list[str], set[Viewer]]:
        feed = feed_of(shown())
        stream = EventStream(feed, feed.join("prod"))
        sent: list[str] = []

        async def send(message: Message) -> None:
            sent.append(message["type"])

        async def receive() -> Message:
            return {"type": "http.disconnect"}

        async with asyncio.timeout(SOON_S):
            await stream({"type": "http", "method": "GET"}, receive, send)
        return sent, feed._viewers

    sent, viewers = asyncio.run(look())
    assert sent[0] == "http.response.start"
    assert viewers == set()
