"""Asks the pipeline's Kafka repeatedly: does it answer, are the topics the same, where do they end.

To a consumer a quiet topic and a dead broker look the same, and a topic that was re-created looks
like one that was cut. So a separate thread asks: `answer` is the last answer, `failure` is why
there is none since. Both are replaced as a whole, so any thread may read them.

Asking never blocks the owner, and never ends because Kafka is down. Every request has a
deadline. Any other exception that ends the thread is raised where its owner checks it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from concurrent.futures import Future
from typing import Any, NamedTuple

from confluent_kafka import KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

from pipeline.clock import clock_ms
from pipeline.kafka_errors import reason_of
from pipeline.settings import PipelineSettings
from pipeline.supervised_thread import SupervisedThread
from pipeline.topic_records import Place
from pipeline.topics import REQUEST_TIMEOUT_S, EnsuredTopics, client_properties, topic_ids


class TopicsAnswer(NamedTuple):
    """Kafka's answer; times are milliseconds since 1970 by this machine's clock."""

    asked_at: int
    """When the question was sent: the answer is true as of then, or later."""
    ids: Mapping[str, str]
    """Topic ids; a topic that is gone has none."""
    ends: Mapping[Place, int]
    """The offset of the next record of each place that was asked for; absent if its topic is gone."""


class TopicProbe:
    """Asks in `thread`, which the owner starts, checks and closes.

    It asks for the ends of the topics `ends_of`.
    """

    def __init__(
        self,
        settings: PipelineSettings,
        topics: EnsuredTopics,
        *,
        every_s: float,
        ends_of: Collection[str] = (),
        clock: Callable[[], int] = clock_ms,
        on_turn: Callable[[TopicProbe], None] | None = None,
    ) -> None:
        """Set what to ask for; `on_turn` is called in the thread after each turn until it is closed."""
        self._on_turn = on_turn
        self.answer: TopicsAnswer | None = None
        self.failure: str | None = None
        self._topics = topics
        self._ends_of = ends_of
        self._clock = clock
        self._admin = AdminClient(client_properties(settings), logger=None)
        self.thread = SupervisedThread("topic-probe", self._poll, every_s=every_s)

    def _poll(self) -> None:
        try:
            self.answer = self._ask()
            self.failure = None
        except KafkaException as error:
            self.failure = reason_of(error)
        if self._on_turn is not None and not self.thread.closed:
            self._on_turn(self)

    def _ask(self) -> TopicsAnswer:
        asked_at = self._clock()
        ids = topic_ids(self._admin, self._topics.names)
        spec = OffsetSpec.latest()  # type: ignore[no-untyped-call]  # the package leaves it untyped
        partitions = range(self._topics.partitions)
        wanted = {TopicPartition(t, p): spec for t in self._ends_of if t in ids for p in partitions}
        futures: dict[TopicPartition, Future[Any]] = {}
        if wanted:
            futures = self._admin.list_offsets(wanted, request_timeout=REQUEST_TIMEOUT_S)
        ends = {(asked.topic, asked.partition): f.result().offset for asked, f in futures.items()}
        return TopicsAnswer(asked_at=asked_at, ids=ids, ends=ends)
