"""Replacements around the fold's service: for Spark, threads, time, its disk and Kafka's clients.

The rule is that of `stage`; the lineages, the reading of topics, the counting of failures and all
waits are the real ones.
"""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

from confluent_kafka import KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import ConfigResource, NewTopic

from pipeline import topic_reader
from pipeline import topics as topics_module
from pipeline.settings import load
from pipeline.topic_probe import TopicProbe
from pipeline.topics import EnsuredTopics, topic_settings
from streaming import lineage as lineage_module
from streaming import published_lineage, service, watchdog
from streaming.config import StreamSettings
from streaming.lineage import Lineage, Lineages
from streaming.metrics import FoldMetrics
from streaming.workspace import Workspace, disk_problems
from tests.simulation.kafka_clients import Admin, Consumer, Message, Thread
from tests.simulation.oracle import BrokenError
from tests.simulation.stage import NAMES, NoLogger

if TYPE_CHECKING:
    from tests.simulation.service import ServicedFold

ANSWER_S, START_S, BATCH_S, FIRST_BATCH_S, MAX_BATCH_S = 5.0, 15.0, 10.0, 20.0, 40.0
"""The service's own limits, shortened: a run lasts some minutes."""

_AWAY = KafkaError._TRANSPORT


def stream_settings(root: Path) -> StreamSettings:
    """Return the fold's settings, with its checkpoint in a folder."""
    spark = {"spark.jars.packages": "played"}
    return load(StreamSettings, checkpoint_dir=root, spark_conf=spark)


class ServiceStage:
    """The replacements for the service of a fold."""

    def __init__(self, fold: ServicedFold) -> None:
        self._fold = fold
        self._time = SimpleNamespace(monotonic=self._now_s, sleep=self._sleep)
        # The current functions: a planted bug may have replaced them.
        self._ensure_topics: Callable[..., EnsuredTopics] = vars(service)["ensure_topics"]
        self._consumer: Callable[[Mapping[str, Any]], Consumer] = vars(topic_reader)["Consumer"]

    def stand_ins(self) -> Iterator[tuple[Any, str, Any]]:
        """Yield what is replaced, where the real code names it: module, name, replacement."""
        fold, time = self._fold, self._time
        server = nullcontext(SimpleNamespace(url="http://here"))
        yield service, "find_java", lambda *_: SimpleNamespace(path=Path("java"))
        yield service, "metrics_server", lambda *_: server
        yield service, "FoldMetrics", lambda _registry: FoldMetrics(fold.registry)
        yield service, "Workspace", partial(SimulatedWorkspace, fold)
        yield service, "Lineages", partial(NotedLineages, fold)
        yield service, "Session", fold.open_session
        yield service, "start_query", fold.start_query
        yield service, "ensure_topics", self._ensure
        yield service, "TopicProbe", self._probe
        yield service, "time", time
        yield service, "clock_ms", self._wall_ms
        yield service, "secrets", SimpleNamespace(token_hex=self._token)
        yield service, "os", SimpleNamespace(environ={})
        yield service, "end_at_once", fold.leave
        yield service, "get_logger", self._logger
        yield service, "ANSWER_S", ANSWER_S
        yield service, "START_S", START_S
        yield lineage_module, "os", SimpleNamespace(fsync=self._sync)
        yield published_lineage, "get_logger", self._logger
        yield topics_module, "AdminClient", lambda _properties, logger: FoldAdmin(fold)  # noqa: ARG005  # its name
        yield topics_module, "time", time
        yield topics_module, "get_logger", self._logger
        yield topic_reader, "Consumer", self._open_consumer
        yield topic_reader, "time", time
        yield watchdog, "SupervisedThread", partial(ClockedThread, fold)
        yield watchdog, "time", time
        yield watchdog, "BATCH_S", BATCH_S
        yield watchdog, "FIRST_BATCH_S", FIRST_BATCH_S
        yield watchdog, "MAX_BATCH_S", MAX_BATCH_S

    def _now_s(self) -> float:
        return self._fold.steady / 1000

    def _wall_ms(self) -> int:
        return self._fold.world.clock.now + self._fold.clock_ahead_ms

    def _sleep(self, wait_s: float) -> None:
        self._fold.process.sleep(wait_s)

    def _logger(self, _part: str) -> ServiceLogger:
        return ServiceLogger(self._fold)

    def _token(self, _bytes: int) -> str:
        return f"{self._fold.rng.randrange(1 << 24):06x}"

    def _sync(self, _fd: int) -> None:
        if self._fold.is_full:
            self._fold.judge.on_lack()
            raise OSError(errno.ENOSPC, "No space left on device")

    def _ensure(self, settings: StreamSettings, **options: Any) -> EnsuredTopics:
        topics = self._ensure_topics(settings, **options)
        self._fold.judge.on_attempt()
        return topics

    def _open_consumer(self, properties: Mapping[str, Any]) -> Consumer:
        is_ours = properties["group.id"] == published_lineage.GROUP
        return FoldConsumer(self._fold, properties) if is_ours else self._consumer(properties)

    def _probe(self, settings: StreamSettings, topics: EnsuredTopics, **options: Any) -> TopicProbe:
        made: Any = TopicProbe(settings, topics, **options)
        made._admin = FoldAdmin(self._fold)
        thread = made.thread
        made.thread = ClockedThread(self._fold, thread.name, made._poll, every_s=thread.every_s)
        return cast("TopicProbe", made)


class ServiceLogger(NoLogger):
    """A logger that names no temporary folder."""

    def __init__(self, fold: ServicedFold) -> None:
        super().__init__(fold.world.stage)
        self._fold = fold

    def info(self, text: str, **about: object) -> None:
        """Trace a line."""
        if text == "the topics changed":
            self._fold.judge.on_other_topics()
        cleaned = {name: self._fold.without_folder(str(value)) for name, value in about.items()}
        super().info(text, **cleaned)

    debug = warning = error = info


class NotedLineages(Lineages):
    """The lineages; each is judged as it begins."""

    def __init__(self, fold: ServicedFold, root: Path, **options: Any) -> None:
        super().__init__(root, **options)
        self._fold = fold

    def _begin(self, topics: EnsuredTopics, before: str | None) -> Lineage:
        lineage = super()._begin(topics, before)
        self._fold.on_lineage(lineage)
        return lineage


class SimulatedWorkspace(Workspace):
    """The checkpoint folder, on a disk that may be full."""

    def __init__(self, fold: ServicedFold, root: Path, **options: Any) -> None:
        super().__init__(root, **options)
        self._fold = fold

    def check_room(self) -> None:
        """Raise if the disk is full: the service checks after each failure."""
        self._fold.judge.on_recovery()
        if self._fold.is_full:
            with disk_problems(self.root):
                raise OSError(errno.ENOSPC, "No space left on device")


class ClockedThread(Thread):
    """A thread of the process: the clock calls its turns until the thread or the process ends."""

    def __init__(
        self, fold: ServicedFold, name: str, turn: Callable[[], None], *, every_s: float
    ) -> None:
        super().__init__(name, turn, every_s=every_s)
        self._clock = fold.world.clock
        self._process = fold.process

    def start(self) -> None:
        """Plan the first turn."""
        super().start()
        self._clock.after(0, self._go_on)

    def _go_on(self) -> None:
        if self.closed or self._process.has_ended:
            return
        self.poll()
        if isinstance(self._failure, BrokenError):
            raise self._failure
        self._clock.after(round(self.every_s * 1000), self._go_on)


class FoldConsumer(Consumer):
    """Replaces the Consumer with which the service reads the topics."""

    def __init__(self, fold: ServicedFold, properties: Mapping[str, Any]) -> None:
        super().__init__(fold.world, properties)
        self._fold = fold

    def poll(self, timeout_s: float) -> Message | None:
        """Return the next message; None when there is none in this time."""
        if self._fold.is_cut_off:
            self._fold.process.sleep(timeout_s)
            return None
        return super().poll(timeout_s)

    def get_watermark_offsets(self, place: TopicPartition, timeout: float) -> tuple[int, int]:
        """Return the first and the end offset of a partition."""
        if self._fold.is_cut_off:
            self._fold.process.sleep(timeout)
            raise KafkaException(KafkaError(_AWAY))
        extent = super().get_watermark_offsets(place, timeout)
        if place.topic == NAMES.changes:
            self._fold.judge.on_log_end(place.partition, extent[1])
        return extent


class FoldAdmin(Admin):
    """Replaces the fold's AdminClient."""

    def __init__(self, fold: ServicedFold) -> None:
        super().__init__(fold.world)
        self._fold = fold

    @property
    def _is_cut_off(self) -> bool:
        return self._fold.is_cut_off

    def create_topics(
        self, topics: list[NewTopic], operation_timeout: float, request_timeout: float
    ) -> dict[str, Future[Any]]:
        """Refuse: the controller knows them, also while a broker that has just started does not."""
        assert min(operation_timeout, request_timeout) > 0
        futures: dict[str, Future[Any]] = {each.topic: Future() for each in topics}
        for future in futures.values():
            future.set_exception(KafkaException(KafkaError(KafkaError.TOPIC_ALREADY_EXISTS)))
        return futures

    def describe_configs(
        self, resources: list[ConfigResource], request_timeout: float
    ) -> dict[ConfigResource, Future[Any]]:
        """Answer with the settings of each topic."""
        assert request_timeout > 0
        held = topic_settings(NAMES)
        return {
            each: self._answer(
                {key: SimpleNamespace(value=value) for key, value in held[each.name].items()}
            )
            for each in resources
        }

    def poll(self, _timeout_s: float) -> int:
        """Report nothing."""
        return 0
