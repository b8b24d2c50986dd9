"""Look after the three topics while the query runs: are they still the same, how long is the log.

The rule: this never stops the query by itself and never blocks it; what cannot be asked now is
asked again, and Kafka being away is the query's own business.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Self

from confluent_kafka import Consumer, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient

from pipeline.settings import PipelineSettings
from pipeline.topics import EnsuredTopics, client_properties, topic_ids

REQUEST_TIMEOUT_S = 3.0
"""How long to wait for the log's end; a stop need not wait for it."""


class TopicWatch:
    """A thread that keeps the last answers; use as a context manager."""

    def __init__(
        self,
        settings: PipelineSettings,
        topics: EnsuredTopics,
        *,
        interval_s: float,
        tell_log_end: Callable[[int | None], None],
    ) -> None:
        """Take what to look at and how often, and whom to tell the log's end.

        That is the end offsets summed over the log's partitions; None while it cannot be read.
        """
        self._settings = settings
        self._topics = topics
        self._interval_s = interval_s
        self._tell_log_end = tell_log_end
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="topic-watch", daemon=True)
        self.ids: dict[str, str] = dict(topics.ids)
        """Of the topics that exist, as last seen."""
        self.away_because: str | None = None
        """Why Kafka did not answer the last time; None when it did."""

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        # The thread is not waited for: it may be in the middle of a request to a dead broker.
        self._stop.set()
        self._tell_log_end(None)

    def _run(self) -> None:
        properties = client_properties(self._settings)
        admin = AdminClient(properties, logger=None)
        # A group id must be given; nothing joins the group or commits to it.
        consumer = Consumer(properties | {"group.id": "kcm-fold-lag", "enable.auto.commit": False})
        try:
            while not self._stop.is_set():
                self._look(admin, consumer)
                self._stop.wait(self._interval_s)
        finally:
            consumer.close()

    def _look(self, admin: AdminClient, consumer: Consumer) -> None:
        log_end = None
        try:
            self.ids = topic_ids(admin, self._topics.names)
            log_end = sum(
                consumer.get_watermark_offsets(
                    TopicPartition(self._topics.names.changes, partition),
                    timeout=REQUEST_TIMEOUT_S,
                )[1]
                for partition in range(self._topics.partitions)
            )
        except KafkaException as error:
            self.away_because = error.args[0].str()
        else:
            self.away_because = None
        if not self._stop.is_set():
            self._tell_log_end(log_end)
