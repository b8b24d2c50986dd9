"""Read from the watched brokers what their own files set, which ZooKeeper does not hold.

Values that were set dynamically are in ZooKeeper and are taken from there. So only the
value in the file, or Kafka's own default, becomes a line that says what to set.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import Any

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, ConfigResource, ConfigSource, ResourceType

from kcm.cli.text import printable
from kcm.doctor.findings import Finding, ok, unknown, warn
from pipeline.kafka_errors import reason_of
from pipeline.settings import PipelineSettings
from pipeline.topics import client_properties

ANSWER_S = 3.0
"""For each broker: one that takes longer counts as down."""
_THRESHOLD = "leader.imbalance.per.broker.percentage"
SETTING_OF = {
    "min.insync.replicas": "min_insync_replicas",
    _THRESHOLD: "leader_imbalance_percentage",
    "auto.leader.rebalance.enable": "auto_leader_rebalance",
}
"""The settings of the fold that each cluster needs, by Kafka's name."""
TAKEN_AS = {
    "leader.imbalance.check.interval.seconds": "300",
}
"""The defaults of Kafka by which the next rebalance is predicted."""
IN_KRAFT = "kraft"
"""The entry of a KRaft cluster beside its settings: its controller has no threshold, and checks at no fixed times
(ReplicationControlManager.maybeBalancePartitionLeaders), so what files say of these needs no setting."""
_IN_FILES = {ConfigSource.STATIC_BROKER_CONFIG.value, ConfigSource.DEFAULT_CONFIG.value}

BrokerFile = Mapping[str, str | None]
"""The settings in a broker's own file, by name; None: the broker does not report it."""


def about(cluster: str) -> str:
    """Return the subject of a cluster's findings."""
    return printable(f"brokers' files of {cluster}")


def check_broker_files(
    settings: PipelineSettings, clusters: Mapping[str, Mapping[str, int | None]]
) -> Iterator[Finding]:
    """Ask the brokers for their files, and compare them with the fold's settings for the clusters.

    `clusters` holds the names under which this one cluster is watched, each with the values that
    are set already. A setting that is missing there is not known.
    """
    admin = AdminClient(client_properties(settings), logger=None)
    brokers = [node.id for node in admin.describe_cluster(request_timeout=ANSWER_S).result().nodes]
    files: dict[int, BrokerFile] = {}
    for broker in sorted(brokers):
        try:
            files[broker] = read_file(admin, broker)
        except KafkaException as error:
            for cluster in clusters:
                yield unknown(about(cluster), f"broker {broker}: {reason_of(error)}")
    for cluster, is_set in clusters.items():
        yield from findings_of(cluster, files, is_set)


def read_file(admin: AdminClient, broker: int) -> BrokerFile:
    """Return the values in a broker's own file; raises KafkaException."""
    asked = ConfigResource(ResourceType.BROKER, str(broker))
    (future,) = admin.describe_configs([asked], request_timeout=ANSWER_S).values()
    found = future.result()
    return {name: _in_file(found.get(name)) for name in (*SETTING_OF, *TAKEN_AS)}


def _in_file(entry: Any) -> str | None:
    """Return the file's value, else Kafka's default; values set dynamically are ignored."""
    if entry is None:
        return None
    layers = [entry, *entry.synonyms.values()]
    found = {layer.source: layer.value for layer in layers if layer.source in _IN_FILES}
    value: str | None = found.get(min(found)) if found else None
    return value


def findings_of(
    cluster: str, files: Mapping[int, BrokerFile], is_set: Mapping[str, int | None]
) -> Iterator[Finding]:
    """Yield a line for each setting: what to set, or which brokers differ."""
    is_kraft = IN_KRAFT in is_set
    for name, setting in SETTING_OF.items():
        if is_kraft and name == _THRESHOLD:
            continue
        listed, value = _values(name, files)
        if value is None:
            yield _unclear(cluster, name, listed)
        elif setting in is_set and (current := str(is_set[setting]).lower()) != value:
            now = "is not set" if is_set[setting] is None else f"is {current} for the fold"
            todo = f"--{setting.replace('_', '-')} {cluster}={value}, or {setting} in the file"
            yield warn(about(cluster), f"{listed}; {setting} {now}", printable(f"set {todo}"))
        else:
            line = f"--{setting.replace('_', '-')} {cluster}={value}"
            yield ok(about(cluster), printable(f"{listed}: {line}"))
    for name, taken in () if is_kraft else TAKEN_AS.items():
        listed, value = _values(name, files)
        if value is None:
            yield _unclear(cluster, name, listed)
        elif value != taken:
            text = f"{listed}; the next rebalance is predicted as if it were {taken}"
            yield warn(about(cluster), text, "do not wait for it: kcm recommend, kcm elect")
        else:
            yield ok(about(cluster), listed)


def _unclear(cluster: str, name: str, listed: str) -> Finding:
    if not listed:
        return unknown(about(cluster), f"no broker sets {name}")
    todo = (
        f"give them all the same value, or set {name} for all by kafka-configs (--entity-default)"
    )
    return warn(about(cluster), f"{listed}: they differ", todo)


def _values(name: str, files: Mapping[int, BrokerFile]) -> tuple[str, str | None]:
    """Return the brokers by value, as text, and the value if all brokers have the same."""
    by_value: dict[str, list[int]] = defaultdict(list)
    for broker, file in sorted(files.items()):
        value = file[name]
        if value is not None:
            by_value[value].append(broker)
    listed = "; ".join(
        f"{name}={value} on broker{'s' if len(ids) > 1 else ''} {', '.join(map(str, ids))}"
        for value, ids in by_value.items()
    )
    return printable(listed), next(iter(by_value)) if len(by_value) == 1 else None
