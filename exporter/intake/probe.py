"""Questions to the pipeline's Kafka, apart from the reading: is it there, where do the topics end.

The rule: a quiet topic and a dead broker look the same to a consumer, so a thread of its own asks
every two seconds. Its answers prove that what was read is all there is, show a topic that was
made anew by its id, and the newest record of the log tells a dead watcher from a dead fold.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from typing import Any, NamedTuple

from confluent_kafka import KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

from pipeline.settings import PipelineSettings
from pipeline.topics import EnsuredTopics, client_properties, topic_ids

PROBE_EVERY_S = 2.0
"""Often enough to notice a dead Kafka within seconds, rare enough to cost nothing."""

_REQUEST_TIMEOUT_S = 5.0
"""A broker that takes longer is as good as gone for a monitor."""

Place = tuple[str, int]
"""A topic and a partition of it."""


class Answer(NamedTuple):
    """What Kafka said; times are milliseconds since 1970 on our clock."""

    asked_at: int
    """When the question went out: the answer is true as of then, or later."""
    ids: Mapping[str, str]
    """Topic ids; a topic that is gone has none."""
    ends: Mapping[Place, int]
    """The offset of the next record of each partition of views and events."""
    log_written_at: Mapping[int, int]
    """The timestamp of the newest record of each partition of the log; absent if it is empty."""


class Probe:
    """A thread that asks; `answer` is the last one, `failure` is why there is none since."""

    def __init__(
        self,
        settings: PipelineSettings,
        topics: EnsuredTopics,
        clock: Callable[[], int],
        every_s: float = PROBE_EVERY_S,
    ) -> None:
        self.answer: Answer | None = None
        self.failure: str | None = None
        self._topics = topics
        self._clock = clock
        self._every_s = every_s
        self._admin = AdminClient(client_properties(settings), logger=None)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="probe", daemon=True)

    def start(self) -> None:
        """Begin to ask."""
        self._thread.start()

    def close(self) -> None:
        """Stop asking; waits for a question that is under way."""
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._stop.is_set():
            began = time.monotonic()
            try:
                self.answer = self._ask()
                self.failure = None
            except KafkaException as error:
                self.failure = str(error.args[0].str())
            self._stop.wait(max(0.0, self._every_s - (time.monotonic() - began)))

    def _ask(self) -> Answer:
        asked_at = self._clock()
        names = self._topics.names
        partitions = range(self._topics.partitions)
        ids = topic_ids(self._admin, names)
        read = [topic for topic in (names.views, names.events) if topic in ids]
        latest = OffsetSpec.latest()  # type: ignore[no-untyped-call]  # the package leaves it untyped
        ends = self._offsets([(topic, p) for topic in read for p in partitions], latest)
        newest = {}
        if names.changes in ids:
            by_time = OffsetSpec.max_timestamp()  # type: ignore[no-untyped-call]  # the same
            newest = self._offsets([(names.changes, p) for p in partitions], by_time)
        return Answer(
            asked_at=asked_at,
            ids=ids,
            ends={place: result.offset for place, result in ends.items()},
            log_written_at={p: r.timestamp for (_, p), r in newest.items() if r.timestamp > 0},
        )

    def _offsets(self, places: list[Place], spec: OffsetSpec) -> dict[Place, Any]:
        if not places:
            return {}
        wanted = {TopicPartition(topic, partition): spec for topic, partition in places}
        futures: dict[TopicPartition, Future[Any]] = self._admin.list_offsets(
            wanted, request_timeout=_REQUEST_TIMEOUT_S
        )
        return {(asked.topic, asked.partition): f.result() for asked, f in futures.items()}
