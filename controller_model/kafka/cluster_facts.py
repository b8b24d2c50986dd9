"""The partitions and the brokers of a cluster, from which insight is computed.

What `insight` says is a pure function of partitions and of a `ClusterFacts`, whatever they were
read from. So the same code answers from the views in the exporter, from a replayed log, and from
what-if clusters in tests. A value that ZooKeeper does not hold is in a field named "assumed"; if
that field is None, what depends on it is None: not known.

min.insync.replicas of a partition is the topic's own value, else that of the leader's broker, else the default for
all brokers, else the value in the brokers' own files. ZooKeeper does not hold those files; a setting of kcm can
give their value. Without it nothing is assumed. Source (Kafka 3.9): kafka.cluster.Partition.effectiveMinIsr,
kafka.server.DynamicBrokerConfig.
"""

from collections.abc import Collection, Mapping

import msgspec

from controller_model.kafka.ids import NO_CONTROLLER, NO_LEADER, TopicPartition
from controller_model.kafka.kraft_elections import EligibleLeaders

REQUEST_PATHS = ("/admin/preferred_replica_election", "/admin/reassign_partitions")
"""Znodes in which older tools ask the controller for elections and for reassignments."""

DEFAULT_BROKER = "<default>"
"""The name under /config/brokers of the defaults for all brokers (ConfigEntityName.Default)."""


def min_isr_of(
    topic: int | None, leader: int | None, brokers: Mapping[str, int], in_files: int | None
) -> int | None:
    """Return min.insync.replicas of a partition with this leader (None or -1: it has none).

    `topic` is the topic's own value, None or 0 without one; `brokers` holds the values of
    /config/brokers by broker id or "<default>"; `in_files` is the value in the brokers' own files.
    Returns None if the value is not known.

    >>> [min_isr_of(None, leader, {"1": 3, "<default>": 2}, 1) for leader in (1, 4, None)]
    [3, 2, 2]
    >>> [min_isr_of(topic, None, {}, None) for topic in (2, None)]
    [2, None]
    >>> min_isr_of(4, 1, {"1": 3}, 1)
    4
    """
    if topic:
        return topic
    of_leader = brokers.get(str(leader))
    return brokers.get(DEFAULT_BROKER, in_files) if of_leader is None else of_leader


def effective_min_isr(min_isr: int | None, replicas: int) -> int | None:
    """Return the size of the ISR below which acks=all is refused: at most the number of replicas.

    Returns None if it is not known. For a single replica it is always known.

    >>> effective_min_isr(3, 2), effective_min_isr(None, 2), effective_min_isr(None, 1)
    (2, None, 1)
    """
    if min_isr is None:
        return replicas if replicas <= 1 else None
    return min(min_isr, replicas)


def min_isr_blocks(replication_factor: int, min_isr: int | None) -> bool | None:
    """Return whether stopping any one replica makes acks=all fail; False for a single replica.

    Returns None if it is not known.

    >>> [min_isr_blocks(factor, 2) for factor in (1, 2, 3)]
    [False, True, False]
    >>> min_isr_blocks(1, None), min_isr_blocks(2, None)
    (False, None)
    """
    if min_isr is None:
        return None if replication_factor > 1 else False
    return 1 < replication_factor <= min_isr


def has_preferred_leader(
    preferred: int, adding: Collection[int], leader: int | None, isr: Collection[int]
) -> bool:
    """Return whether PreferredReplicaImbalanceCount leaves a partition out (hasPreferredLeader).

    A partition whose preferred replica is still being added is left out until that replica is in
    the ISR. From then on it is counted even if that replica leads it: a quirk of Kafka's.

    >>> has_preferred_leader(1, (), 2, (2, 1)), has_preferred_leader(1, (1,), 2, (2,))
    (False, True)
    >>> has_preferred_leader(1, (1,), 1, (2, 1))
    False
    """
    if preferred in adding:
        return preferred not in isr
    return leader == preferred


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
    is_known: bool = True
    """False: its state cannot be read, nor whether it has one."""
    eligible: EligibleLeaders | None = None
    """Who may lead besides the ISR, and who may not for its log directory, in a KRaft cluster; None: nobody."""

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
        """Whether a ZooKeeper controller's PreferredReplicaImbalanceCount leaves it out, as it does without replicas."""
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
    """Registered brokers, including those that are shutting down: ZooKeeper shows no difference. In a KRaft cluster the
    active ones: neither fenced nor shutting down."""
    is_kraft: bool = False
    """A KRaft controller runs the cluster, and states which partitions are led: it elects by `kraft_elections`. In a
    migration `live` are the brokers that are still registered in ZooKeeper."""
    hidden: frozenset[str] = frozenset()
    """What is not known of the cluster, by the names of `records.views.Capability`."""
    controller: int = NO_CONTROLLER
    controller_epoch: int | None = None
    """None: not known, or a KRaft controller is the controller, whose elections follow other rules."""
    refused_below: int | None = None
    """Brokers refuse what a controller with an epoch below this one sends (STALE_CONTROLLER_EPOCH): they have heard from
    one with this epoch. So none of its elections takes effect. None: they refuse none."""
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
    has_elr: bool = False
    """It has eligible leader replicas (eligible.leader.replicas.version)."""

    def min_isr_of(self, partition: PartitionFacts, leader: int | None = None) -> int | None:
        """Return the ISR size below which acks=all is refused if `leader` leads; None: not known.

        By default `leader` is the current one. At most the number of replicas (Partition.effectiveMinIsr).
        """
        leader = partition.leader if leader is None else leader
        if "topic_configs" in self.hidden and len(partition.replicas) > 1:
            return None
        least = min_isr_of(partition.min_isr, leader, self.broker_min_isr, self.min_isr_assumed)
        return effective_min_isr(least, len(partition.replicas))

    def min_isr_blocks(self, partition: PartitionFacts) -> bool | None:
        """Return whether stopping any one broker of a partition makes acks=all fail; None: not known.

        Without a leader (no state, none elected, a topic being deleted) the default for all brokers applies.
        """
        leader = partition.leader if partition.counts else None
        if "topic_configs" in self.hidden and len(partition.replicas) > 1:
            return None
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
        return self.broker_unclean.get(DEFAULT_BROKER, False)

    def is_unclean_known(self, partition: PartitionFacts) -> bool:
        """Return whether `unclean_of` returns a value from ZooKeeper, not the assumed one."""
        named = {str(self.controller), DEFAULT_BROKER}
        return partition.unclean is not None or not named.isdisjoint(self.broker_unclean)

    @property
    def is_refused(self) -> bool:
        """Whether brokers refuse what the controller sends."""
        below, epoch = self.refused_below, self.controller_epoch
        return below is not None and epoch is not None and epoch < below

    def epochs_above(self, partition: PartitionFacts) -> int:
        """Return by how much a state's controller epoch is above the controller's own; 0 where it is not, or not known."""
        epoch = self.controller_epoch
        return 0 if epoch is None else max(0, partition.controller_epoch - epoch)

    def aborts_elections(self, partition: PartitionFacts) -> bool:
        """Return whether the controller can write no leader of a partition.

        Kafka aborts each election, and each removal from the ISR, of a partition whose state holds a controller epoch
        above the controller's own (PartitionStateMachine.doElectLeaderForPartitions,
        ReplicaStateMachine.doRemoveReplicasFromIsr).
        """
        return self.epochs_above(partition) > 0

    def is_offline(self, partition: PartitionFacts) -> bool | None:
        """Return whether a partition has a state but no live leader (offlinePartitionCount); None: not known."""
        is_led = self.is_led(partition)
        return None if is_led is None else partition.counts and not is_led

    def is_under_min_isr(self, partition: PartitionFacts) -> bool | None:
        """Return whether a partition with a live leader has too small an ISR; None: not known."""
        is_led = self.is_led(partition)
        if not is_led:
            return is_led
        least = self.min_isr_of(partition)
        return None if least is None else len(partition.isr) < least

    def is_at_min_isr(self, partition: PartitionFacts) -> bool | None:
        """Return whether a partition with a live leader can lose no ISR member; None: not known."""
        is_led = self.is_led(partition)
        if not is_led:
            return is_led
        least = self.min_isr_of(partition)
        return None if least is None else len(partition.isr) == least

    def has_preferred_leader(self, partition: PartitionFacts) -> bool:
        """Return whether PreferredReplicaImbalanceCount leaves a partition out.

        A KRaft controller has no exception for replicas that are being added (PartitionRegistration.hasPreferredLeader,
        ControllerMetadataMetricsPublisher).
        """
        if self.is_kraft:
            return partition.preferred in {None, partition.leader}
        return partition.has_preferred_leader

    def is_led(self, partition: PartitionFacts) -> bool | None:
        """Return whether a partition that Kafka counts has a live leader; None: not known."""
        if not partition.counts or partition.written_leader < 0:
            return False
        if self.is_kraft:
            return True
        return None if "brokers" in self.hidden else partition.leader in self.live

    def in_rack(self, rack: str) -> frozenset[int]:
        """Return the live brokers of a rack; none if the rack is not known."""
        return frozenset(broker for broker in self.live if self.racks.get(broker) == rack)
