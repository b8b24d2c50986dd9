"""The facts of a replayed cluster, from which insights and rehearsals are computed.

These are the facts that the fold's views would hold at this position of the log
(`cluster_facts`), without making the views.
"""

from collections.abc import Iterator
from itertools import compress

import msgspec

from controller_model.kafka.cluster_facts import REQUEST_PATHS, ClusterFacts, PartitionFacts
from controller_model.state.cluster import ClusterState
from controller_model.state.figures import cluster_facts


def facts_of(state: ClusterState) -> ClusterFacts:
    """Return the brokers of a replayed cluster, and the defaults that apply in it."""
    control = state.control
    exist = (control.pending.preferred_election, control.pending.reassign_partitions)
    return msgspec.structs.replace(
        cluster_facts(control),
        racks={broker: held.record.rack for broker, held in control.brokers.items()},
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
