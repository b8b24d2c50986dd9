"""What all viewers of the live page are sent, made once for all of them.

The rule: one computation per commit, however many viewers there are; none without a viewer. In an update each
cluster is judged once, for its own viewers and the fleet's. The number of viewers is bounded, and no viewer is
waited for.
"""

import asyncio
from collections.abc import Callable, Collection, Iterable, Mapping

import msgspec
from starlette.exceptions import HTTPException

from controller_model.insights.thresholds import THRESHOLDS, Threshold
from exporter.api.answers import Json
from exporter.core.records import ClusterSnapshot
from exporter.intake.event_store import EventStore
from exporter.live.messages import ClusterMessages, Message
from exporter.live.picture import fleet_rows, trust
from exporter.live.problems import JudgedCluster, judge
from exporter.live.viewer import Viewer
from exporter.scrape.collector import Collector, RenderedCluster
from pipeline.runtime import get_logger

MOST_VIEWERS = 200
"""Open pages: more than a team has screens, and at most some 20 MB of buffers."""
MOST_VIEWERS_OF_ONE_CLIENT = 40
"""A fifth: one client never takes all; behind a proxy that is trusted each viewer is a client."""
UPDATE_EVERY_S = 0.2
"""How often the exporter's figures are compared with those sent: a change shows well in a second."""
UPDATES_PER_BEAT = 5
"""A beat a second: by it a viewer knows that the figures before it are still true."""


class LiveFeed:
    """Keeps the messages up to date and offers them to the viewers, in the server's loop.

    `page` names the page's files as they are: a viewer that has others is to load them again.
    """

    def __init__(
        self,
        collector: Collector,
        events: EventStore,
        *,
        clock: Callable[[], int],
        reasons: Callable[[], list[str]],
        page: str,
        thresholds: Mapping[str, Threshold] = THRESHOLDS,
        update_every_s: float = UPDATE_EVERY_S,
    ) -> None:
        self._update_every_s = update_every_s
        self._collector = collector
        self._events = events
        self._clock = clock
        self._reasons = reasons
        self._page = page
        self._thresholds = thresholds
        self._viewers: set[Viewer] = set()
        self._task: asyncio.Task[None] | None = None
        self._wake = asyncio.Event()
        self._ending = False
        self._is_failing = False
        self._updates = 0
        self._fleet_of: Mapping[str, RenderedCluster] | None = None
        self._fleet: Message | None = None
        self._clusters: dict[str, ClusterMessages] = {}

    def join(
        self, cluster: str | None, client: str | None = None, *, is_packed: bool = False
    ) -> Viewer:
        """Add a viewer of a client (None: nobody knows which); raises HTTPException for too many."""
        of_client = sum(client == viewer.client for viewer in self._viewers)
        if client is not None and of_client >= MOST_VIEWERS_OF_ONE_CLIENT:
            raise HTTPException(
                429, f"{of_client} pages are open from {client} already", {"retry-after": "10"}
            )
        if len(self._viewers) >= MOST_VIEWERS:
            raise HTTPException(
                503, f"{MOST_VIEWERS} pages are open already", headers={"retry-after": "10"}
            )
        viewer = Viewer(cluster, client, is_packed=is_packed)
        self._viewers.add(viewer)
        self._wake.set()
        if self._task is None or self._task.done():
            self._task = asyncio.get_running_loop().create_task(self._run())
        return viewer

    def leave(self, viewer: Viewer) -> None:
        """Remove a viewer."""
        self._viewers.discard(viewer)

    def end(self) -> None:
        """Let all streams end within one update; may be called by any thread."""
        self._ending = True

    async def _run(self) -> None:
        while self._viewers and not self._ending:
            self._wake.clear()
            await self._update_safely()
            self._updates += 1
            try:
                await asyncio.wait_for(self._wake.wait(), self._update_every_s)
            except TimeoutError:
                continue
        for viewer in self._viewers:
            viewer.end()
        self._fleet_of, self._fleet = None, None
        self._clusters.clear()

    async def _update_safely(self) -> None:
        """Update; log a mistake of ours once, and go on: the viewers notice that no beat comes."""
        try:
            await self._update()
        except Exception:  # noqa: BLE001  # a mistake about one state must not end the feed
            if not self._is_failing:
                get_logger("exporter").exception("the live page could not be updated")
            self._is_failing = True
        else:
            self._is_failing = False

    async def _update(self) -> None:
        """Bring the messages up to date, and offer each viewer its own."""
        clusters = self._collector.clusters
        now = self._clock()
        # A viewer that joins from here on waits for the next update, which begins with a beat.
        cluster_of = {viewer: viewer.cluster or _only(clusters) for viewer in self._viewers}
        is_beat = self._updates % UPDATES_PER_BEAT == 0 or any(v.is_new for v in cluster_of)
        is_fleet = is_beat or clusters is not self._fleet_of
        watched = {name for name in cluster_of.values() if name}
        judged = {
            name: self._judge(held.snapshot, now)
            for name, held in clusters.items()
            if is_fleet or name in watched
        }
        await self._update_clusters(watched, judged, now)
        if is_fleet:
            self._fleet_of = clusters
            self._update_fleet(judged.values())
        asked = set(cluster_of.values()) if is_beat else ()
        beats = {name: Message("beat", self._beat(judged.get(name or ""), now)) for name in asked}
        for viewer, cluster in cluster_of.items():
            for message in self._messages_of(cluster, beats):
                viewer.offer(message.kind, message.packed if viewer.is_packed else message.sent)

    def _judge(self, snapshot: ClusterSnapshot, now: int) -> JudgedCluster:
        moment = self._collector.moment(snapshot, now)
        return judge(snapshot, moment, now, self._thresholds)

    async def _update_clusters(
        self, watched: Collection[str], judged: Mapping[str, JudgedCluster], now: int
    ) -> None:
        """Bring the messages of the clusters that somebody watches up to date, and drop the others."""
        self._clusters = {name: kept for name, kept in self._clusters.items() if name in watched}
        for name in watched:
            messages = self._clusters.setdefault(name, ClusterMessages(self._events, name))
            if name in judged:
                await messages.update(judged[name].snapshot, judged[name].problems, now)
            else:
                messages.lose()

    def _update_fleet(self, clusters: Iterable[JudgedCluster]) -> None:
        body = msgspec.json.encode({"clusters": fleet_rows(clusters)})
        if self._fleet is None or self._fleet.body != body:
            self._fleet = Message("fleet", body)

    def _messages_of(
        self, cluster: str | None, beats: Mapping[str | None, Message]
    ) -> list[Message]:
        """Return what a viewer of this cluster (None: of none) is offered, in order.

        The beat goes first: by it the page knows what time it is, and how far to trust the rest.
        """
        messages = self._clusters.get(cluster or "")
        of_cluster = (messages.brokers, messages.cluster) if messages else ()
        return [m for m in (beats.get(cluster), self._fleet, *of_cluster) if m is not None]

    def _beat(self, cluster: JudgedCluster | None, now: int) -> bytes:
        body: Json = {
            "now": now,
            "page": self._page,
            "viewers": len(self._viewers),
            "reasons": self._reasons(),
            "trust": None,
        }
        if cluster is not None:
            reading = self._collector.reading(cluster.snapshot)
            body["trust"] = trust(cluster.completeness, reading, now)
        return msgspec.json.encode(body)


def _only(clusters: Mapping[str, RenderedCluster]) -> str | None:
    """Return the name of the only cluster; None if there are none or several."""
    return next(iter(clusters)) if len(clusters) == 1 else None
