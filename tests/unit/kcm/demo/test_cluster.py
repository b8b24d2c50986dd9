"""The demo's cluster operations, on fake clients: topics, elections, brokers that are restarted."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Future
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import ElectionType, KafkaError, KafkaException

from kcm.demo import cluster as module
from kcm.demo import truth_reader
from kcm.demo.cluster import (
    BROKER_IDS,
    LONG_SESSION_TIMEOUT_MS,
    SESSION_TIMEOUT_MS,
    WatchedCluster,
)
from kcm.servers.jars import Jars
from kcm.servers.supervisor import Supervisor


def done(value: Any) -> Future[Any]:
    """Return a future that is done, with a value or an error."""
    future: Future[Any] = Future()
    if isinstance(value, Exception):
        future.set_exception(value)
    else:
        future.set_result(value)
    return future


class FakeAdmin:
    """An AdminClient that answers elections in turn, and creates topics."""

    def __init__(self, *elections: Any) -> None:
        self.elections = list(elections)
        self.did: list[str] = []
        self.refuses: Exception | None = None

    def elect_leaders(self, kind: ElectionType) -> Future[Any]:
        """Answer a request for all partitions; with no answer left, all are led by the preferred replica."""
        assert kind is ElectionType.PREFERRED
        self.did.append("elect")
        return done(self.elections.pop(0) if self.elections else {})

    def list_topics(self, timeout: float) -> Any:
        """Answer with a controller only."""
        assert timeout > 0
        self.did.append("read")
        return SimpleNamespace(controller_id=0, brokers={}, topics={})

    def create_topics(self, topics: list[Any], *, request_timeout: float) -> dict[str, Future[Any]]:
        """Create topics, or refuse to."""
        assert request_timeout > 0
        self.did += [
            f"create {each.topic}: {each.num_partitions} x {each.replication_factor}"
            for each in topics
        ]
        return {each.topic: done(self.refuses) for each in topics}


class Written:
    """Records the topics to write to, instead of writing."""

    def __init__(self) -> None:
        self.topics: dict[str, int] = {}

    def write_to(self, topic: str, partitions: int) -> None:
        """Record a topic."""
        self.topics[topic] = partitions

    def close(self) -> None:
        """Do nothing."""


@pytest.fixture
def admin() -> FakeAdmin:
    """The cluster's admin client."""
    return FakeAdmin()


@pytest.fixture
def written() -> Written:
    """The topics that the cluster's load would write to."""
    return Written()


@pytest.fixture
def watched(
    admin: FakeAdmin, written: Written, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[WatchedCluster]:
    """A cluster of which nothing is started."""
    monkeypatch.setattr(module, "ELECTION_POLL_S", 0.001)
    monkeypatch.setattr(truth_reader, "AdminClient", lambda _config: admin)
    monkeypatch.setattr(module, "Load", lambda _servers: written)
    made = WatchedCluster(Supervisor(tmp_path), Jars(connector=[], broker=[]), tmp_path)
    yield made
    made.close()


def error(name: int) -> KafkaError:
    """Return Kafka's error for a partition."""
    return KafkaError(name)


def test_brokers_are_tuned_to_be_watched(watched: WatchedCluster) -> None:
    """Clients get the addresses of all brokers; a kill shows within seconds."""
    assert tuple(watched.brokers) == BROKER_IDS
    assert {each.session_timeout_ms for each in watched.brokers.values()} == {SESSION_TIMEOUT_MS}
    servers = watched.bootstrap_servers.split(",")
    assert servers == [each.bootstrap_servers for each in watched.brokers.values()]
    assert len(set(servers)) == len(BROKER_IDS)


def test_a_topic_is_written_to_once_it_is_there(
    watched: WatchedCluster, admin: FakeAdmin, written: Written
) -> None:
    """A topic that was refused is not written to, and the error is re-raised."""
    watched.create_topic("a", partitions=6, replication_factor=2)
    assert admin.did == ["create a: 6 x 2"]
    refused = KafkaException(error(KafkaError.TOPIC_ALREADY_EXISTS))
    admin.refuses = refused
    with pytest.raises(KafkaException):
        watched.create_topic("b", partitions=1, replication_factor=1)
    assert written.topics == {"a": 6}


BUSY = {("t", 0): None, ("t", 1): error(KafkaError.PREFERRED_LEADER_NOT_AVAILABLE)}
LED = {("t", 0): None, ("t", 1): error(KafkaError.ELECTION_NOT_NEEDED)}


@pytest.mark.parametrize("first", [BUSY, KafkaException(error(KafkaError._TIMED_OUT))])
def test_an_election_is_asked_for_until_each_partition_is_led(
    first: Any, watched: WatchedCluster, admin: FakeAdmin
) -> None:
    """Each time the controller is looked up; a partition that needs no election is led."""
    admin.elections = [first, first, LED, BUSY]
    watched.elect_preferred()
    assert admin.did == ["read", "elect"] * 3


@pytest.mark.parametrize(
    ("answer", "named"),
    [
        (BUSY, "not elected: PREFERRED_LEADER_NOT_AVAILABLE, for 0 s"),
        (KafkaException(error(KafkaError._TIMED_OUT)), "not elected: Local: Timed out, for 0 s"),
    ],
)
def test_an_election_that_times_out_is_reported_with_kafkas_error(
    answer: Any,
    named: str,
    watched: WatchedCluster,
    admin: FakeAdmin,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """At the deadline the error has Kafka's or its client's name for it."""
    monkeypatch.setattr(module, "ELECTION_DEADLINE_S", 0.0)
    admin.elections = [answer]
    with pytest.raises(TimeoutError) as caught:
        watched.elect_preferred()
    assert str(caught.value) == named


class FakeBroker:
    """A broker that records how it is started."""

    def __init__(self, broker_id: int, did: list[str], *, running: bool) -> None:
        self.broker_id = broker_id
        self.running = running
        self.session_timeout_ms = SESSION_TIMEOUT_MS
        self._did = did

    def start(self, *, wait: bool) -> None:
        """Start, without waiting."""
        assert not wait
        self._did.append(f"start {self.broker_id} with {self.session_timeout_ms}")

    def wait_ready(self) -> None:
        """Become ready."""
        self._did.append(f"wait {self.broker_id}")


def test_brokers_that_are_down_come_back_together(watched: WatchedCluster) -> None:
    """All are started before the first is waited for, with long sessions; running brokers are not touched."""
    did: list[str] = []
    brokers: dict[int, Any] = {
        number: FakeBroker(number, did, running=number == 1) for number in BROKER_IDS
    }
    watched.brokers = brokers
    assert watched.bring_back() == [0, 2]
    long = LONG_SESSION_TIMEOUT_MS
    assert did == [f"start 0 with {long}", f"start 2 with {long}", "wait 0", "wait 2"]
    assert brokers[1].session_timeout_ms == SESSION_TIMEOUT_MS


def test_the_controller_is_read_by_the_demos_own_client(
    watched: WatchedCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is the client that reads the truth, and four-letter words go to the same ZooKeeper."""
    made: list[tuple[Any, int]] = []
    monkeypatch.setattr(module, "ControllerHandle", lambda *given: made.append(given))
    _ = watched.controller
    assert made == [(watched.truth.client, watched.zookeeper.port)]
