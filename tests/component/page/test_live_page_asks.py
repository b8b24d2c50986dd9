"""What the live page asks the API beside its stream: when, how often, and what of an old answer."""

from __future__ import annotations

import json
import time
from typing import Any

import msgspec
import pytest
from playwright.sync_api import Page, Route, expect

from controller_model.records.views import ClusterView, ControllerView, Counts, TopicView
from tests.component.page.live_desk import Desk, texts
from tests.support.api_server import Served
from tests.support.samples import T0, as_of, broker_view, cluster_view, log_view, topic_view
from tests.support.waiting import DEADLINE_S

API = "**/api/v1/clusters/prod/"
STORM_S = 3.0
"""Long enough for several answers with the rests between them."""


def topic(partitions: int, *, well: int = 0, at: int = 1) -> TopicView:
    """Return a topic of which broker 1 leads what is broker 0's, but for the first few."""
    numbers = tuple(range(partitions))
    return topic_view(
        "t",
        as_of(at),
        partitions=numbers,
        replicas=((0, 1),) * partitions,
        isr=((0, 1),) * partitions,
        leader=tuple(0 if number < well else 1 for number in numbers),
        leader_epoch=(0,) * partitions,
        controller_epoch=(7,) * partitions,
        partition_epoch=(0,) * partitions,
        leader_recovery_state=(None,) * partitions,
    )


def cluster(not_preferred: int, *, at: int = 1, **fields: Any) -> ClusterView:
    """Return a cluster of which so many partitions can be given back; each `at` is another state."""
    counts = Counts(
        topics=1, partitions=2000, preferred_imbalance=not_preferred,
        preferred_electable=not_preferred,
    )  # fmt: skip
    log = log_view(digest=f"{at:016x}")
    return cluster_view(at=as_of(at), counts=counts, log=log, **fields)


def asked_of(requests: list[str], of: str) -> int:
    """Return the number of requests to a part of the API."""
    return sum(f"/prod/{of}" in url for url in requests)


def emptied(answer: dict[str, Any]) -> dict[str, Any]:
    """Return an answer as an exporter gives it that lags behind: of before anything was wrong."""
    lists: dict[str, Any] = {
        name: [] for name in ("partitions", "incidents", "chunks", "blocked") if name in answer
    }
    place = answer["as_of"] | {"seq": answer["as_of"]["seq"] - 1}
    numbers = {"partition_count": 0} if "partition_count" in answer else {}
    return answer | lists | numbers | {"as_of": place, "next": None}


@pytest.mark.parametrize(
    ("of", "place", "said"),
    [
        ("search", "#partition-note", ("No partition", "2 of 2 shown: offline.")),
        ("incidents", "#incidents-lead", ("None is open", "One is open")),
        ("recommendations", "#advice-lead", ("no election can fix", "19 partitions can be given")),
    ],
)
def test_an_answer_older_than_the_snapshot_is_requested_again(
    desk: Desk, bad: Served, of: str, place: str, said: tuple[str, str]
) -> None:
    """From a replica that lags, or a cached result: it is shown, and replaced later."""
    one = desk.page(desk.serve(bad).url)
    is_lagging = True

    def answer(route: Route) -> None:
        fetched = route.fetch()
        if is_lagging:
            route.fulfill(response=fetched, json=emptied(fetched.json()))
        else:
            route.fulfill(response=fetched)

    one.page.route(f"{API}{of}*", answer)
    page = one.open()
    first, then = said
    expect(page.locator(place)).to_contain_text(first)
    is_lagging = False
    expect(page.locator(place)).to_contain_text(then)


def test_heartbeats_cause_no_requests_of_the_page(desk: Desk) -> None:
    """Snapshots come each second: a list is requested again only when a znode has changed."""
    served = Served()
    served.write(broker_view(0), broker_view(1), topic(60), cluster(60))
    one = desk.page(desk.serve(served).url)
    page = one.open()
    expect(page.locator("#partition-note")).to_contain_text("50 of 60 shown")
    expect(page.locator("#advice-lead")).to_contain_text("60 partitions can be given back")
    expect(page.locator("#incidents-lead")).to_contain_text("None is open")
    expect(page.locator("#flapping-lead")).not_to_be_empty()
    before = one.questions
    began = time.monotonic()
    seq = 1
    while time.monotonic() - began < STORM_S:
        seq += 1
        view = msgspec.structs.replace(cluster(60), as_of=as_of(seq), folded_at=T0 + seq)
        assert view.controller is not None
        controller = msgspec.structs.replace(view.controller, id=seq % 2)
        served.write(msgspec.structs.replace(view, controller=controller))
        expect(page.locator("#controller-who")).to_contain_text(f"Broker {seq % 2}")
    assert one.questions == before
    with page.expect_request(f"{API}search*"), page.expect_request(f"{API}recommendations*"):
        served.write(topic(60, well=3, at=seq + 1), cluster(57, at=seq + 1))
    expect(page.locator("#partition-note")).to_contain_text("50 of 57 shown")
    expect(page.locator("#advice-lead")).to_contain_text("57 partitions can be given back")


def test_a_storm_of_changes_causes_few_requests(desk: Desk) -> None:
    """Where each picture is another, a page still asks for its lists every two seconds at most."""
    served = Served()
    served.write(broker_view(0), broker_view(1), topic(60), cluster(60))
    one = desk.page(desk.serve(served).url)
    page = one.open()
    expect(page.locator("#partition-note")).to_contain_text("50 of 60 shown")
    began = time.monotonic()
    seq = 1

    def asked() -> tuple[int, int]:
        return asked_of(one.requests, "search"), asked_of(one.requests, "recommendations")

    # Where an answer takes long, the page rests for longer.
    while (for_s := time.monotonic() - began) < STORM_S or min(asked()) < 2:
        assert for_s < DEADLINE_S, f"it does not ask again: {asked()}"
        seq += 1
        served.write(cluster(60, at=seq, controller=ControllerView(id=seq % 2, epoch=seq)))
        expect(page.locator("#controller-who")).to_contain_text(f"Broker {seq % 2}")
    assert max(asked()) <= 2 + (time.monotonic() - began) / 2.0


def test_a_refused_request_is_retried_and_the_list_stays(desk: Desk, bad: Served) -> None:
    """Too many requests at once: the page reports it, and repeats its request by itself."""
    one = desk.page(desk.serve(bad).url)
    is_busy = True
    problem = {"status": 503, "detail": "too many requests wait for their turn"}

    def answer(route: Route) -> None:
        if is_busy:
            route.fulfill(status=503, json=problem)
        else:
            route.fallback()

    one.page.route(f"{API}search*", answer)
    page = one.open()
    note = page.locator("#partition-note")
    expect(note).to_have_text(f"The partitions cannot be listed now: {problem['detail']}.")
    is_busy = False
    expect(note).to_have_text("2 of 2 shown: offline.")
    one.complaints.clear()  # of the 503


ASKING = "const { Asking, setViewers } = await import('./page/ask.js');"


def opened(desk: Desk) -> Page:
    """Return a page that is live and asks nothing more by itself."""
    served = Served()
    served.write(broker_view(0), broker_view(1), cluster_view())
    return desk.page(desk.serve(served).url).open()


PAUSE_MS = 2000


def test_a_click_is_answered_without_the_pause_between_requests(desk: Desk) -> None:
    """A click during a slow search is answered right after it, also if changes wait."""
    waited_ms = opened(desk).evaluate(
        f"""async () => {{ {ASKING}
            const place = {{ lineage: "l", generation: "1", seq: 1 }};
            let runs = 0, ended = 0, release;
            return new Promise(resolve => {{
                const asking = new Asking(async () => {{
                    runs += 1;
                    if (runs === 2) return resolve(performance.now() - ended);
                    setTimeout(() => {{ asking.now(); asking.follow(["more"], place); }}, 250);
                    await new Promise(done => setTimeout(done, 300));
                    ended = performance.now();
                    return place;
                }});
                asking.follow(["first"], place);
            }});
        }}"""
    )
    assert waited_ms < PAUSE_MS, "the pause after an answer is two seconds at least"


def test_two_hundred_pages_spread_their_requests(desk: Desk) -> None:
    """All see a change at once; the more viewers, the longer each waits before its request."""
    in_a_second = """
        const place = { lineage: "l", generation: "1", seq: 1 };
        let asked = 0;
        setViewers(viewers);
        for (let page = 0; page < 200; page += 1)
            new Asking(async () => { asked += 1; return place; }).follow([page], place);
        await new Promise(done => setTimeout(done, 1000));
        return asked;
    """
    page = opened(desk)
    assert page.evaluate(f"async viewers => {{ {ASKING} {in_a_second} }}", 1) == 200
    assert page.evaluate(f"async viewers => {{ {ASKING} {in_a_second} }}", 200) < 50


def election(page: Page) -> list[dict[str, Any]]:
    """Return the partitions in the command on the page."""
    (line,) = [
        line
        for line in page.locator("#advice-command").inner_text().splitlines()
        if line.startswith("{")
    ]
    partitions: list[dict[str, Any]] = json.loads(line)["partitions"]
    return partitions


def test_a_recommendation_that_became_shorter_than_its_shown_chunk_begins_anew(desk: Desk) -> None:
    """Elections continued while the user read the last chunk: no empty command is ever offered."""
    served = Served()
    served.write(broker_view(0), broker_view(1), topic(1100), cluster(1100))
    one = desk.page(desk.serve(served).url)
    page = one.open()
    button = page.locator("#advice-next")
    for number in (1, 2):
        expect(button).to_have_text(f"Chunk {number} of 3: show the next")
        button.click()
    expect(button).to_have_text("Chunk 3 of 3: show the next")
    assert len(election(page)) == 100
    served.write(topic(1100, well=500, at=2), cluster(600, at=2))
    expect(button).to_have_text("Chunk 1 of 2: show the next")
    assert [each["partition"] for each in election(page)] == list(range(500, 1000))
    one.complaints.clear()  # of the 409: the place was one of another list


def test_paging_is_disabled_until_the_list_has_loaded(desk: Desk) -> None:
    """Where a page ends is known from its answer, and is nowhere in the list of another filter."""
    served = Served()
    served.write(broker_view(0), broker_view(1), topic(60), cluster(60))
    one = desk.page(desk.serve(served).url)
    held: list[Route] = []
    one.page.route(f"{API}search?*", lambda route: held.append(route))  # noqa: PLW0108  # Playwright takes no built-in
    page = one.open()
    turn = page.locator("#partition-next")
    for choose in (None, "electable"):
        if choose is not None:
            page.locator("#partition-filter").select_option(choose)
        while not held:
            page.wait_for_timeout(20)
        expect(turn).to_be_hidden()
        held.pop().continue_()
        expect(turn).to_be_visible()


def test_a_page_of_a_list_that_became_shorter_does_not_say_that_there_are_none(desk: Desk) -> None:
    """On the second page nothing is left; the first, which has fifty, is one click away."""
    served = Served()
    served.write(broker_view(0), broker_view(1), topic(60), cluster(60))
    page = desk.page(desk.serve(served).url).open()
    page.locator("#partition-next").click()
    note = page.locator("#partition-note")
    expect(note).to_have_text("After t/49: 10 of 60 shown: not led by the preferred replica.")
    shorter = msgspec.structs.replace(topic(60, at=2), leader=(1,) * 50 + (0,) * 10)
    served.write(shorter, cluster(50, at=2))
    expect(note).to_have_text("No partition after t/49 any more: not led by the preferred replica.")
    page.locator("#partition-first").click()
    expect(note).to_have_text("50 of 50 shown: not led by the preferred replica.")
    assert len(texts(page.locator("#partition-table tbody th"))) == 50
