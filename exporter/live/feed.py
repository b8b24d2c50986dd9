"""What all viewers of the live page are told, made once for all of them.

The rule: one computation per swap, whoever looks; none while nobody does. A viewer has one place
for each kind of message, and a newer one takes the place of one that was not sent yet: a slow
viewer skips states and never makes a queue. The number of viewers is bounded.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

import msgspec
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException

from exporter.api.endpoints import Facts
from exporter.core.records import ClusterSnapshot
from exporter.intake.event_store import EventStore
from exporter.intake.maintenance import planned_answer
from exporter.live.events import RecentEvents
from exporter.live.picture import brokers_picture, cluster_picture, fleet_rows, trust
from exporter.scrape.collector import RenderedCluster
from pipeline.runtime import get_logger

MOST_VIEWERS = 200
"""Open pages: more than a team has screens, and at most some 20 MB of buffers."""
LOOK_EVERY_S = 0.2
"""How often the exporter's figures are compared with those told: a change shows well in a second."""
BEATS_EVERY_LOOKS = 5
"""A beat a second: by it a viewer knows that the figures before it still stand."""

Json = dict[str, Any]


class Viewer:
    """One open page: what it was told, and what it is to be told next."""

    def __init__(self, cluster: str | None) -> None:
        self.cluster = cluster
        self.ended = False
        self.news = asyncio.Event()
        self.is_new = True
        self._told: dict[str, bytes] = {}
        self._next: dict[str, bytes] = {}

    def offer(self, kind: str, message: bytes) -> None:
        """Put a message in its place, unless it was told already."""
        self.is_new = False
        if self._told.get(kind) is not message:
            self._told[kind] = message
            self._next[kind] = message
            self.news.set()

    def take(self) -> bytes:
        """Return what is to be sent now."""
        taken = b"".join(self._next.values())
        self._next.clear()
        self.news.clear()
        return taken

    def end(self) -> None:
        """Let the stream end."""
        self.ended = True
        self.news.set()


class LiveFeed:
    """Looks at what the reader shows, and tells the viewers. Its methods run in the server's loop.

    `page` names the page's files as they are: who has others is to load them anew.
    """

    def __init__(
        self,
        reader: Facts,
        events: EventStore,
        *,
        clock: Callable[[], int],
        reasons: Callable[[], list[str]],
        page: str = "",
        look_every_s: float = LOOK_EVERY_S,
    ) -> None:
        self._look_every_s = look_every_s
        self._reader = reader
        self._events = events
        self._clock = clock
        self._reasons = reasons
        self._page = page
        self._viewers: set[Viewer] = set()
        self._task: asyncio.Task[None] | None = None
        self._wake = asyncio.Event()
        self._ending = False
        self._is_failing = False
        self._looks = 0
        self._seen: Mapping[str, RenderedCluster] | None = None
        self._fleet: _Message | None = None
        self._pictures: dict[str, _Picture] = {}

    def join(self, cluster: str | None) -> Viewer:
        """Begin to tell a viewer; raises HTTPException 503 when there are too many."""
        if len(self._viewers) >= MOST_VIEWERS:
            raise HTTPException(
                503, f"{MOST_VIEWERS} pages are open already", headers={"retry-after": "10"}
            )
        viewer = Viewer(cluster)
        self._viewers.add(viewer)
        self._wake.set()
        if self._task is None or self._task.done():
            self._looks = 0
            self._task = asyncio.get_running_loop().create_task(self._run())
        return viewer

    def leave(self, viewer: Viewer) -> None:
        """Tell a viewer no more."""
        self._viewers.discard(viewer)

    def end(self) -> None:
        """Let all streams end within a look; may be called by any thread."""
        self._ending = True

    async def _run(self) -> None:
        while self._viewers and not self._ending:
            self._wake.clear()
            await self._look_safely()
            self._looks += 1
            try:
                await asyncio.wait_for(self._wake.wait(), self._look_every_s)
            except TimeoutError:
                continue
        for viewer in self._viewers:
            viewer.end()
        self._seen, self._fleet = None, None
        self._pictures.clear()

    async def _look_safely(self) -> None:
        """Look; a mistake of ours is told once, and the viewers hear that nothing comes."""
        try:
            await self._look()
        except Exception:  # noqa: BLE001  # a mistake about one state must not end the telling
            if not self._is_failing:
                get_logger("exporter").exception("the live page could not be told")
            self._is_failing = True
        else:
            self._is_failing = False

    async def _look(self) -> None:
        clusters = self._reader.collector.clusters
        now = self._clock()
        # Who joins while a picture is made is told in the next look, which begins with a beat.
        viewers = list(self._viewers)
        sole = next(iter(clusters)) if len(clusters) == 1 else None
        watched = {name for v in viewers if (name := v.cluster or sole) is not None}
        self._pictures = {name: p for name, p in self._pictures.items() if name in watched}
        for name in watched:
            picture = self._pictures.setdefault(name, _Picture(self._events, name))
            await picture.look(clusters[name].snapshot if name in clusters else None, now)
        is_beat = self._looks % BEATS_EVERY_LOOKS == 0 or any(v.is_new for v in viewers)
        if self._fleet is None or is_beat or clusters is not self._seen:
            self._seen = clusters
            self._tell_fleet(now)
        beats = {name: self._beat(name, now) for name in (*watched, None)} if is_beat else {}
        for viewer in viewers:
            self._tell(viewer, viewer.cluster or sole, beats)

    def _tell_fleet(self, now: int) -> None:
        collector = self._reader.collector
        held = [rendered.snapshot for rendered in collector.clusters.values()]
        rows = fleet_rows((each, collector.completeness(each, now)) for each in held)
        body = msgspec.json.encode({"clusters": rows})
        if self._fleet is None or self._fleet.body != body:
            self._fleet = _Message("fleet", body)

    def _tell(self, viewer: Viewer, shown: str | None, beats: Mapping[str | None, bytes]) -> None:
        # The beat goes first: by it the page knows what time it is, and what the rest is worth.
        if shown in beats:
            viewer.offer("beat", beats[shown])
        if self._fleet is not None:
            viewer.offer("fleet", self._fleet.sent)
        picture = self._pictures.get(shown or "")
        if picture is not None and picture.brokers is not None:
            viewer.offer("brokers", picture.brokers.sent)
        if picture is not None and picture.message is not None:
            viewer.offer("cluster", picture.message.sent)

    def _beat(self, name: str | None, now: int) -> bytes:
        collector = self._reader.collector
        held = collector.clusters.get(name or "")
        body: Json = {
            "now": now,
            "page": self._page,
            "viewers": len(self._viewers),
            "reasons": self._reasons(),
            "trust": None,
            "maintenance": [],
        }
        if held is not None:
            verdict = collector.completeness(held.snapshot, now)
            body["trust"] = trust(held.snapshot, verdict, collector.reading(held.snapshot))
            planned = collector.planned.lasting(held.snapshot.name, now)
            body["maintenance"] = [
                planned_answer(work, held.snapshot.brokers.get(broker))
                for broker, work in planned.items()
            ]
        return _Message("beat", msgspec.json.encode(body)).sent


class _Message:
    """A message, and how it goes over the line."""

    def __init__(self, kind: str, body: bytes) -> None:
        self.body = body
        self.sent = b"event: %s\ndata: %s\n\n" % (kind.encode(), body)


class _Picture:
    """The picture of one cluster, made again when there is something else to show."""

    def __init__(self, events: EventStore, name: str) -> None:
        self.message: _Message | None = None
        self.brokers: _Message | None = None
        self._recent = RecentEvents(events, name)
        self._shown: ClusterSnapshot | None = None
        self._delay_ms: int | None = None

    async def look(self, snapshot: ClusterSnapshot | None, now: int) -> None:
        """Make the picture, if it would be another one; of a cluster that is not known, null."""
        if snapshot is None:
            if self._shown is not None or self.message is None:
                self._shown, self.message = None, _Message("cluster", b"null")
            return
        # A first look reads all kept events, up to 32 MiB: not in the thread of the server.
        has_news = await run_in_threadpool(self._recent.follow, snapshot.view.as_of)
        if snapshot is self._shown and not has_news:
            return
        self._measure(snapshot, now)
        if self._shown is None or self._shown.brokers != snapshot.brokers:
            body = msgspec.json.encode(brokers_picture(snapshot))
            if self.brokers is None or self.brokers.body != body:
                self.brokers = _Message("brokers", body)
        self._shown = snapshot
        told = cluster_picture(snapshot, self._recent.events, self._recent.elections)
        told["delay_ms"] = self._delay_ms
        self.message = _Message("cluster", msgspec.json.encode(told))

    def _measure(self, snapshot: ClusterSnapshot, now: int) -> None:
        """Note how long the newest change was on its way from the watcher to the page."""
        seen_at = snapshot.view.log.last_change_at
        if self._shown is None or seen_at is None:
            return
        # A clock that is ahead of ours would make a delay below zero: then it is not known.
        if seen_at != self._shown.view.log.last_change_at:
            self._delay_ms = now - seen_at if now >= seen_at else None
