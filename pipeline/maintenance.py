"""Planned work on brokers: the marks of the topic <prefix>.maintenance, and how it is made.

The rule: a mark is a record of its own topic, because exporters run in several copies and keep
nothing: each reads all marks at its start. A mark ends by its own time, and by its record's after 24
hours at most, so one that was forgotten, or written with a wrong end, mutes nothing for ever. The topic is no part of the lineage: without it nothing is lost but marks.
"""

from __future__ import annotations

from typing import NamedTuple

import msgspec
from confluent_kafka import KafkaError, KafkaException, TopicCollection
from confluent_kafka.admin import AdminClient, NewTopic

from controller_model.kafka.errors import UnreadableRecordError
from pipeline.settings import PipelineSettings
from pipeline.topics import topic_names

VERSION = 1
"""The version that we write; a reader counts and skips any other."""
PARTITION = 0
"""The topic has one partition: marks are few, and their order is what counts."""
LONGEST_MS = 24 * 3600 * 1000
"""A mark that lasts longer hides an outage that nobody planned; it can be set again."""
LONGEST_REASON = 200
"""Characters: a reason is a line, for people."""

_REQUEST_TIMEOUT_S = 5.0


class PlannedWork(msgspec.Struct, frozen=True, kw_only=True):
    """Work on a broker that somebody planned. Times are milliseconds since 1970."""

    v: int
    cluster: str
    broker: int
    started_at: int
    """When it was marked, by the clock of whoever did."""
    until: int
    """When the mark ends by itself."""
    reason: str | None = None
    epoch: int | None = None
    """The broker's epoch when it was marked: another one means that it has started anew."""


class Mark(NamedTuple):
    """A record of the topic: a mark, or (None) the end of the one before."""

    cluster: str
    broker: int
    work: PlannedWork | None


_decoder = msgspec.json.Decoder(PlannedWork)


def maintenance_topic(prefix: str) -> str:
    """Return the topic's name under a prefix.

    >>> maintenance_topic("kcm")
    'kcm.maintenance'
    """
    return f"{prefix}.maintenance"


def mark_key(cluster: str, broker: int) -> bytes:
    """Return the key under which a broker's mark stands."""
    return f"{cluster}/{broker}".encode()


def encode_work(work: PlannedWork) -> bytes:
    """Return a mark as JSON."""
    return msgspec.json.encode(work)


def decode_mark(key: bytes | None, value: bytes | None, written_at: int) -> Mark:
    """Return what a record says; raises UnreadableRecordError when it is none of ours.

    A mark ends LONGEST_MS after its record was written (`written_at`) at the latest, whatever it says.
    """
    try:
        cluster, _, broker = (key or b"").decode().rpartition("/")
        mark = Mark(cluster, int(broker), None)
        work = None if value is None else _decoder.decode(value)
    except (msgspec.DecodeError, ValueError) as error:
        raise UnreadableRecordError(f"not a mark of planned work: {error}") from None
    if work is None:
        return mark
    if work.v != VERSION:
        raise UnreadableRecordError(f"a mark of version {work.v}; this release reads {VERSION}")
    if (work.cluster, work.broker) != (mark.cluster, mark.broker):
        raise UnreadableRecordError(f"a mark of another broker stands under {key!r}")
    latest = written_at + LONGEST_MS
    if work.until > latest:
        work = msgspec.structs.replace(work, until=latest)
    return mark._replace(work=work)


def ensure_maintenance_topic(admin: AdminClient, settings: PipelineSettings) -> str:
    """Make the topic if it is missing, as often replicated as the views; return its id.

    Raises KafkaException when Kafka does not answer, or refuses.
    """
    name = maintenance_topic(settings.topic_prefix)
    found = _describe(admin, name)
    if found is None:
        views = _describe(admin, topic_names(settings.topic_prefix).views)
        factor = settings.replication_factor if views is None else views.replication
        config = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.1"}
        topic = NewTopic(name, 1, factor, config=config)
        made = admin.create_topics([topic], request_timeout=_REQUEST_TIMEOUT_S)[name]
        try:
            made.result()
        except KafkaException as error:
            if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:  # another was faster
                raise
        found = _describe(admin, name)
    # Brokers hear of a topic a moment after it was made.
    return "" if found is None else found.id


class _Topic(NamedTuple):
    id: str
    replication: int


def _describe(admin: AdminClient, topic: str) -> _Topic | None:
    """Return what a topic is; None when there is none."""
    asked = TopicCollection([topic])
    future = admin.describe_topics(asked, request_timeout=_REQUEST_TIMEOUT_S)[topic]
    try:
        found = future.result()
    except KafkaException as error:
        if error.args[0].code() == KafkaError.UNKNOWN_TOPIC_OR_PART:
            return None
        raise
    return _Topic(str(found.topic_id), len(found.partitions[0].replicas))
