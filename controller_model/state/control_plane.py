"""The control plane: everything that is held of one cluster except its topics.

The rule: everything that a replay needs is in the structs of this sub-package and nowhere else, so
that a fold can stop anywhere, be packed, and resume as if it had not stopped.
"""

from collections.abc import Set as AbstractSet
from functools import cached_property

import msgspec

from controller_model.kafka.min_isr import min_isr_of
from controller_model.records.election_requests import ElectionOrigin
from controller_model.state.broker_record import BrokerRecord
from controller_model.state.contribution import Contribution, CountedState
from controller_model.state.controller_state import ControllerState
from controller_model.state.incident_state import IncidentState
from controller_model.state.log_state import LogState
from controller_model.state.recommendation_state import RecommendationState
from controller_model.state.znode_stat import ZnodeStat


class Assumed(msgspec.Struct, frozen=True, array_like=True):
    """What kcm's own settings give because ZooKeeper does not hold it."""

    min_insync_replicas: int | None = None
    """None: no setting gives it, and what depends on it is not known."""
    leader_imbalance_per_broker_percentage: int = 10
    auto_leader_rebalance: bool = True
    """auto.leader.rebalance.enable."""


class PendingWriteState(msgspec.Struct, array_like=True):
    """What is due from the controller, as of the last heartbeat."""

    at: int | None = None
    """The last heartbeat; after a longer gap than usual it is not known what happened in the gap."""
    known_since: int | None = None
    pending_since: int | None = None
    last_write_at: int | None = None
    holder: int | None = None
    """czxid of the /controller to which these values apply; a new controller starts new ones."""
    written: bool = False
    """A state was written under the current epoch since the last heartbeat."""
    leaderless_zxid: int = 0
    """The largest mzxid of a state that was written without a leader."""
    reassignments: int = 0
    """Reassignments that the controller can complete."""
    counts: dict[str, int] = {}
    zombie_reported: bool = False
    """It has been reported that this controller is a zombie."""


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
    """Everything of a cluster except its topics; one value in the fold's state."""

    cluster: str
    assumed: Assumed
    counters_since: int
    now: int = 0
    """The fold's clock: the largest observed_at in the log, corrected where clocks went back."""
    log: LogState = msgspec.field(default_factory=LogState)
    controller: ControllerState = msgspec.field(default_factory=ControllerState)
    brokers: dict[int, BrokerRecord] = {}
    stats: dict[str, ZnodeStat] = {}
    """The stat of every znode that belongs to no topic, by path."""
    deleting: dict[str, int] = {}
    """Topics under /admin/delete_topics, and since when they are there."""
    reassigning: dict[str, int] = {}
    """Topics with adding or removing replicas, and since when they have them."""
    broker_min_isr: dict[str, int] = {}
    """min.insync.replicas of /config/brokers, by id or "<default>"."""
    cluster_id: str | None = None
    counted: Contribution = msgspec.field(default_factory=Contribution)
    """The sum over all topics without what `moves` holds: read `totals`, never this."""
    topics: int = 0
    leader_elections: dict[str, int] = {}
    unclean_elections: int = 0
    isr_shrinks: int = 0
    isr_expands: int = 0
    pending_tombstones: dict[str, int] = {}
    """Keys of views that were deleted, and when: later a null lets compaction remove them."""
    pending_writes: PendingWriteState = msgspec.field(default_factory=PendingWriteState)
    broker_unclean: dict[str, bool] = {}
    """unclean.leader.election.enable of /config/brokers, by id or "<default>"."""
    coordinators: dict[str, dict[int, int]] = {}
    """For each topic whose leaders are coordinators: how many partitions each broker leads."""
    kraft_controller: int | None = None
    """The KRaft controller that /migration names; None if it names none."""
    incidents: IncidentState = msgspec.field(default_factory=IncidentState)
    recommendations: RecommendationState = msgspec.field(default_factory=RecommendationState)
    published: PublishedViews = msgspec.field(default_factory=PublishedViews)
    elections: ElectionState = msgspec.field(default_factory=ElectionState)

    @cached_property
    def touched(self) -> set[int]:
        """Brokers whose figures may have changed since their views and memberships were last written."""
        return set()

    @cached_property
    def _live(self) -> set[int]:
        return {broker for broker, record in self.brokers.items() if record.live}

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

    def count_partition(self, by: int, state: CountedState, *, is_reassigned: bool) -> None:
        """Count a partition in (`by` 1) or out (`by` -1)."""
        self.counted.count_partition(by, state, is_reassigned=is_reassigned)
        self._touch(state)

    def _touch(self, state: CountedState) -> None:
        self.touched.update(state.replicas, state.isr)
        if state.leader is not None and state.leader >= 0:
            self.touched.add(state.leader)

    def put_broker(self, broker: int, record: BrokerRecord) -> None:
        """Replace what is held of a broker."""
        self.brokers[broker] = record
        self.touched.add(broker)
        if record.live:
            self._live.add(broker)
        else:
            self._live.discard(broker)

    def live_brokers(self) -> AbstractSet[int]:
        """Return the registered ids; read them at once, because the set changes with registrations."""
        return self._live

    def min_isr_of(self, topic: int | None, leader: int) -> int | None:
        """Return min.insync.replicas of a partition, from its topic's own value and its leader.

        Returns None if it is not known.
        """
        return min_isr_of(topic, leader, self.broker_min_isr, self.assumed.min_insync_replicas)
