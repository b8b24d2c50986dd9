"""Check the pipeline's Kafka and its topics for `kcm doctor`.

Nothing is created or altered here. A topic that is missing or has other settings is
reported in the words that the parts themselves use.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from confluent_kafka import KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, ConfigResource, OffsetSpec, ResourceType

from controller_model.insight.wording import counted
from kcm.cli.text import printable, time_text
from kcm.doctor.findings import ClusterFindings, Finding, fail, ok, unknown, warn
from kcm.queries.options import ago
from pipeline.clock import clock_ms
from pipeline.kafka_errors import ReadTrouble, reason_of, trouble_of
from pipeline.settings import PipelineSettings
from pipeline.topics import (
    FIXED_SETTINGS,
    TIMESTAMP_TYPE,
    alter_command,
    client_properties,
    describe_topics,
    topic_names,
    topic_settings,
)

ANSWER_S = 5.0
"""A broker that takes longer counts as down."""
ABOUT = "pipeline's Kafka"
NO_TOPIC = "there is no such topic"
_PROTOCOL = "inter.broker.protocol.version"
_MIN_ISR = "min.insync.replicas"
_ENOUGH_BROKERS = 3
"""With so many, a record can have copies of which one may be lost while the next is written."""
_MARGIN_MS = 3_600_000
"""Kafka looks every five minutes for what to delete, and clocks differ."""
_DELETE_ALL = (
    "keep what you need (kcm bundle); then set its retention.bytes to 0 until Kafka's next check (5 min), "
    "and to -1 again: that deletes what it holds now, and a resync follows"
)


def check_kafka(settings: PipelineSettings, within_s: float) -> ClusterFindings:
    """Check whether the pipeline's Kafka answers in time, and whether its topics have the settings they need.

    `within_s` leaves time to say why it does not, before the check counts as one that did not end.
    """
    client_errors: list[KafkaError] = []
    where = settings.bootstrap_servers
    properties: dict[str, Any] = {**client_properties(settings), "error_cb": client_errors.append}
    try:
        admin = AdminClient(properties, logger=None)
    except KafkaException as error:
        return ClusterFindings([fail(ABOUT, reason_of(error), "check kafka_properties")], None)
    try:
        cluster = admin.describe_cluster(request_timeout=min(ANSWER_S, within_s)).result()
    except KafkaException as error:
        admin.poll(0)  # delivers the client's errors
        why = reason_of(error, client_errors)
        if trouble_of(error.args[0], client_errors) is ReadTrouble.SETTINGS:
            return ClusterFindings([fail(ABOUT, f"{where}: {why}", "check kafka_properties")], None)
        todo = "start it, or correct bootstrap_servers"
        return ClusterFindings([fail(ABOUT, f"{where} does not answer: {why}", todo)], None)
    brokers = [node.id for node in cluster.nodes]
    count, protocol = counted(len(brokers), "broker"), _protocol(admin, brokers[0])
    summary = f"{where}: {count}, cluster {cluster.cluster_id}{protocol}"
    try:
        topics = list(check_topics(admin, settings, len(brokers), clock_ms()))
    except KafkaException as error:
        why = f"cannot be described: {reason_of(error)}"
        topics = [fail("topics", why, "check our permissions")]
    return ClusterFindings([ok(ABOUT, summary), *topics], str(cluster.cluster_id))


def check_topics(
    admin: AdminClient, settings: PipelineSettings, brokers: int, now: int
) -> Iterator[Finding]:
    """Check for each topic whether it exists, its replicas, its settings, and whether its retention works."""
    names = topic_names(settings.topic_prefix)
    found = describe_topics(admin, names)
    actual = _settings_of(admin, list(found))
    counts = {len(found[name].partitions) for name in names if name in found}
    for name in names:
        if name not in found:
            todo = "the first part that starts creates it; check topic_prefix"
            yield fail(name, NO_TOPIC, todo)
        else:
            yield _topic(settings, name, found[name], actual.get(name), brokers)
    if len(counts) > 1:
        todo = "delete them, or choose another topic_prefix"
        yield fail("topics", "they do not have the same number of partitions", todo)
    yield from check_ages(admin, settings, found, now)


def _topic(
    settings: PipelineSettings,
    name: str,
    found: Any,
    actual: dict[str, str | None] | None,
    brokers: int,
) -> Finding:
    """Check one topic; of several things that are wrong all are listed, with what to do about the first."""
    leaderless = sum(partition.leader is None for partition in found.partitions)
    lagging = sum(len(each.isr) < len(each.replicas) for each in found.partitions)
    factor = min(len(partition.replicas) for partition in found.partitions)
    count = counted(len(found.partitions), "partition")
    summary = f"{count}, replication factor {factor}, id {found.topic_id}"
    if leaderless:
        return fail(name, f"{summary}; {leaderless} have no leader", "check the pipeline's Kafka")
    if actual is None:
        return warn(
            name, f"{summary}; its settings may not be read", "allow DESCRIBE_CONFIGS on it"
        )
    wanted = topic_settings(topic_names(settings.topic_prefix))[name]
    other = {key: actual.get(key) for key, value in wanted.items() if actual.get(key) != value}
    must = [key for key in FIXED_SETTINGS if key in other]
    if must:
        listed = ", ".join(f"{key}={other[key]}, not {wanted[key]}" for key in must)
        return fail(name, f"{summary}; {listed}", "change it with kafka-configs")
    min_isr = int(actual.get(_MIN_ISR) or 1)
    if min_isr > factor:
        text = f"{summary}; {_MIN_ISR}={min_isr} is more: nothing can be written"
        return fail(name, text, alter_command(settings, name, {_MIN_ISR: str(max(1, factor - 1))}))
    odd = [(f"{lagging} under-replicated", "check the pipeline's Kafka")] if lagging else []
    odd += _odd_settings(settings, name, other, wanted)
    odd += _odd_copies(settings, name, factor, min_isr, brokers)
    if odd:
        return warn(name, "; ".join((summary, *(text for text, _ in odd))), odd[0][1])
    return ok(name, summary)


def _odd_settings(
    settings: PipelineSettings, name: str, other: dict[str, str | None], wanted: Mapping[str, str]
) -> Iterator[tuple[str, str]]:
    """Yield what is unusual about settings that are not the monitor's, and what to do about it."""
    if TIMESTAMP_TYPE in other:
        text = (
            f"{TIMESTAMP_TYPE}={other.pop(TIMESTAMP_TYPE)}: one clock that is ahead stops retention"
        )
        todo = alter_command(settings, name, {TIMESTAMP_TYPE: wanted[TIMESTAMP_TYPE]})
        yield text, todo
    if other:
        listed = ", ".join(f"{key}={other[key]}, the monitor's is {wanted[key]}" for key in other)
        todo = alter_command(settings, name, {key: wanted[key] for key in other})
        yield listed, f"if nobody chose it: {todo}"


def _odd_copies(
    settings: PipelineSettings, name: str, factor: int, min_isr: int, brokers: int
) -> Iterator[tuple[str, str]]:
    """Yield what is unusual about a topic's replicas, and what to do about it."""
    if factor == 1 and brokers >= _ENOUGH_BROKERS:
        text = f"its only copy is on one of {brokers} brokers"
        yield text, "add replicas with kafka-reassign-partitions"
    elif factor > 1 and min_isr == factor:
        text = f"{_MIN_ISR}={min_isr}: while one broker is down, nothing can be written"
        yield text, alter_command(settings, name, {_MIN_ISR: str(factor - 1)})
    elif factor >= _ENOUGH_BROKERS and min_isr == 1:
        text = f"{_MIN_ISR}=1: what one broker alone has acknowledged is lost with it"
        yield text, alter_command(settings, name, {_MIN_ISR: "2"})


def check_ages(
    admin: AdminClient, settings: PipelineSettings, found: Mapping[str, Any], now: int
) -> Iterator[Finding]:
    """Check for the log and the events whether retention deletes: how old the oldest record is, and whether one is ahead."""
    names = topic_names(settings.topic_prefix)
    actual = _settings_of(admin, [name for name in (names.changes, names.events) if name in found])
    for name, held in actual.items():
        about = f"oldest record of {name}"
        places = [TopicPartition(name, p) for p in range(len(found[name].partitions))]
        oldest = _first_since(admin, places, 0)
        ahead = _first_since(admin, places, now + _MARGIN_MS)
        kept_ms, segment_ms = int(held["retention.ms"] or -1), int(held["segment.ms"] or 0)
        if not oldest:
            yield unknown(about, "it holds no record")
            continue
        age_ms = now - min(record.timestamp for record in oldest.values())
        listed = f"{ago(now - age_ms, now)} old; kept for {ago(0, kept_ms)}"
        if ahead:
            place, record = min(ahead.items(), key=lambda each: -each[1].timestamp)
            text = (
                f"{listed}; record {record.offset} of partition {place.partition} is dated "
                f"{time_text(record.timestamp)}, and retention deletes nothing that follows it"
            )
            yield warn(about, text, _DELETE_ALL)
        elif kept_ms >= 0 and age_ms > kept_ms + segment_ms + _MARGIN_MS:
            text = f"{listed}, and up to {ago(0, segment_ms)} more: retention does not delete"
            yield warn(about, text, "read the logs of its brokers")
        else:
            yield ok(about, listed)


def _first_since(
    admin: AdminClient, places: list[TopicPartition], since_ms: int
) -> dict[TopicPartition, Any]:
    """Return each partition's first record from a time on: its offset and timestamp, which writers may have set."""
    spec = OffsetSpec.for_timestamp(since_ms)
    futures = admin.list_offsets(dict.fromkeys(places, spec), request_timeout=ANSWER_S)
    found = {place: future.result() for place, future in futures.items()}
    return {place: record for place, record in found.items() if record.offset >= 0}


def same_cluster(watched: str | None, own: str | None) -> Finding:
    """Check whether the pipeline keeps its topics on the cluster that it watches."""
    about = "apart"
    if watched is None or own is None:
        return unknown(about, "both clusters' ids are needed, the watched one's and the pipeline's")
    if watched == own:
        return warn(
            about,
            "the pipeline's Kafka is the watched cluster: when it fails, the monitor is blind",
            "name another with bootstrap_servers",
        )
    return ok(about, "the pipeline's Kafka is not the cluster that is watched")


def shown_cluster(
    watched: str | None, shown: Mapping[str, str | None], *, is_kraft: bool = False
) -> Finding:
    """Check by the ids whether the exporter shows the cluster that is in ZooKeeper, or whose controllers were checked."""
    about = "same cluster"
    source = "these controllers" if is_kraft else "this ZooKeeper"
    if watched is None:
        where = "controller_cluster_id" if is_kraft else "in ZooKeeper: /cluster/id"
        return unknown(about, f"the cluster's id is needed ({where})")
    if not shown:
        return unknown(about, "the exporter shows no cluster, or does not answer")
    names = [name for name, id_ in shown.items() if id_ == watched]
    if names:
        listed = printable(", ".join(names))
        return ok(about, f"the exporter shows the cluster of {source}, as {listed}")
    if None in shown.values():
        return unknown(about, "the exporter does not know the ids of all its clusters")
    listed = printable(", ".join(f"{name} ({id_})" for name, id_ in shown.items()))
    setting = "controllers" if is_kraft else "zookeeper"
    return fail(
        about,
        printable(f"{source}: cluster {watched}; the exporter shows {listed}"),
        f"correct {setting} or --exporter; or no watcher runs for this cluster",
    )


def _settings_of(admin: AdminClient, names: list[str]) -> dict[str, dict[str, str | None]]:
    """Return the settings of the topics; a topic whose settings may not be read is absent."""
    found: dict[str, dict[str, str | None]] = {}
    if not names:
        return found
    asked = [ConfigResource(ResourceType.TOPIC, name) for name in names]
    for resource, future in admin.describe_configs(asked, request_timeout=ANSWER_S).items():
        try:
            found[resource.name] = {key: each.value for key, each in future.result().items()}
        except KafkaException:
            continue
    return found


def _protocol(admin: AdminClient, broker: int) -> str:
    """Return which protocol a broker speaks: the best hint to its release that it reports."""
    asked = ConfigResource(ResourceType.BROKER, str(broker))
    try:
        (future,) = admin.describe_configs([asked], request_timeout=ANSWER_S).values()
        value = future.result()[_PROTOCOL].value
    except (KafkaException, KeyError):
        return ""
    return f", protocol {value}"
