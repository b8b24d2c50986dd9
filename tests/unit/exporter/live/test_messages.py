"""Messages: made again only when what they show has changed; a viewer is sent the newest of each kind, once."""

from __future__ import annotations

import asyncio
import zlib

from exporter.live.messages import GZIP_HEADER, Message, Viewer
from tests.support.live_feed import SOON_S, feed_of, messages, next_message, shown, watching
from tests.support.samples import as_of, broker_view, cluster_view, log_view


def test_delay_ms_is_given_only_for_changes_after_the_page_was_opened() -> None:
    """It is not measured for what was there when the page was opened, nor if the watcher's clock is ahead."""

    async def look() -> list[int | None]:
        served = shown()
        delays = []
        async with watching(feed_of(served)) as viewer:
            delays.append((await next_message(viewer, "cluster"))["delay_ms"])
            for seq, ago in ((2, 250), (3, -250)):
                log = log_view(last_change_at=served.now - ago)
                served.write(cluster_view(at=as_of(seq), log=log))
                delays.append((await next_message(viewer, "cluster"))["delay_ms"])
        return delays

    assert asyncio.run(look()) == [None, 250, None]


def test_packed_messages_form_one_gzip_stream() -> None:
    """Each is packed once, for all viewers, and can be read as soon as it arrives."""
    messages_sent = [Message("beat", b"{}"), Message("cluster", b'{"a":"' + b"x" * 9_000 + b'"}')]
    unpack = zlib.decompressobj(wbits=zlib.MAX_WBITS | 16)
    assert unpack.decompress(GZIP_HEADER) == b""
    for message in (*messages_sent, messages_sent[0]):
        assert unpack.decompress(message.packed) == message.sent
        assert message.packed is message.packed
    assert len(messages_sent[1].packed) < 200


def test_brokers_are_sent_again_only_when_one_changed() -> None:
    """There may be hundreds, and a heartbeat changes none of them."""

    async def look() -> list[list[str]]:
        served = shown()
        kinds = []
        async with watching(feed_of(served)) as viewer:
            await next_message(viewer, "cluster")
            for seq, leaders in ((2, 0), (3, 1)):
                served.write(
                    broker_view(1, as_of(seq), leaders=leaders), cluster_view(at=as_of(seq))
                )
                async with asyncio.timeout(SOON_S):
                    while "cluster" not in viewer._next:
                        await viewer.news.wait()
                        viewer.news.clear()
                kinds.append([kind for kind, _ in messages(viewer.take()) if kind != "beat"])
        return kinds

    assert asyncio.run(look()) == [["cluster"], ["brokers", "cluster"]]


def test_only_the_newest_state_is_kept_for_a_viewer_that_does_not_read() -> None:
    """Newer states replace those that were not sent yet: there is never a queue."""
    viewer = Viewer("prod")
    for number in range(1000):
        viewer.offer(Message("cluster", b"%d" % number))
    viewer.offer(Message("beat", b"0"))
    assert messages(viewer.take()) == [("cluster", 999), ("beat", 0)]
    assert viewer.take() == b""
