"""What the fold's state holds of a topic and its partitions: one packed value for each topic.

These are frozen values, which only `ClusterState` replaces. It changes the table of a topic's partitions in
place, because a copy of a wide one would cost more than the change.
"""

from collections.abc import Mapping

import msgspec

from controller_model.facts.origin import Origin
from controller_model.kafka.cluster_facts import PartitionFacts
from controller_model.kafka.kraft_elections import EligibleLeaders


class PartitionRecord(msgspec.Struct, array_like=True, gc=False, frozen=True):
    """One partition: its assignment and, once the controller wrote one, its state."""

    replicas: tuple[int, ...] | None = None
    """None: there is a state without an assignment (the topic is being created or deleted)."""
    leader: int | None = None
    """None: it has no state."""
    isr: tuple[int, ...] = ()
    leader_epoch: int = 0
    controller_epoch: int = 0
    leader_recovery_state: int = 0
    partition_epoch: int | None = None
    """The version of this state (zkVersion); None if it is not known."""
    unreadable: bool = False
    """The newest state cannot be read: the last good one is kept, if there was one."""
    origin: Origin | None = None
    eligible: EligibleLeaders | None = None
    """Who may lead besides the ISR, and who may not for its log directory; None: nobody."""
    directories: tuple[int, ...] = ()
    """The log directory of each replica, by the source's own numbers; empty: not known."""

    @property
    def is_stated(self) -> bool:
        """Whether it has a state, or its source holds one for it."""
        return self.leader is not None or self.origin is not None


class TopicState(msgspec.Struct, array_like=True, gc=False, frozen=True):
    """One topic; the value under its name in the fold's state."""

    name: str
    partitions: Mapping[int, PartitionRecord] = {}
    adding: Mapping[int, tuple[int, ...]] = {}
    removing: Mapping[int, tuple[int, ...]] = {}
    topic_id: str | None = None
    min_isr: int | None = None
    reassigning_since: int | None = None
    exists: bool = False
    """False: it does not exist (yet, or any more), although something of it is held."""
    origin: Origin | None = None
    config_origin: Origin | None = None
    unreadable: tuple[str, ...] = ()
    """What of the topic itself cannot be read in its newest value, in the source's terms."""
    unclean: bool | None = None
    """unclean.leader.election.enable of the topic's own configuration; None if it is not set there."""
    view_digests: tuple[int, ...] = ()
    """The digests (`view_digest`) of its views as last published, one for each."""

    @property
    def is_configured(self) -> bool:
        """Whether it has a configuration of its own, or its source holds one for it."""
        return (self.config_origin, self.min_isr, self.unclean) != (None, None, None)

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
            eligible=record.eligible,
        )
