"""The facts of a replayed cluster, from which insights and rehearsals are computed.

These are the facts that the fold's views would hold at this position of the log
(`cluster_facts`), without making the views.
"""

from collections.abc import Iterator
from itertools import compress

from controller_model.kafka.cluster_facts import REQUEST_PATHS, ClusterFacts, PartitionFacts
from controller_model.state.cluster import ClusterState


def facts_of(state: ClusterState) -> ClusterFacts:
    """Return the brokers of a replayed cluster, and the defaults that apply in it."""
    control = state.control
    exist = (control.pending.preferred_election, control.pending.reassign_partitions)
    return ClusterFacts(
        live=frozenset(control.live_brokers),
        controller=control.controller.view.id,
        controller_epoch=control.controller.view.epoch,
        racks={broker: held.record.rack for broker, held in control.brokers.items()},
        broker_min_isr=control.config.broker_min_isr,
        broker_unclean=control.config.broker_unclean,
        min_isr_assumed=control.assumed.min_insync_replicas,
        requests=tuple(compress(REQUEST_PATHS, exist)),
    )


def partitions_of(state: ClusterState) -> Iterator[PartitionFacts]:
    """Yield the assigned partitions of a replayed cluster, topic by topic."""
    for name in sorted(state.topics.names()):
        topic = state.topics.get(name)
        if topic is None or not topic.exists:
            continue
        deleting = name in state.control.deleting
        for number, record in sorted(topic.partitions.items()):
            if record.replicas is not None:
                yield topic.facts(number, record, deleting=deleting)
