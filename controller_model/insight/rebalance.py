"""Leadership away from the preferred replicas: the next automatic rebalance, and what to elect by hand.

Imbalance and candidates are those of KafkaController.checkAndTriggerAutoLeaderRebalance
(3.9), including the ratio and the strict threshold. Only what a preferred election can elect is
recommended. The settings are the controller's own and not in ZooKeeper: kcm has options for them.

A KRaft controller has no threshold: it elects for every imbalanced partition, in rounds of at most 1,000 that follow each
other after 10 ms (ReplicationControlManager.maybeBalancePartitionLeaders).
"""

import enum
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence

import msgspec

from controller_model.kafka.cluster_facts import ClusterFacts, PartitionFacts
from controller_model.kafka.ids import TopicPartition

FIRST_CHECK_AFTER_MS = 5_000
"""After its failover work the controller checks first at this delay (KafkaController.onControllerFailover)."""

PARTITIONS_PER_CHUNK = 500
"""Partitions in one chunk of a recommendation: their election is one short burst of requests to brokers."""


class AutoRebalance(msgspec.Struct, frozen=True, kw_only=True):
    """The assumed settings, under Kafka's names with "_" for "."; the defaults are Kafka's."""

    auto_leader_rebalance_enable: bool = True
    leader_imbalance_per_broker_percentage: int | None = 10
    """None: a KRaft controller, which ignores it."""
    leader_imbalance_check_interval_seconds: int = 300
    reassignments_block: bool = False
    """Before KAFKA-10149 (2022) any reassignment in progress kept every broker from rebalancing."""


class Blocked(enum.StrEnum):
    """Why a preferred replica that does not lead cannot be elected."""

    NOT_LIVE = "not_live"
    """Its broker is not registered; in a KRaft cluster, not active."""
    NOT_IN_ISR = "not_in_isr"
    TOPIC_BEING_DELETED = "topic_being_deleted"
    REASSIGNMENT = "reassignment"
    """A reassignment is in progress somewhere, and the controller is an old one."""
    NEWER_CONTROLLER_EPOCH = "newer_controller_epoch"
    """The state was written under a newer controller epoch: the election would be refused."""


class BrokerImbalance(msgspec.Struct, frozen=True, kw_only=True):
    """How many of the partitions that a broker should lead it does not lead (the ratio rule)."""

    broker: int
    preferred: int
    """Partitions whose first replica it is, except those of topics being deleted."""
    not_led: int
    """The part of `preferred` that has a state and another leader, or none."""

    @property
    def ratio(self) -> float:
        """The fraction of `preferred` that it does not lead; 0 without preferred partitions."""
        return self.not_led / self.preferred if self.preferred else 0.0


class NextRebalance(msgspec.Struct, frozen=True, kw_only=True):
    """What the controller's next check would do."""

    assumed: AutoRebalance
    exceeding: tuple[int, ...] = ()
    """Brokers strictly above the threshold, worst first."""
    elect: tuple[TopicPartition, ...] = ()
    """What it would elect; nothing if auto.leader.rebalance.enable is off."""
    blocked: dict[Blocked, tuple[TopicPartition, ...]] = {}
    """What it would not elect: other partitions of exceeding brokers, and of topics being deleted."""


class Chunk(msgspec.Struct, frozen=True, kw_only=True):
    """A part of a recommendation: one run of kafka-leader-election."""

    partitions: tuple[TopicPartition, ...]
    imbalance_after: int
    """The gauge PreferredReplicaImbalanceCount after this chunk and those before it."""

    @property
    def json(self) -> str:
        """The file for `kafka-leader-election --election-type preferred --path-to-json-file`."""
        entries = [{"topic": topic, "partition": number} for topic, number in self.partitions]
        return msgspec.json.encode({"partitions": entries}).decode()


class BrokerElections(msgspec.Struct, frozen=True, kw_only=True):
    """What a recommendation does for a broker."""

    broker: int
    preferred: int
    not_led_before: int
    not_led_after: int
    ratio_before: float
    ratio_after: float


class Recommendation(msgspec.Struct, frozen=True, kw_only=True):
    """Which preferred elections to run, and what they achieve."""

    chunks: tuple[Chunk, ...] = ()
    imbalance_before: int = 0
    imbalance_after: int = 0
    brokers: tuple[BrokerElections, ...] = ()
    """Worst first."""
    blocked: dict[Blocked, tuple[TopicPartition, ...]] = {}
    """Imbalanced partitions that stay so, because no preferred election can fix them now."""


class _Account:
    """Partitions by the broker of their preferred replica, from one pass."""

    def __init__(self, partitions: Iterable[PartitionFacts], cluster: ClusterFacts) -> None:
        self._cluster = cluster
        self.preferred: Counter[int] = Counter()
        self.not_led: defaultdict[int, list[PartitionFacts]] = defaultdict(list)
        self.deleting: list[TopicPartition] = []
        self.reassigning = False
        self.imbalance = 0
        preferred = self.preferred
        for partition in partitions:
            replicas = partition.replicas
            if replicas and partition.leader == replicas[0] and not partition.adding:
                # The usual case: led by the preferred replica, and nothing to examine.
                self.reassigning = self.reassigning or bool(partition.removing)
                if not partition.deleting:
                    preferred[replicas[0]] += 1
            else:
                self._add_partition(partition)
        for waiting in self.not_led.values():
            waiting.sort(key=lambda partition: partition.id)

    def _add_partition(self, partition: PartitionFacts) -> None:
        broker = partition.preferred
        self.reassigning = self.reassigning or partition.reassigning
        if broker is None:
            return
        led = partition.leader is None or partition.leader == broker
        if partition.deleting:
            if not led:
                self.deleting.append(partition.id)
            return
        self.preferred[broker] += 1
        self.imbalance += partition.counts and not self._cluster.has_preferred_leader(partition)
        if not led:
            self.not_led[broker].append(partition)

    def brokers(self) -> tuple[BrokerImbalance, ...]:
        """Return every broker's imbalance, worst first."""
        each = [
            BrokerImbalance(broker=broker, preferred=n, not_led=len(self.not_led.get(broker, ())))
            for broker, n in self.preferred.items()
        ]
        return tuple(sorted(each, key=lambda b: (-b.ratio, -b.not_led, b.broker)))


def blocked_by(
    partition: PartitionFacts, cluster: ClusterFacts, *, reassignment: bool = False
) -> Blocked | None:
    """Return why a partition's preferred replica cannot be elected now; None if it can.

    The rules are KafkaController.canPreferredReplicaBeLeader, the candidate filter around it, and the
    check of the state's epoch in ZkPartitionStateMachine.doElectLeaderForPartitions.
    """
    if partition.deleting:
        return Blocked.TOPIC_BEING_DELETED
    if reassignment:
        return Blocked.REASSIGNMENT
    if partition.preferred not in cluster.live:
        return Blocked.NOT_LIVE
    if partition.preferred not in partition.isr:
        return Blocked.NOT_IN_ISR
    epoch = cluster.controller_epoch
    if epoch is not None and partition.controller_epoch > epoch:
        return Blocked.NEWER_CONTROLLER_EPOCH
    return None


def next_rebalance(
    partitions: Iterable[PartitionFacts], cluster: ClusterFacts, assumed: AutoRebalance
) -> NextRebalance:
    """Return what the controller's next check would find and elect."""
    account = _Account(partitions, cluster)
    percentage = None if cluster.is_kraft else assumed.leader_imbalance_per_broker_percentage
    threshold = (percentage or 0) / 100
    exceeding = tuple(b.broker for b in account.brokers() if b.ratio > threshold)
    electable, blocked = _judged(
        account,
        exceeding,
        cluster,
        reassignment=assumed.reassignments_block and account.reassigning and not cluster.is_kraft,
    )
    if account.deleting:
        blocked = {Blocked.TOPIC_BEING_DELETED: tuple(account.deleting)} | blocked
    return NextRebalance(
        assumed=assumed,
        exceeding=exceeding,
        elect=tuple(p.id for p in electable) if assumed.auto_leader_rebalance_enable else (),
        blocked=blocked,
    )


def next_check_at(
    elected_at: int,
    now: int,
    assumed: AutoRebalance = AutoRebalance(),  # noqa: B008  # frozen: the one value of defaults
) -> int | None:
    """Return the earliest time of the controller's next check, in ms since 1970; None if it never checks.

    Failover work and each check take time that ZooKeeper does not show, so this is a lower bound.

    >>> next_check_at(1_000, 1_000), next_check_at(1_000, 6_001)
    (6000, 306000)
    """
    if not assumed.auto_leader_rebalance_enable:
        return None
    first = elected_at + FIRST_CHECK_AFTER_MS
    interval = assumed.leader_imbalance_check_interval_seconds * 1000
    checks_done = max(0, -(-(now - first) // interval))
    return first + checks_done * interval


def recommend(
    partitions: Iterable[PartitionFacts],
    cluster: ClusterFacts,
    *,
    partitions_per_chunk: int = PARTITIONS_PER_CHUNK,
) -> Recommendation:
    """Return the preferred elections that can be held now, worst broker first, in chunks.

    There is no threshold: an operator who asks wants full balance, not 10 % of imbalance.
    """
    account = _Account(partitions, cluster)
    brokers = account.brokers()
    electable, blocked = _judged(account, [broker.broker for broker in brokers], cluster)
    chunks = tuple(_chunks(electable, account.imbalance, partitions_per_chunk, cluster))
    elected = Counter(partition.preferred for partition in electable)
    return Recommendation(
        chunks=chunks,
        imbalance_before=account.imbalance,
        imbalance_after=chunks[-1].imbalance_after if chunks else account.imbalance,
        brokers=tuple(_elections(broker, elected[broker.broker]) for broker in brokers),
        blocked=blocked,
    )


def _elections(before: BrokerImbalance, elected: int) -> BrokerElections:
    after = msgspec.structs.replace(before, not_led=before.not_led - elected)
    return BrokerElections(
        broker=before.broker,
        preferred=before.preferred,
        not_led_before=before.not_led,
        not_led_after=after.not_led,
        ratio_before=before.ratio,
        ratio_after=after.ratio,
    )


def _judged(
    account: _Account, brokers: Iterable[int], cluster: ClusterFacts, *, reassignment: bool = False
) -> tuple[list[PartitionFacts], dict[Blocked, tuple[TopicPartition, ...]]]:
    """Return what these brokers do not lead: the electable partitions, and the rest by what blocks them."""
    electable: list[PartitionFacts] = []
    blocked: defaultdict[Blocked, list[TopicPartition]] = defaultdict(list)
    for broker in brokers:
        for partition in account.not_led.get(broker, ()):
            reason = blocked_by(partition, cluster, reassignment=reassignment)
            if reason is None:
                electable.append(partition)
            else:
                blocked[reason].append(partition.id)
    return electable, {reason: tuple(found) for reason, found in blocked.items()}


def _chunks(
    electable: Sequence[PartitionFacts], imbalance: int, size: int, cluster: ClusterFacts
) -> Iterator[Chunk]:
    for start in range(0, len(electable), size):
        part = electable[start : start + size]
        # A preferred replica that is still being added counts even if it leads, in ZooKeeper mode (hasPreferredLeader).
        imbalance -= sum(cluster.is_kraft or each.preferred not in each.adding for each in part)
        yield Chunk(partitions=tuple(p.id for p in part), imbalance_after=imbalance)
