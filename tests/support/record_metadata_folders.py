"""`python -m tests.support.record_metadata_folders`: play a story on a real KRaft cluster, and record its metadata folders.

Controllers are killed, brokers paused and killed, a leader is elected uncleanly, a topic is deleted; at last a leader
goes on without its quorum for a moment, and is killed.
"""

from __future__ import annotations

import sys
import tarfile
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec
from confluent_kafka import ElectionType, KafkaException, TopicCollection, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from kcm.servers.jars import KAFKA_4, Jars, ensure_set
from kcm.servers.kafka import QUIET_LIBRDKAFKA, Node
from kcm.servers.kraft_cluster import KraftCluster
from kcm.servers.quorum import METADATA_FOLDER, Leader
from kcm.servers.supervisor import Supervisor
from pipeline.clock import clock_ms
from tests.support.metadata_folders import (
    ABANDONED,
    BROKER,
    FILE,
    VOTER,
    Step,
    TruePartition,
    Truth,
)
from tests.support.waiting import wait_until

_REQUEST_S = 30.0
_ANSWER_S = 5.0
_KEPT = ("*.log", "*.checkpoint", "quorum-state", "leader-epoch-checkpoint", "partition.metadata")
_MANY_SNAPSHOTS = {"metadata.log.max.record.bytes.between.snapshots": 4_000}
UNCOMMITTED = "uncommitted"
ASKED = 3


class Story:
    """The cluster, and what has been done to it."""

    def __init__(self, cluster: KraftCluster) -> None:
        self.cluster = cluster
        self.leaders: list[Leader] = [cluster.start()]
        self.steps: list[Step] = []

    @property
    def admin(self) -> AdminClient:
        """A client that knows no broker yet but the one that is not killed."""
        asked = self.cluster.brokers[ASKED].bootstrap_servers
        return AdminClient({"bootstrap.servers": asked, **QUIET_LIBRDKAFKA})

    def step(self, did: str) -> None:
        """Note a step that begins now."""
        self.steps.append(Step(clock_ms(), did))
        sys.stderr.write(f"{did}\n")

    def create(
        self, topic: str, assignment: list[list[int]], timeout_s: float = _REQUEST_S
    ) -> None:
        """Create a topic with these replicas."""
        new = NewTopic(topic, len(assignment), replica_assignment=assignment)
        admin = self.admin  # kept until the answer is there
        admin.create_topics([new], request_timeout=timeout_s)[topic].result(timeout_s + 1)

    def await_next_leader(self) -> Leader:
        """Wait for a leader of a larger epoch."""
        last = self.leaders[-1]
        self.leaders.append(self.cluster.await_leader(lambda leader: leader.epoch > last.epoch))
        return self.leaders[-1]

    def live(self) -> set[int]:
        """Return the brokers that are not fenced."""
        try:
            return set(self.admin.list_topics(timeout=5).brokers)
        except KafkaException:
            return set()

    def partitions(self) -> dict[str, dict[int, TruePartition]]:
        """Return all partitions as brokers describe them."""
        return {
            topic.name: {
                each.id: TruePartition(
                    -1 if each.leader is None else each.leader.id,
                    tuple(node.id for node in each.replicas),
                    tuple(node.id for node in each.isr),
                )
                for each in topic.partitions
            }
            for topic in self._topics()
        }

    def topic_ids(self) -> dict[str, str]:
        """Return the topics' ids."""
        # The client prints them in another alphabet than Kafka (Uuid.toString).
        kafkas = str.maketrans("+/", "-_")
        return {topic.name: str(topic.topic_id).translate(kafkas) for topic in self._topics()}

    def _topics(self) -> list[Any]:
        admin = self.admin
        names = list(admin.list_topics(timeout=_REQUEST_S).topics)
        described = admin.describe_topics(TopicCollection(names), request_timeout=_ANSWER_S)
        return [future.result(_REQUEST_S) for future in described.values()]

    def await_partition(self, topic: str, is_wanted: Callable[[TruePartition], bool]) -> None:
        """Wait until a topic's first partition is as wanted; brokers may die while they are asked."""

        def seen() -> TruePartition | None:
            try:
                return self.partitions().get(topic, {}).get(0)
            except KafkaException:
                return None

        wait_until(seen, lambda found: found is not None and is_wanted(found))

    def play(self) -> None:
        """Do everything up to the last leader's isolation."""
        brokers = self.cluster.brokers
        self.step("create topics")
        self.create("orders", [[1, 2, 3], [2, 3, 1], [3, 1, 2]])
        self.create("clicks", [[1, 2]])
        self.create("temp", [[3, 1], [3, 2]])
        self.step("kill the active controller")
        killed = self.cluster.controllers[self.leaders[-1].id]
        killed.kill()
        self.await_next_leader()
        killed.start()
        self.step("pause broker 2 until it is fenced")
        brokers[2].pause()
        wait_until(self.live, lambda live: live == {1, 3})
        brokers[2].resume()
        wait_until(self.live, lambda live: live == {1, 2, 3})
        self.step("stop broker 2, then kill broker 1: clicks-0 is offline")
        brokers[2].stop()
        self.await_partition("clicks", lambda seen: seen.isr == (1,))
        brokers[1].kill()
        self.await_partition("clicks", lambda seen: seen.leader == -1)
        self.step("start broker 2 and elect it uncleanly")
        brokers[2].start()
        wait_until(self.live, lambda live: live == {2, 3})
        admin = self.admin
        admin.elect_leaders(ElectionType.UNCLEAN, [TopicPartition("clicks", 0)]).result(30)
        self.await_partition("clicks", lambda seen: seen.leader == 2)
        self.step("delete topic temp while broker 1 is dead")
        admin.delete_topics(["temp"])["temp"].result(_REQUEST_S)
        brokers[1].start()
        wait_until(self.live, lambda live: live == {1, 2, 3})
        self.step("pause all brokers until all are fenced")
        for broker in brokers.values():
            broker.pause()
        time.sleep(3 * brokers[1].session_timeout_ms / 1000)
        for broker in brokers.values():
            broker.resume()
        wait_until(self.live, lambda live: live == {1, 2, 3})

    def isolate(self) -> tuple[Node, Node]:
        """Let the leader go on alone and kill it; return it, and the controller that led next."""
        controllers = self.cluster.controllers
        leader = self.leaders[-1].id
        others = [node for voter, node in controllers.items() if voter != leader]
        self.step("kill the other controllers, and create a topic under the one that is alone")
        for node in others:
            node.kill()  # paused they may have it in their sockets already
        with suppress(KafkaException):
            self.create(UNCOMMITTED, [[1, 2]], timeout_s=1.0)
        controllers[leader].kill()
        for node in others:
            node.start(wait=False)
        following = self.await_next_leader()
        self.step("create topic after")
        self.create("after", [[1, 2, 3]])
        self.await_partition("after", lambda seen: len(seen.isr) == 3)
        return controllers[leader], controllers[following.id]


def main() -> int:
    """Play the story and write the file."""
    jars = Jars([], ensure_set(KAFKA_4)["broker"])
    with tempfile.TemporaryDirectory() as name, Supervisor(Path(name), kill_on_exit=True) as owner:
        story = Story(KraftCluster(owner, jars, Path(name), properties=_MANY_SNAPSHOTS))
        story.play()
        abandoned, voter = story.isolate()
        time.sleep(2)
        truth = Truth(
            story.cluster.quorum.cluster_id,
            tuple((leader.id, leader.epoch) for leader in story.leaders),
            story.partitions(),
            story.topic_ids(),
            tuple(sorted(story.live())),
            UNCOMMITTED,
            tuple(story.steps),
        )
        nodes = {ABANDONED: abandoned, VOTER: voter, BROKER: story.cluster.brokers[1]}
        for node in nodes.values():
            node.kill()
        _pack(Path(name), nodes, truth)
    return 0


def _pack(folder: Path, nodes: dict[str, Node], truth: Truth) -> None:
    described = folder / "truth.json"
    described.write_bytes(msgspec.json.format(msgspec.json.encode(truth)))
    with tarfile.open(FILE, "w:xz") as packed:
        packed.add(described, described.name, filter=_anonymous)
        for name, node in nodes.items():
            packed.add(
                node.log_dir / "meta.properties", f"{name}/meta.properties", filter=_anonymous
            )
            for pattern in _KEPT:
                for path in sorted((node.log_dir / METADATA_FOLDER).glob(pattern)):
                    packed.add(path, f"{name}/{METADATA_FOLDER}/{path.name}", filter=_anonymous)


def _anonymous(info: tarfile.TarInfo) -> tarfile.TarInfo:
    info.uid = info.gid = 0
    info.uname = info.gname = ""
    return info


if __name__ == "__main__":
    sys.exit(main())
