"""Count the functions and files that one changed leader passes, from ZooKeeper's notification to the answers.

    python -m tools.walk [--functions]

A cluster of three brokers and a topic of three partitions stands in memory; watcher, fold and exporter have read
all of it, and one leader has changed already, so that every cache is warm. Then ZooKeeper notifies the watcher that
a partition's state was set, and `sys.setprofile` records what runs, in three parts that make up the count:

1. watch: the notification, the read of the path, the change in the publisher, up to the message that a stand-in of
   Kafka's producer is given (`Watcher`, `Publisher`);
2. fold: the batch of that message in Spark's processor, over a state in memory (`FoldProcessor`);
3. show: the records of the batch in the exporter's stores, and the cluster's lines of /metrics rendered (`ViewStore`,
   `EventStore`, `ReadingState`, `Collector`).

What asks afterwards is counted beside it, since it runs whether a leader changed or not; requests pass the
application without a socket:

4. scrape: GET /metrics;
5. ask: GET of the topic's partitions by the API, and of what the live page reads.

A function or method counts once, however often it runs, if it stands in one of the product's packages; closures
too. Not counted: properties (their number is told), comprehensions, lambdas, methods that msgspec and dataclasses
make, and libraries. The bytes of ZooKeeper's protocol, the loops of the three parts' threads, and what they do each
second are left out.
"""

import argparse
import asyncio
import itertools
import json
import linecache
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from http import HTTPStatus
from pathlib import Path
from types import CodeType, FrameType, SimpleNamespace
from typing import Any, NamedTuple, Self
from unittest import mock

from prometheus_client import CollectorRegistry
from pyspark.sql.streaming.stateful_processor import (
    MapState,
    StatefulProcessorHandle,
)

from controller_model.records.changes import SessionState, ZnodeChange
from controller_model.state.control_plane import Assumed
from exporter.core.metrics import ExporterMetrics
from exporter.core.status import ReadingState, ReadingStatus
from exporter.intake.event_store import EventStore
from exporter.intake.view_store import ViewStore
from exporter.scrape.collector import Collector
from exporter.serve.pages import Pages
from exporter.serve.server import make_app
from pipeline.clock import clock_ms, steady_ms
from pipeline.settings import load
from pipeline.topic_records import Record
from pipeline.topics import EnsuredTopics, topic_names
from source_log.publisher import Publisher
from streaming.processor import FoldParameters, FoldProcessor
from tools.words import PRODUCT
from web.health import PartHealth
from zk_source.config import WatchSettings
from zk_source.watcher.commands import Send
from zk_source.watcher.watcher import Watcher
from zk_source.wire.operations import (
    AddWatch,
    Children,
    Err,
    EventType,
    Op,
    Refused,
    Request,
    Result,
    Sync,
    ZnodeData,
)

ROOT = Path(__file__).parents[1]
CLUSTER = "walked"
TOPIC = "orders"
CHANGED = f"/brokers/topics/{TOPIC}/partitions/0/state"
BROKERS = (1, 2, 3)
ASKED = (
    f"/api/v1/clusters/{CLUSTER}/partitions?topic={TOPIC}",
    f"/api/v1/page?cluster={CLUSTER}",
)
"""What is asked: the topic's partitions, of the API; the cluster's picture, as the live page asks for it."""


PASSED = ("watch", "fold", "show")
"""The parts that a change passes by itself."""


class Function(NamedTuple):
    """A function of the product: its file, from the project's folder, and its qualified name."""

    path: str
    name: str
    is_property: bool


class Recorder:
    """Records which functions of the product run while it is entered, in this thread and in new ones."""

    def __init__(self) -> None:
        self.functions: set[Function] = set()
        self._known: set[CodeType] = set()

    def __enter__(self) -> Self:
        threading.setprofile(self._note)
        sys.setprofile(self._note)
        return self

    def __exit__(self, *exc: object) -> None:
        sys.setprofile(None)
        threading.setprofile(None)

    def _note(self, frame: FrameType, event: str, _arg: object) -> None:
        code = frame.f_code
        if event != "call" or code in self._known:
            return
        self._known.add(code)
        path = Path(code.co_filename)
        if code.co_name.startswith("<") or not path.is_relative_to(ROOT):
            return
        place = path.relative_to(ROOT)
        if place.parts[0] in PRODUCT:
            decorator = linecache.getline(code.co_filename, code.co_firstlineno).strip()
            is_property = decorator in ("@property", "@cached_property")
            self.functions.add(Function(place.as_posix(), code.co_qualname, is_property))


# --- ZooKeeper, Kafka and Spark in memory ---------------------------------------------------


class Znodes:
    """ZooKeeper's znodes: payloads by path."""

    def __init__(self) -> None:
        self._zxid = 0
        self._znodes: dict[str, ZnodeData] = {}

    def set(self, path: str, payload: Mapping[str, Any] | bytes) -> None:
        """Create or set a znode, with the znodes above it."""
        above = path.rpartition("/")[0]
        if above and above not in self._znodes:
            self.set(above, b"")
        self._zxid += 1
        now = clock_ms()
        held = self._znodes.get(path)
        data = payload if isinstance(payload, bytes) else json.dumps(payload).encode()
        self._znodes[path] = ZnodeData(
            data,
            czxid=held.czxid if held else self._zxid,
            mzxid=self._zxid,
            ctime=held.ctime if held else now,
            mtime=now,
            version=held.version + 1 if held else 0,
            ephemeral_owner=0,
            num_children=len(self._children(path)),
        )

    def answer(self, request: Request) -> tuple[int, tuple[Result, ...]]:
        """Return the zxid and the results of a request."""
        if isinstance(request, AddWatch | Sync):
            return self._zxid, ()
        return self._zxid, tuple(self._read(op, path) for op, path in request.reads)

    def _read(self, op: Op, path: str) -> Result:
        znode = self._znodes.get(path)
        if znode is None and path != "/":
            return Refused(Err.NO_NODE)
        if op is Op.GET_CHILDREN or znode is None:
            return Children(self._children(path))
        return znode._replace(num_children=len(self._children(path)))

    def _children(self, path: str) -> tuple[str, ...]:
        begin = path.rstrip("/") + "/"
        below = {p[len(begin) :].split("/")[0] for p in self._znodes if p.startswith(begin)}
        return tuple(sorted(below))


class NoKafka:
    """In place of confluent_kafka.Producer: keeps the messages, and acknowledges each at the next poll."""

    def __init__(self) -> None:
        self.sent: list[bytes] = []
        self._unacknowledged: list[Callable[[None, None], None]] = []

    def produce(
        self, _topic: str, *, value: bytes, on_delivery: Callable[[None, None], None], **_: object
    ) -> None:
        """Keep a message."""
        self.sent.append(value)
        self._unacknowledged.append(on_delivery)

    def poll(self, _timeout_s: float) -> None:
        """Acknowledge what was sent."""
        acknowledged, self._unacknowledged = self._unacknowledged, []
        for on_delivery in acknowledged:
            on_delivery(None, None)


class MemoryMap(MapState):
    """Spark's MapState over a dict."""

    def __init__(self) -> None:
        self._rows: dict[Any, Any] = {}

    def getValue(self, key: Any) -> Any:  # noqa: N802  # Spark's name
        """Return the value of a key; None without one."""
        return self._rows.get(key)

    def updateValue(self, key: Any, value: Any) -> None:  # noqa: N802  # Spark's name
        """Store a value."""
        self._rows[key] = value

    def removeKey(self, key: Any) -> None:  # noqa: N802  # Spark's name
        """Remove a key."""
        self._rows.pop(key, None)

    def iterator(self) -> Iterator[Any]:
        """Return all keys with their values."""
        return iter(list(self._rows.items()))

    def clear(self) -> None:
        """Remove all keys."""
        self._rows.clear()


class _Handle(StatefulProcessorHandle):
    """Spark's handle, which knows one map."""

    def __init__(self) -> None:  # Spark's own takes a client, and there is none
        self._map = MemoryMap()

    def getMapState(self, stateName: str, *_: Any) -> Any:  # noqa: ARG002, N802, N803  # Spark's names
        return self._map


# --- the pipeline --------------------------------------------------------------------------


class Pipeline:
    """Watcher, fold and exporter of one cluster, in one process."""

    def __init__(self) -> None:
        names = topic_names("kcm")
        topics = EnsuredTopics(names, 1, dict.fromkeys(names, "id"))
        settings = load(WatchSettings, cluster=CLUSTER, zookeeper="none:2181")
        self._kafka = NoKafka()
        with mock.patch.object(
            sys.modules[Publisher.__module__], "Producer", return_value=self._kafka
        ):
            self._publisher = Publisher(settings, topics)
        self.znodes = Znodes()
        self._watcher = Watcher(CLUSTER, "walk", steady_ms())
        parameters = FoldParameters("lineage", names.views, names.events, 1, Assumed())
        self._fold = FoldProcessor(parameters)
        self._fold.init(_Handle())
        self._offset = itertools.count()
        self._views_topic = names.views
        self._views = ViewStore()
        self._events = EventStore(kept=100)
        self._reading = ReadingState(ReadingStatus(read_to_end_once=True, read_at=steady_ms()))
        self._collector = Collector(self._reading.of_cluster)
        metrics = ExporterMetrics(CollectorRegistry())
        pages = Pages(
            self._collector,
            self._events,
            metrics,
            state=self._reading,
            health=PartHealth(metrics.registry, lambda: 0.0),
            clock=clock_ms,
            kafka_gone_s=15,
            partition_metrics=False,
        )
        self._app = make_app(pages, metrics)
        self._server = asyncio.Runner()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self._server.close()

    def connect(self) -> list[bytes]:
        """Give the watcher its session; return the messages of its first resync."""
        self._watcher.on_session(SessionState.CONNECTED, "none:2181", steady_ms())
        return self._watch()

    def notify(self, path: str) -> list[bytes]:
        """Notify the watcher that a znode was set; return the messages to the log."""
        self._watcher.on_event(EventType.DATA_CHANGED, path, steady_ms())
        return self._watch()

    def _watch(self) -> list[bytes]:
        """Carry out what the watcher wants until it wants nothing more."""
        self._watcher.on_tick(steady_ms())
        while commands := self._watcher.commands():
            for command in commands:
                if isinstance(command, ZnodeChange):
                    self._publisher.add(self._watcher.recorder.encode(command), command.position)
                elif isinstance(command, Send):
                    zxid, results = self.znodes.answer(command.request)
                    self._watcher.on_reply(command.token, zxid, Err.OK, results, steady_ms())
            self._watcher.on_tick(steady_ms())
        while not self._publisher.idle:
            self._publisher.pump(steady_ms())
            self._publisher.poll()
        sent, self._kafka.sent = self._kafka.sent, []
        return sent

    def fold(self, messages: Sequence[bytes]) -> list[Record]:
        """Fold messages as one batch; return the records for the topics of views and events."""
        rows = [
            SimpleNamespace(
                partition=0, offset=next(self._offset), timestamp_ms=clock_ms(), value=message
            )
            for message in messages
        ]
        folded = self._fold.handleInputRows((CLUSTER,), iter(rows), _NO_TIMERS)
        return [
            Record(row.topic, 0, next(self._offset), row.key.encode(), row.value, clock_ms())
            for row in folded
            if row.topic is not None
        ]

    def show(self, records: Sequence[Record]) -> None:
        """Put records into the exporter's stores and render the cluster."""
        for record in records:
            if record.topic == self._views_topic:
                self._views.apply(record)
            else:
                self._events.apply(record)
        self._reading.note_clusters(self._views.clusters, [CLUSTER], is_live=True)
        self._collector.update([CLUSTER], self._views.clusters)

    def get(self, path: str) -> bytes:
        """Return the body that the exporter answers; of a stream without an end, its first piece."""
        return self._server.run(self._get(path))

    async def _get(self, path: str) -> bytes:
        bodies: list[bytes] = []
        status = 0
        requests = iter([{"type": "http.request"}])
        answered = asyncio.Event()

        async def receive() -> Any:
            for request in requests:
                return request
            await answered.wait()
            return {"type": "http.disconnect"}

        async def send(message: Any) -> None:
            nonlocal status
            status = message.get("status", status)
            if body := message.get("body"):
                bodies.append(body)
                answered.set()

        place, _, query = path.partition("?")
        scope = {
            "type": "http",
            "asgi": {"version": "3.0", "spec_version": "2.3"},
            "http_version": "1.1",
            "method": "GET",
            "scheme": "http",
            "path": place,
            "root_path": "",
            "query_string": query.encode(),
            "headers": [(b"host", b"none")],
            "client": ("127.0.0.1", 1),
            "server": ("none", 80),
        }
        await self._app(scope, receive, send)
        if status != HTTPStatus.OK:
            raise RuntimeError(f"GET {path} is answered {status}: adapt what walk.py asks")
        return b"".join(bodies)


_NO_TIMERS: Any = None
"""The fold takes no time from Spark."""


def _cluster(znodes: Znodes) -> None:
    """Create the znodes of three brokers and a topic of three partitions."""
    znodes.set("/cluster/id", {"version": "1", "id": "walked"})
    znodes.set("/controller_epoch", b"1")
    for broker in BROKERS:
        endpoints = [f"PLAINTEXT://b{broker}:9092"]
        registration = {"version": 5, "host": f"b{broker}", "port": 9092, "endpoints": endpoints}
        znodes.set(f"/brokers/ids/{broker}", registration)
    znodes.set("/controller", {"version": 1, "brokerid": 1, "timestamp": str(clock_ms())})
    replicas = {str(p): [*BROKERS[p:], *BROKERS[:p]] for p in range(len(BROKERS))}
    znodes.set(f"/brokers/topics/{TOPIC}", {"version": 3, "partitions": replicas})
    for partition, brokers in replicas.items():
        path = f"/brokers/topics/{TOPIC}/partitions/{partition}/state"
        znodes.set(path, _state(brokers[0], leader_epoch=0))


def _state(leader: int, *, leader_epoch: int) -> dict[str, Any]:
    return {
        "version": 1,
        "controller_epoch": 1,
        "leader": leader,
        "leader_epoch": leader_epoch,
        "isr": list(BROKERS),
    }


def walk() -> dict[str, set[Function]]:
    """Let changed leaders pass; return the functions that the last one passes, by part."""
    parts: dict[str, Recorder] = {}
    with Pipeline() as pipeline:
        _cluster(pipeline.znodes)
        pipeline.show(pipeline.fold(pipeline.connect()))
        for leader_epoch, leader in enumerate(BROKERS[1:], start=1):
            pipeline.znodes.set(CHANGED, _state(leader, leader_epoch=leader_epoch))
            parts = {part: Recorder() for part in (*PASSED, "scrape", "ask")}
            with parts["watch"]:
                messages = pipeline.notify(CHANGED)
            with parts["fold"]:
                records = pipeline.fold(messages)
            with parts["show"]:
                pipeline.show(records)
            with parts["scrape"]:
                pipeline.get("/metrics")
            with parts["ask"]:
                answers = [pipeline.get(path) for path in ASKED]
            if f'"leader":{leader}'.encode() not in answers[0]:
                raise RuntimeError(f"{ASKED[0]} does not show the new leader: {answers[0]!r}")
    return {part: recorder.functions for part, recorder in parts.items()}


def report(parts: Mapping[str, set[Function]], *, names: bool = False) -> Iterator[str]:
    """Yield the lines of the count: by package, by file, by part, and in all."""
    passed = sorted(set().union(*(parts[part] for part in PASSED)))
    functions = [each for each in passed if not each.is_property]
    by_package = Counter(each.path.split("/")[0] for each in functions)
    by_file = Counter(each.path for each in functions)
    for package, number in by_package.most_common():
        yield f"{number:5} {package}"
        for path in (path for path in by_file if path.startswith(f"{package}/")):
            yield f"     {by_file[path]:5} {path}"
            if names:
                yield from (f"            {each.name}" for each in functions if each.path == path)
    for part, recorded in parts.items():
        own = [each for each in recorded if not each.is_property]
        beside = "" if part in PASSED else ", beside the count"
        yield f"{part}: {len(own)} functions in {len({each.path for each in own})} files{beside}"
    yield f"{len(passed) - len(functions)} properties, beside the count"
    yield f"A changed leader passes {len(functions)} functions in {len(by_file)} files"


def main() -> int:
    """Print the count; how many are too many is not judged here."""
    parser = argparse.ArgumentParser(
        prog="python -m tools.walk", description="Count what a change passes."
    )
    parser.add_argument("--functions", action="store_true", help="also name the functions")
    for line in report(walk(), names=parser.parse_args().functions):
        sys.stdout.write(f"{line}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
