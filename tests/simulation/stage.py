"""Replacements for sockets, Kafka's clients, threads and time during the run of a seed.

The rule: only what does I/O or has a clock is replaced, where the real code names it; everything
that decides is the shipped code.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import cache
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any
from unittest import mock

import msgspec

from controller_model.fold import projection
from controller_model.kafka.ids import Position
from controller_model.records.changes import ZnodeChange
from exporter.api import worker
from exporter.api.problems import ClusterProblem, problems_of
from exporter.core.config import ExportSettings
from exporter.core.records import ClusterSnapshot
from exporter.live import page, page_answers
from exporter.scrape import collector
from exporter.scrape.collector import RenderedCluster
from exporter.serve import main_loop
from kcm.elect import run
from pipeline import topic_probe, topic_reader
from pipeline.settings import load
from pipeline.topics import EnsuredTopics, topic_names
from source_log import beats, fold_lag, log_writer, publisher, readback
from source_log.publisher import DELIVERY_WAIT_MS, Publisher
from tests.simulation.kafka_clients import Admin, Consumer, Producer, Thread
from tests.simulation.neighbour import EVERY, PARTITIONS
from tests.simulation.sockets import Sockets
from zk_source.config import WatchSettings
from zk_source.election import candidacy
from zk_source.service import service
from zk_source.watcher.subscriptions import RecursiveWatches
from zk_source.wire.inbox import Inbox

if TYPE_CHECKING:
    from tests.simulation.edge import Edge
    from tests.simulation.world import World

CLUSTER = "prod"
PREFIX = "kcm"
NAMES = topic_names(PREFIX)
MAX_IN_FLIGHT = 8
"""Messages in a producer: few, so that messages that Kafka does not accept soon wait in the watcher."""
MAX_WAITING = 100
"""Changes that wait in a watcher; a second without Kafka brings about ten."""
MAX_WAITING_MIB = 0.016
"""About fifty changes, so that either limit is reached."""
MAX_READS = 20
"""Reads of a multiRead: a walk needs several, as that of a large tree does."""
STEP = 25
"""Changes in a step of a walk where the fold is shared: a walk needs several, and waits for the fold between them."""
CHUNKS = (1_000, 1, 2, 1)
"""The most partitions in a topic's view: topics of three are wide with some of these."""
MESSAGES = (10, 60, 500)
"""The most changes of a message; seeds use one of these each."""
MAX_LINGER_MS = 500
"""The longest wait of a change for others, where changes wait."""
LINGERS_EVERY, LINGERS = 35, (5, 26, 32, 33)
"""These out of so many seeds; of the first ones, not those that are pinned for a planted bug of another part."""
LINGERS_FROM = 1_300
"""From here on, changes wait in every other seed."""


_decoded = msgspec.json.Decoder(ZnodeChange).decode


class NotedPublisher(Publisher):
    """The publisher, which reports each change to the oracle."""

    edge: Edge
    _lingered = False

    def add(self, data: bytes, position: Position, **about: Any) -> None:
        """Append a change."""
        self.edge.on_published(_decoded(data))
        super().add(data, position, **about)

    def pump(self, now_ms: int, *, to_the_end: bool = False) -> list[int]:
        """Pass changes on to Kafka."""
        if self.waiting:
            self.edge.world.oracle.on_publishing(self.edge)
        news = super().pump(now_ms, to_the_end=to_the_end)
        had_lingered, self._lingered = self._lingered, self.lingers(now_ms)
        if self._lingered and not had_lingered:
            self.edge.world.hit("changes waited for others")
        return news

    def lingers(self, now_ms: int) -> bool:
        """Return whether changes wait for others, and for nothing else."""
        return self.wait_ms(now_ms, MAX_LINGER_MS) > DELIVERY_WAIT_MS and self.waiting > 0

    def drop_waiting(self) -> int:
        """Drop the waiting changes."""
        dropped = super().drop_waiting()
        if dropped:
            self.edge.world.hit("changes dropped by the watcher")
        return dropped


class NoLogger:
    """A logger that writes into the run's trace."""

    def __init__(self, stage: Stage) -> None:
        self._stage = stage

    def bind(self, **_: object) -> NoLogger:
        """Return itself."""
        return self

    def info(self, text: str, **about: object) -> None:
        """Trace a line."""
        self._stage.lines += 1
        self._stage.world.trace(f"SAYS {text} {about}")

    debug = warning = error = info

    def exception(self, text: str, **about: object) -> None:
        """Trace a line, and report it to the viewers of the page: it comes from its answers."""
        self.info(text, **about)
        self._stage.world.viewers.on_exception()


SERVICED_EVERY, SERVICED = 16, (9, 14)
"""These out of so many seeds; not the seeds that are pinned for a planted bug of another part."""

IDLE_EVERY, IDLE = 11, (5, 10)
"""Of the seeds whose fold is run by its service, these have a partition that no cluster uses."""


def has_neighbours(seed: int) -> bool:
    """Return whether a seed also has other clusters, in two partitions."""
    return seed % EVERY == EVERY - 1


def is_serviced(seed: int) -> bool:
    """Return whether the service runs the fold of a seed."""
    return seed % SERVICED_EVERY in SERVICED


def has_idle_partition(seed: int) -> bool:
    """Return whether no cluster uses the first of two partitions."""
    return is_serviced(seed) and seed % IDLE_EVERY in IDLE and not has_neighbours(seed)


def lingers_ms(seed: int) -> int:
    """Return how long changes that may wait do so in a seed at most: as shipped, or not at all."""
    is_later = seed > LINGERS_FROM and seed % 2 == 1
    return MAX_LINGER_MS if is_later or seed % LINGERS_EVERY in LINGERS else 0


class Stage:
    """The process whose turn it is, and its world."""

    world: World
    edge: Edge
    topics: EnsuredTopics
    lines = 0
    """How many lines the parts have logged."""
    behind_ms = 0
    """For a process that waits for an answer: how long ago the current action began."""
    closing: ExitStack
    """Closed at the end of the run."""

    @property
    def now(self) -> int:
        """The time, as a steady clock that begins with it shows it."""
        return self.world.clock.now

    @property
    def wall(self) -> int:
        """The clock of the machine whose turn it is."""
        return self.now + self.edge.clock_ahead_ms


@contextmanager
def played(seed: int) -> Iterator[Stage]:
    """Install the replacements for one run."""
    stage = Stage()
    partitions = PARTITIONS if has_neighbours(seed) or has_idle_partition(seed) else 1
    stage.topics = EnsuredTopics(NAMES, partitions, {name: f"{name}-0" for name in NAMES})

    def producer(properties: dict[str, Any]) -> Producer:
        return Producer(stage.world, stage.edge, properties)

    def sockets(_settings: WatchSettings, inbox: Inbox, _log: object) -> Sockets:
        return Sockets(stage.world, stage.edge, inbox)

    def noted(settings: WatchSettings, topics: EnsuredTopics) -> NotedPublisher:
        made = NotedPublisher(settings, topics)
        made.edge = stage.edge
        return made

    def logger(_part: str) -> NoLogger:
        return NoLogger(stage)

    def judge(snapshot: ClusterSnapshot, *about: Any) -> list[ClusterProblem]:
        stage.world.viewers.trip(snapshot.name)
        return problems_of(snapshot, *about)

    def sleep(seconds: float) -> None:
        assert stage.world.electing is not None
        stage.world.electing.sleep(seconds)

    stand_ins = (
        (topic_reader, "Consumer", lambda properties: Consumer(stage.world, properties)),
        (topic_probe, "AdminClient", lambda _properties, logger: Admin(stage.world)),  # noqa: ARG005  # its name
        (topic_probe, "SupervisedThread", Thread),
        (main_loop, "get_logger", logger),
        (main_loop, "time", SimpleNamespace(monotonic=lambda: stage.world.exporter.steady / 1000)),
        # Without bytes for Prometheus.
        (collector, "render_cluster", lambda shown, _: RenderedCluster(shown, (), (), {})),
        (page_answers, "get_logger", logger),
        (page_answers, "problems_of", judge),
        (page_answers, "run_in_threadpool", _at_once),
        (worker, "run_in_threadpool", _at_once),
        (page, "_files_in", cache(page._files_in)),
        (publisher, "Producer", producer),
        (publisher, "MAX_MESSAGES_IN_FLIGHT", MAX_IN_FLIGHT),
        (publisher, "MAX_CHANGES_PER_MESSAGE", MESSAGES[seed % len(MESSAGES)]),
        (RecursiveWatches, "most_reads", MAX_READS),
        (fold_lag, "STEP", STEP),
        (projection, "PARTITIONS_PER_TOPIC_VIEW", CHUNKS[seed % len(CHUNKS)]),
        (beats, "Producer", producer),
        (beats, "clock_ms", lambda: stage.wall),
        (readback, "SupervisedThread", Thread),
        (readback, "get_logger", logger),
        (readback, "time", SimpleNamespace(monotonic=lambda: stage.edge.steady / 1000)),
        (candidacy, "now_s", lambda: (stage.now - stage.behind_ms) / 1000),
        (candidacy, "get_logger", logger),
        (run, "time", SimpleNamespace(monotonic=lambda: stage.now / 1000, sleep=sleep)),
        (service, "WatchedEnsemble", sockets),
        (log_writer, "Publisher", noted),
        (log_writer, "clock_ms", lambda: stage.wall),
        (log_writer, "get_logger", logger),
        (service, "decode", lambda _request, body, _offset: body),
        (service, "steady_ms", lambda: stage.edge.steady),
        (service, "clock_ms", lambda: stage.wall),
        (service, "get_logger", logger),
    )
    with ExitStack() as stage.closing:
        for module, name, stand_in in stand_ins:
            stage.closing.enter_context(mock.patch.object(module, name, stand_in))
        yield stage


async def _at_once(work: Callable[..., Any], *about: Any) -> Any:
    """Run at once what a server runs in another thread."""
    return work(*about)


@cache
def export_settings() -> ExportSettings:
    """Return the exporter's settings."""
    return load(ExportSettings)


@cache
def watch_settings(reconciliation_ms: int, resync_ms: int, linger_ms: int) -> WatchSettings:
    """Return a watcher's settings, with these times and little room for waiting changes."""
    return load(
        WatchSettings,
        cluster=CLUSTER,
        reconciliation_interval_s=reconciliation_ms / 1000,
        full_resync_s=resync_ms / 1000,
        linger_ms=linger_ms,
        buffer_changes=MAX_WAITING,
        buffer_mib=MAX_WAITING_MIB,
    )
