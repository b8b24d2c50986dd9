"""Each release of Kafka that is watched, static and dynamic quorums, nodes that are controllers and brokers: all is seen."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import ElectionType, TopicPartition
from confluent_kafka.admin import AdminClient

from controller_model.records.views import TopicView
from kcm.servers.kafka import QUIET_LIBRDKAFKA
from kcm.servers.kraft_cluster import KraftCluster
from kcm.servers.supervisor import Supervisor
from kraft_source.slices import RecordMaker
from kraft_source.wire.messages import EpochEnd
from kraft_source.wire.records import decode
from tests.component.kraft.watched_quorum import Watching, batches_on_disk
from tests.support.kraft_cluster import KraftFold
from tests.support.release_jars import nodes_jars
from tests.support.releases import KRAFT_RUNS, KraftRun
from tests.support.topic_changes import create_topic, delete_topic
from tests.support.waiting import DEADLINE_S, wait_until

NODES = (1, 2, 3)
CONTROLLERS = (3001, 3002, 3003)
REQUEST_S = DEADLINE_S


def folded(watching: Watching) -> KraftFold:
    """Return a fold of all that was released."""
    maker = RecordMaker("prod", "w", "A" * 22, 1, EpochEnd(0, -1))
    fold = KraftFold()
    for each in list(watching.released):
        fold.feed([made.record for made in maker.handle_released(each, None)])
    return fold


def shown(watching: Watching) -> dict[str, dict[int, tuple[Any, ...]]]:
    """Return each topic's partitions as views show them."""
    return {
        view.name: {
            number: (view.replicas[at], sorted(view.isr[at] or ()), view.leader[at])
            for at, number in enumerate(view.partitions)
        }
        for view in folded(watching).views().values()
        if isinstance(view, TopicView)
    }


def told(admin: AdminClient) -> dict[str, dict[int, tuple[Any, ...]]]:
    """Return each topic's partitions as a broker tells them."""
    return {
        str(topic.topic): {
            number: (tuple(each.replicas), sorted(each.isrs), each.leader)
            for number, each in topic.partitions.items()
        }
        for topic in admin.list_topics(timeout=REQUEST_S).topics.values()
    }


def agreed(watching: Watching, admin: AdminClient, topics: set[str]) -> dict[str, Any]:
    """Wait until views show what brokers tell, of these topics, and return that."""
    pair = wait_until(
        lambda: (shown(watching), told(admin)),
        lambda both: both[0] == both[1] and set(both[0]) == topics,
    )
    return pair[0]


def led_by_preference(
    watching: Watching, admin: AdminClient
) -> tuple[list[TopicPartition], dict[str, Any]]:
    """Wait until views show what brokers tell; elect preferred replicas that do not lead, and return both."""
    seen, _ = wait_until(lambda: (shown(watching), told(admin)), lambda both: both[0] == both[1])
    left = [
        TopicPartition(topic, number)
        for topic, partitions in seen.items()
        for number, (replicas, _, leader) in partitions.items()
        if replicas[0] != leader
    ]
    if left:
        admin.elect_leaders(ElectionType.PREFERRED, left).result(REQUEST_S)
    return left, seen


@pytest.mark.full
@pytest.mark.parametrize("run", KRAFT_RUNS, ids=lambda run: run.name)
def test_topics_elections_and_isr_changes_of_each_release_are_seen(
    supervisor: Supervisor, tmp_path: Path, run: KraftRun
) -> None:
    """Views are what brokers tell, after each step; each released record is in every controller's file."""
    cluster = KraftCluster(
        supervisor,
        nodes_jars(run.release),
        tmp_path,
        controllers=NODES if run.combined else CONTROLLERS,
        brokers=NODES if run.combined else NODES[:2],
        dynamic=run.dynamic,
        name=run.name,
    )
    cluster.start()
    factor = len(cluster.brokers)
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers, **QUIET_LIBRDKAFKA})
    with Watching(cluster) as watching:
        create_topic(admin, "a", 4, factor)
        create_topic(admin, "b")
        agreed(watching, admin, {"a", "b"})

        # The active controller ends, and with it a broker where a node is both.
        first = watching.await_leader(cluster)
        cluster.controllers[first.id].kill()
        second = watching.await_leader(cluster, after=first)
        if not run.combined:
            cluster.brokers[NODES[0]].kill()
        ended = first.id if run.combined else NODES[0]
        left = [each for broker, each in cluster.brokers.items() if broker != ended]
        others = AdminClient({"bootstrap.servers": left[0].bootstrap_servers, **QUIET_LIBRDKAFKA})
        wait_until(
            partial(shown, watching),
            lambda seen: all(ended not in isr for _, isr, _ in seen["a"].values()),
        )
        assert all(
            leader != ended for _, _, leader in agreed(watching, others, {"a", "b"})["a"].values()
        )

        # It is back: it joins the ISR again, and leads what it leads by preference.
        cluster.start()
        wait_until(
            partial(shown, watching),
            lambda seen: all(len(isr) == factor for _, isr, _ in seen["a"].values()),
        )
        others = AdminClient({"bootstrap.servers": cluster.bootstrap_servers, **QUIET_LIBRDKAFKA})
        delete_topic(others, "b")
        wait_until(
            partial(led_by_preference, watching, others),
            lambda both: not both[0] and both[1].keys() == {"a"},
        )
        leads = watching.await_leader(cluster)
    view = folded(watching).cluster
    watching.await_copies(cluster)
    cluster.kill()
    assert leads.epoch >= second.epoch
    assert (view.log.anomalies, view.log.holes, view.log.unreadable) == (0, 0, 0)
    assert (view.controller.id, view.controller.epoch) == watching.elected[-1]
    assert view.controller.elections == len(watching.elected)
    for node in cluster.controllers.values():
        on_disk = {batch.offset: batch for batch in batches_on_disk(node.log_dir)}
        for batch in watching.batches:
            assert batch.records == decode(on_disk[batch.offset]).records, node.name
            assert not batch.unknown
