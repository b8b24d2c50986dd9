"""The KRaft cluster of the demo: three controllers, three brokers that are none, and their load."""

import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from confluent_kafka import ElectionType, TopicPartition
from confluent_kafka.admin import NewTopic

from kcm.demo.cluster import BROKER_IDS, BROKER_PROPERTIES, REQUEST_DEADLINE_S, WatchedCluster
from kcm.demo.figures import TrueFigures, differences
from kcm.demo.kafka_admin import Described, KafkaAdmin, is_behind
from kcm.demo.kraft_truth import QuorumTruth
from kcm.demo.monitor import REPLICA_LAGS
from kcm.demo.truth import KafkaTruth
from kcm.run.exporter_client import Scrape
from kcm.servers.class_archive import KAFKA_CLASSES, ensure_class_archive
from kcm.servers.jars import KAFKA_4, Jars, ensure_set
from kcm.servers.kafka import Broker
from kcm.servers.kraft_cluster import KraftCluster
from kcm.servers.process import Process
from kcm.servers.supervisor import Supervisor
from pipeline.clock import clock_ms
from pipeline.java import find_java

CONTROLLER_IDS = (3001, 3002, 3003)
HEARTBEAT_S = 2  # DescribeQuorum is asked with each, and what it says is compared after each step
SESSION_TIMEOUT_MS = 6000  # shorter ones expire by themselves when seven JVMs are busy
KAFKA = "Kafka 4.4"
WAIT_DEADLINE_S = 30.0  # a broker is fenced, and a controller that was started follows, in seconds
WAIT_POLL_S = 0.1


class KraftStoryCluster(WatchedCluster):
    """A quorum of three controllers, and three brokers."""

    def __init__(self, supervisor: Supervisor, data_dir: Path) -> None:
        """Describe it; the jars of its release are downloaded if they are missing."""
        jars = Jars(connector=[], broker=ensure_set(KAFKA_4)["broker"])
        ensure_class_archive(KAFKA_CLASSES, jars.broker, find_java(os.environ))
        self.servers = KraftCluster(
            supervisor,
            jars,
            data_dir,
            controllers=CONTROLLER_IDS,
            brokers=BROKER_IDS,
            dynamic=True,
            session_timeout_ms=SESSION_TIMEOUT_MS,
            properties={**BROKER_PROPERTIES, "auto.leader.rebalance.enable": "false"},
            name="watched",
        )
        super().__init__(self.servers.brokers)
        self.places = {"watched controllers": self.servers.quorum.bootstrap_controllers}
        self.truth: QuorumTruth = QuorumTruth(self.servers.controllers)
        self.admin = KafkaAdmin(supervisor, jars)
        self.paused: Broker | None = None
        """The broker that was paused, for the step that resumes it."""
        self.told: Described | str = "not asked yet"
        """What Kafka's client said last."""

    def settings(self, _name: str) -> Mapping[str, str]:
        """Return the controllers: everything else is in their log."""
        return {
            "controllers": self.servers.quorum.bootstrap_controllers,
            "controller_cluster_id": self.servers.quorum.cluster_id,
            "heartbeat_s": str(HEARTBEAT_S),
        }

    def start(self) -> tuple[str, dict[str, Process]]:
        """Format the controllers' folders, start them, and then the brokers."""
        self.admin.start()
        self.servers.start_controllers()
        for broker in self.servers.brokers.values():
            broker.start(wait=False)
        waiting: dict[str, Process] = {
            f"{KAFKA} broker {b}": node for b, node in self.servers.brokers.items()
        }
        waiting["Kafka's admin client"] = self.admin
        return f"{len(CONTROLLER_IDS)} controllers of {KAFKA}", waiting

    def check(self) -> None:
        """Raise what ended the reading of the truth, if anything did."""
        self.truth.check()

    def close(self) -> None:
        """Stop the load and the demo's own clients."""
        super().close()
        self.admin.close()

    def create_with(
        self, name: str, assignment: Sequence[Sequence[int]], config: Mapping[str, str]
    ) -> None:
        """Create a topic with the given replicas, and put load on it."""
        replicas = [list(each) for each in assignment]
        new = NewTopic(name, len(replicas), replica_assignment=replicas, config=dict(config))
        self.kafka.admin.create_topics([new], request_timeout=REQUEST_DEADLINE_S)[name].result()
        self.load.write_to(name, len(assignment))

    def delete_topic(self, name: str) -> None:
        """Delete a topic, and stop its load."""
        self.load.stop_writing_to(name)
        self.kafka.read()  # the client keeps asking a broker that has ended
        deleted = self.kafka.admin.delete_topics([name], request_timeout=REQUEST_DEADLINE_S)
        deleted[name].result()

    def elect_uncleanly(self, topic: str, partitions: int) -> None:
        """Elect leaders from outside the ISR, as kafka-leader-election --election-type UNCLEAN does."""
        self.kafka.read()
        chosen = [TopicPartition(topic, number) for number in range(partitions)]
        asked = self.kafka.admin.elect_leaders(ElectionType.UNCLEAN, chosen).result()
        if errors := [str(error) for error in asked.values() if error is not None]:
            raise TimeoutError(f"not elected: {errors[0]}")

    def await_truth(self, is_wanted: Callable[[TrueFigures], bool]) -> None:
        """Wait until the truth is what a step goes on from; raise TimeoutError if it does not become so."""

        def read() -> bool:
            self.truth.check()
            figures = self.truth.observations.figures
            return figures is not None and is_wanted(figures)

        _wait(read, lambda: f"the cluster's state is {self.truth.observations.figures}")

    def await_caught_up(self, voter: int) -> None:
        """Wait until a controller that was just started follows, as `kafka-metadata-quorum` shows it."""
        started_ms = clock_ms()

        def read() -> bool:
            self.told = self.admin.describe(self.answering())
            return (
                isinstance(self.told, Described)
                and self.told.fetched.get(voter, 0) >= started_ms
                and voter not in self.told.behind
            )

        _wait(read, lambda: f"controller {voter} does not follow: {self.told}")

    def answering(self) -> str:
        """Return the addresses of the brokers that run and are not paused."""
        brokers = self.servers.brokers.values()
        return ",".join(b.bootstrap_servers for b in brokers if b.running and b is not self.paused)

    def contradiction(self, truth: TrueFigures, scrape: Scrape) -> str:
        """Ask the brokers, and the quorum through them unless it is lost; compare the quorum with what is served."""
        answering = self.answering()
        kafka = KafkaTruth(answering).read()
        if kafka is None:
            return "no broker answered a metadata request"
        known = replace(
            truth,
            **{name: getattr(kafka, name) for name in _KNOWN_TO_BROKERS},
        )
        if different := differences(truth, known):
            return f"brokers say otherwise than the controllers' files: {', '.join(different)}"
        if truth.controller < 0:
            return ""
        self.told = told = self.admin.describe(answering)
        return told if isinstance(told, str) else _contradiction(told, truth, scrape)


def _contradiction(told: Described, truth: TrueFigures, scrape: Scrape) -> str:
    """Return how Kafka's client contradicts the controllers' files, or what is served of the quorum's replicas."""
    known = replace(
        truth,
        controller=told.leader,
        epoch=told.epoch,
        voters=len(told.voters),
        brokers=told.brokers,
        fenced=told.fenced,
        elr=told.elr,
    )
    if different := differences(truth, known):
        return f"Kafka's client says otherwise than the controllers' files: {', '.join(different)}"
    lags = {int(node): lag for (name, node), lag in scrape.items() if name in REPLICA_LAGS}
    replicas = {*told.voters, *told.observers}
    shown = {each for each in replicas if each not in lags or is_behind(0, int(lags[each]))}
    if shown == set(told.behind) and lags.keys() <= replicas:
        return ""
    return (
        f"DIFFERENT: behind in the metadata log are {sorted(told.behind)} of {sorted(replicas)}, shown as behind "
        f"{sorted(shown)} of {sorted(lags)}"
    )


def _wait(is_so: Callable[[], bool], text: Callable[[], str]) -> None:
    deadline = time.monotonic() + WAIT_DEADLINE_S
    while not is_so():
        if time.monotonic() >= deadline:
            raise TimeoutError(f"{text()}, for {WAIT_DEADLINE_S:g} s")
        time.sleep(WAIT_POLL_S)


_KNOWN_TO_BROKERS = (
    *("brokers", "leaders", "not_led", "topics", "partitions"),
    *("offline", "under_replicated", "imbalance"),
)
"""Brokers name a live broker at random as the controller (KRaftMetadataCache.getRandomAliveBrokerId)."""
