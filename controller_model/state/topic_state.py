"""What the fold's state holds of a topic and its partitions: one packed value for each topic.

The rule: these are frozen values. Only `ClusterState` replaces one by another, so that the totals
are always the sum of what is held.
"""

from collections.abc import Mapping

import msgspec

from controller_model.kafka.cluster_facts import PartitionFacts
from controller_model.state.znode_stat import ZnodeStat


class PartitionRecord(msgspec.Struct, array_like=True, gc=False, frozen=True):
    """One partition: its assignment and, once the controller wrote one, its state."""

    replicas: tuple[int, ...] | None = None
    """None: there is a state without an assignment (the topic is being created or deleted)."""
    leader: int | None = None
    """None: no state znode."""
    isr: tuple[int, ...] = ()
    leader_epoch: int = 0
    controller_epoch: int = 0
    leader_recovery_state: int = 0
    stat: ZnodeStat | None = None


class TopicState(msgspec.Struct, array_like=True, gc=False, frozen=True):
    """One topic; the value under its name in the fold's state."""

    name: str
    partitions: Mapping[int, PartitionRecord] = {}
    adding: Mapping[int, tuple[int, ...]] = {}
    removing: Mapping[int, tuple[int, ...]] = {}
    topic_id: str | None = None
    min_isr: int | None = None
    reassigning_since: int | None = None
    stat: ZnodeStat | None = None
    """None: the topic's znode does not exist (yet, or any more)."""
    config_stat: ZnodeStat | None = None
    unclean: bool | None = None
    """unclean.leader.election.enable of the topic's own configuration; None if it is not set there."""
    view_digests: tuple[int, ...] = ()
    """The digests (`view_digest`) of its views as last published, one for each."""

    def facts(
        self, partition: int, record: PartitionRecord, *, deleting: bool = False
    ) -> PartitionFacts:
        """Return one of its partitions as facts; without an assignment it has no replicas."""
        return PartitionFacts(
            topic=self.name,
            partition=partition,
            replicas=record.replicas or (),
            leader=record.leader,
            isr=record.isr,
            leader_epoch=record.leader_epoch,
            controller_epoch=record.controller_epoch,
            adding=self.adding.get(partition, ()),
            removing=self.removing.get(partition, ()),
            min_isr=self.min_isr,
            unclean=self.unclean,
            deleting=deleting,
        )
