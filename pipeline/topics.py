"""Defines the three topics: their names, their settings, and one way to create and check them.

Every part creates and checks all three before it starts. So a topic that somebody created
with other settings is reported at once, not noticed a week later by lost records. What a topic does
not set itself, because an older release created it, is added; what somebody chose for it stays.
"""

import threading
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NamedTuple

from confluent_kafka import KafkaError, KafkaException, TopicCollection
from confluent_kafka.admin import (
    AclOperation,
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ConfigSource,
    NewTopic,
    ResourceType,
)

from pipeline.kafka_errors import ReadTrouble, reason_of, trouble_of
from pipeline.runtime import Backoff, UnreachableError, UsageError, get_logger
from pipeline.settings import PipelineSettings

MAX_MESSAGE_BYTES = 8 * 1024 * 1024
"""The largest record for every topic, producer, source and sink: a znode may hold 1 MiB of payload,
JSON and base64 make it larger, and an operator may have raised jute.maxbuffer."""

ANSWER_TIMEOUT_MS = 10_000
"""How long a broker may take for an answer; a half-open connection is given up after it. The
clients' own limits, 60 and 30 s, would add up over the clients that a change passes through."""

FIXED_SETTINGS = ("cleanup.policy", "max.message.bytes")
"""Settings without which the parts refuse to start; of the others they alter what the topic itself does not set."""

TIMESTAMP_TYPE = "message.timestamp.type"
"""Always altered to LogAppendTime: retention goes by the times of records, so one record of a clock that is ahead
would keep all that follows it for as long."""

REQUEST_TIMEOUT_S = 5.0
"""A broker that takes longer to answer is useless for a monitor."""

_HOUR_MS = 3600 * 1000
CHANGES_KEPT_MS = 7 * 24 * _HOUR_MS
"""How long a record of the log is kept at least."""
CHANGES_SEGMENT_MS = 6 * _HOUR_MS
"""Kafka deletes whole segments: a record of the log is kept at most so much longer."""
EVENTS_KEPT_MS = 30 * 24 * _HOUR_MS
"""How long an event is kept at least."""
EVENTS_SEGMENT_MS = 24 * _HOUR_MS
"""As for the log: an event is kept at most so much longer."""
_METADATA_LAG_S = 0.05
_CHOSEN = ConfigSource.DYNAMIC_TOPIC_CONFIG.value
"""Where a setting comes from that somebody, or a part, gave to the topic itself."""


class TopicNames(NamedTuple):
    """The topics of one pipeline."""

    changes: str
    views: str
    events: str


class EnsuredTopics(NamedTuple):
    """The topics as they are: names, partitions of each, and the ids, which change when a topic is re-created."""

    names: TopicNames
    partitions: int
    ids: dict[str, str]


def topic_names(prefix: str) -> TopicNames:
    """Return the names under a prefix.

    >>> topic_names("kcm").views
    'kcm.views'
    """
    return TopicNames(f"{prefix}.changes", f"{prefix}.views", f"{prefix}.events")


def topic_settings(names: TopicNames) -> dict[str, dict[str, str]]:
    """Return the topic-level settings that the pipeline's guarantees depend on."""
    shared = {"max.message.bytes": str(MAX_MESSAGE_BYTES), TIMESTAMP_TYPE: "LogAppendTime"}

    def kept(for_ms: int, segment_ms: int) -> dict[str, str]:
        return shared | {
            "cleanup.policy": "delete",
            "retention.ms": str(for_ms),
            "retention.bytes": "-1",  # the broker's log.retention.bytes would delete earlier
            "segment.ms": str(segment_ms),
        }

    return {
        names.changes: kept(CHANGES_KEPT_MS, CHANGES_SEGMENT_MS),
        names.views: shared
        | {
            "cleanup.policy": "compact",
            "segment.bytes": str(64 * 1024 * 1024),
            "segment.ms": str(10 * 60 * 1000),
            "min.cleanable.dirty.ratio": "0.1",
        },
        names.events: kept(EVENTS_KEPT_MS, EVENTS_SEGMENT_MS),
    }


def alter_command(settings: PipelineSettings, topic: str, wanted: Mapping[str, str]) -> str:
    """Return the command of Kafka that gives a topic these settings."""
    added = ",".join(f"{key}={value}" for key, value in wanted.items())
    return (
        f"kafka-configs.sh --bootstrap-server {settings.bootstrap_servers} --alter "
        f"--entity-type topics --entity-name {topic} --add-config {added}"
    )


def client_properties(settings: PipelineSettings) -> dict[str, str | int | float | bool]:
    """Return librdkafka's properties for the pipeline's Kafka."""
    return {
        "bootstrap.servers": settings.bootstrap_servers,
        # Reconnect soon: operators wait for the figures, and there are few clients.
        "reconnect.backoff.ms": 50,
        "reconnect.backoff.max.ms": 2000,
        "socket.connection.setup.timeout.ms": 5000,
        "socket.timeout.ms": ANSWER_TIMEOUT_MS,
        "allow.auto.create.topics": False,
        # librdkafka would write several lines of its own to standard error.
        "log_level": 2,
        **{name: value.get_secret_value() for name, value in settings.kafka_properties.items()},
    }


def ensure_topics(settings: PipelineSettings, *, stop: threading.Event) -> EnsuredTopics:
    """Create the topics that are missing, check the existing ones, and return them.

    Wait for the pipeline's Kafka with growing pauses, logging which one and for how long, until
    `stop` is set; with `fail_fast`, try once. Raise UnreachableError, or UsageError for a topic or
    property that is not usable.
    """
    names = topic_names(settings.topic_prefix)
    log = get_logger("topics")
    pause = Backoff(first_s=0.5)
    began = time.monotonic()
    while True:
        reported: list[KafkaError] = []
        try:
            with admin_client(settings, reported) as admin:
                return _ensure_once(admin, names, settings)
        except KafkaException as error:
            reason = reason_of(error, reported)
            waited_s = time.monotonic() - began
            where = f"the pipeline's Kafka at {settings.bootstrap_servers}"
            if trouble_of(error.args[0], reported) is ReadTrouble.SETTINGS:
                raise UsageError(f"{where}: {reason}; check kafka_properties") from None
            if settings.fail_fast or stop.is_set():
                raise UnreachableError(
                    f"{where} does not answer (waited {waited_s:.0f} s): {reason}; "
                    "start it or correct bootstrap_servers"
                ) from None
            wait_s = pause.next_s()
            log.warning(
                "the pipeline's Kafka does not answer; trying again",
                bootstrap_servers=settings.bootstrap_servers,
                waited_s=round(waited_s, 1),
                next_try_s=wait_s,
                reason=reason,
            )
            stop.wait(wait_s)


def describe_topics(admin: AdminClient, names: Iterable[str]) -> dict[str, Any]:
    """Return confluent-kafka's descriptions of the topics that exist.

    A topic's id changes when it is deleted and created again. Raise KafkaException when the brokers
    do not answer.
    """
    asked = TopicCollection(list(names))
    found = {}
    for name, future in admin.describe_topics(asked, request_timeout=REQUEST_TIMEOUT_S).items():
        try:
            found[name] = future.result()
        except KafkaException as error:
            if error.args[0].code() != KafkaError.UNKNOWN_TOPIC_OR_PART:
                raise
    return found


def topic_ids(admin: AdminClient, names: TopicNames) -> dict[str, str]:
    """Return the id of each topic that exists; raise KafkaException when the brokers do not answer."""
    return {name: str(topic.topic_id) for name, topic in describe_topics(admin, names).items()}


def check_writable(settings: PipelineSettings, topic: str) -> None:
    """Raise UsageError, with one line for the user, if Kafka says that this client may not write a topic.

    Only a broker that lists what the client may do, without Write, denies it. If a broker does not list it (before
    2.3, or not Kafka) or does not answer, the first record shows whether writing is allowed.
    """
    with admin_client(settings, []) as admin:
        answers = admin.describe_topics(
            TopicCollection([topic]),
            include_authorized_operations=True,
            request_timeout=REQUEST_TIMEOUT_S,
        )
        try:
            allowed = answers[topic].result().authorized_operations
        except KafkaException:
            return
    if allowed and AclOperation.WRITE not in allowed:
        raise UsageError(
            f"the pipeline's Kafka at {settings.bootstrap_servers} does not let the monitor write {topic}; "
            "allow WRITE and DESCRIBE"
        )


@contextmanager
def admin_client(settings: PipelineSettings, reported: list[KafkaError]) -> Iterator[AdminClient]:
    """Yield a client, and collect what it reports: a request itself only fails with a time-out."""
    properties: dict[str, Any] = {**client_properties(settings), "error_cb": reported.append}
    admin = AdminClient(properties, logger=None)
    try:
        yield admin
    finally:
        admin.poll(0)  # calls error_cb with the remaining errors


def _ensure_once(
    admin: AdminClient, names: TopicNames, settings: PipelineSettings
) -> EnsuredTopics:
    wanted = topic_settings(names)
    found = describe_topics(admin, names)
    partitions = max(
        (len(topic.partitions) for topic in found.values()), default=settings.partitions
    )
    missing = [
        NewTopic(name, partitions, settings.replication_factor, config=wanted[name])
        for name in names
        if name not in found
    ]
    if missing:
        _create(admin, missing)
        found = _describe_all(admin, names)
    _check(admin, found, wanted, settings)
    ids = {name: str(topic.topic_id) for name, topic in found.items()}
    # Topics that a broker did not know at first may have other partitions than the settings say.
    return EnsuredTopics(names, len(found[names.changes].partitions), ids)


def _describe_all(admin: AdminClient, names: TopicNames) -> dict[str, Any]:
    """Describe topics that were created just now: other brokers learn of them a moment later."""
    deadline = time.monotonic() + REQUEST_TIMEOUT_S
    while len(found := describe_topics(admin, names)) < len(names) and time.monotonic() < deadline:
        time.sleep(_METADATA_LAG_S)
    return found


def _create(admin: AdminClient, topics: list[NewTopic]) -> None:
    futures = admin.create_topics(
        topics, operation_timeout=REQUEST_TIMEOUT_S, request_timeout=REQUEST_TIMEOUT_S
    )
    for name, future in futures.items():
        try:
            future.result()
        except KafkaException as error:
            code = error.args[0].code()
            if code == KafkaError.TOPIC_ALREADY_EXISTS:
                continue  # another part created it first
            if code in {KafkaError.INVALID_REPLICATION_FACTOR, KafkaError.POLICY_VIOLATION}:
                raise UsageError(f"cannot create topic {name}: {reason_of(error)}") from None
            raise


def _check(
    admin: AdminClient,
    found: dict[str, Any],
    wanted: dict[str, dict[str, str]],
    settings: PipelineSettings,
) -> None:
    absent = [name for name in wanted if name not in found]
    if absent:
        raise KafkaException(KafkaError(KafkaError.UNKNOWN_TOPIC_OR_PART, ", ".join(absent)))
    counts = {name: len(topic.partitions) for name, topic in found.items()}
    if len(set(counts.values())) != 1:
        listed = ", ".join(f"{name} has {count}" for name, count in counts.items())
        raise UsageError(
            f"the three topics must have as many partitions each: {listed}; "
            "delete them or choose another topic_prefix"
        )
    resources = [ConfigResource(ResourceType.TOPIC, name) for name in wanted]
    futures = admin.describe_configs(resources, request_timeout=REQUEST_TIMEOUT_S)
    for resource, future in futures.items():
        topic, held = resource.name, future.result()
        other: dict[str, str] = {}
        for key, value in wanted[topic].items():
            entry = held.get(key)
            if entry is not None and entry.value == value:
                continue
            if key in FIXED_SETTINGS:
                raise UsageError(
                    f"topic {topic} has {key}={entry and entry.value}, the pipeline needs "
                    f"{value}: change it with kafka-configs or choose another topic_prefix"
                )
            is_chosen = entry is not None and entry.source == _CHOSEN
            if is_chosen and key != TIMESTAMP_TYPE:
                get_logger("topics").info(
                    "an existing topic keeps its setting",
                    topic=topic,
                    setting=key,
                    value=entry.value,
                    ours=value,
                )
            else:
                other[key] = value
        if other:
            _alter(admin, topic, other, settings)


def _alter(
    admin: AdminClient, topic: str, other: Mapping[str, str], settings: PipelineSettings
) -> None:
    """Give an existing topic these settings; if Kafka refuses that, log the command that does it, and go on."""
    set_ = AlterConfigOpType.SET
    entries = [ConfigEntry(key, value, incremental_operation=set_) for key, value in other.items()]
    asked = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=entries)
    (future,) = admin.incremental_alter_configs([asked], request_timeout=REQUEST_TIMEOUT_S).values()
    try:
        future.result()
    except KafkaException as error:
        get_logger("topics").warning(
            "an existing topic lacks settings, and Kafka does not let the monitor add them",
            topic=topic,
            why=reason_of(error),
            do=alter_command(settings, topic, other),
        )
    else:
        get_logger("topics").info("an existing topic has new settings", topic=topic, **other)
