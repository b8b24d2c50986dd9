"""Bugs at the ends of the pipeline: in reading ZooKeeper's answers, in the live page, and in `kcm elect`.

The rule is that of `planted`, which has the bugs in between.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from typing import Any
from unittest import mock

from exporter.core.records import ClusterSnapshot
from exporter.live import feed
from exporter.live.feed import LiveFeed
from exporter.live.messages import ClusterMessages, Message, Viewer
from kcm.elect import run
from kcm.elect.run import ElectionRun
from kcm.elect.watch import ClusterSample, ClusterWatch
from pipeline.runtime import KcmError
from tests.simulation.zookeeper import THROTTLED
from zk_source.service.service import WatcherService
from zk_source.watcher.watcher import Watcher
from zk_source.wire.inbox import Reply
from zk_source.wire.operations import Err, MultiRead, Refused, SingleRead

Plant = Callable[[], AbstractContextManager[Any]]


def beat_for_new_viewers_alone() -> AbstractContextManager[Any]:
    """A page gets a beat when it is opened, and no other."""
    return mock.patch.object(feed, "UPDATES_PER_BEAT", 10**9)


def fleet_kept() -> AbstractContextManager[Any]:
    """The list of clusters is made once."""
    real = LiveFeed._update_fleet

    def update(self: LiveFeed, *about: Any) -> None:
        if self._fleet is None:
            real(self, *about)

    return mock.patch.object(LiveFeed, "_update_fleet", update)


def one_mistake_for_all() -> AbstractContextManager[Any]:
    """An exception about one cluster ends the update for the viewers of all."""

    async def try_cluster(
        self: LiveFeed, update: Any, snapshot: ClusterSnapshot, *, is_watched: bool, **_: bool
    ) -> None:
        await self._update_cluster(update, snapshot, is_watched=is_watched)

    return mock.patch.object(LiveFeed, "_try_cluster", try_cluster)


def fleet_without_a_beat() -> AbstractContextManager[Any]:
    """Viewers of a cluster that cannot be judged still get the list of clusters."""
    real = LiveFeed._messages_of

    def messages_of(self: LiveFeed, cluster: str | None, update: Any) -> list[Message]:
        only = [] if self._fleet is None else [self._fleet]
        return only if cluster in self._failed else real(self, cluster, update)

    return mock.patch.object(LiveFeed, "_messages_of", messages_of)


def brokers_kept() -> AbstractContextManager[Any]:
    """The brokers of a cluster are sent only once."""
    real = ClusterMessages._show_brokers

    def show(self: ClusterMessages, snapshot: ClusterSnapshot) -> None:
        if self.brokers is None:
            real(self, snapshot)

    return mock.patch.object(ClusterMessages, "_show_brokers", show)


def oldest_message_sent() -> AbstractContextManager[Any]:
    """A slow viewer is sent the oldest waiting message."""
    real = Viewer.offer

    def offer(self: Viewer, message: Message) -> None:
        waiting = self._next.get(message.kind)
        real(self, message)
        if waiting is not None:
            self._next[message.kind] = waiting

    return mock.patch.object(Viewer, "offer", offer)


def viewer_not_forgotten() -> AbstractContextManager[Any]:
    """A viewer that has left is still counted and still sent updates."""
    return mock.patch.object(LiveFeed, "leave")


def throttled_reads_taken_for_missing() -> AbstractContextManager[Any]:
    """A read that a server refuses by throttling counts as one of a missing znode."""
    real = Watcher.on_reply

    def on_reply(self: Watcher, token: int, zxid: int, err: int, *rest: Any) -> None:
        request = self.request(token)
        if err == THROTTLED and isinstance(request, SingleRead):
            err = Err.NO_NODE
        elif err == THROTTLED and isinstance(request, MultiRead):
            err, rest = Err.OK, ([Refused(Err.NO_NODE)] * len(request.reads), *rest[1:])
        real(self, token, zxid, err, *rest)

    return mock.patch.object(Watcher, "on_reply", on_reply)


def throttled_answers_believed() -> AbstractContextManager[Any]:
    """An error in place of an answer counts as proof that the server is in contact with its leader."""
    real = WatcherService._handle_pulse

    def handle_pulse(self: WatcherService, reply: Reply) -> None:
        real(self, reply._replace(err=Err.OK) if reply.err == THROTTLED else reply)

    return mock.patch.object(WatcherService, "_handle_pulse", handle_pulse)


def elections_checked_before_the_pause() -> AbstractContextManager[Any]:
    """A run of elections checks the cluster, pauses, and then elects."""

    def run_all(self: ElectionRun) -> str | None:
        try:
            before = self._following()
            self._check(before)
            for number, chunk in enumerate(self._chunks, 1):
                self._check(before)
                if number > 1:
                    vars(run)["time"].sleep(self._pause_s)
                self._one(number, chunk, before)
        except (run.SurpriseError, KcmError) as error:
            return str(error)
        return None

    return mock.patch.object(ElectionRun, "run", run_all)


def elections_after_a_refusal() -> AbstractContextManager[Any]:
    """A run of elections continues after Kafka has refused some."""
    real = ElectionRun._one

    def one(self: ElectionRun, *about: Any) -> None:
        try:
            real(self, *about)
        except run.SurpriseError as error:
            if not str(error).startswith("Kafka refused"):
                raise

    return mock.patch.object(ElectionRun, "_one", one)


def elections_past_a_surprise() -> AbstractContextManager[Any]:
    """A run of elections continues after a change of the controller or the loss of a broker."""
    real = vars(run)["surprise"]

    def surprise(before: ClusterSample, now: ClusterSample) -> str | None:
        same = now._replace(
            controller=before.controller, epoch=before.epoch, registrations=before.registrations
        )
        what: str | None = real(before, same)
        return what

    return mock.patch.object(run, "surprise", surprise)


def elections_without_figures() -> AbstractContextManager[Any]:
    """A run of elections continues also with figures that are not live."""
    real = vars(run)["surprise"]

    def surprise(before: ClusterSample, now: ClusterSample) -> str | None:
        what: str | None = real(before, now._replace(status="live"))
        return what

    return mock.patch.object(run, "surprise", surprise)


def elections_believed() -> AbstractContextManager[Any]:
    """A run of elections takes Kafka's answer as proof of the effect."""
    return mock.patch.object(ClusterWatch, "not_led", return_value=set())


def lost_leaders_counted_as_elected() -> AbstractContextManager[Any]:
    """Leaders that are lost again still count as elected."""
    real = ElectionRun._check

    def check(self: ElectionRun, before: ClusterSample) -> ClusterSample:
        elected = list(self.elected)
        try:
            return real(self, before)
        finally:
            self.elected = elected

    return mock.patch.object(ElectionRun, "_check", check)


PLANTED: Mapping[str, Plant] = {
    "elections checked before the pause": elections_checked_before_the_pause,
    "elections after a refusal": elections_after_a_refusal,
    "elections past a surprise": elections_past_a_surprise,
    "elections without figures": elections_without_figures,
    "elections believed": elections_believed,
    "lost leaders counted as elected": lost_leaders_counted_as_elected,
    "throttled reads taken for missing": throttled_reads_taken_for_missing,
    "throttled answers believed": throttled_answers_believed,
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
    "throttled reads taken for missing": (18, 50),
    "throttled answers believed": (70, 178),
    "elections checked before the pause": (52, 93),
    "elections after a refusal": (52, 156),
    "elections past a surprise": (10, 51),
    "elections without figures": (72, 93),
    "elections believed": (324,),
    "lost leaders counted as elected": (261,),
    "beat for new viewers alone": (0, 1),
    "fleet kept": (0, 1),
    "one mistake for all": (6, 14),
    "fleet without a beat": (22, 43),
    "brokers kept": (0, 1),
    "oldest message sent": (12, 16),
    "viewer not forgotten": (1, 3),
}
"""By name: seeds that catch it."""
