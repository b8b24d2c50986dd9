"""A cluster in which each partition of a topic has a different problem, and an exporter that serves it."""

from __future__ import annotations

from typing import Any

from controller_model.records.views import Counts, TopicView
from tests.support.api_server import Served
from tests.support.samples import broker_view, cluster_view, topic_view


def sick_topic() -> TopicView:
    """Return a topic in which each partition has a different problem; brokers 0 and 1 are live."""
    each = {
        0: ((0, 1), 0, (0, 1)),  # healthy
        1: ((1, 0), -1, (2,)),  # offline
        2: ((1, 0), 0, (0, 1)),  # led by another replica, electable
        3: ((0, 1), 0, (0,)),  # under min ISR, since the topic requires 2
        4: ((0, 1), None, None),  # no state
        5: ((2, 0), 0, (0,)),  # preferred replica is on a dead broker
        6: ((0,), 0, (0,)),  # one replica
        7: ((1, 2), 1, (1, 2)),  # both in the same rack
    }
    zeros = (0,) * len(each)
    return topic_view(
        "sick",
        min_isr=2,
        partitions=tuple(each),
        replicas=tuple(replicas for replicas, _, _ in each.values()),
        leader=tuple(leader for _, leader, _ in each.values()),
        isr=tuple(isr for _, _, isr in each.values()),
        adding={0: (1,)},
        leader_epoch=zeros,
        controller_epoch=zeros,
        partition_epoch=zeros,
        leader_recovery_state=(None,) * len(each),
    )


COUNTS = Counts(
    offline=1,
    under_replicated=3,
    under_min_isr=2,
    at_min_isr=2,
    preferred_imbalance=3,
    preferred_electable=1,
    deleting_topics=1,
    min_isr_blocks=7,
    replicas_on_gone_brokers=2,
)


def sick_cluster() -> Served:
    """Return a cluster of two live brokers and a dead one."""
    served = Served()
    served.write(
        broker_view(0, rack="a", offline_if_lost=2),
        broker_view(1, rack="b"),
        broker_view(2, live=False, rack="b", offline_if_lost=1),
        sick_topic(),
        topic_view("gone", deleting=True, leader=(-1, -1)),
        topic_view("well"),
        cluster_view(counts=COUNTS, brokers_known=(0, 1, 2)),
    )
    return served


def ids(found: list[dict[str, Any]]) -> list[str]:
    """Return partitions as text."""
    return [f"{each['topic']}-{each['partition']}" for each in found]
