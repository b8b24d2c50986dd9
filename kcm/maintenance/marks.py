"""Marks of planned work: what is checked before one is written, and how it is written.

The rule: nothing is written unless all of it can be, and the topic is never made here: a wrong
address would leave a topic on somebody else's Kafka.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from kcm.cli.kafka_errors import kafka_text
from kcm.cli.written import time_text
from kcm.history.replay_settings import ReplaySettings
from kcm.queries.api_client import ExporterApi, cluster_path
from kcm.queries.asking import read_duration
from pipeline.maintenance import (
    LONGEST_MS,
    PARTITION,
    VERSION,
    PlannedWork,
    encode_work,
    maintenance_topic,
    mark_key,
)
from pipeline.runtime import ConflictError, UnreachableError, UsageError
from pipeline.topics import client_properties

MOST_BROKERS = 10_000
WRITTEN_WITHIN_S = 10.0
"""Kafka takes a record in milliseconds; beyond that it is away."""
_LEAST_MS = 10_000

Json = dict[str, Any]


def check_length(text: str) -> int:
    """Return how long a mark is to last, in milliseconds; raises UsageError."""
    lasts_ms = read_duration("--for", text)
    if not _LEAST_MS <= lasts_ms <= LONGEST_MS:
        raise UsageError(f"option --for: {text} is not between 10s and 24h; it can be set again")
    return lasts_ms


def known_brokers(api: ExporterApi, cluster: str, wanted: Sequence[int]) -> dict[int, Json]:
    """Return the brokers by id; raises UsageError for one that the monitor does not know."""
    path = cluster_path(cluster, "/brokers")
    known = {b["id"]: b for b in api.pages(path, "brokers", most=MOST_BROKERS)}
    for broker in wanted:
        if broker not in known:
            listed = ", ".join(map(str, known)) or "none"
            raise UsageError(
                f"option --broker: cluster {cluster} has no broker {broker}; known: {listed}"
            )
    return known


def marks_to_write(
    cluster: str,
    brokers: Mapping[int, Json],
    planned: Mapping[int, Json],
    *,
    now: int,
    until: int,
    reason: str | None,
) -> list[PlannedWork]:
    """Return a mark for each broker; one that replaces another keeps where its work began."""
    works = []
    for id_, broker in brokers.items():
        before = planned.get(id_)
        epoch = broker["epoch"] if before is None else before["epoch"]
        works.append(
            PlannedWork(
                v=VERSION,
                cluster=cluster,
                broker=id_,
                started_at=now if before is None else before["started_at"],
                until=until,
                reason=before["reason"] if reason is None and before is not None else reason,
                epoch=None if epoch is None else int(epoch),
            )
        )
    return works


def refuse_overlap(taken: Iterable[Json]) -> None:
    """Raise ConflictError for the first broker that has planned work already."""
    for mark in taken:
        why = f" ({mark['reason']})" if mark["reason"] else ""
        raise ConflictError(
            f"work on broker {mark['broker']} is planned already, until "
            f"{time_text(mark['until'])}{why}; end it, or give it another end with --replace"
        )


class MarkWriter:
    """Writes marks into the topic that the exporter reads."""

    def __init__(self, settings: ReplaySettings, written_to: Json | None) -> None:
        """Take the settings that the user gave; what was not given is as the exporter says."""
        given = settings.model_fields_set
        there = written_to or {}
        prefix = settings.topic_prefix
        own_topic = maintenance_topic(prefix) if "topic_prefix" in given else None
        self.topic = own_topic or there.get("topic") or maintenance_topic(prefix)
        properties: Json = dict(client_properties(settings))
        if "bootstrap_servers" not in given and there:
            properties["bootstrap.servers"] = there["bootstrap_servers"]
        self._where = f"the pipeline's Kafka at {properties['bootstrap.servers']}"
        self._properties = properties
        self._heard: list[KafkaError] = []

    def write(self, marks: Mapping[tuple[str, int], PlannedWork | None]) -> None:
        """Write marks, or (None) their ends, and wait until all are there; raises KcmError."""
        trouble: list[KafkaError] = []

        def on_delivery(error: KafkaError | None, _message: Message) -> None:
            if error is not None:
                trouble.append(error)

        producer = self._connect()
        for (cluster, broker), work in marks.items():
            producer.produce(
                self.topic,
                key=mark_key(cluster, broker),
                value=None if work is None else encode_work(work),
                partition=PARTITION,
                on_delivery=on_delivery,
            )
        left = producer.flush(WRITTEN_WITHIN_S + 1)
        if left or trouble:
            raise self._error(trouble)

    def _connect(self) -> Producer:
        """Return a producer for the topic, which is there."""
        more = {
            "message.timeout.ms": int(WRITTEN_WITHIN_S * 1000),
            "acks": "all",
            "error_cb": self._heard.append,
        }
        try:
            producer = Producer({**self._properties, **more})
        except KafkaException as error:
            raise UsageError(
                f"{self._where}: {kafka_text(error)}; check kafka_properties"
            ) from None
        try:
            found = producer.list_topics(self.topic, timeout=WRITTEN_WITHIN_S)
        except KafkaException as error:
            raise self._error([error.args[0]]) from None
        if found.topics[self.topic].error is not None:
            raise UsageError(
                f"there is no topic {self.topic} at {self._where}; the exporter makes it: check "
                "--bootstrap-servers and --topic-prefix, and the exporter's log"
            )
        return producer

    def _error(self, trouble: list[KafkaError]) -> UnreachableError:
        heard = [*trouble[:1], *self._heard[-1:]]
        why = heard[-1].str() if heard else "no answer"
        return UnreachableError(
            f"{self._where} does not take the mark: {why}; nothing is muted; start it, or name "
            "another with --bootstrap-servers"
        )
