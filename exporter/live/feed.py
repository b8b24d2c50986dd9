"""What all viewers of the live page are sent, made once for all of them.

The rule: one computation per commit, however many viewers there are; none without a viewer. In an update each
cluster is judged once, for its own viewers and the fleet's. The number of viewers is bounded, and no viewer is
waited for. A beat a second says what the figures are worth, and one at once where that changes. A mistake of ours
about one cluster takes the page from its own viewers alone: they are sent nothing, so that they notice, and the
fleet says that it has no figures.
"""

import asyncio
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from functools import cached_property
from operator import itemgetter
from typing import Any

import msgspec
from starlette.exceptions import HTTPException

from controller_model.insights.thresholds import THRESHOLDS, Threshold
from controller_model.metrics.metric import Moment
from controller_model.records.completeness import Stage, Status
from exporter.api.answers import Json
from exporter.core.records import ClusterSnapshot
from exporter.intake.event_store import EventStore
from exporter.live.messages import ClusterMessages, Message
from exporter.live.picture import badness, failed_row, fleet_row, trust
from exporter.live.problems import judge
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


_Worth = tuple[Status, Stage | None]
"""Of a cluster's figures: their status, and the stage to blame."""


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
        self._worth: dict[str, _Worth | None] = {}
        """What the figures of the clusters that somebody watches were worth when they were last looked at."""
        self._failed: set[str] = set()
        """Clusters about which a mistake was made: tried again with each beat, and not between two."""

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
        watched = {name for name in cluster_of.values() if name}
        # Figures that are worth less than those before must not be shown with what a beat said of these.
        moments = self._moments_of(watched, clusters, now)
        worth, self._worth = self._worth, {name: _worth_of(moments.get(name)) for name in watched}
        is_beat = (
            self._updates % UPDATES_PER_BEAT == 0
            or self._worth != worth
            or any(
                viewer.is_new and name not in self._failed for viewer, name in cluster_of.items()
            )
        )
        is_fleet = is_beat or clusters is not self._fleet_of
        self._clusters = {name: kept for name, kept in self._clusters.items() if name in watched}
        update = _Update(now, moments, self._beat(now) if is_beat else None, is_fleet=is_fleet)
        known_failures = self._failed
        self._failed = set() if is_beat else set(known_failures)
        for name, held in clusters.items():
            if is_fleet or name in watched:
                await self._try_cluster(
                    update,
                    held.snapshot,
                    is_watched=name in watched,
                    is_known=name in known_failures,
                )
        for name in watched - clusters.keys():
            self._messages_about(name).lose()
        if is_fleet:
            self._fleet_of = clusters
            self._update_fleet(update)
        for viewer, cluster in cluster_of.items():
            for message in self._messages_of(cluster, update):
                viewer.offer(message.kind, message.packed if viewer.is_packed else message.sent)

    def _moments_of(
        self, names: Iterable[str], clusters: Mapping[str, RenderedCluster], now: int
    ) -> dict[str, Moment]:
        """Return what depends on now of each cluster's figures, but for one about which a mistake is made."""
        moments = {}
        for name in names & clusters.keys():
            # It is made again, and reported, where the cluster is updated.
            with suppress(Exception):
                moments[name] = self._collector.moment(clusters[name].snapshot, now)
        return moments

    async def _try_cluster(
        self, update: "_Update", snapshot: ClusterSnapshot, *, is_watched: bool, is_known: bool
    ) -> None:
        """Update what is said of a cluster; log a mistake of ours unless it is known, and go on."""
        name = snapshot.name
        if name not in self._failed:
            try:
                await self._update_cluster(update, snapshot, is_watched=is_watched)
            except Exception:  # noqa: BLE001  # whatever is wrong with this one, others are well
                self._failed.add(name)
                self._clusters.pop(name, None)  # half of it may be of now, and half of before
                if not is_known:
                    get_logger("exporter").exception(
                        "the live page of a cluster could not be updated", cluster=name
                    )
            else:
                return
        update.add_row(failed_row(name))

    async def _update_cluster(
        self, update: "_Update", snapshot: ClusterSnapshot, *, is_watched: bool
    ) -> None:
        moment = update.moments.get(snapshot.name) or self._collector.moment(snapshot, update.now)
        judged = judge(snapshot, moment, update.now, self._thresholds)
        if is_watched:
            messages = self._messages_about(snapshot.name)
            await messages.update(snapshot, judged.problems, update.now)
            if update.beat is not None:
                reading = self._collector.reading(snapshot)
                worth = trust(judged.completeness, reading, update.now)
                update.beats[snapshot.name] = _beat_message({**update.beat, "trust": worth})
        if update.is_fleet:
            update.add_row(fleet_row(judged))

    def _messages_about(self, cluster: str) -> ClusterMessages:
        return self._clusters.setdefault(cluster, ClusterMessages(self._events, cluster))

    def _update_fleet(self, update: "_Update") -> None:
        body = msgspec.json.encode({"clusters": update.rows()})
        if self._fleet is None or self._fleet.body != body:
            self._fleet = Message("fleet", body)

    def _messages_of(self, cluster: str | None, update: "_Update") -> list[Message]:
        """Return what a viewer of this cluster (None: of none) is offered, in order.

        The beat goes first: by it the page knows what time it is, and how far to trust the rest. Where
        there can be none, there is nothing: any message would pass for a sign of life.
        """
        if cluster in self._failed:
            return []
        beat = None
        if update.beat is not None:
            beat = update.beats.get(cluster) or update.beat_without_cluster
        messages = self._clusters.get(cluster or "")
        of_cluster = (messages.brokers, messages.cluster) if messages else ()
        return [m for m in (beat, self._fleet, *of_cluster) if m is not None]

    def _beat(self, now: int) -> Json:
        """Return a beat that vouches for no cluster."""
        return {
            "now": now,
            "page": self._page,
            "viewers": len(self._viewers),
            "reasons": self._reasons(),
            "trust": None,
        }


class _Update:
    """What one update has made so far."""

    def __init__(
        self, now: int, moments: Mapping[str, Moment], beat: Json | None, *, is_fleet: bool
    ) -> None:
        self.now = now
        self.moments = moments
        """Those of the clusters that somebody watches."""
        self.beat = beat
        """None: there is none in this update."""
        self.is_fleet = is_fleet
        self.beats: dict[str | None, Message] = {}
        """Those of the clusters that somebody watches."""
        self._rows: list[tuple[tuple[Any, ...], msgspec.Raw]] = []

    @cached_property
    def beat_without_cluster(self) -> Message:
        """The beat for viewers of no cluster, or of one that is not known."""
        return _beat_message(self.beat or {})

    def add_row(self, row: Json) -> None:
        """Add a cluster's row of the fleet; written here, a row that cannot be is its cluster's mistake."""
        self._rows.append((badness(row), msgspec.Raw(msgspec.json.encode(row))))

    def rows(self) -> list[msgspec.Raw]:
        """Return the rows, the worst first."""
        return [row for _, row in sorted(self._rows, key=itemgetter(0))]


def _worth_of(moment: Moment | None) -> _Worth | None:
    """Return what a cluster's figures are worth; None where that cannot be said."""
    return None if moment is None else (moment.completeness.status, moment.completeness.stage)


def _beat_message(beat: Json) -> Message:
    return Message("beat", msgspec.json.encode(beat))


def _only(clusters: Mapping[str, RenderedCluster]) -> str | None:
    """Return the name of the only cluster; None if there are none or several."""
    return next(iter(clusters)) if len(clusters) == 1 else None
