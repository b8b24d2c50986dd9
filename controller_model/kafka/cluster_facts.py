"""The partitions and the brokers of a cluster, from which insight is computed.

The rule: what `insight` says is a pure function of partitions and of a `ClusterFacts`, whatever they were
read from. So the same code answers from the views in the exporter, from a replayed log, and from
what-if clusters in tests. A value that ZooKeeper does not hold is in a field named "assumed"; if
that field is None, what depends on it is None: not known.
"""

import msgspec

from controller_model.kafka.ids import NO_CONTROLLER, NO_LEADER, TopicPartition
from controller_model.kafka.min_isr import effective_min_isr, min_isr_blocks, min_isr_of
from controller_model.kafka.replica_assignment import has_preferred_leader

REQUEST_PATHS = ("/admin/preferred_replica_election", "/admin/reassign_partitions")
"""Znodes in which older tools ask the controller for elections and for reassignments."""


class PartitionFacts(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One partition, as its topic's znodes hold it."""

    topic: str
    partition: int
    replicas: tuple[int, ...]
    leader: int | None = None
    """None: no state znode yet (NewPartition); below 0: Kafka wrote that there is no leader."""
    isr: tuple[int, ...] = ()
    leader_epoch: int = 0
    controller_epoch: int = 0
    adding: tuple[int, ...] = ()
    removing: tuple[int, ...] = ()
    min_isr: int | None = None
    """The topic's own min.insync.replicas; None if it has none."""
    unclean: bool | None = None
    """The topic's own unclean.leader.election.enable; None if it has none."""
    deleting: bool = False

    @property
    def id(self) -> TopicPartition:
        """Its topic and number."""
        return TopicPartition(self.topic, self.partition)

    @property
    def written_leader(self) -> int:
        """The leader as it is written; NO_LEADER also if there is no state."""
        return NO_LEADER if self.leader is None else self.leader

    @property
    def preferred(self) -> int | None:
        """The preferred replica: the first one assigned; None without replicas."""
        return self.replicas[0] if self.replicas else None

    @property
    def target(self) -> tuple[int, ...]:
        """The replicas that stay after a reassignment (ReplicaAssignment.targetReplicas)."""
        return tuple(replica for replica in self.replicas if replica not in self.removing)

    @property
    def reassigning(self) -> bool:
        """Whether replicas are being added or removed (ReplicaAssignment.isBeingReassigned)."""
        return bool(self.adding or self.removing)

    @property
    def has_preferred_leader(self) -> bool:
        """Whether PreferredReplicaImbalanceCount leaves it out, as it does without replicas."""
        preferred = self.preferred
        return preferred is None or has_preferred_leader(
            preferred, self.adding, self.leader, self.isr
        )

    @property
    def counts(self) -> bool:
        """Whether Kafka includes it when it counts offline, imbalanced and under-replicated ones."""
        return self.leader is not None and not self.deleting


class ClusterFacts(msgspec.Struct, frozen=True, kw_only=True):
    """The brokers of a cluster, and the defaults that apply in it."""

    live: frozenset[int]
    """Registered brokers, including those that are shutting down: ZooKeeper shows no difference."""
    controller: int = NO_CONTROLLER
    controller_epoch: int | None = None
    racks: dict[int, str | None] = {}
    """The rack of every known broker, as last registered; None: it has none."""
    gone_since: dict[int, int | None] = {}
    """When the end of a broker that is not live was seen; None: it was never registered."""
    broker_min_isr: dict[str, int] = {}
    """min.insync.replicas of /config/brokers, by id or "<default>"."""
    broker_unclean: dict[str, bool] = {}
    """unclean.leader.election.enable of /config/brokers, by id or "<default>"."""
    min_isr_assumed: int | None = None
    """The value in the brokers' own files, given by a setting of kcm; None: it is not known."""
    requests: tuple[str, ...] = ()
    """REQUEST_PATHS that exist: the request is in progress, or the next controller has to process it."""

    def min_isr_of(self, partition: PartitionFacts, leader: int | None = None) -> int | None:
        """Return the ISR size below which acks=all is refused if `leader` leads; None: not known.

        By default `leader` is the current one. At most the number of replicas (Partition.effectiveMinIsr).
        """
        leader = partition.leader if leader is None else leader
        least = min_isr_of(partition.min_isr, leader, self.broker_min_isr, self.min_isr_assumed)
        return effective_min_isr(least, len(partition.replicas))

    def min_isr_blocks(self, partition: PartitionFacts) -> bool | None:
        """Return whether stopping any one broker of a partition makes acks=all fail; None: not known.

        Without a leader (no state, none elected, a topic being deleted) the default for all brokers applies.
        """
        leader = partition.leader if partition.counts else None
        least = min_isr_of(partition.min_isr, leader, self.broker_min_isr, self.min_isr_assumed)
        return min_isr_blocks(len(partition.replicas), least)

    def unclean_of(self, partition: PartitionFacts) -> bool:
        """Return whether unclean elections are allowed for a partition.

        The topic's own value applies, else the configuration of the broker that is the controller
        (ZkPartitionStateMachine.collectUncleanLeaderElectionState). Where ZooKeeper holds neither, Kafka's
        default is assumed for the brokers' own files: False.
        """
        if partition.unclean is not None:
            return partition.unclean
        by_broker = self.broker_unclean.get(str(self.controller))
        if by_broker is not None:
            return by_broker
        return self.broker_unclean.get("<default>", False)

    def is_unclean_known(self, partition: PartitionFacts) -> bool:
        """Return whether `unclean_of` returns a value from ZooKeeper, not the assumed one."""
        named = {str(self.controller), "<default>"}
        return partition.unclean is not None or not named.isdisjoint(self.broker_unclean)

    def is_offline(self, partition: PartitionFacts) -> bool:
        """Return whether a partition has a state but no live leader (offlinePartitionCount)."""
        return partition.counts and partition.leader not in self.live

    def is_under_min_isr(self, partition: PartitionFacts) -> bool | None:
        """Return whether a partition with a live leader has too small an ISR; None: not known."""
        if not self.is_led(partition):
            return False
        least = self.min_isr_of(partition)
        return None if least is None else len(partition.isr) < least

    def is_at_min_isr(self, partition: PartitionFacts) -> bool | None:
        """Return whether a partition with a live leader can lose no ISR member; None: not known."""
        if not self.is_led(partition):
            return False
        least = self.min_isr_of(partition)
        return None if least is None else len(partition.isr) == least

    def is_led(self, partition: PartitionFacts) -> bool:
        """Return whether a partition that Kafka counts has a live leader."""
        return partition.counts and partition.leader in self.live

    def in_rack(self, rack: str) -> frozenset[int]:
        """Return the live brokers of a rack; none if the rack is not known."""
        return frozenset(broker for broker in self.live if self.racks.get(broker) == rack)
