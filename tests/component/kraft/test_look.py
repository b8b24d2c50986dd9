"""`kcm look` on a real KRaft cluster of one node, which is its controller and its broker."""

from __future__ import annotations

from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient

from controller_model.records.views import ClusterView, TopicView
from controller_model.state.control_plane import Assumed
from kcm.servers.kraft_cluster import KraftCluster
from kcm.servers.supervisor import Supervisor
from tests.component.commands.looking import CLUSTER, looking, noted_look
from tests.support.looked import NotedTopics, processed
from tests.support.release_jars import nodes_jars
from tests.support.releases import KAFKA_4_4
from tests.support.topic_changes import create_topic
from tests.support.waiting import wait_until

NODE = 1


def partitions_of(topics: NotedTopics) -> int | None:
    """Return the number of partitions, as the exporter was told last; None before that."""
    view = topics.views().get(f"{CLUSTER}/cluster")
    return view.counts.partitions if isinstance(view, ClusterView) else None


def test_controllers_that_die_are_told_and_the_views_are_those_of_the_processor(
    supervisor: Supervisor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Blind since when, live again; and each view is what the processor makes of the same records."""
    cluster = KraftCluster(
        supervisor,
        nodes_jars(KAFKA_4_4),
        tmp_path,
        controllers=(NODE,),
        brokers=(NODE,),
        name="looked",
    )
    cluster.start()
    controllers = cluster.quorum.bootstrap_controllers
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
    try:
        create_topic(admin, "before", 3)
        with (
            noted_look(monkeypatch, controllers=controllers) as topics,
            looking(tmp_path, "--controllers", controllers) as command,
        ):
            wait_until(lambda: partitions_of(topics), lambda count: count == 3)
            command.says(f"live: controller is {NODE}, epoch \\d+, 1 brokers, 3 partitions")
            create_topic(admin, "after", 2)
            wait_until(lambda: partitions_of(topics), lambda count: count == 5)
            cluster.kill()
            command.says(r"the figures are blind since 20\d\d-\S+Z: no answer from the controllers")
            assert command.status() == "blind"
            cluster.start()
            command.says("the figures are live\n", after="blind since")
            wait_until(command.status, lambda status: status == "live")
            assert command.end() == 0
    finally:
        cluster.kill()
    expected = processed(CLUSTER, topics.messages, Assumed())
    assert topics.views() == expected
    assert isinstance(expected[f"{CLUSTER}/topic/after/0"], TopicView)
