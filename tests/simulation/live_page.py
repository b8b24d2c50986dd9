"""The exporter's server, and browsers with its live page open: prompt ones, slow ones, hidden ones.

The rule: this module draws from its own random numbers, and only the viewers see its effects, so
that a seed without it stays the same. A page is live as defined in `static/poll.js`: while it was
answered within `SILENT_MS`. What it shows is compared with what the exporter held when the answer
was made, and with ZooKeeper.
"""

from __future__ import annotations

import asyncio
import enum
import json
import random
import sys
from collections.abc import Mapping, MutableMapping
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, unquote

import httpx
import msgspec
from prometheus_client import CollectorRegistry

from controller_model.kafka.ids import AsOf
from controller_model.records.completeness import Status
from exporter.core.metrics import ExporterMetrics
from exporter.core.records import ClusterSnapshot
from exporter.intake.event_store import EventStore
from exporter.live.page_answers import MAKE_INTERVAL_S, PATH
from exporter.live.picture import cluster_picture
from exporter.serve.pages import Pages
from exporter.serve.server import make_app
from tests.simulation.event_loop import SimulatedLoop
from tests.simulation.oracle import BrokenError
from tests.simulation.stage import CLUSTER
from web.health import PartHealth

if TYPE_CHECKING:
    from tests.simulation.reader import Exporter
    from tests.simulation.world import World

SILENT_MS = 4_000
"""As in `static/poll.js`: a page that has had no answer for so long is not live."""

GIVE_UP_MS = 10_000
"""As in `static/poll.js`: an answer that takes longer is not waited for."""

POLL_MS = 1_000
"""As in `static/poll.js`: from one poll to the next."""

LOOKED_MS = 1_000
"""How often a page checks for silence."""

ANSWERED_WITHIN_MS = 2_000
"""Within this time a prompt page has a new answer of a running server."""

BROWSERS = 3
_RETRY_MS = (500, 10_000)
_OPEN_MS = (3_000, 40_000)
_CLOSED_MS = (200, 5_000)
_BEFALLS_MS = (5_000, 40_000)
_STANDS_MS = (300, 3_000, 8_000)
_MISTAKEN_MS = (400, 3_000, 12_000)
_MAKE_MS = round(MAKE_INTERVAL_S * 1000)
_SHOWN_WITHIN_MS = POLL_MS + _MAKE_MS + 200
"""After a rest: an answer takes a moment to arrive."""
_STRANGER = "later"
"""The name of a cluster without a watcher."""
_SEEN_LIVE = {Status.LIVE, Status.CLOCKS_DISAGREE}

_WITH_TIME = {"problems", "events", "elections", "elections_from"}
"""What a picture shows beside the views."""

_Message = MutableMapping[str, Any]


class Manner(enum.Enum):
    """How long an answer takes to a browser, in milliseconds."""

    PROMPT = (0, 5, 50)
    SLOW = (0, 300, 2_000, 3_500, 15_000)
    HIDDEN = (0, 5, 60)
    """Nobody looks at it, and it polls rarely."""


_HIDDEN_POLL_MS = 10_000


class Made:
    """What the exporter holds of each cluster when a poll arrives, and so when an answer may be made."""

    def __init__(self, exporter: Exporter) -> None:
        snapshots = exporter.collector.clusters
        self.at = exporter.world.clock.now
        self.held = {name: (each, exporter.completeness(each)) for name, each in snapshots.items()}
        self.mistaken = exporter.world.viewers.mistaken

    def rows(self) -> dict[str, Any]:
        """Return the main figures of each cluster as in the rows of all clusters; None: they cannot be made."""
        return {
            name: None
            if name == self.mistaken
            else (completeness.status, msgspec.to_builtins(snapshot.view.counts))
            for name, (snapshot, completeness) in self.held.items()
        }


class Server:
    """The HTTP server of one exporter's process: the real pages, on its own loop."""

    def __init__(self, exporter: Exporter, events: EventStore) -> None:
        self._exporter = exporter
        self.loop = SimulatedLoop(exporter.world.clock)
        self.updates: list[Made] = []
        self.made: dict[int, Made] = {}
        """By the exporter's time, as answers name it; after it was set back, the newest."""
        metrics = ExporterMetrics(CollectorRegistry())
        pages = Pages(
            exporter.collector,
            events,
            metrics,
            state=exporter.state,
            health=PartHealth(metrics.registry, lambda: 0.0),
            clock=self._read_clock,
            kafka_gone_s=15,
            partition_metrics=False,
        )
        self.app = make_app(pages, metrics)

    def _read_clock(self) -> int:
        """Return the exporter's time, which each poll reads."""
        made = Made(self._exporter)
        self.updates.append(made)
        self.made[self._exporter.wall] = made
        self._exporter.world.viewers.on_update(made)
        return self._exporter.wall

    def ask(self, path: str, headers: Mapping[str, str]) -> asyncio.Future[httpx.Response]:
        """Request something; the answer is there after the process's next turn."""
        answered: asyncio.Future[httpx.Response] = self.loop.create_future()
        given = [(name.lower().encode(), text.encode()) for name, text in headers.items()]
        path, _, query = path.partition("?")
        sent: list[_Message] = []

        async def receive() -> _Message:
            return {"type": "http.request", "body": b"", "more_body": False}

        async def send(message: _Message) -> None:
            sent.append(message)

        async def serve() -> None:
            await self.app(_scope(path, query.encode(), given), receive, send)
            body = b"".join(each.get("body", b"") for each in sent)
            answer = httpx.Response(sent[0]["status"], headers=sent[0]["headers"], content=body)
            answered.set_result(answer)

        self.loop.run(serve())
        return answered

    def end(self) -> None:
        """End the process."""
        self.loop.end()


class Browser:
    """A page in a browser, opened and closed again and again, each time a new one."""

    def __init__(self, viewers: Viewers, number: int) -> None:
        self._viewers = viewers
        self._world = viewers.world
        self._rng = random.Random(f"{viewers.world.seed} looks {number}")  # noqa: S311  # a play, not a secret
        self._pages = self._polls = self._failures = 0
        self._begin()

    def _begin(self) -> None:
        rng, clock = self._rng, self._world.clock
        self.asked = rng.choice((None, CLUSTER, CLUSTER, *self._viewers.others))
        self.manner = rng.choices(list(Manner), (6, 3, 1))[0]
        self.shown: dict[str, Any] = {}
        self.etag: str | None = None
        self.is_live = self.is_open = self.is_asking = False
        self.opened_at = self.answered_at = self.prompt_since = clock.now
        self._pages += 1
        page = self._pages
        closed = rng.randint(*_CLOSED_MS)
        clock.after(closed, lambda: self._open(page))
        clock.after(closed + rng.randint(*_OPEN_MS), self._be_another)

    def _be_another(self) -> None:
        if self._viewers.is_quiet:
            self._world.clock.after(_OPEN_MS[0], self._be_another)
        else:
            self.close()
            self._begin()

    def _open(self, page: int) -> None:
        if page == self._pages:
            self.is_open = True
            self.opened_at = self.answered_at = self._world.clock.now
            self.poll()

    def close(self) -> None:
        """Close the page: what still arrives is not shown."""
        self._pages += 1
        self._polls += 1
        self.is_open = self.is_live = self.is_asking = False

    def poll(self) -> None:
        """Ask the server now, whatever was planned or asked before."""
        self._polls += 1
        self.is_asking = True
        number, server, clock = self._polls, self._viewers.server, self._world.clock
        began = clock.now
        query = "" if self.asked is None else f"?cluster={quote(self.asked)}"
        headers = {} if self.etag is None else {"if-none-match": self.etag}
        answer = server.ask(f"{PATH}{query}", headers)

        def arrive() -> None:
            if number == self._polls:
                self._show(server, answer.result(), clock.now - began)

        def give_up() -> None:
            if number == self._polls:
                self._fail()

        delay = self._rng.choice(self.manner.value)
        answer.add_done_callback(lambda _answer: clock.after(delay, arrive))
        clock.after(GIVE_UP_MS, give_up)

    def _plan(self, wait_ms: int) -> None:
        self.is_asking = False
        number = self._polls = self._polls + 1
        self._world.clock.after(wait_ms, lambda: self.poll() if number == self._polls else None)

    def _fail(self) -> None:
        self.is_live = False
        first, longest = _RETRY_MS
        wait = min(longest, first * 2**self._failures)
        self._failures += 1
        self._plan(0 if self._viewers.is_quiet else wait)

    def lose(self) -> None:
        """Lose the connection, if an answer is waited for."""
        if self.is_asking:
            self._fail()

    def rest(self) -> None:
        """Become prompt: from now on it has answers, which it may have polled for long ago."""
        self.manner = Manner.PROMPT
        self.prompt_since = self._world.clock.now
        if self.is_open:
            self.poll()

    def notice_silence(self) -> None:
        """Detect that there was no answer for a while."""
        if (
            self._world.clock.now - self.answered_at > SILENT_MS
            and self.manner is not Manner.HIDDEN
        ):
            self.is_live = False

    def _show(self, server: Server, answer: httpx.Response, took_ms: int) -> None:
        """Show an answer, and judge what is shown: what the exporter held when it was made."""
        if answer.status_code == 500:
            name = self.cluster_of(server.updates[-1].held)
            if not self._viewers.is_mistaken(name):
                raise BrokenError("a mistake refuses its cluster's pages alone", f"{name}")
            self._world.hit("a page was refused for a mistake")
            self._fail()
            return
        if answer.status_code == 200:
            self.shown = answer.json()
        elif answer.status_code != 304 or self.etag is None:
            raise BrokenError("a poll is answered", f"{answer.status_code} {answer.text}")
        else:
            self._world.hit("a page shows already what it polls for")
        self.etag = answer.headers["etag"]
        self.answered_at, self._failures, self.is_live = self._world.clock.now, 0, True
        self._judge(server, json.loads(answer.headers["kcm-now"])["now"])
        every_ms = _HIDDEN_POLL_MS if self.manner is Manner.HIDDEN else POLL_MS
        self._plan(max(every_ms - took_ms, took_ms))

    def cluster_of(self, held: Mapping[str, object]) -> str | None:
        """Return the cluster whose figures it is sent, if it is among those held."""
        only = next(iter(held)) if len(held) == 1 else None
        return self.asked or only

    def _judge(self, server: Server, now: int) -> None:
        polled_at = server.made[now].at
        lately = [each for each in server.updates if 0 <= polled_at - each.at <= _MAKE_MS]
        rows = {row["name"]: row for row in self.shown["clusters"]}
        names = [name for each in lately for name in (self.cluster_of(each.held),)]
        trust, picture = self.shown["trust"], self.shown["cluster"]
        if picture is None:
            if self.asked is None and all(
                self._viewers.forgiven(rows, each) != _figures(rows) for each in lately
            ):
                raise BrokenError(
                    "the fleet's rows are what is held", f"{rows}, not {lately[-1].rows()}"
                )
            if trust is not None or all(
                name in each.held for name, each in zip(names, lately, strict=True)
            ):
                raise BrokenError("what is held is shown", f"{self.asked}: {trust}")
            return
        name = picture["name"]
        as_of = _as_of(picture)
        shown = [
            each
            for each in lately
            if name in each.held and self.cluster_of(each.held) == name and each.mistaken != name
        ]
        # A batch that runs again publishes the same position in the log once more, folded at
        # another time.
        shown = [each for each in shown if each.held[name][0].view.as_of == as_of]
        if not any(self._viewers.is_shown(each.held[name][0], picture) for each in shown):
            raise BrokenError("a page shows what is held", f"{name} at {as_of} with {polled_at}")
        if all(trust["status"] != each.held[name][1].status for each in shown):
            raise BrokenError("a page's trust is the exporter's", f"{name}: {trust}")
        if name == CLUSTER and trust["status"] in _SEEN_LIVE and not self.shown["reasons"]:
            age_ms = self._world.clock.now - polled_at + _MAKE_MS
            self._world.oracle.on_live(as_of, picture["log"]["digest"], age_ms=age_ms)


class Viewers:
    """All viewers of the exporter's page, and the faults of its server."""

    def __init__(self, world: World) -> None:
        self.world = world
        self._rng = random.Random(f"{world.seed} befalls the page")  # noqa: S311  # a play, not a secret
        self.others = [_STRANGER, *(each.cluster for each in world.neighbours)]
        self.mistaken: str | None = None
        """The cluster for which an exception is planted."""
        self.is_quiet = False
        self._logged = 0
        self._mended_at: dict[str, int] = {}
        self._rendered: tuple[ClusterSnapshot | None, Any] = (None, None)
        self.failure: BrokenError | None = None
        self.browsers = [Browser(self, number) for number in range(BROWSERS)]
        self._plan()
        self._judge_browsers()

    @property
    def server(self) -> Server:
        """The server of the running exporter."""
        return self.world.exporter.server

    def on_restart(self) -> None:
        """Lose the connections to an exporter that has died."""
        self._logged = 0
        for browser in self.browsers:
            browser.lose()

    # --- what goes wrong --------------------------------------------------------------------

    def _plan(self) -> None:
        self.world.clock.after(self._rng.randint(*_BEFALLS_MS), self._befall)

    def _befall(self) -> None:
        """Block the server, or plant an exception for a cluster."""
        self._plan()
        rng = self._rng
        if self.is_quiet or self.mistaken is not None:
            return
        if rng.random() < 0.5:
            self.server.loop.stand_still(rng.choice(_STANDS_MS))
            self.world.hit("the exporter's server stood still")
        elif shown := list(self.world.exporter.collector.clusters):
            self.mistaken = name = rng.choice(shown)
            self._logged = 0
            self.world.hit("a mistake about one cluster at the live page")
            self.world.clock.after(rng.choice(_MISTAKEN_MS), lambda: self._mend(name))

    def _mend(self, name: str) -> None:
        if self.mistaken == name:
            self.mistaken = None
            self._mended_at[name] = self.world.clock.now

    def trip(self, cluster: str) -> None:
        """Raise the exception for a cluster, if it is planted."""
        if cluster == self.mistaken:
            raise PlantedMistakeError(cluster)

    def on_update(self, made: Made) -> None:
        """Record an update: a cluster that was gone counts as a new one when it returns."""
        if self.mistaken not in made.held:
            self._logged = 0

    def on_exception(self) -> None:
        """Record an exception that the page logs: each planted one once."""
        error = sys.exc_info()[1]
        self._logged += 1
        if not isinstance(error, PlantedMistakeError):
            self.failure = BrokenError("the live page makes no mistake", repr(error))
        elif self._logged > 1:
            self.failure = BrokenError("a mistake is logged once", str(error))

    # --- what is judged ---------------------------------------------------------------------

    def _judge_browsers(self) -> None:
        if self.failure is not None:
            raise self.failure
        for browser in self.browsers:
            browser.notice_silence()
            if browser.is_open and browser.manner is Manner.PROMPT:
                self._check_answers(browser)
        self.world.clock.after(LOOKED_MS, self._judge_browsers)

    def _check_answers(self, browser: Browser) -> None:
        """Check that a prompt page is answered while the server runs."""
        now = self.world.clock.now
        cluster = browser.cluster_of(self.world.exporter.collector.clusters)
        held_up = self._mended_at.get(cluster or "", 0) if cluster != self.mistaken else now
        began = max(held_up, browser.prompt_since, min(now, self.server.loop.stands_until))
        retried = began + max(_RETRY_MS)
        if now > retried and now - browser.answered_at > ANSWERED_WITHIN_MS + max(_RETRY_MS):
            raise BrokenError(
                "a poll is answered", f"{cluster}: not for {now - browser.answered_at} ms"
            )

    def is_mistaken(self, cluster: str | None) -> bool:
        """Return whether an exception is planted for a cluster, or was when an answer may have been made."""
        mended_at = self._mended_at.get(cluster or "")
        lately = self.world.clock.now - GIVE_UP_MS
        return cluster is not None and (
            cluster == self.mistaken or (mended_at is not None and mended_at > lately)
        )

    def forgiven(self, rows: dict[str, Any], made: Made) -> dict[str, Any]:
        """Return the rows that are due, leaving out figures that a planted exception prevents."""
        lately = self.world.clock.now - ANSWERED_WITHIN_MS
        return {
            name: None
            if name in rows
            and rows[name]["status"] is None
            and self._mended_at.get(name, 0) > lately
            else row
            for name, row in made.rows().items()
        }

    def is_shown(self, snapshot: ClusterSnapshot, picture: Any) -> bool:
        """Return whether a page shows a snapshot."""
        if self._rendered[0] is not snapshot:
            made = json.loads(msgspec.json.encode(cluster_picture(snapshot, [], (), (), None)))
            self._rendered = (snapshot, {n: f for n, f in made.items() if n not in _WITH_TIME})
        return all(picture.get(name) == field for name, field in self._rendered[1].items())

    # --- rest -------------------------------------------------------------------------------

    def rest(self) -> None:
        """End all faults, and open each page again."""
        self.is_quiet = True
        self.server.loop.go_on()
        if self.mistaken is not None:
            self._mend(self.mistaken)
        for browser in self.browsers:
            browser.rest()

    def check(self) -> None:
        """Raise BrokenError unless each page that was open for a moment shows what the exporter holds now."""
        now = self.world.clock.now
        settled = [
            each
            for each in self.browsers
            if each.is_open and now - each.opened_at > _SHOWN_WITHIN_MS
        ]
        held = next(
            (
                each.held
                for each in reversed(self.server.updates)
                if each.at <= now - _SHOWN_WITHIN_MS
            ),
            {},
        )
        for browser in settled:
            name = browser.cluster_of(held)
            if not browser.is_live or now - browser.answered_at > ANSWERED_WITHIN_MS:
                raise BrokenError("at rest a page is live", f"{name}: {browser.answered_at}")
            if name not in held or browser.cluster_of(self.server.updates[-1].held) != name:
                continue  # another cluster has come since, so that its page lists them
            picture = browser.shown["cluster"]
            if picture is None or _as_of(picture) < held[name][0].view.as_of:
                raise BrokenError("at rest a page shows what is held", f"{name} of before")
            self.world.hit("a page was compared at rest")

    def go_on(self) -> None:
        """Continue after a rest."""
        self.is_quiet = False


class PlantedMistakeError(Exception):
    """An unexpected exception about one cluster, planted for a while."""


def _scope(path: str, query: bytes, headers: list[tuple[bytes, bytes]]) -> _Message:
    """Return a request as uvicorn passes it on."""
    return {
        "type": "http",
        "asgi": {"version": "3.0", "spec_version": "2.3"},
        "http_version": "1.1",
        "method": "GET",
        "scheme": "http",
        "path": unquote(path),
        "raw_path": path.encode(),
        "query_string": query,
        "root_path": "",
        "headers": [(b"host", b"kcm"), *headers],
        "client": ("127.0.0.1", 50_000),
        "server": ("127.0.0.1", 9640),
    }


def _figures(rows: dict[str, Any]) -> dict[str, Any]:
    return {
        name: None if row["status"] is None else (row["status"], row["counts"])
        for name, row in rows.items()
    }


def _as_of(picture: dict[str, Any]) -> AsOf:
    place = picture["as_of"]
    return AsOf(place["lineage"], int(place["generation"]), place["seq"])
