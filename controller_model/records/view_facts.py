"""The facts that views hold: a cluster's brokers and partitions, as `insight` and rehearsals take them."""

from collections.abc import Iterable, Iterator
from itertools import compress

from controller_model.kafka.cluster_facts import REQUEST_PATHS, ClusterFacts, PartitionFacts
from controller_model.kafka.kraft_elections import EligibleLeaders
from controller_model.kafka.metadata_records import ELR_VERSION
from controller_model.records.views import BrokerView, ClusterView, TopicView


def cluster_facts(view: ClusterView, brokers: Iterable[BrokerView]) -> ClusterFacts:
    """Return the facts of a cluster from its views."""
    brokers = list(brokers)
    quorum = view.quorum
    is_kraft = view.controller.migrating_to_kraft or quorum is not None
    exist = (view.pending.preferred_election, view.pending.reassign_partitions)
    return ClusterFacts(
        live=frozenset(view.brokers_live),
        controller=view.controller.id,
        controller_epoch=None if is_kraft else view.controller.epoch,
        refused_below=view.controller.refused_below,
        racks={broker.id: broker.record.rack for broker in brokers},
        gone_since={b.id: b.record.since for b in brokers if not b.record.live},
        broker_min_isr=view.config.broker_min_isr,
        broker_unclean=view.config.broker_unclean,
        min_isr_assumed=view.min_isr_assumed,
        requests=tuple(compress(REQUEST_PATHS, exist)),
        is_kraft=quorum is not None,
        has_elr=quorum is not None and quorum.features.get(ELR_VERSION, 0) > 0,
    )


def partitions_in(view: TopicView) -> Iterator[PartitionFacts]:
    """Yield the partitions of one topic view."""
    columns = zip(
        view.partitions,
        view.replicas,
        view.leader,
        view.isr,
        view.leader_epoch,
        view.controller_epoch,
        strict=True,
    )
    adding, removing = view.adding, view.removing
    elr, last_known = view.elr, view.last_known_elr
    for partition, replicas, leader, isr, leader_epoch, controller_epoch in columns:
        yield PartitionFacts(
            topic=view.name,
            partition=partition,
            replicas=replicas,
            leader=leader,
            isr=isr or (),
            leader_epoch=leader_epoch or 0,
            controller_epoch=controller_epoch or 0,
            adding=adding.get(partition, ()),
            removing=removing.get(partition, ()),
            min_isr=view.min_isr,
            unclean=view.unclean,
            deleting=view.deleting,
            eligible=EligibleLeaders(elr.get(partition, ()), last_known.get(partition, ()))
            if partition in elr or partition in last_known
            else None,
        )
