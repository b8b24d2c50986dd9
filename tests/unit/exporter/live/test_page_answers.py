"""The answers to the live page's polls: made once for all pages, the newest state, bounded."""

from __future__ import annotations

import asyncio
import dataclasses
import gzip
import json
from typing import Any

import httpx
import pytest
import structlog

from controller_model.metrics.metric import Moment
from controller_model.records.completeness import LATE_MS, Stage
from controller_model.records.views import ControllerView, Counts
from exporter.api.problems import ClusterProblem, problems_of
from exporter.core.records import ClusterSnapshot
from exporter.live import page_answers
from exporter.live.page import read_files, version_of
from exporter.live.page_answers import PATH, PageAnswers, _PollRate
from exporter.live.picture import cluster_picture
from tests.support.api_server import Served
from tests.support.samples import T0, as_of, broker_view, cluster_view, elected


@pytest.fixture
def two_brokers() -> Served:
    """A cluster of two brokers."""
    served = Served()
    served.write(broker_view(0), broker_view(1), cluster_view())
    return served


@pytest.fixture(autouse=True)
def _made_for_each_poll(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make the answer again for each poll, unless a test says otherwise."""
    monkeypatch.setattr(page_answers, "MAKE_INTERVAL_S", 0.0)


class Page:
    """A page that polls, as `poll.js` does."""

    def __init__(self, served: Served, cluster: str | None = None) -> None:
        self.served = served
        self._parameters = {} if cluster is None else {"cluster": cluster}
        self._etag: str | None = None
        self.shown: Any = None
        self.now: Any = None

    def poll(self, *, later_ms: int = 200) -> httpx.Response:
        """Poll after this time; return the answer."""
        self.served.now += later_ms
        headers = {} if self._etag is None else {"if-none-match": self._etag}
        answer = self.served.get(PATH, self._parameters, headers)
        if answer.status_code == 200:
            self.shown = answer.json()
        if answer.status_code in {200, 304}:
            self._etag = answer.headers["etag"]
            self.now = json.loads(answer.headers["kcm-now"])
        return answer


def test_one_answer_has_all_that_the_page_shows(two_brokers: Served) -> None:
    """The cluster, its brokers and events, the other clusters, and how far that can be trusted."""
    two_brokers.publish(elected(1), elected(1, cluster="other"))
    page = Page(two_brokers)
    assert page.poll(later_ms=0).headers["content-type"] == "application/json"
    shown = page.shown
    assert shown["page"] == version_of(read_files(partition_metrics=False))
    assert shown["trust"]["status"] == "live"
    assert shown["reasons"] == []
    assert shown["clusters"] == [{"name": "prod", "severity": "none"}]
    assert [each["safe_to_stop"]["safe"] for each in shown["cluster"]["brokers"]] == [True, True]
    assert shown["cluster"]["log"]["read_zxid"] == "0", "64-bit numbers are text"
    assert len(shown["cluster"]["events"]) == 1, "those of its own cluster"
    assert shown["cluster"]["elections_from"] == two_brokers.events.held_from("prod") == T0 + 1
    assert shown["cluster"]["delay_ms"] is None, "no change has been measured"
    assert page.now == {
        "now": T0,
        "viewers": 1,
        "heard_at": {"watcher": T0, "fold": T0, "exporter": T0},
    }


def test_an_unchanged_answer_is_a_304_with_the_time(two_brokers: Served) -> None:
    """While nothing happens a page gets the time, and no body."""
    page = Page(two_brokers)
    page.poll()
    again = page.poll(later_ms=1_000)
    assert (again.status_code, again.content) == (304, b"")
    assert page.now["now"] == two_brokers.now
    assert again.headers["cache-control"] == "no-cache"


def test_each_change_of_what_is_shown_changes_the_etag(two_brokers: Served) -> None:
    """A view, an event, a delay, another cluster, and a status that time alone has changed."""
    page = Page(two_brokers, "prod")
    page.poll()

    def changed() -> Any:
        assert page.poll().status_code == 200
        assert page.poll().status_code == 304
        return page.shown

    two_brokers.write(cluster_view(at=as_of(2), controller=ControllerView(id=1, epoch=8)))
    assert changed()["cluster"]["controller"]["id"] == 1
    two_brokers.publish(elected(2))
    assert len(changed()["cluster"]["events"]) == 1
    two_brokers.state.delays_ms["prod"] = 7
    assert changed()["cluster"]["delay_ms"] == 7
    two_brokers.write(cluster_view("other", counts=Counts(offline=1)))
    assert [row["name"] for row in changed()["clusters"]] == ["other", "prod"]
    two_brokers.now += LATE_MS + 1
    assert page.poll().status_code == 200
    assert page.shown["trust"]["status"] == "behind"


def test_an_unchanged_cluster_is_encoded_once(
    two_brokers: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Polls without news cost no new picture; brokers whose view alone is new do."""
    made = []

    def picture(*about: Any) -> dict[str, Any]:
        made.append(about)
        return cluster_picture(*about)

    monkeypatch.setattr(page_answers, "cluster_picture", picture)
    page = Page(two_brokers)
    for _ in range(3):
        page.poll()
    assert len(made) == 1
    two_brokers.write(broker_view(1, at=as_of(2), rack="b"), cluster_view(at=as_of(2)))
    page.poll()
    assert len(made) == 2
    assert page.shown["cluster"]["brokers"][1]["rack"] == "b"


def test_the_time_when_stages_were_heard_moves_without_a_body(
    two_brokers: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The signs of life of each second are in the header; None where there is no sign yet."""
    real = two_brokers.collector.moment

    def moment(snapshot: ClusterSnapshot, now: int) -> Moment:
        return dataclasses.replace(
            real(snapshot, now), behind_ms={Stage.FOLD: 2, Stage.EXPORTER: 3}
        )

    monkeypatch.setattr(two_brokers.collector, "moment", moment)
    page = Page(two_brokers)
    page.poll()
    for _ in range(2):
        now = two_brokers.now
        assert page.now["heard_at"] == {"watcher": None, "fold": now - 2, "exporter": now - 3}
        assert page.poll().status_code == 304


def test_a_page_of_no_cluster_gets_the_only_one_or_a_row_for_each(two_brokers: Served) -> None:
    """Once there are two clusters, it gets the rows with all figures instead."""
    page = Page(two_brokers)
    page.poll()
    assert page.shown["cluster"]["name"] == "prod"
    two_brokers.write(cluster_view("other"))
    page.poll()
    assert (page.shown["cluster"], page.shown["trust"]) == (None, None)
    assert [row["counts"]["offline"] for row in page.shown["clusters"]] == [0, 0]


def test_an_unknown_cluster_is_null_until_it_appears(two_brokers: Served) -> None:
    """The page says that it is not known, and continues by itself when the cluster appears."""
    page = Page(two_brokers, "later")
    page.poll()
    assert (page.shown["cluster"], page.shown["clusters"][0]["name"]) == (None, "prod")
    two_brokers.write(cluster_view("later"))
    page.poll()
    assert page.shown["cluster"]["name"] == "later"


def test_many_pages_cost_one_computation(
    two_brokers: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two hundred that poll at once are judged once, compressed once, and get the same bytes."""
    made = []
    packed = []
    real = gzip.compress

    def judge(*about: Any) -> list[ClusterProblem]:
        made.append(about)
        return problems_of(*about)

    def pack(*about: Any, **named: Any) -> bytes:
        packed.append(about)
        return real(*about, **named)

    monkeypatch.setattr(page_answers, "MAKE_INTERVAL_S", 3600.0)
    monkeypatch.setattr(page_answers, "problems_of", judge)
    monkeypatch.setattr(gzip, "compress", pack)

    async def crowd() -> list[bytes]:
        transport = httpx.ASGITransport(app=two_brokers.app)
        async with httpx.AsyncClient(transport=transport, base_url="http://kcm") as client:
            answers = await asyncio.gather(*(client.get(PATH) for _ in range(200)))
        return [answer.content for answer in answers]

    assert len(set(asyncio.run(crowd()))) == 1
    assert len(made) == 2, "once for its page, and once for its row"
    assert len(packed) == 1
    two_brokers.write(cluster_view("other"))
    Page(two_brokers, "other").poll()
    assert len(made) == 3, "another cluster's page has the rows that were made before"


def test_changes_faster_than_pages_are_made_once_in_a_while(
    two_brokers: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Within a fifth of a second a page gets what was made for another."""
    page, other = Page(two_brokers), Page(two_brokers)
    page.poll()
    two_brokers.write(cluster_view(at=as_of(2), controller=ControllerView(id=1)))
    with monkeypatch.context() as soon:
        soon.setattr(page_answers, "MAKE_INTERVAL_S", 3600.0)
        other.poll()
    assert other.shown == page.shown
    assert other.poll().status_code == 200
    assert other.shown["cluster"]["controller"]["id"] == 1


def test_an_answer_is_as_old_as_the_rows_in_it(
    two_brokers: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows that were made for another page do not stay longer in an answer that was made later."""
    clock = [0.0]
    monkeypatch.setattr(asyncio.BaseEventLoop, "time", lambda _loop: clock[0])
    monkeypatch.setattr(page_answers, "MAKE_INTERVAL_S", 0.2)
    two_brokers.write(cluster_view("other"))
    page, fleet = Page(two_brokers, "prod"), Page(two_brokers)
    page.poll()
    two_brokers.write(cluster_view("other", at=as_of(2), counts=Counts(offline=1)))
    for clock[0], offline in ((0.15, 0), (0.21, 1)):
        fleet.poll()
        rows = {row["name"]: row["counts"]["offline"] for row in fleet.shown["clusters"]}
        assert rows == {"prod": 0, "other": offline}


def test_answers_are_kept_for_a_minute_and_only_for_known_clusters(
    two_brokers: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody can fill the memory with names, and a cluster that nobody looks at holds nothing."""
    held: list[PageAnswers] = []
    real = PageAnswers._make_rows

    def rows(self: PageAnswers, *at: Any) -> Any:
        held.append(self)
        return real(self, *at)

    monkeypatch.setattr(PageAnswers, "_make_rows", rows)
    two_brokers.write(cluster_view("other"))
    for name in (*(f"nobody-{number}" for number in range(100)), "prod", "other"):
        Page(two_brokers, name).poll()
    assert set(held[-1]._answers) == {"", "prod", "other"}
    monkeypatch.setattr(page_answers, "_KEPT_S", 0.0)
    Page(two_brokers).poll()
    assert set(held[-1]._answers) == {None}


def test_an_exception_about_a_cluster_is_logged_once_and_refuses_its_pages_only(
    two_brokers: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The list of clusters says so; when it is over, the pages are answered again."""
    two_brokers.write(cluster_view("other"))
    failing = {"prod"}

    def judge(snapshot: ClusterSnapshot, *about: Any) -> list[ClusterProblem]:
        if snapshot.name in failing:
            raise ZeroDivisionError
        return problems_of(snapshot, *about)

    monkeypatch.setattr(page_answers, "problems_of", judge)
    one, other = Page(two_brokers, "prod"), Page(two_brokers, "other")
    with structlog.testing.capture_logs() as logs:
        for _ in range(3):
            refused = one.poll()
            assert refused.status_code == 500
            assert "failed to judge prod" in refused.json()["detail"]
            other.poll()
    assert [entry["cluster"] for entry in logs] == ["prod"]
    assert [row["severity"] for row in other.shown["clusters"]] == ["warning", "none"]
    failing.clear()
    assert one.poll().status_code == 200
    failing.add("prod")
    with structlog.testing.capture_logs() as logs:
        one.poll()
    assert len(logs) == 1, "a new one is logged again"


def test_an_exception_in_a_picture_is_logged_once(
    two_brokers: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows that can be made do not make it a new exception."""

    def fail(*_about: Any) -> Any:
        raise ZeroDivisionError

    page = Page(two_brokers)
    page.poll()
    for seq in (2, 3):
        two_brokers.write(cluster_view(at=as_of(seq)))
        with monkeypatch.context() as broken, structlog.testing.capture_logs() as logs:
            broken.setattr(page_answers, "cluster_picture", fail)
            assert [page.poll().status_code for _ in range(3)] == [500] * 3
        assert len(logs) == 1, "each time that it begins"
        assert page.poll().status_code == 200


def test_the_rate_of_polls_is_what_the_page_spreads_its_questions_by() -> None:
    """About the number of pages that are open, at least one."""
    polls = _PollRate()
    for number in range(100):
        polls.count(100 + number / 5)
    assert polls.per_s == 5
    for later_s in (200, 300):
        polls.count(later_s)
    assert polls.per_s == 1
