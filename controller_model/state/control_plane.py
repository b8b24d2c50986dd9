"""The control plane: everything that is held of one cluster except its topics.

The rule: everything that a replay needs is in the structs of this sub-package and nowhere else, so
that a fold can stop anywhere, be packed, and resume as if it had not stopped.
"""

from functools import cached_property
from typing import Any

import msgspec

from controller_model.kafka.cluster_facts import min_isr_of
from controller_model.records.election_requests import ElectionOrigin
from controller_model.records.quorum import QuorumView
from controller_model.records.views import ClusterConfig, ClusterCounters, Pending
from controller_model.state.contribution import Contribution, CountedState, is_regular
from controller_model.state.controller_state import ControllerState
from controller_model.state.held_broker import HeldBroker
from controller_model.state.incident_state import IncidentState
from controller_model.state.log_state import LogState
from controller_model.state.recommendation_state import RecommendationState


class Assumed(msgspec.Struct, frozen=True, array_like=True):
    """What kcm's own settings give because ZooKeeper does not hold it."""

    min_insync_replicas: int | None = None
    """None: no setting gives it, and what depends on it is not known."""
    leader_imbalance_per_broker_percentage: int = 10
    auto_leader_rebalance: bool = True
    """auto.leader.rebalance.enable."""


class AskedElection(msgspec.Struct, array_like=True, frozen=True):
    """Who asked for an election of one partition, and until when (log's clock) it is attributed to them."""

    by: ElectionOrigin
    until: int


class ElectionState(msgspec.Struct, array_like=True):
    """Preferred elections that were requested and not yet seen."""

    asked: dict[str, dict[int, AskedElection]] = {}
    """By topic and partition; bounded (tracking.asked_elections)."""


class PublishedViews(msgspec.Struct, array_like=True):
    """The digests (`view_digest`) of the views as last published."""

    topics: int = 0
    """The XOR of the digests of all topics' views."""
    brokers: int = 0
    incidents: int = 0
    recommendation: int = 0

    @property
    def digest(self) -> int:
        """The digest over all views except the cluster's own."""
        return self.topics ^ self.brokers ^ self.incidents ^ self.recommendation


class ControlPlane(msgspec.Struct, array_like=True, dict=True):
    """Everything of a cluster except its topics; one value in the fold's state.

    `touched`, `moves` and `live_brokers` are indexes of what is held: they are made when they are first
    read, live as long as the object, and are not packed.
    """

    cluster: str
    assumed: Assumed
    counters_since: int
    now: int = 0
    """The fold's clock: the largest observed_at in the log, corrected where clocks went back."""
    log: LogState = msgspec.field(default_factory=LogState)
    controller: ControllerState = msgspec.field(default_factory=ControllerState)
    brokers: dict[int, HeldBroker] = {}
    deleting: dict[str, int] = {}
    """Topics whose deletion is requested, and since when."""
    reassigning: dict[str, int] = {}
    """Topics with adding or removing replicas, and since when they have them."""
    config: ClusterConfig = msgspec.field(default_factory=ClusterConfig)
    counters: ClusterCounters = msgspec.field(default_factory=ClusterCounters)
    pending: Pending = msgspec.field(default_factory=Pending)
    counted: Contribution = msgspec.field(default_factory=Contribution)
    """The sum over all topics without what `moves` holds: read `totals`, never this."""
    counted_epoch: int = 2**31 - 1
    """The controller epoch of the cluster: states above it are counted whole (`contribution.Irregular`). The largest
    possible one while none is known. `ClusterState.set_counted_epoch` sets it."""
    topics: int = 0
    pending_tombstones: dict[str, int] = {}
    """Keys of views that were deleted, and when: later a null lets compaction remove them."""
    coordinators: dict[str, dict[int, int]] = {}
    """For each topic whose leaders are coordinators: how many partitions each broker leads."""
    incidents: IncidentState = msgspec.field(default_factory=IncidentState)
    recommendations: RecommendationState = msgspec.field(default_factory=RecommendationState)
    published: PublishedViews = msgspec.field(default_factory=PublishedViews)
    elections: ElectionState = msgspec.field(default_factory=ElectionState)
    foreign_writes: dict[str, int] = {}
    """How many stand, by kind (records.foreign_writes)."""
    source: Any = None
    """The source's own state: only the source reads it (`Source.adopt`)."""
    quorum: QuorumView | None = None
    """None: it is not a KRaft cluster."""

    @cached_property
    def touched(self) -> set[int]:
        """Brokers whose figures may have changed since their views and memberships were last written."""
        return set()

    @cached_property
    def live_brokers(self) -> set[int]:
        """The registered ids, in a KRaft cluster the active ones: they change with registrations."""
        return {broker for broker, held in self.brokers.items() if held.record.is_active}

    @cached_property
    def moves(self) -> dict[CountedState, int]:
        """States that were added and removed since the totals were last read, with their net counts.

        Most changes of a batch are alike or cancel each other, so they are added up only on demand.
        """
        return {}

    @property
    def totals(self) -> Contribution:
        """The sum of all topics' numbers, including every change so far."""
        self.add_up()
        return self.counted

    def add_up(self) -> None:
        """Add `moves` to `counted`; needed before totals are read or packed."""
        for state, by in self.moves.items():
            self.counted.count_state(by, state)
            self._touch(state)
        self.moves.clear()

    def raise_counted_epoch(self, epoch: int) -> None:
        """Count states up to this larger epoch by sizes alone, unless they are irregular in another way."""
        self.add_up()
        self.counted_epoch = epoch
        irregular = self.counted.irregular
        for each in [each for each in irregular if 0 < each.above <= epoch]:
            count = irregular.pop(each)
            if each.eligible is not None or not is_regular(each.replicas, each.leader, each.isr):
                below = each._replace(above=0)
                irregular[below] = irregular.get(below, 0) + count

    def count_partition(self, by: int, state: CountedState, *, is_reassigned: bool) -> None:
        """Count a partition in (`by` 1) or out (`by` -1)."""
        self.counted.count_partition(by, state, is_reassigned=is_reassigned)
        self._touch(state)

    def _touch(self, state: CountedState) -> None:
        self.touched.update(state.replicas, state.isr)
        if state.leader is not None and state.leader >= 0:
            self.touched.add(state.leader)

    def put_broker(self, broker: int, held: HeldBroker) -> None:
        """Store what is held of a broker, new or changed."""
        self.brokers[broker] = held
        self.touched.add(broker)
        if held.record.is_active:
            self.live_brokers.add(broker)
        else:
            self.live_brokers.discard(broker)

    def min_isr_of(self, topic: int | None, leader: int) -> int | None:
        """Return min.insync.replicas of a partition, from its topic's own value and its leader.

        Returns None if it is not known.
        """
        return min_isr_of(
            topic, leader, self.config.broker_min_isr, self.assumed.min_insync_replicas
        )
