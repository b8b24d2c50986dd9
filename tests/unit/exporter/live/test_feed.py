"""The live page's feed: made once for all viewers, newest state only, bounded, and ended in time."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest
import structlog
from starlette.exceptions import HTTPException

from controller_model.insight.thresholds import THRESHOLDS, Threshold
from controller_model.metrics.metric import Moment
from controller_model.records.completeness import LATE_MS
from controller_model.records.views import ControllerView
from exporter.core.records import ClusterSnapshot
from exporter.live import feed as feed_module
from exporter.live import messages as messages_module
from exporter.live.feed import (
    MAX_VIEWERS,
    MAX_VIEWERS_OF_ONE_CLIENT,
    UPDATES_PER_BEAT,
    LiveFeed,
)
from exporter.live.messages import Viewer
from tests.support.api_server import Served
from tests.support.live_feed import SOON_S, feed_of, messages, next_message, shown, watching
from tests.support.samples import T0, as_of, broker_view, cluster_view, elected, log_view


def test_a_new_viewer_gets_beat_fleet_brokers_and_cluster_at_once() -> None:
    """The beat is first: it has the completeness of the figures that follow."""

    async def look() -> list[tuple[str, Any]]:
        served = shown()
        served.publish(elected(1), elected(1, cluster="other"))
        async with watching(feed_of(served)) as viewer, asyncio.timeout(SOON_S):
            await viewer.news.wait()
            return messages(viewer.take())

    sent = asyncio.run(look())
    assert [name for name, _ in sent] == ["beat", "fleet", "brokers", "cluster"]
    beat, fleet, brokers, cluster = (data for _, data in sent)
    assert beat["trust"]["status"] == "live"
    assert (beat["now"], beat["page"], beat["reasons"]) == (T0, "7f3a", ["a reason"])
    assert beat["viewers"] == 1, "the more look, the longer each waits before it asks"
    assert [row["name"] for row in fleet["clusters"]] == ["prod"]
    assert [broker["safe_to_stop"]["safe"] for broker in brokers["brokers"]] == [True, True]
    assert cluster["log"]["read_zxid"] == "0", "64-bit numbers are text"
    assert len(cluster["events"]) == 1, "those of its own cluster"


def test_a_viewer_without_a_cluster_name_gets_the_only_cluster() -> None:
    """A viewer that asks for no cluster gets the only one; once there are two, it gets the fleet only."""

    async def look() -> tuple[Any, list[tuple[str, Any]]]:
        served = shown()
        async with watching(feed_of(served), None) as viewer, asyncio.timeout(SOON_S):
            first = await next_message(viewer, "cluster")
            served.write(cluster_view("other"))
            await next_message(viewer, "fleet")
            served.write(cluster_view(at=as_of(2)))
            later: list[tuple[str, Any]] = []
            while [name for name, _ in later].count("beat") < 2:
                await viewer.news.wait()
                later += messages(viewer.take())
            return first, later

    first, later = asyncio.run(look())
    assert first["name"] == "prod"
    assert "cluster" not in {name for name, _ in later}
    assert [data["trust"] for name, data in later if name == "beat"] == [None, None]


def test_a_viewer_that_joins_during_an_update_gets_a_beat_first() -> None:
    """While another cluster's picture is made, a viewer joins; its next update begins with a beat."""

    async def look() -> list[str]:
        served = shown()
        served.write(broker_view(0, cluster="other"), cluster_view("other"))
        feed = feed_of(served)
        async with watching(feed), asyncio.timeout(SOON_S):
            with served.events._lock:  # making a picture waits for this lock
                while not feed._clusters:  # noqa: ASYNC110  # the feed has no event for this
                    await asyncio.sleep(0)
                late = feed.join("other")
            await late.news.wait()
            feed.leave(late)
            return [name for name, _ in messages(late.take())]

    assert asyncio.run(look()) == ["beat", "fleet", "brokers", "cluster"]


def test_all_viewers_get_the_same_bytes_of_a_change() -> None:
    """One computation per swap: two viewers get the same bytes object."""

    async def look() -> tuple[bytes, bytes]:
        served = shown()
        feed = feed_of(served)
        async with watching(feed) as one, watching(feed) as other:
            await next_message(one, "cluster")
            await next_message(other, "cluster")
            served.write(cluster_view(at=as_of(2), controller=ControllerView(id=1, epoch=8)))
            taken = []
            for viewer in (one, other):
                assert (await next_message(viewer, "cluster"))["controller"]["id"] == 1
                taken.append(viewer._offered["cluster"].sent)
            return taken[0], taken[1]

    one, other = asyncio.run(look())
    assert one is other


def test_a_changed_completeness_is_sent_in_a_beat_before_the_figures() -> None:
    """It is sent with the next update, not the next beat: they would be under the earlier beat for a second."""

    async def look() -> list[tuple[str, Any]]:
        served = shown()
        feed = feed_of(served)
        async with watching(feed) as viewer, asyncio.timeout(SOON_S):
            await next_message(viewer, "cluster")
            feed._updates = 1  # the next beat is due after the next updates
            served.write(cluster_view(at=as_of(2), log=log_view(incomplete_since=T0)))
            sent: list[tuple[str, Any]] = []
            while "cluster" not in [name for name, _ in sent]:
                await viewer.news.wait()
                sent += messages(viewer.take())
            return sent

    sent = asyncio.run(look())
    assert [name for name, _ in sent] == ["beat", "fleet", "cluster"]
    assert dict(sent)["beat"]["trust"]["status"] == "incomplete"


def test_the_page_uses_the_configured_alert_thresholds() -> None:
    """A cluster without a controller has a problem by the shipped thresholds, and none without thresholds."""

    async def look(thresholds: Mapping[str, Threshold]) -> list[str]:
        served = shown()
        served.write(cluster_view(at=as_of(2), controller=ControllerView(id=-1, epoch=8)))
        async with watching(feed_of(served, thresholds=thresholds)) as viewer:
            cluster = await next_message(viewer, "cluster")
            return [problem["alert"] for problem in cluster["problems"]]

    assert "KafkaControllerMissing" in asyncio.run(look(THRESHOLDS))
    assert asyncio.run(look({})) == []


def test_an_unknown_cluster_is_null_until_it_appears() -> None:
    """The page says that it is not known, and continues by itself when the cluster appears."""

    async def look() -> tuple[Any, Any]:
        served = shown()
        async with watching(feed_of(served), "later") as viewer:
            before = await next_message(viewer, "cluster")
            served.write(cluster_view("later"))
            return before, await next_message(viewer, "cluster")

    before, after = asyncio.run(look())
    assert before is None
    assert after["name"] == "later"


def test_viewers_beyond_the_limit_get_503_with_retry_after() -> None:
    """They get 503 and Retry-After; the place of a viewer that leaves is free."""

    async def crowd() -> None:
        feed = feed_of(shown())
        viewers = [feed.join(None) for _ in range(MAX_VIEWERS)]
        with pytest.raises(HTTPException) as refused:
            feed.join(None)
        assert refused.value.status_code == 503
        assert refused.value.detail == "200 pages are open already"
        assert refused.value.headers == {"retry-after": "10"}
        feed.leave(viewers[0])
        feed.leave(feed.join(None))
        for viewer in viewers:
            feed.leave(viewer)

    asyncio.run(crowd())


def test_viewers_beyond_the_limit_of_one_client_get_429() -> None:
    """Its pages beyond its share are refused with 429; another client has room."""

    async def crowd() -> None:
        feed = feed_of(shown())
        viewers = [feed.join(None, "10.0.0.7") for _ in range(MAX_VIEWERS_OF_ONE_CLIENT)]
        with pytest.raises(HTTPException) as refused:
            feed.join(None, "10.0.0.7")
        assert refused.value.status_code == 429
        assert refused.value.detail == "40 pages are open from 10.0.0.7 already"
        assert refused.value.headers == {"retry-after": "10"}
        viewers.append(feed.join(None, "10.0.0.8"))
        feed.leave(viewers.pop(0))
        viewers.append(feed.join(None, "10.0.0.7"))
        for viewer in viewers:
            feed.leave(viewer)

    asyncio.run(crowd())


def test_the_feed_task_ends_with_its_last_viewer_and_restarts() -> None:
    """The task ends with its last viewer, and begins again with the next."""

    async def look() -> tuple[bool, Any]:
        served = shown()
        feed = feed_of(served)
        async with watching(feed) as viewer:
            await next_message(viewer, "cluster")
        assert feed._task is not None
        await asyncio.wait_for(feed._task, SOON_S)
        served.write(cluster_view(at=as_of(2), controller=ControllerView(id=1)))
        async with watching(feed) as viewer:
            return feed._task.done(), (await next_message(viewer, "cluster"))["controller"]["id"]

    assert asyncio.run(look()) == (False, 1)


def ticking(
    served: Served, broken: frozenset[int] = frozenset()
) -> tuple[LiveFeed, list[int], list[int]]:
    """Return a feed, the numbers of its updates so far, and of those with a beat; some fail."""
    updates: list[int] = []
    beats: list[int] = []

    def clock() -> int:
        updates.append(len(updates))
        if updates[-1] in broken:
            raise ZeroDivisionError
        return served.now

    def reasons() -> list[str]:
        beats.append(updates[-1])
        return []

    feed = LiveFeed(
        served.collector,
        served.events,
        clock=clock,
        reasons=reasons,
        page="",
        update_every_s=0.001,
    )
    return feed, updates, beats


def test_an_unexpected_exception_does_not_end_the_feed() -> None:
    """An unexpected exception is logged once while it lasts; after it the feed sends again."""

    async def look() -> Any:
        feed, updates, _ = ticking(shown(), frozenset({0, 1, 2, 3, 6}))
        async with watching(feed) as viewer, asyncio.timeout(SOON_S):
            cluster = await next_message(viewer, "cluster")
            while len(updates) < 8:  # noqa: ASYNC110  # the feed has no event for this
                await asyncio.sleep(0.001)
            return cluster

    with structlog.testing.capture_logs() as logged:
        cluster = asyncio.run(look())
    assert [entry["event"] for entry in logged] == ["the live page could not be updated"] * 2
    assert cluster["name"] == "prod"


class InjectedError:
    """An exception on some clusters, for as long as it is `on`."""

    def __init__(
        self,
        monkeypatch: pytest.MonkeyPatch,
        module: Any,
        name: str,
        about: tuple[str, ...] = ("prod",),
    ) -> None:
        self.on = True
        self._about = about
        self._real = getattr(module, name)
        monkeypatch.setattr(module, name, self._call)

    def _call(self, snapshot: ClusterSnapshot, *more: Any) -> Any:
        if self.on and snapshot.name in self._about:
            raise ZeroDivisionError
        return self._real(snapshot, *more)


async def sent_by_update(feed: LiveFeed, number: int, *viewers: Viewer) -> list[dict[str, Any]]:
    """Run the update of this number; return what it sends to each viewer, by kind and in order."""
    feed._updates = number
    await feed._update()
    return [dict(messages(viewer.take())) for viewer in viewers]


@pytest.mark.parametrize(
    ("module", "name"),
    [
        (feed_module, "problems_of"),
        (feed_module, "fleet_row"),
        (messages_module, "cluster_picture"),
    ],
)
def test_an_exception_on_one_cluster_stops_updates_of_its_viewers_only(
    monkeypatch: pytest.MonkeyPatch, module: Any, name: str
) -> None:
    """They are sent nothing, which the page notices; the fleet has no figures of it; it is logged once."""

    async def look() -> None:
        served = shown()
        served.write(cluster_view("other"))
        feed = feed_of(served, update_every_s=SOON_S)  # no update runs by itself
        async with (
            watching(feed) as own,
            watching(feed, "other") as other,
            watching(feed, "") as all_,
        ):
            await own.news.wait()
            await sent_by_update(feed, 0, own, other, all_)
            error = InjectedError(monkeypatch, module, name)
            row: dict[str, Any] = {}
            for number in range(1, 2 * UPDATES_PER_BEAT + 1):
                served.write(
                    cluster_view(at=as_of(1 + number)), cluster_view("other", at=as_of(1 + number))
                )
                of_own, of_other, of_all = await sent_by_update(feed, number, own, other, all_)
                is_beat = number % UPDATES_PER_BEAT == 0
                assert (of_own, "cluster" in of_other) == ({}, True)
                assert ("beat" in of_other, "beat" in of_all) == (is_beat, is_beat)
                if "fleet" in of_all:
                    row = {row["name"]: row["status"] for row in of_all["fleet"]["clusters"]}
            assert row == {"prod": None, "other": "live"}
            error.on = False
            assert await sent_by_update(feed, 1, own) == [{}], "the first of all is a beat"
            (of_own,) = await sent_by_update(feed, 0, own)
            assert list(of_own) == ["beat", "fleet", "brokers", "cluster"]

    with structlog.testing.capture_logs() as logged:
        asyncio.run(look())
    assert [(entry["event"], entry["cluster"]) for entry in logged] == [
        ("the live page of a cluster could not be updated", "prod")
    ]


def test_after_an_exception_a_removed_cluster_is_sent_with_a_beat(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its viewers get the message that it is gone with a new beat: an old beat would not be about that."""

    async def look() -> list[dict[str, Any]]:
        served = shown()
        feed = feed_of(served, update_every_s=SOON_S)  # no update runs by itself
        async with watching(feed) as viewer:
            await viewer.news.wait()
            InjectedError(monkeypatch, feed_module, "problems_of")
            await sent_by_update(feed, 1, viewer)
            served.collector.update([], {})
            return [sent for n in (2, 3) for sent in await sent_by_update(feed, n, viewer)]

    at_once, later = asyncio.run(look())
    assert (list(at_once), at_once["cluster"]) == (["beat", "fleet", "cluster"], None)
    assert later == {}


def test_a_viewer_that_joins_between_beats_gets_a_beat_at_once() -> None:
    """It must not wait for the next beat; the other viewers get this one as well."""

    async def look() -> list[list[str]]:
        feed = feed_of(shown(), update_every_s=SOON_S)  # no update comes by itself
        async with watching(feed) as first:
            await first.news.wait()
            await sent_by_update(feed, 1, first)
            async with watching(feed) as second:
                return [list(sent) for sent in await sent_by_update(feed, 2, first, second)]

    assert asyncio.run(look()) == [["beat"], ["beat", "fleet", "brokers", "cluster"]]


def test_clusters_whose_update_fails_stay_in_the_fleet_list(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """They have no figures and are equally bad; all viewers get the list."""

    async def look() -> list[tuple[str, str | None]]:
        served = shown()
        served.write(cluster_view("other"))
        InjectedError(monkeypatch, feed_module, "problems_of", ("prod", "other"))
        feed = feed_of(served, update_every_s=SOON_S)
        async with watching(feed, "unknown") as viewer:
            fleet = await next_message(viewer, "fleet")
        return [(row["name"], row["status"]) for row in fleet["clusters"]]

    assert sorted(asyncio.run(look())) == [("other", None), ("prod", None)]


def test_the_fleet_is_judged_once_a_beat_and_once_a_commit(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Updates in between cost nothing, and a commit does not wait for the next beat."""
    judged: list[int] = []

    async def look() -> list[int]:
        served = shown()
        feed, updates, beats = ticking(served)
        moment = served.collector.moment

        def noted(*about: Any) -> Any:
            judged.append(updates[-1])
            if updates[-1] == UPDATES_PER_BEAT:
                served.write(cluster_view(at=as_of(2)))
            return moment(*about)

        monkeypatch.setattr(served.collector, "moment", noted)
        async with watching(feed, "unknown"), asyncio.timeout(SOON_S):
            while len(updates) <= 3 * UPDATES_PER_BEAT:  # noqa: ASYNC110  # as above
                await asyncio.sleep(0.001)
        return beats

    beat = UPDATES_PER_BEAT
    assert asyncio.run(look()) == [0, beat, 2 * beat, 3 * beat]
    assert judged == [0, beat, beat + 1, 2 * beat, 3 * beat]


def test_the_fleet_becomes_stale_without_new_views() -> None:
    """It is judged again with each beat, because a monitor that has died changes no view."""

    async def look() -> tuple[str, str, str]:
        served = shown()
        served.write(cluster_view("other"))
        async with watching(feed_of(served)) as viewer:
            before = await next_message(viewer, "fleet")
            served.now += LATE_MS + 1
            after = await next_message(viewer, "fleet")
            beat = await next_message(viewer, "beat")
            return (
                before["clusters"][0]["status"],
                after["clusters"][0]["status"],
                beat["trust"]["status"],
            )

    assert asyncio.run(look()) == ("live", "behind", "behind")


def test_ending_the_feed_ends_every_stream() -> None:
    """Otherwise the server would wait for responses that have no end."""

    async def look() -> bool:
        feed = feed_of(shown())
        async with watching(feed) as viewer:
            await next_message(viewer, "cluster")
            feed.end()
            async with asyncio.timeout(SOON_S):
                while not viewer.ended:
                    await viewer.news.wait()
                    viewer.take()
            return viewer.ended

    assert asyncio.run(look())


def test_an_update_judges_each_cluster_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Viewers of the cluster, of another one and of the fleet share one judgement of it."""
    asked: list[str] = []

    async def look() -> None:
        served = shown()
        served.write(cluster_view("other"))
        moment = served.collector.moment

        def noted(snapshot: ClusterSnapshot, now: int) -> Moment:
            asked.append(snapshot.name)
            return moment(snapshot, now)

        monkeypatch.setattr(served.collector, "moment", noted)
        feed = feed_of(served, update_every_s=SOON_S)  # no update runs between these two
        async with watching(feed) as viewer, watching(feed), watching(feed, "other"):
            await viewer.news.wait()
            asked.clear()
            feed._updates = UPDATES_PER_BEAT
            await feed._update()

    asyncio.run(look())
    assert sorted(asked) == ["other", "prod"]
