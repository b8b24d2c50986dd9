"""One page, one answer: elections in histories of which a part was not seen, and those that began recently.

The rule: page, API, `kcm status` and metrics give one count for one window, and the timeline draws only what is true.
ZooKeeper's own history of /controller, which the test writes, is the truth.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, NamedTuple

import httpx
import hypothesis
import pytest
from hypothesis import strategies as st

from controller_model.records.event_records import coalesce, number
from controller_model.records.recent import ELECTION_WINDOWS_MS
from exporter.live.page_answers import PATH
from exporter.serve.server import HttpServer
from kcm.queries.status import read_status
from kcm.queries.status_text import screen
from tests.support.api_server import Served
from tests.support.histories import Fold, History
from tests.support.in_process_api import api_of
from tests.support.samples import T0

if TYPE_CHECKING:
    from playwright.sync_api import Browser

MINUTE_MS = 60_000
SLACK_MS = 100
"""More than merged elections take here, of which the watcher reads the last."""
WORDS = {"10m": "10 minutes", "6h": "6 hours"}

Drawn = Callable[[Any, Any, int], Any]
"""The page's own module: takes a picture, its trust and the time; returns the timeline and the counts by window."""

DRAW = """([picture, trust, now, windows]) =>
  Promise.all([import('/page/timeline.js'), import('/page/problems.js')]).then(([t, p]) => ({
    timeline: t.timeline(picture, now, Math.min(now, p.seenUntil(trust, picture) ?? now)),
    counts: Object.fromEntries(
      Object.entries(windows).map(([name, ms]) => [name, t.electionsWithin(picture, ms, now)])),
  }))"""


class Apart(Served):
    """An exporter that is asked in a thread of its own: Playwright's event loop runs in the test's."""

    def get(self, *asked: Any, **more: Any) -> httpx.Response:
        """Send a request to the application, and return the answer."""
        return _THREAD.submit(super().get, *asked, **more).result()


_THREAD = ThreadPoolExecutor(1)


class Story:
    """A cluster whose controllers come and go, and a watcher that sees some of it, from some time on."""

    def __init__(self) -> None:
        self.history = History(now=T0)
        self.fold = Fold()
        self.fold.state.control.counters_since = T0
        self.served = Apart()
        self.truth: list[tuple[int, int | None]] = [(T0, None)]
        """Who held /controller since when, by ZooKeeper's clock; None: nobody."""
        self.counting = False
        self.away = True
        """Whether nobody watches: until counting begins, and after what was not seen until a resync."""
        self.unseen = False
        """Whether anything was not reported since counting began."""
        self._last: Any = None

    def play(self, step: str, broker: int, wait_ms: int) -> None:
        """Play one step after a while, with a heartbeat if somebody watches."""
        history = self.history
        self.away |= step == "unseen"
        if self.away:
            history.now += wait_ms
        else:
            history.heartbeat(after_ms=wait_ms)
        if step == "count" and not self.counting:
            self.fold.state.control.counters_since = history.now
            self.counting = True
        if step in {"count", "resync"} and self.counting:
            history.resync()
            self.away = False
        elif step in {"elect", "unseen", "vacate", "merged"}:
            times = 3 if step == "merged" else 1
            for turn in range(times):
                is_seen = not self.away and turn == times - 1
                self.elect(broker + turn, seen=is_seen, vacate=step == "vacate")
                self.unseen |= self.counting and not is_seen
        self.publish()

    def elect(self, broker: int, *, seen: bool, vacate: bool) -> None:
        """End the controller, if there is one, and unless that is all, let a broker be elected."""
        if self.history.controller_id is not None:
            self.history.delete("/controller", seen=seen)
            self.truth.append((self.history.now, None))
        if not vacate:
            self.history.elect(broker % 3, seen=seen)
            self.truth.append((self.history.now, broker % 3))

    def publish(self) -> None:
        """Let the exporter read what the fold makes of it; before counting begins it has nothing to show."""
        reported = self.fold.follow(self.history)
        if not self.counting:
            return
        records = number("prod", "l", coalesce(reported), after=self._last)
        self._last = records[-1].id if records else self._last
        self.served.write(*self.fold.views(folded_at=self.history.now).values())
        self.served.publish(*records)
        self.served.now = self.history.now

    def held(self, until: int) -> Iterator[tuple[int | None, int, int]]:
        """Yield who held /controller from when to when."""
        ends = [at for at, _ in self.truth[1:]] + [until]
        for (at, holder), end in zip(self.truth, ends, strict=True):
            yield holder, at, end

    def elections(self, since: int) -> int:
        """Return how many elections there were after a time."""
        return sum(holder is not None and at > since for at, holder in self.truth)


@pytest.fixture(scope="module")
def drawn(browser: Browser) -> Iterator[Drawn]:
    """The page's timeline module in a real browser."""
    with HttpServer(Served().app, "127.0.0.1", 0) as server:
        page = browser.new_page()
        page.goto(server.url)

        def draw(picture: Any, trust: Any, now: int) -> Any:
            return page.evaluate(DRAW, [picture, trust, now, dict(ELECTION_WINDOWS_MS)])

        yield draw
        page.close()


class Shown(NamedTuple):
    """What one exporter shows of a story."""

    gauge: dict[str, int]
    detail: Any
    picture: Any
    drawn: Any


def shown(story: Story, drawn: Drawn) -> Shown:
    """Return what metrics, API and page show."""
    served = story.served
    metrics = served.get("/metrics").text
    found = re.findall(
        r'^kafka_controller_recent_elections\{.*window="(.*)"\} (\d+)', metrics, re.MULTILINE
    )
    page = served.json(PATH, cluster="prod")
    return Shown(
        gauge={window: int(times) for window, times in found},
        detail=served.json("/api/v1/clusters/prod"),
        picture=page["cluster"],
        drawn=drawn(page["cluster"], page["trust"], served.now),
    )


def assert_one_count(story: Story, seen: Shown) -> None:
    """Every place gives the gauge's count, and none is too high."""
    now = story.served.now
    assert seen.gauge.keys() == ELECTION_WINDOWS_MS.keys()
    assert seen.detail["elections_within"] == seen.gauge == seen.drawn["counts"]
    for window, ms in ELECTION_WINDOWS_MS.items():
        flapping = story.served.json("/api/v1/clusters/prod/flapping", window_s=ms // 1000)
        assert flapping["controller_elections"] == seen.gauge[window]
        assert flapping["controller_changes"] <= seen.gauge[window]
        assert seen.gauge[window] <= story.elections(now - ms - SLACK_MS)
        if not story.unseen:
            assert seen.gauge[window] >= story.elections(
                max(now - ms, seen.detail["counters_since"])
            )
    texts = [problem["text"] for problem in seen.picture["problems"]]
    for window, least in (("10m", 3), ("6h", 6)):
        said = f"elected {seen.gauge[window]} times within {WORDS[window]}"
        assert any(said in text for text in texts) is (seen.gauge[window] >= least)
    answer = read_status(api_of(story.served), None)
    status = "".join(map(str, screen(answer, [], now).renderables[:1]))  # type: ignore[union-attr]  # a group
    said = ", ".join(f"{times} in {window}" for window, times in seen.gauge.items())
    assert f"elections   {said}" in status


def assert_drawn_is_true(story: Story, seen: Shown) -> None:
    """The pieces fill the span; where a holder is drawn it was the holder, and nothing is drawn from before the cluster."""
    now, timeline = story.served.now, seen.drawn["timeline"]
    if timeline is None:
        assert story.unseen
        return
    pieces = timeline["pieces"]
    assert (pieces[0]["from"], pieces[-1]["to"]) == (now - timeline["span"], now)
    assert all(a["to"] == b["from"] for a, b in itertools.pairwise(pieces))
    counted_from = seen.detail["counters_since"]
    for piece in pieces:
        begin, end = piece["from"] + SLACK_MS, piece["to"] - SLACK_MS
        if "id" not in piece:
            assert story.unseen or begin < counted_from or end <= begin
            continue
        if end <= begin:
            continue
        assert begin >= story.truth[0][0], "from before the cluster"
        others = [h for h, since, to in story.held(now) if since < end and to > begin]
        assert set(others) == {piece["id"]}
    assert timeline["elections"] <= story.elections(now - timeline["span"] - SLACK_MS)


STEPS = st.lists(
    st.tuples(
        st.sampled_from(
            ["elect", "elect", "elect", "unseen", "vacate", "merged", "resync", "beat"]
        ),
        st.integers(0, 2),
        st.sampled_from([100, 1_000, 9_000, MINUTE_MS, 7 * MINUTE_MS, 61 * MINUTE_MS]),
    ),
    max_size=14,
)


@hypothesis.given(before=STEPS, after=STEPS, tail=st.sampled_from(["none", "quiet", "unseen"]))
def test_every_place_gives_one_count_and_the_timeline_draws_what_is_true(
    drawn: Drawn, before: list[Any], after: list[Any], tail: str
) -> None:
    """Whatever happened before counting began, while nobody watched, and since the last sign of life."""
    story = Story()
    begins, beat = ("count", 0, 1_000), ("beat", 0, 1_000)
    for step, broker, wait_ms in [*before, begins, *after, begins, beat]:
        story.play(step, broker, wait_ms)
    if tail != "none":
        story.history.now += MINUTE_MS
        if tail == "unseen":
            story.elect(1, seen=False, vacate=False)
            story.history.now += MINUTE_MS
        story.unseen = True
        story.served.now = story.history.now
    seen = shown(story, drawn)
    assert_one_count(story, seen)
    assert_drawn_is_true(story, seen)
