"""Make the messages of the live page once for all viewers, and offer them to each.

The rule: one computation per commit, however many viewers there are; none without a viewer. An update judges each
cluster once, for its own viewers and for the fleet's. The number of viewers is bounded, and nothing waits for a
viewer. A beat every second says how far the figures can be trusted; when that changes, a beat is sent at once. An
unexpected exception on one cluster affects only that cluster's viewers: they are sent nothing, so that the page
notices, and the fleet says that there are no figures of the cluster.
"""

import asyncio
import dataclasses
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from functools import cached_property
from operator import itemgetter
from typing import Any

import msgspec
from starlette.exceptions import HTTPException

from controller_model.insight.thresholds import THRESHOLDS, Threshold
from controller_model.metrics.metric import Moment
from controller_model.records.completeness import Stage, Status
from exporter.api.answers import Json
from exporter.core.records import ClusterSnapshot
from exporter.intake.event_store import EventStore
from exporter.live.messages import ClusterMessages, Message, Viewer
from exporter.live.picture import badness, failed_row, fleet_row, trust
from exporter.live.problems import problems_of
from exporter.scrape.collector import Collector
from pipeline.runtime import get_logger

MAX_VIEWERS = 200
"""Most open pages: more than a team has screens, and at most some 20 MB of buffers."""
MAX_VIEWERS_OF_ONE_CLIENT = 40
"""A fifth of them, so that one client never takes all. Behind a trusted proxy each viewer is a client."""
UPDATE_INTERVAL_S = 0.2
"""How often the exporter's figures are compared with those sent: a change shows well within a second."""
UPDATES_PER_BEAT = 5
"""Updates from beat to beat, which is a second: a beat says that the figures before it are still true."""


class LiveFeed:
    """Keeps the messages up to date and offers them to the viewers, in the server's event loop.

    `page` identifies the current files of the page: a viewer that has other files is to load them again.
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
        update_every_s: float = UPDATE_INTERVAL_S,
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
        self._fleet_of: Mapping[str, ClusterSnapshot] | None = None
        self._fleet: Message | None = None
        self._clusters: dict[str, ClusterMessages] = {}
        self._worth: dict[str, tuple[Status, Stage | None]] = {}
        """How far the watched clusters' figures could be trusted in the last update: status, and stage to blame."""
        self._failed: set[str] = set()
        """Clusters whose update raised an exception: tried again with each beat, not in between."""

    def join(
        self, cluster: str | None, client: str | None = None, *, is_packed: bool = False
    ) -> Viewer:
        """Add a viewer; raises HTTPException 429 for too many of one client, 503 for too many in all.

        `client`: the network address that connections are counted by; None: not known.
        """
        of_client = sum(client == viewer.client for viewer in self._viewers)
        if client is not None and of_client >= MAX_VIEWERS_OF_ONE_CLIENT:
            raise HTTPException(
                429, f"{of_client} pages are open from {client} already", {"retry-after": "10"}
            )
        if len(self._viewers) >= MAX_VIEWERS:
            raise HTTPException(
                503, f"{MAX_VIEWERS} pages are open already", headers={"retry-after": "10"}
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
        """End all streams within one update; may be called by any thread."""
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
        """Update; log an unexpected exception once and continue: viewers notice that the beats are missing."""
        try:
            await self._update()
        except Exception:  # noqa: BLE001  # an exception on one state must not end the feed
            if not self._is_failing:
                get_logger("exporter").exception("the live page could not be updated")
            self._is_failing = True
        else:
            self._is_failing = False

    async def _update(self) -> None:
        """Update the messages and offer each viewer its own."""
        clusters = self._collector.clusters
        now = self._clock()
        # A viewer that joins after this line waits for the next update, which begins with a beat.
        cluster_of = {viewer: viewer.cluster or _only(clusters) for viewer in self._viewers}
        watched = {name for name in cluster_of.values() if name}
        # Figures that can be trusted less than those before must not be shown under the beat of those.
        moments = self._moments_of(watched, clusters, now)
        worth = {name: (m.completeness.status, m.completeness.stage) for name, m in moments.items()}
        is_beat = (
            self._updates % UPDATES_PER_BEAT == 0
            or self._worth != worth
            or any(
                viewer.is_new and name not in self._failed for viewer, name in cluster_of.items()
            )
        )
        self._worth = worth
        is_fleet = is_beat or clusters is not self._fleet_of
        self._clusters = {name: kept for name, kept in self._clusters.items() if name in watched}
        update = _Update(now, moments, self._beat(now) if is_beat else None, is_fleet)
        known_failures = self._failed
        self._failed = set() if is_beat else set(known_failures)
        for name, snapshot in clusters.items():
            if is_fleet or name in watched:
                await self._try_cluster(
                    update,
                    snapshot,
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
                viewer.offer(message)

    def _moments_of(
        self, names: Iterable[str], clusters: Mapping[str, ClusterSnapshot], now: int
    ) -> dict[str, Moment]:
        """Return the figures of each cluster that depend on the time, except for clusters where that raises an exception."""
        moments = {}
        for name in names & clusters.keys():
            # The exception is raised again, and logged, where the cluster is updated.
            with suppress(Exception):
                moments[name] = self._collector.moment(clusters[name], now)
        return moments

    async def _try_cluster(
        self, update: "_Update", snapshot: ClusterSnapshot, *, is_watched: bool, is_known: bool
    ) -> None:
        """Update the messages about a cluster; on an unexpected exception log it unless `is_known`, and continue."""
        name = snapshot.name
        if name not in self._failed:
            try:
                await self._update_cluster(update, snapshot, is_watched=is_watched)
            except Exception:  # noqa: BLE001  # an exception on one cluster must not affect the others
                self._failed.add(name)
                self._clusters.pop(name, None)  # it may be half updated
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
        problems = problems_of(snapshot, moment, update.now, self._thresholds)
        if is_watched:
            messages = self._messages_about(snapshot.name)
            await messages.update(snapshot, problems, update.now)
            if update.beat is not None:
                beat = {**update.beat, "trust": trust(moment, update.now)}
                update.beats[snapshot.name] = _beat_message(beat)
        if update.is_fleet:
            update.add_row(fleet_row(snapshot, moment.completeness, problems))

    def _messages_about(self, cluster: str) -> ClusterMessages:
        return self._clusters.setdefault(cluster, ClusterMessages(self._events, cluster))

    def _update_fleet(self, update: "_Update") -> None:
        body = msgspec.json.encode({"clusters": update.rows()})
        if self._fleet is None or self._fleet.body != body:
            self._fleet = Message("fleet", body)

    def _messages_of(self, cluster: str | None, update: "_Update") -> list[Message]:
        """Return the messages for a viewer of this cluster (None: of none), in order.

        The beat is first: it gives the page the time, and says how far to trust the rest. Where the beat cannot be
        made, nothing is sent: any message would pass for a sign of life.
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
        """Return a beat that confirms the figures of no cluster."""
        return {
            "now": now,
            "page": self._page,
            "viewers": len(self._viewers),
            "reasons": self._reasons(),
            "trust": None,
        }


@dataclasses.dataclass
class _Update:
    """The results of one update so far."""

    now: int
    moments: Mapping[str, Moment]
    """The moments of the watched clusters."""
    beat: Json | None
    """None: this update sends no beat."""
    is_fleet: bool
    beats: dict[str | None, Message] = dataclasses.field(default_factory=dict)
    """The beats of the watched clusters."""
    _rows: list[tuple[tuple[Any, ...], msgspec.Raw]] = dataclasses.field(default_factory=list)

    @cached_property
    def beat_without_cluster(self) -> Message:
        """The beat for viewers of no cluster, or of a cluster that is not known."""
        return _beat_message(self.beat or {})

    def add_row(self, row: Json) -> None:
        """Add a cluster's row of the fleet; it is encoded here, so that an exception counts as its cluster's."""
        self._rows.append((badness(row), msgspec.Raw(msgspec.json.encode(row))))

    def rows(self) -> list[msgspec.Raw]:
        """Return the rows, the worst first."""
        return [row for _, row in sorted(self._rows, key=itemgetter(0))]


def _beat_message(beat: Json) -> Message:
    return Message("beat", msgspec.json.encode(beat))


def _only(clusters: Mapping[str, ClusterSnapshot]) -> str | None:
    """Return the name of the only cluster; None if there are none or several."""
    return next(iter(clusters)) if len(clusters) == 1 else None
