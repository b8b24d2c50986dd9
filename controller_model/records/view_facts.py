"""The facts that views hold: a cluster's brokers and partitions, as `insight` and rehearsals take them."""

from collections.abc import Iterable, Iterator
from itertools import compress

from controller_model.kafka.cluster_facts import REQUEST_PATHS, ClusterFacts, PartitionFacts
from controller_model.kafka.ids import NO_CONTROLLER
from controller_model.kafka.kraft_elections import EligibleLeaders
from controller_model.kafka.metadata_records import ELR_VERSION
from controller_model.records.views import BrokerView, ClusterView, TopicView


def cluster_facts(view: ClusterView, brokers: Iterable[BrokerView]) -> ClusterFacts:
    """Return the facts of a cluster from its views."""
    brokers = list(brokers)
    controller, quorum = view.controller, view.quorum
    exist = (view.pending.preferred_election is True, view.pending.reassign_partitions is True)
    return ClusterFacts(
        live=frozenset(view.brokers_live or ()),
        is_kraft=view.log.kraft_since is not None or quorum is not None,
        hidden=view.log.unseen,
        controller=NO_CONTROLLER if controller is None else controller.id,
        controller_epoch=None
        if controller is None or controller.migrating_to_kraft or quorum is not None
        else controller.epoch,
        refused_below=None if controller is None else controller.refused_below,
        racks={broker.id: broker.record.rack for broker in brokers},
        gone_since={b.id: b.record.since for b in brokers if b.record.live is False},
        broker_min_isr=view.config.broker_min_isr,
        broker_unclean=view.config.broker_unclean,
        min_isr_assumed=view.min_isr_assumed,
        requests=tuple(compress(REQUEST_PATHS, exist)),
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
    adding, removing, unknown = view.adding, view.removing, view.unreadable
    elr, last_known, failed = view.elr, view.last_known_elr, view.offline_replicas
    has_eligible = elr.keys() | last_known.keys() | failed.keys()
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
            is_known=leader is not None or partition not in unknown,
            eligible=EligibleLeaders(
                elr.get(partition, ()),
                last_known.get(partition, ()),
                failed.get(partition, ()),
            )
            if partition in has_eligible
            else None,
        )
