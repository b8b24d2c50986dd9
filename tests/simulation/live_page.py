"""The exporter's server, and browsers with its live page open: prompt ones, slow ones, sleeping ones.

The rule: this module draws from its own random numbers, and only the viewers see its effects, so
that a seed without it stays the same. A page is live as defined in `static/stream.js`: while
something arrived within `SILENT_MS`. What it shows with a beat is compared with what the exporter
held when the beat was made, and with ZooKeeper.
"""

from __future__ import annotations

import asyncio
import enum
import json
import random
import sys
import zlib
from collections.abc import Callable, Mapping, MutableMapping
from itertools import takewhile
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

import httpx
import msgspec
from prometheus_client import CollectorRegistry

from controller_model.kafka.ids import AsOf
from controller_model.records.completeness import Status
from exporter.api.cluster_answers import cluster_answer
from exporter.core.metrics import ExporterMetrics
from exporter.core.records import ClusterSnapshot
from exporter.intake.event_store import EventStore
from exporter.live.picture import brokers_picture
from exporter.serve.pages import Pages
from exporter.serve.server import make_app
from tests.simulation.event_loop import SimulatedLoop
from tests.simulation.oracle import BrokenError
from tests.simulation.stage import CLUSTER

if TYPE_CHECKING:
    from tests.simulation.reader import Exporter
    from tests.simulation.world import World

SILENT_MS = 4_000
"""As in `static/stream.js`: a page that has received nothing for so long is not live."""

LOOKED_MS = 1_000
"""How often a page checks for silence."""

BEAT_WITHIN_MS = 2_000
"""Within this time a page that reads promptly gets a message of a running server, at least its beat."""

BROWSERS = 3
_RETRY_MS = (500, 10_000)
_OPEN_MS = (3_000, 40_000)
_CLOSED_MS = (200, 5_000)
_BEFALLS_MS = (5_000, 40_000)
_STANDS_MS = (300, 3_000, 8_000)
_MISTAKEN_MS = (400, 3_000, 12_000)
_SHOWN_WITHIN_MS = 500
"""After a rest: an update is sent every 200 ms, and takes a moment to arrive."""
_STRANGER = "later"
"""The name of a cluster without a watcher."""
_SEEN_LIVE = {Status.LIVE, Status.CLOCKS_DISAGREE}

_Message = MutableMapping[str, Any]


class Manner(enum.Enum):
    """How long a browser takes to read what it is sent, in milliseconds."""

    PROMPT = (0, 5, 50)
    SLOW = (0, 300, 2_000, 3_500, 15_000)
    ASLEEP = (15_000,)
    """Nobody looks at it, and the page does nothing: it keeps the connection and reads nothing."""


NOTICED_MS = {
    Manner.PROMPT: SILENT_MS + 2 * LOOKED_MS + 500,
    Manner.SLOW: 2 * SILENT_MS + 3 * LOOKED_MS,
}
"""How old the newest beat of a live page may be if its server has not been blocked since.

Other messages count as signs of life until the next beat is due, a second later; and a message whose
delivery took longer than `SILENT_MS` finds the page closed.
"""


class Made:
    """The content of an update of the feed: what the exporter holds of each cluster at that moment."""

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
        """The exporter's time, as beats name it; after it was set back, the newest."""
        metrics = ExporterMetrics(CollectorRegistry())
        pages = Pages(
            exporter.collector,
            events,
            metrics,
            state=exporter.state,
            alive=lambda: True,
            clock=self._read_clock,
            kafka_gone_s=15,
            partition_metrics=False,
        )
        self.feed = pages.feed
        self.app = make_app(pages, metrics)
        self.connections: list[asyncio.Event] = []
        """Each is set once its client has disconnected."""

    def _read_clock(self) -> int:
        """Return the exporter's time; the feed reads it as each update begins."""
        made = Made(self._exporter)
        self.updates.append(made)
        self.made[self._exporter.wall] = made
        self._exporter.world.viewers.on_update(made)
        return self._exporter.wall

    def connect(self, scope: _Message, take: Callable[[bytes], Any]) -> asyncio.Event:
        """Request the stream; `take` is awaited with what is sent. Return the event to set at the end."""
        gone = asyncio.Event()

        async def receive() -> _Message:
            await gone.wait()
            return {"type": "http.disconnect"}

        async def send(message: _Message) -> None:
            if not gone.is_set() and (body := message.get("body", b"")):
                await take(body)

        async def serve() -> None:
            await self.app(scope, receive, send)
            self.connections.remove(gone)

        self.connections.append(gone)
        self.loop.run(serve())
        return gone

    def ask(self, path: str, headers: Mapping[str, str]) -> asyncio.Future[httpx.Response]:
        """Request something that is not a stream; the answer is there after the process's next turn."""
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
        """End the process, its connections first."""
        for gone in self.connections:
            gone.set()
        self.feed.end()
        self.feed._wake.set()
        self.loop.end()


class Browser:
    """A page in a browser, opened and closed again and again, each time a new one."""

    def __init__(self, viewers: Viewers, number: int) -> None:
        self._viewers = viewers
        self._world = viewers.world
        self._rng = random.Random(f"{viewers.world.seed} looks {number}")  # noqa: S311  # a play, not a secret
        self._server: Server | None = None
        self._gone: asyncio.Event | None = None
        self._tries = 0
        self._pages = 0
        self._begin()

    def _begin(self) -> None:
        rng, clock = self._rng, self._world.clock
        self.asked = rng.choice((None, CLUSTER, CLUSTER, *self._viewers.others))
        self.is_packed = rng.random() < 0.5
        self.manner = rng.choices(list(Manner), (6, 3, 1))[0]
        self.seen: dict[str, Any] = {}
        self.is_live = False
        self.opened_at = self.heard_at = self.beat_at = clock.now
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

    @property
    def is_connected(self) -> bool:
        """Whether it has a connection that it believes to be open."""
        return self._server is not None

    def _open(self, page: int) -> None:
        if self._server is not None or page != self._pages:
            return
        server = self._server = self._viewers.server
        self.opened_at = self.heard_at = self._world.clock.now
        unpack = zlib.decompressobj(16 + zlib.MAX_WBITS).decompress if self.is_packed else bytes

        async def take(body: bytes) -> None:
            await asyncio.sleep(self._rng.choice(self.manner.value) / 1000)
            if self._gone is gone:
                self._take(server, unpack(body))

        query = b"" if self.asked is None else b"cluster=" + self.asked.encode()
        headers = [(b"accept-encoding", b"gzip")] * self.is_packed
        gone = self._gone = server.connect(_scope("/live", query, headers), take)

    def close(self) -> None:
        """End the connection."""
        if self._gone is not None:
            self._gone.set()
        self._server = self._gone = None

    def lose(self) -> None:
        """Lose the connection, and reconnect."""
        self.close()
        self.is_live = False
        first, longest = _RETRY_MS
        wait, page = min(longest, first * 2**self._tries), self._pages
        self._tries += 1
        self._world.clock.after(0 if self._viewers.is_quiet else wait, lambda: self._open(page))

    def rest(self) -> None:
        """Become prompt, on a new connection."""
        self.manner = Manner.PROMPT
        self.lose()

    def look(self) -> None:
        """Detect that nothing has arrived for a while, or that the server has closed the connection."""
        silent = self._world.clock.now - self.heard_at > SILENT_MS
        if self._server is None:
            return
        if self._gone not in self._server.connections:
            self._world.hit("a viewer that took nothing was dropped")
            self.lose()
        elif silent and self.manner is not Manner.ASLEEP:
            self.lose()

    def _take(self, server: Server, body: bytes) -> None:
        """Read what has arrived."""
        if not body:
            return
        kinds = []
        for block in body.decode().split("\n\n")[:-1]:
            kind, _, data = block.removeprefix("event: ").partition("\ndata: ")
            self.seen[kind] = json.loads(data)
            kinds.append(kind)
        self.heard_at, self._tries, self.is_live = self._world.clock.now, 0, True
        if "beat" in kinds:
            self.beat_at = self.heard_at
            self._judge(server)

    def cluster_of(self, held: Mapping[str, object]) -> str | None:
        """Return the cluster whose figures it is sent, if it is among those held."""
        only = next(iter(held)) if len(held) == 1 else None
        return self.asked or only

    def _judge(self, server: Server) -> None:
        """Judge what it shows with a beat: what the exporter held then, or later."""
        beat, made = self.seen["beat"], server.made[self.seen["beat"]["now"]]
        since = list(takewhile(lambda each: each.at >= made.at, reversed(server.updates)))
        rows = {row["name"]: _figures(row) for row in self.seen["fleet"]["clusters"]}
        if all(self._viewers.forgiven(rows, each.rows()) != rows for each in since):
            raise BrokenError("the fleet's rows are what is held", f"{rows}, not {made.rows()}")
        name = self.cluster_of(made.held)
        if name is None or name not in made.held:
            if beat["trust"] is not None:
                raise BrokenError("a beat vouches for what is held alone", f"{name}")
            return
        if name == made.mistaken:
            raise BrokenError("what cannot be judged has no beat", name)
        if beat["trust"]["status"] != made.held[name][1].status:
            raise BrokenError("a beat's trust is the exporter's", f"{name}: {beat['trust']}")
        picture = self.seen["cluster"]
        as_of = _as_of(picture) if picture is not None else None
        snapshots = [each.held[name][0] for each in since if name in each.held]
        # A batch that runs again publishes the same position in the log once more, folded at
        # another time.
        shown = [each for each in snapshots if each.view.as_of == as_of]
        if not any(self._viewers.is_shown(each, picture, self.seen["brokers"]) for each in shown):
            raise BrokenError("a page shows what is held", f"{name} at {as_of} with {made.at}")
        is_vouched = beat["trust"]["status"] in _SEEN_LIVE and not beat["reasons"]
        if as_of is not None and name == CLUSTER and is_vouched:
            age_ms = self._world.clock.now - made.at
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
        self._rendered: tuple[ClusterSnapshot | None, Any, Any] = (None, None, None)
        self.failure: BrokenError | None = None
        self.browsers = [Browser(self, number) for number in range(BROWSERS)]
        self._plan()
        self._look()

    @property
    def server(self) -> Server:
        """The server of the running exporter."""
        return self.world.exporter.server

    def on_restart(self) -> None:
        """Lose the connections to an exporter that has died."""
        self._logged = 0
        for browser in self.browsers:
            if browser.is_connected:
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
        """Record an exception that the feed logs: each planted one once."""
        error = sys.exc_info()[1]
        self._logged += 1
        if not isinstance(error, PlantedMistakeError):
            self.failure = BrokenError("the live page makes no mistake", repr(error))
        elif self._logged > 1:
            self.failure = BrokenError("a mistake is logged once", str(error))

    # --- what is judged ---------------------------------------------------------------------

    def _look(self) -> None:
        if self.failure is not None:
            raise self.failure
        for browser in self.browsers:
            browser.look()
            if browser.manner is not Manner.ASLEEP:
                self._check_beats(browser)
        self.world.clock.after(LOOKED_MS, self._look)

    def _check_beats(self, browser: Browser) -> None:
        """Check that a page is live only while beats arrive, and that beats arrive while the server runs."""
        now, manner = self.world.clock.now, browser.manner
        cluster = browser.cluster_of(self.world.exporter.collector.clusters)
        stood_until = min(now, self.server.loop.stands_until)
        silent_ms = now - max(browser.beat_at, stood_until)
        if browser.is_live and silent_ms > NOTICED_MS[manner]:
            raise BrokenError(
                "a page without beats is not live", f"{cluster}: none for {silent_ms} ms"
            )
        held_up = self._mended_at.get(cluster or "", 0) if cluster != self.mistaken else now
        since = max(browser.opened_at, browser.beat_at, held_up, stood_until)
        if browser.is_connected and manner is Manner.PROMPT and now - since > BEAT_WITHIN_MS:
            raise BrokenError("a beat comes each second", f"{cluster}: none for {now - since} ms")

    def forgiven(self, rows: dict[str, Any], held: dict[str, Any]) -> dict[str, Any]:
        """Return the rows that are due, leaving out figures that a recent planted exception prevented."""
        lately = self.world.clock.now - BEAT_WITHIN_MS
        return {
            name: None if rows.get(name) is None and self._mended_at.get(name, 0) > lately else row
            for name, row in held.items()
        }

    def is_shown(self, snapshot: ClusterSnapshot, picture: Any, brokers: Any) -> bool:
        """Return whether a page shows a snapshot."""
        if self._rendered[0] is not snapshot:
            answer = _as_json(cluster_answer(snapshot.view))
            self._rendered = (snapshot, answer, _as_json(brokers_picture(snapshot)))
        _, answer, of_brokers = self._rendered
        return brokers == of_brokers and all(picture.get(name) == answer[name] for name in answer)

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
        open_ = [each for each in self.browsers if each.is_connected]
        settled = [each for each in open_ if now - each.opened_at > BEAT_WITHIN_MS]
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
            if not browser.is_live or now - browser.beat_at > BEAT_WITHIN_MS:
                raise BrokenError("at rest a page is live", f"{name}: {browser.beat_at}")
            if name not in held:
                continue
            picture = browser.seen["cluster"]
            if picture is None or _as_of(picture) < held[name][0].view.as_of:
                raise BrokenError("at rest a page shows what is held", f"{name} of before")
            self.world.hit("a page was compared at rest")
        if len(settled) == len(open_) and len(self.server.feed._viewers) != len(open_):
            raise BrokenError(
                "who has gone is forgotten", f"{len(self.server.feed._viewers)} viewers"
            )

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


def _figures(row: dict[str, Any]) -> tuple[str, Any] | None:
    return None if row["status"] is None else (row["status"], row["counts"])


def _as_of(picture: dict[str, Any]) -> AsOf:
    place = picture["as_of"]
    return AsOf(place["lineage"], int(place["generation"]), place["seq"])


def _as_json(body: object) -> Any:
    return json.loads(msgspec.json.encode(body))
