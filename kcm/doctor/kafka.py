"""Check the pipeline's Kafka and its topics for `kcm doctor`.

Nothing is created or altered here. A topic that is missing or has other settings is
reported in the words that the parts themselves use.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient, ConfigResource, ResourceType

from controller_model.insight.wording import counted
from kcm.cli.text import printable
from kcm.doctor.findings import ClusterFindings, Finding, fail, ok, unknown, warn
from pipeline.kafka_errors import ReadTrouble, reason_of, trouble_of
from pipeline.settings import PipelineSettings
from pipeline.topics import (
    FIXED_SETTINGS,
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
        topics = list(check_topics(admin, settings))
    except KafkaException as error:
        why = f"cannot be described: {reason_of(error)}"
        topics = [fail("topics", why, "check our permissions")]
    return ClusterFindings([ok(ABOUT, summary), *topics], str(cluster.cluster_id))


def check_topics(admin: AdminClient, settings: PipelineSettings) -> Iterator[Finding]:
    """Check for each topic whether it exists, has all replicas in sync, and has the needed settings."""
    names = topic_names(settings.topic_prefix)
    found = describe_topics(admin, names)
    wanted = topic_settings(names)
    actual = _settings_of(admin, list(found))
    counts = {len(found[name].partitions) for name in names if name in found}
    for name in names:
        if name not in found:
            todo = "the first part that starts creates it; check topic_prefix"
            yield fail(name, NO_TOPIC, todo)
        else:
            yield _topic(name, found[name], actual.get(name), wanted[name])
    if len(counts) > 1:
        todo = "delete them, or choose another topic_prefix"
        yield fail("topics", "they do not have the same number of partitions", todo)


def _topic(
    name: str, found: Any, actual: dict[str, str | None] | None, wanted: dict[str, str]
) -> Finding:
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
    other = {key: actual.get(key) for key, value in wanted.items() if actual.get(key) != value}
    must = [key for key in FIXED_SETTINGS if key in other]
    if must:
        listed = ", ".join(f"{key}={other[key]}, not {wanted[key]}" for key in must)
        return fail(name, f"{summary}; {listed}", "change it with kafka-configs")
    if lagging:
        return warn(name, f"{summary}; {lagging} under-replicated", "check the pipeline's Kafka")
    if other:
        listed = ", ".join(f"{key}={other[key]}, the monitor's is {wanted[key]}" for key in other)
        return warn(
            name, f"{summary}; {listed}", "if nobody chose it, change it with kafka-configs"
        )
    return ok(name, summary)


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


def shown_cluster(watched: str | None, shown: Mapping[str, str | None]) -> Finding:
    """Check by the ids whether the exporter shows the cluster that is in ZooKeeper."""
    about = "same cluster"
    if watched is None:
        return unknown(about, "the id of the cluster in ZooKeeper (/cluster/id) is needed")
    if not shown:
        return unknown(about, "the exporter shows no cluster, or does not answer")
    names = [name for name, id_ in shown.items() if id_ == watched]
    if names:
        listed = printable(", ".join(names))
        return ok(about, f"the exporter shows the cluster of this ZooKeeper, as {listed}")
    if None in shown.values():
        return unknown(about, "the exporter does not know the ids of all its clusters")
    listed = printable(", ".join(f"{name} ({id_})" for name, id_ in shown.items()))
    return fail(
        about,
        printable(f"ZooKeeper holds cluster {watched}, the exporter shows {listed}"),
        "correct zookeeper or --exporter; or no watcher runs for this cluster",
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
