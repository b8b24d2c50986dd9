"""KRaft clusters of real Kafka: quorums, brokers on them, combined nodes, and listeners that ask who a client is."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import (
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)

from kcm.servers.kafka import KraftBroker
from kcm.servers.kraft_cluster import KraftCluster
from kcm.servers.quorum import ControllerListener
from kcm.servers.supervisor import Supervisor
from pipeline.runtime import EnvironmentProblemError
from tests.support.certificates import NEEDS_OPENSSL
from tests.support.kraft_listeners import mutual_tls, sasl_plain
from tests.support.release_jars import nodes_jars
from tests.support.releases import KAFKA_3_9, KAFKA_4_4, Release
from tests.support.topic_changes import create_topic
from tests.support.waiting import DEADLINE_S, SESSION_MS, wait_until


@pytest.mark.full
@pytest.mark.parametrize(
    ("release", "dynamic"),
    [(KAFKA_3_9, False), (KAFKA_4_4, True)],
    ids=["3.9-static", "4.4-dynamic"],
)
def test_another_controller_leads_after_a_death_and_a_pause(
    supervisor: Supervisor, tmp_path: Path, *, release: Release, dynamic: bool
) -> None:
    """Topics can be created under each leader, epochs grow, nodes come back, and none is left at the end."""
    cluster = KraftCluster(
        supervisor,
        nodes_jars(release),
        tmp_path,
        brokers=(1, 2),
        dynamic=dynamic,
        session_timeout_ms=SESSION_MS,
        name=f"quorum-{release.version}",
    )
    cluster.start()
    pids = [node.pid for node in cluster.nodes]
    for broker in cluster.brokers.values():
        assert broker.lacks({1, 2}) is None
        assert "knows brokers [1, 2]" in (broker.lacks({1, 2, 3}) or "")
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
    create_topic(admin, "under-the-first", 1, 2)
    first = cluster.await_leader()
    cluster.controllers[first.id].kill()
    second = cluster.await_leader(lambda leader: leader.epoch > first.epoch)
    assert second.id != first.id
    create_topic(admin, "under-the-second", 1, 2)
    cluster.controllers[first.id].start()
    second = cluster.await_leader()
    paused = cluster.controllers[second.id]
    paused.pause()
    third = cluster.await_leader(lambda leader: leader.epoch > second.epoch)
    assert third.id != second.id
    paused.resume()
    wait_until(paused.known_leader, lambda known: known is not None and known.epoch >= third.epoch)
    listed = admin.list_topics(timeout=DEADLINE_S)
    assert {"under-the-first", "under-the-second"} <= set(listed.topics)
    assert set(listed.brokers) == {1, 2}
    pids += [node.pid for node in cluster.nodes]
    cluster.kill()
    assert all(pid is not None and not Path(f"/proc/{pid}").exists() for pid in pids)


@pytest.mark.full
def test_a_node_with_both_roles_keeps_its_topics_over_a_restart(
    supervisor: Supervisor, tmp_path: Path
) -> None:
    """One voter that is a broker too, formatted as a dynamic quorum of one, stops and starts."""
    cluster = KraftCluster(
        supervisor,
        nodes_jars(KAFKA_4_4),
        tmp_path,
        controllers=(1,),
        brokers=(1,),
        dynamic=True,
        name="combined",
    )
    assert cluster.start().id == 1
    (node,) = cluster.nodes
    create_topic(AdminClient({"bootstrap.servers": cluster.bootstrap_servers}), "kept")
    node.stop()
    assert "Connection refused" in (node.seen() or "")
    cluster.start()
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
    assert "kept" in admin.list_topics(timeout=DEADLINE_S).topics
    cluster.kill()


def test_a_broker_that_answers_late_serves(pipeline_broker: KraftBroker) -> None:
    """On busy cores an answer takes many times as long as alone, and would take that long each time."""
    pipeline_broker.pause()
    resumes = threading.Timer(1.0, pipeline_broker.resume)
    resumes.start()
    assert pipeline_broker.seen() is None
    resumes.join()


LISTENERS: dict[str, Callable[[Path], ControllerListener]] = {
    "SASL_PLAINTEXT": lambda _: sasl_plain({"watcher": "of-the-watcher"}),
    "SSL": mutual_tls,
}


@pytest.mark.full
@NEEDS_OPENSSL
@pytest.mark.parametrize("protocol", LISTENERS)
def test_a_broker_joins_over_a_listener_that_asks_who_it_is(
    supervisor: Supervisor, tmp_path: Path, protocol: str
) -> None:
    """The broker is unfenced, so its registration and heartbeats were authorised; an authorizer is at work."""
    cluster = KraftCluster(
        supervisor,
        nodes_jars(KAFKA_4_4),
        tmp_path,
        controllers=(3001,),
        brokers=(1,),
        listener=LISTENERS[protocol](tmp_path),
        session_timeout_ms=SESSION_MS,
        name=f"asking-{protocol}",
    )
    cluster.start()
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
    any_name: Any = None  # the client's own types do not know that None is any
    anything = AclBindingFilter(
        *(ResourceType.ANY, any_name, ResourcePatternType.ANY, any_name, any_name),
        *(AclOperation.ANY, AclPermissionType.ANY),
    )
    assert (
        admin.describe_acls(anything).result(DEADLINE_S) == []
    )  # refused where there is no authorizer
    cluster.kill()


def test_a_format_that_fails_shows_the_tools_own_words(
    supervisor: Supervisor, tmp_path: Path
) -> None:
    """Nothing is started on a folder that could not be formatted."""
    cluster = KraftCluster(
        supervisor,
        nodes_jars(KAFKA_4_4),
        tmp_path,
        controllers=(3001,),
        brokers=(),
        format_arguments=("--release-version", "0.1"),
        name="unformatted",
    )
    with pytest.raises(EnvironmentProblemError, match="ended with exit code 1") as caught:
        cluster.start()
    assert "0.1" in str(caught.value)
    assert not any(node.running for node in cluster.nodes)
