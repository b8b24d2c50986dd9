"""The live page's feed: made once for all, newest state only, bounded, and ended in time."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
import structlog
from starlette.exceptions import HTTPException
from starlette.types import Message

from controller_model.records.views import ControllerView
from exporter.intake.event_store import EventStore
from exporter.live.events import EVENTS_SHOWN, RecentEvents
from exporter.live.feed import MOST_VIEWERS, LiveFeed, Viewer
from exporter.live.stream import EventStream
from tests.support.api_server import Served
from tests.support.samples import (
    as_of,
    broker_view,
    cluster_view,
    elected,
    event_record,
    log_view,
)

SOON_S = 5.0
"""Long against a look; only a failing test waits so long."""


def feed_of(served: Served) -> LiveFeed:
    """Return a feed of what is served."""
    return LiveFeed(
        served, served.events, clock=lambda: served.now, reasons=list, look_every_s=0.005
    )


@asynccontextmanager
async def watching(feed: LiveFeed, cluster: str | None = "prod") -> AsyncIterator[Viewer]:
    """A viewer, for the time of a test."""
    viewer = feed.join(cluster)
    try:
        yield viewer
    finally:
        feed.leave(viewer)


async def heard(viewer: Viewer, kind: str) -> Any:
    """Return the next message of a kind."""
    async with asyncio.timeout(SOON_S):
        while True:
            await viewer.news.wait()
            for name, data in messages(viewer.take()):
                if name == kind:
                    return data


def messages(taken: bytes) -> list[tuple[str, Any]]:
    """Return the server-sent events in what goes over the line."""
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


def test_a_viewer_is_told_the_time_the_fleet_and_its_cluster_at_once() -> None:
    """The beat goes first: by it the page knows what the rest is worth."""

    async def look() -> list[tuple[str, Any]]:
        served = shown()
        async with watching(feed_of(served)) as viewer, asyncio.timeout(SOON_S):
            await viewer.news.wait()
            return messages(viewer.take())

    told = asyncio.run(look())
    assert [name for name, _ in told] == ["beat", "fleet", "brokers", "cluster"]
    beat, fleet, brokers, cluster = (data for _, data in told)
    assert beat["trust"]["status"] == "live"
    assert beat["viewers"] == 1, "the more look, the longer each waits before it asks"
    assert [row["name"] for row in fleet["clusters"]] == ["prod"]
    assert [broker["safe_to_stop"]["safe"] for broker in brokers["brokers"]] == [True, True]
    assert cluster["log"]["read_zxid"] == "0", "64-bit numbers are text"


def test_of_one_cluster_alone_nobody_has_to_say_its_name() -> None:
    """Whoever asks for no cluster gets the only one; once there are two, the fleet alone."""

    async def look() -> tuple[Any, list[str]]:
        served = shown()
        async with watching(feed_of(served), None) as viewer:
            first = await heard(viewer, "cluster")
            served.write(cluster_view("other"))
            await heard(viewer, "fleet")
            served.write(cluster_view(at=as_of(2)))
            await heard(viewer, "beat")
            return first, [name for name, _ in messages(viewer.take())]

    first, later = asyncio.run(look())
    assert first["name"] == "prod"
    assert "cluster" not in later


def test_who_joins_while_a_picture_is_made_is_told_the_time_first_too() -> None:
    """Another one's picture takes a while; the next look begins with a beat for who came then."""

    async def look() -> list[str]:
        served = shown()
        served.write(broker_view(0, cluster="other"), cluster_view("other"))
        feed = feed_of(served)
        async with watching(feed), asyncio.timeout(SOON_S):
            with served.events._lock:  # what a picture waits for
                while not feed._pictures:  # noqa: ASYNC110  # the feed tells nobody that it looks
                    await asyncio.sleep(0)
                late = feed.join("other")
            await late.news.wait()
            feed.leave(late)
            return [name for name, _ in messages(late.take())]

    assert asyncio.run(look()) == ["beat", "fleet", "brokers", "cluster"]


def test_a_change_is_told_once_and_to_all_the_same() -> None:
    """One computation per swap: two viewers are handed the very same bytes."""

    async def look() -> tuple[bytes, bytes]:
        served = shown()
        feed = feed_of(served)
        async with watching(feed) as one, watching(feed) as other:
            await heard(one, "cluster")
            await heard(other, "cluster")
            served.write(cluster_view(at=as_of(2), controller=ControllerView(id=1, epoch=8)))
            taken = []
            for viewer in (one, other):
                assert (await heard(viewer, "cluster"))["controller"]["id"] == 1
                taken.append(viewer._told["cluster"])
            return taken[0], taken[1]

    one, other = asyncio.run(look())
    assert one is other


def test_brokers_are_told_again_only_when_one_changed() -> None:
    """They may be hundreds, and a heartbeat changes none of them."""

    async def look() -> list[list[str]]:
        served = shown()
        kinds = []
        async with watching(feed_of(served)) as viewer:
            await heard(viewer, "cluster")
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


def test_a_viewer_that_does_not_read_is_kept_the_newest_state_only() -> None:
    """States that were not sent yet give way to newer ones: there is never a queue."""
    viewer = Viewer("prod")
    for number in range(1000):
        viewer.offer("cluster", b"event: cluster\ndata: %d\n\n" % number)
    viewer.offer("beat", b"event: beat\ndata: 0\n\n")
    assert messages(viewer.take()) == [("cluster", 999), ("beat", 0)]
    assert viewer.take() == b""


def test_an_unknown_cluster_is_told_as_unknown_until_it_is_there() -> None:
    """The page says so, and goes on by itself when the cluster appears."""

    async def look() -> tuple[Any, Any]:
        served = shown()
        async with watching(feed_of(served), "later") as viewer:
            before = await heard(viewer, "cluster")
            served.write(cluster_view("later"))
            return before, await heard(viewer, "cluster")

    before, after = asyncio.run(look())
    assert before is None
    assert after["name"] == "later"


def test_more_viewers_than_there_is_room_for_are_turned_away() -> None:
    """With 503 and when to come again; a place that is left is free."""

    async def crowd() -> None:
        feed = feed_of(shown())
        viewers = [feed.join(None) for _ in range(MOST_VIEWERS)]
        with pytest.raises(HTTPException) as refused:
            feed.join(None)
        assert refused.value.status_code == 503
        assert refused.value.headers == {"retry-after": "10"}
        feed.leave(viewers[0])
        feed.leave(feed.join(None))
        for viewer in viewers:
            feed.leave(viewer)

    asyncio.run(crowd())


def test_nothing_is_looked_at_while_nobody_looks() -> None:
    """The task ends with its last viewer, and begins again with the next."""

    async def look() -> tuple[bool, Any]:
        served = shown()
        feed = feed_of(served)
        async with watching(feed) as viewer:
            await heard(viewer, "cluster")
        assert feed._task is not None
        await asyncio.wait_for(feed._task, SOON_S)
        served.write(cluster_view(at=as_of(2), controller=ControllerView(id=1)))
        async with watching(feed) as viewer:
            return feed._task.done(), (await heard(viewer, "cluster"))["controller"]["id"]

    assert asyncio.run(look()) == (False, 1)


def test_the_delay_is_told_of_changes_that_were_seen_to_come() -> None:
    """Not of what was there when the page was opened, nor against a clock that is ahead."""

    async def look() -> list[int | None]:
        served = shown()
        delays = []
        async with watching(feed_of(served)) as viewer:
            delays.append((await heard(viewer, "cluster"))["delay_ms"])
            for seq, ago in ((2, 250), (3, -250)):
                log = log_view(last_change_at=served.now - ago)
                served.write(cluster_view(at=as_of(seq), log=log))
                delays.append((await heard(viewer, "cluster"))["delay_ms"])
        return delays

    assert asyncio.run(look()) == [None, 250, None]


def test_a_mistake_of_ours_does_not_end_the_telling() -> None:
    """It is told once in the log; what can be told again is told again."""

    async def look() -> Any:
        served = shown()
        clock = iter([None, None, None])
        feed = LiveFeed(
            served,
            served.events,
            clock=lambda: next(clock, served.now),  # type: ignore[arg-type,return-value]  # a clock that fails thrice
            reasons=list,
            look_every_s=0.005,
        )
        async with watching(feed) as viewer:
            return await heard(viewer, "cluster")

    with structlog.testing.capture_logs() as told:
        cluster = asyncio.run(look())
    assert [entry["event"] for entry in told] == ["the live page could not be told"]
    assert cluster["name"] == "prod"


def test_an_end_ends_every_stream() -> None:
    """So that the server does not wait for answers that have no end."""

    async def look() -> bool:
        feed = feed_of(shown())
        async with watching(feed) as viewer:
            await heard(viewer, "cluster")
            feed.end()
            async with asyncio.timeout(SOON_S):
                while not viewer.ended:
                    await viewer.news.wait()
                    viewer.take()
            return viewer.ended

    assert asyncio.run(look())


def test_a_viewer_that_takes_nothing_is_dropped() -> None:
    """What is sent has a deadline; its place is free afterwards."""

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


def test_a_question_for_the_head_alone_is_answered_and_leaves() -> None:
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


def test_a_viewer_that_hangs_up_leaves() -> None:
    """At once, though nothing was to be sent."""

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


def test_recent_events_are_those_of_a_search_however_they_came() -> None:
    """Followed step by step, or read at once: the same newest events and elections."""
    store = EventStore(kept=1000)
    followed = RecentEvents(store, "prod")
    for seq in range(1, 40):
        store.apply(event_record(elected(seq)))
        assert followed.follow(as_of(seq))
        assert not followed.follow(as_of(seq))
    at_once = RecentEvents(store, "prod")
    at_once.follow(as_of(39))
    assert followed.events == at_once.events
    assert followed.elections == at_once.elections
    assert [record.id.seq for record in followed.events] == list(range(39, 39 - EVENTS_SHOWN, -1))


def test_events_beyond_the_views_wait_for_them() -> None:
    """The page never tells of what its figures do not show yet."""
    store = EventStore(kept=10)
    recent = RecentEvents(store, "prod")
    for seq in (1, 2, 3):
        store.apply(event_record(elected(seq)))
    recent.follow(as_of(2))
    assert [record.id.seq for record in recent.events] == [2, 1]
    recent.follow(as_of(3))
    assert [record.id.seq for record in recent.events] == [3, 2, 1]


def test_a_new_lineage_begins_anew() -> None:
    """Events of a store that is no more are not mixed with the new one's."""
    store = EventStore(kept=10)
    recent = RecentEvents(store, "prod")
    store.apply(event_record(elected(5)))
    recent.follow(as_of(5))
    store.apply(event_record(elected(1, lineage="L2")))
    recent.follow(as_of(1, lineage="L2"))
    assert recent.events[0].id.lineage == "L2"
