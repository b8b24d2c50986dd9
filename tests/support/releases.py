"""The releases of Kafka and ZooKeeper that tests run.

The rule: there is one table. Tests are made from its rows, and docs/versions.md shows them, so the
page names no release that no test runs. Jars of a release that the demo does not need are
downloaded by the same tool as the demo's, when a test needs them.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from controller_simulator.cluster.settings import SimulatorSettings
from kcm.servers.jars import KAFKA_4, OURS, JarSet

IVY_FILES = Path(__file__).with_name("ivy")
CONF = "server"
"""The only conf in each of those files."""


def settings_of(
    kafka: tuple[int, int], protocol: tuple[int, int] | None = None
) -> SimulatorSettings:
    """Return the settings of the simulator for brokers of a release of Kafka, from 2.8 to 3.9.

    `protocol` is inter.broker.protocol.version, None for the release's own. What depends on the
    protocol is in MetadataVersion (ApiVersion before 3.3), what depends on the release in ZkData.

    >>> settings_of((3, 9)) == SimulatorSettings()
    True
    """
    spoken = kafka if protocol is None else protocol
    return SimulatorSettings(
        alter_partition=spoken >= (2, 7),
        topic_ids=spoken >= (2, 8),
        leader_recovery_supported=spoken >= (3, 2),
        features_version=2 if spoken >= (3, 3) else 1,
        kraft_controller_epoch=kafka >= (3, 4),
    )


class Release(NamedTuple):
    """A release of a server, and the jars that it runs on."""

    version: str
    jar_set: JarSet
    conf: str = CONF

    @property
    def line(self) -> tuple[int, int]:
        """Major and minor version."""
        major, minor, *_ = map(int, self.version.split("."))
        return major, minor

    @property
    def name(self) -> str:
        """Major and minor version as text.

        >>> KAFKA_2_8.name
        '2.8'
        """
        return "{}.{}".format(*self.line)


class KafkaRelease(NamedTuple):
    """A release of Kafka in ZooKeeper mode, whose brokers run on the ZooKeeper of its jars."""

    release: Release
    zookeeper: str
    """The version of that ZooKeeper."""
    protocol: tuple[int, int] | None = None
    """inter.broker.protocol.version; None for the release's own."""

    @property
    def settings(self) -> SimulatorSettings:
        """The simulator's settings that match its brokers."""
        return settings_of(self.release.line, self.protocol)

    @property
    def recording(self) -> str:
        """The name of the recording of a script on its brokers, under tests/recorded."""
        name = f"real_kafka_{self.release.name}"
        if self.protocol is not None:
            name += "_protocol_{}.{}".format(*self.protocol)
        return name.replace(".", "_")


class ZooKeeperRelease(NamedTuple):
    """A release of ZooKeeper."""

    release: Release
    brought_by: str
    """The releases of Kafka that contain it."""

    @property
    def has_recursive_watches(self) -> bool:
        """Whether it knows addWatch (3.6 and later)."""
        return self.release.line >= (3, 6)


def _jar_set(name: str, are_called: str) -> JarSet:
    return JarSet(IVY_FILES / f"{name}.xml", f"the jars of {are_called}, once)")


KAFKA_2_8 = Release("2.8.2", _jar_set("kafka-2.8", "Kafka 2.8 (35 MB"))
KAFKA_3_0 = Release("3.0.2", _jar_set("kafka-3.0", "Kafka 3.0 (37 MB"))
KAFKA_3_5 = Release("3.5.2", _jar_set("kafka-3.5", "Kafka 3.5 (37 MB"))
KAFKA_3_7_FORMATS = Release("3.7.2", _jar_set("kafka-3.7-formats", "Kafka 3.7's formats (14 MB"))
"""The oldest whose metadata log is watched: only what its messages and records are."""
KAFKA_3_9 = Release("3.9.1", OURS, "broker")
KAFKA_4_0 = Release("4.0.1", _jar_set("kafka-4.0", "Kafka 4.0 (43 MB"))
KAFKA_4_1 = Release("4.1.1", _jar_set("kafka-4.1", "Kafka 4.1 (43 MB"))
KAFKA_4_4 = Release("4.4.0", KAFKA_4, "broker")
ZOOKEEPER_3_4 = Release("3.4.13", _jar_set("zookeeper-3.4", "ZooKeeper 3.4 (1 MB"))
ZOOKEEPER_3_9 = Release("3.9.3", _jar_set("zookeeper-3.9", "ZooKeeper 3.9 (8 MB"))

NEWEST_KAFKA = KafkaRelease(KAFKA_3_9, "3.8.4")
OLD_PROTOCOL = KafkaRelease(KAFKA_3_9, "3.8.4", (2, 6))
OLDER_KAFKAS = (
    KafkaRelease(KAFKA_2_8, "3.5.9"),
    KafkaRelease(KAFKA_3_0, "3.6.3"),
    KafkaRelease(KAFKA_3_5, "3.6.4"),
)
KAFKAS = (*OLDER_KAFKAS, OLD_PROTOCOL, NEWEST_KAFKA)

KRAFTS = (KAFKA_3_9, KAFKA_4_0, KAFKA_4_1, KAFKA_4_4)
"""The releases that run as clusters in KRaft mode, the oldest and the newest among them."""


class KraftRun(NamedTuple):
    """A KRaft cluster of three controllers that a test runs."""

    release: Release
    dynamic: bool
    """Whether its voters are in the log (KIP-853), and not in `controller.quorum.voters`."""
    combined: bool
    """Whether each node is controller and broker (`process.roles=broker,controller`)."""

    @property
    def name(self) -> str:
        """The release and the kind, as a test's id.

        >>> KRAFT_RUNS[0].name
        '3.9-static-combined'
        """
        kind = "dynamic" if self.dynamic else "static"
        return f"{self.release.name}-{kind}{'-combined' if self.combined else ''}"


KRAFT_RUNS = (
    KraftRun(KAFKA_3_9, dynamic=False, combined=True),
    KraftRun(KAFKA_4_0, dynamic=True, combined=True),
    KraftRun(KAFKA_4_1, dynamic=False, combined=False),
    KraftRun(KAFKA_4_1, dynamic=True, combined=True),
    KraftRun(KAFKA_4_4, dynamic=False, combined=True),
)

ZOOKEEPERS = (
    ZooKeeperRelease(ZOOKEEPER_3_4, "2.1 to 2.3"),
    ZooKeeperRelease(KAFKA_2_8._replace(version="3.5.9"), "2.8"),
    ZooKeeperRelease(KAFKA_3_0._replace(version="3.6.3"), "3.0"),
    ZooKeeperRelease(KAFKA_3_9._replace(version="3.8.4"), "3.9"),
    ZooKeeperRelease(ZOOKEEPER_3_9, ""),
)
"""Those of 3.5, 3.6 and 3.8 are among the jars of a Kafka."""
