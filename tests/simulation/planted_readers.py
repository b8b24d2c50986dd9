"""Bugs of those who read what the exporter holds: its live page, as `planted` plants those of the line before it.

The rule: as of `planted`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from typing import Any
from unittest import mock

from exporter.core.records import ClusterSnapshot
from exporter.live import feed
from exporter.live.feed import LiveFeed
from exporter.live.messages import ClusterMessages, Message
from exporter.live.viewer import Viewer

Plant = Callable[[], AbstractContextManager[Any]]


def beat_for_new_viewers_alone() -> AbstractContextManager[Any]:
    """A page is sent a beat when it is opened, and no other."""
    return mock.patch.object(feed, "UPDATES_PER_BEAT", 10**9)


def fleet_kept() -> AbstractContextManager[Any]:
    """The list of clusters is made once."""
    real = LiveFeed._update_fleet

    def update(self: LiveFeed, *about: Any) -> None:
        if self._fleet is None:
            real(self, *about)

    return mock.patch.object(LiveFeed, "_update_fleet", update)


def one_mistake_for_all() -> AbstractContextManager[Any]:
    """A mistake about one cluster ends the update for the viewers of all."""

    async def try_cluster(
        self: LiveFeed, update: Any, snapshot: ClusterSnapshot, *, is_watched: bool, **_: bool
    ) -> None:
        await self._update_cluster(update, snapshot, is_watched=is_watched)

    return mock.patch.object(LiveFeed, "_try_cluster", try_cluster)


def fleet_without_a_beat() -> AbstractContextManager[Any]:
    """Viewers of a cluster that cannot be judged are sent the list of clusters all the same."""
    real = LiveFeed._messages_of

    def messages_of(self: LiveFeed, cluster: str | None, update: Any) -> list[Message]:
        only = [] if self._fleet is None else [self._fleet]
        return only if cluster in self._failed else real(self, cluster, update)

    return mock.patch.object(LiveFeed, "_messages_of", messages_of)


def brokers_kept() -> AbstractContextManager[Any]:
    """The brokers of a cluster are sent once."""
    real = ClusterMessages._show_brokers

    def show(self: ClusterMessages, snapshot: ClusterSnapshot) -> None:
        if self.brokers is None:
            real(self, snapshot)

    return mock.patch.object(ClusterMessages, "_show_brokers", show)


def oldest_message_sent() -> AbstractContextManager[Any]:
    """A slow viewer is sent the oldest message that waits for it."""
    real = Viewer.offer

    def offer(self: Viewer, kind: str, message: bytes) -> None:
        waiting = self._next.get(kind)
        real(self, kind, message)
        if waiting is not None:
            self._next[kind] = waiting

    return mock.patch.object(Viewer, "offer", offer)


def viewer_not_forgotten() -> AbstractContextManager[Any]:
    """Whoever has gone is still counted, and offered what is new."""
    return mock.patch.object(LiveFeed, "leave")


PLANTED: Mapping[str, Plant] = {
    "beat for new viewers alone": beat_for_new_viewers_alone,
    "fleet kept": fleet_kept,
    "one mistake for all": one_mistake_for_all,
    "fleet without a beat": fleet_without_a_beat,
    "brokers kept": brokers_kept,
    "oldest message sent": oldest_message_sent,
    "viewer not forgotten": viewer_not_forgotten,
}
"""By name: how to plant it."""

CAUGHT_BY: Mapping[str, tuple[int, ...]] = {
    "beat for new viewers alone": (0, 1),
    "fleet kept": (0, 1),
    "one mistake for all": (6, 14),
    "fleet without a beat": (22, 43),
    "brokers kept": (0, 1),
    "oldest message sent": (1, 12),
    "viewer not forgotten": (1, 3),
}
"""By name: seeds that catch it."""
