"""Make the messages that all viewers of a cluster share, and keep which of them each viewer was sent.

The rule: one computation per commit, however many viewers there are. A message is made again only when it would
differ, and encoded once; every viewer gets the same bytes.
"""

import asyncio
import zlib
from functools import cached_property

import msgspec
from starlette.concurrency import run_in_threadpool

from exporter.api.newest_events import NewestEvents
from exporter.core.records import ClusterSnapshot
from exporter.intake.event_store import EventStore
from exporter.live.picture import brokers_picture, cluster_picture
from exporter.live.problems import ClusterProblem

EVENTS_SHOWN = 15
"""Number of newest events on the page; the API has the others."""
CONTROLLER_CHANGES_SHOWN = 60
"""Number of newest controller changes on the page: more than a screen can show separately."""


_LEVEL = 4
"""The compression level of other answers, too: 300 brokers shrink to a tenth in 1 ms."""
GZIP_HEADER = b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\xff"
"""The bytes with which a stream of `Message.packed` begins (RFC 1952: deflate, no time, unknown system)."""


class Message:
    """A message, and its bytes as a server-sent event."""

    def __init__(self, kind: str, body: bytes) -> None:
        self.kind = kind
        self.body = body
        self.sent = b"event: %s\ndata: %s\n\n" % (kind.encode(), body)

    @cached_property
    def packed(self) -> bytes:
        """The same bytes as a part of a gzip stream, made once for all viewers.

        They are separate blocks that end at a byte boundary and refer to nothing before them (RFC 1951), so they
        can follow any other blocks. The stream has no end, and so no checksum.
        """
        pack = zlib.compressobj(_LEVEL, zlib.DEFLATED, -zlib.MAX_WBITS)
        return pack.compress(self.sent) + pack.flush(zlib.Z_SYNC_FLUSH)


class Viewer:
    """One open page: what it was sent, and what it is to be sent next; used by the server's event loop only.

    There is one slot for each kind of message, and a newer message replaces one that was not sent yet. So a slow
    viewer skips states and never builds up a queue.
    """

    def __init__(
        self, cluster: str | None, client: str | None = None, *, is_packed: bool = False
    ) -> None:
        self.cluster = cluster
        """The cluster that it asks for; None: the only one there is, or none."""
        self.client = client
        """The network address that its connection is counted by; None: not known."""
        self.is_packed = is_packed
        """The client accepts gzip."""
        self.ended = False
        self.news = asyncio.Event()
        """Set when there is something to send, or the stream is to end."""
        self.is_new = True
        """Whether no message was offered yet."""
        self._offered: dict[str, Message] = {}
        self._next: dict[str, bytes] = {}

    def offer(self, message: Message) -> None:
        """Put a message in the slot of its kind, unless it was offered already."""
        self.is_new = False
        if self._offered.get(message.kind) is not message:
            self._offered[message.kind] = message
            self._next[message.kind] = message.packed if self.is_packed else message.sent
            self.news.set()

    def take(self) -> bytes:
        """Return the messages to send now, and empty the slots."""
        taken = b"".join(self._next.values())
        self._next.clear()
        self.news.clear()
        return taken

    def end(self) -> None:
        """Ask the stream to end."""
        self.ended = True
        self.news.set()


class ClusterMessages:
    """The messages about one cluster."""

    def __init__(self, events: EventStore, name: str) -> None:
        self.cluster: Message | None = None
        """The cluster's picture; its body is null while the cluster is not known."""
        self.brokers: Message | None = None
        """The brokers in a separate message: there may be hundreds, and they change rarely."""
        self._newest = NewestEvents(
            events, name, most=EVENTS_SHOWN, most_changes=CONTROLLER_CHANGES_SHOWN
        )
        self._shown: ClusterSnapshot | None = None
        self._problems: list[ClusterProblem] = []
        self._delay_ms: int | None = None

    def lose(self) -> None:
        """Make the message that the cluster is not known."""
        if self._shown is not None or self.cluster is None:
            self._shown, self.cluster = None, Message("cluster", b"null")

    async def update(
        self, snapshot: ClusterSnapshot, problems: list[ClusterProblem], now: int
    ) -> None:
        """Make the messages again where what they show has changed."""
        # The first call reads all kept events, up to 32 MiB: not in the server's thread.
        has_new_events = await run_in_threadpool(self._newest.follow, snapshot.view.as_of)
        if snapshot is self._shown and not has_new_events and problems == self._problems:
            return
        self._measure_delay(snapshot, now)
        self._show_brokers(snapshot)
        newest = self._newest
        picture = cluster_picture(snapshot, problems, newest.events, newest.controller_changes)
        picture["delay_ms"] = self._delay_ms
        self.cluster = Message("cluster", msgspec.json.encode(picture))
        self._shown, self._problems = snapshot, problems

    def _measure_delay(self, snapshot: ClusterSnapshot, now: int) -> None:
        """Measure how long the newest change took from the watcher to the page."""
        seen_at = snapshot.view.log.last_change_at
        if self._shown is None or seen_at is None:
            return
        # Where the watcher's clock is ahead, the delay would be negative: then it is not known.
        if seen_at != self._shown.view.log.last_change_at:
            self._delay_ms = now - seen_at if now >= seen_at else None

    def _show_brokers(self, snapshot: ClusterSnapshot) -> None:
        if self._shown is not None and self._shown.brokers == snapshot.brokers:
            return
        body = msgspec.json.encode(brokers_picture(snapshot))
        if self.brokers is None or self.brokers.body != body:
            self.brokers = Message("brokers", body)
