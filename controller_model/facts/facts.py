"""The facts: each states what is true of one noun of a cluster from now on, or that the noun is gone.

A fact holds Kafka's terms only. What a source states (a cause, an end, an origin) and what it
had to infer arrive alike, so that a handler needs no source to apply it. `origin` is the source's own: it
is stored with the value, and nobody else reads it.
"""

import enum
from collections.abc import Collection, Mapping

import msgspec

from controller_model.facts.origin import Origin
from controller_model.facts.stamp import Stamp
from controller_model.kafka.ids import TopicPartition
from controller_model.kafka.kraft_elections import EligibleLeaders
from controller_model.records.election_requests import ElectionOrigin
from controller_model.records.events import BrokerEnd, ElectionCause, LeaderElectionKind
from controller_model.records.metadata_log import QuorumSample
from controller_model.records.pending_writes import PendingWrites
from controller_model.records.quorum import RegisteredController
from controller_model.records.views import Failover, KraftMigration

Replicas = tuple[int, ...]


class Fact(msgspec.Struct, frozen=True, gc=False):
    """A statement about a cluster."""

    stamp: Stamp


class CountingStarts(Fact, frozen=True):
    """Everything was read once: the baseline from which changes are counted."""

    entries: int | None
    """How many values the source holds; None: it does not count them."""
    is_vacant: bool
    """It is known that nobody is the controller."""


class ControllerIs(Fact, frozen=True):
    """A broker is the controller: it was elected, unless `is_same`."""

    broker: int
    elected_at: int | None
    """When it was elected, by the source's clock; None: not known."""
    cause: ElectionCause = ElectionCause.UNKNOWN
    epoch: int | None = None
    """The controller epoch of this election, if the source knows it already; None: views and the event show none, unless
    `epoch_follows`."""
    epoch_follows: bool = False
    """The epoch is stated by an ElectionConfirmed, and the number of elections by ElectionsAre."""
    is_same: bool = False
    """It is the holder that is known already: only what was not known of it is added."""
    vacant_since: int | None = None
    """Since when nobody was the controller for certain, if the source states that; None: since that was seen."""


class ControllerGone(Fact, frozen=True):
    """Nobody is the controller."""

    was_seen: bool
    """It ended at this moment; otherwise it may have ended at any time since it was last confirmed."""


class ControllerConfirmed(Fact, frozen=True):
    """The controller that is held was still the controller at this moment."""


class ControllerEpochIs(Fact, frozen=True):
    """The controller epoch."""

    epoch: int


class ElectionsAre(Fact, frozen=True):
    """The number of elections since counting started, from a source that counts them itself."""

    elections: int
    missed: int
    """How many of them nobody saw."""
    missed_since: int | None = None
    """The time after which newly missed ones were, in ms since 1970; None: not known."""
    possible: int = 0
    """How many more there may have been."""


class ElectionConfirmed(Fact, frozen=True):
    """The election that waits for its epoch is reported now."""

    epoch: int | None
    """None: its epoch cannot be known."""
    missed: int
    """Elections that nobody saw since the last one that was reported."""


class ElectionCauseIs(Fact, frozen=True):
    """Why the election took place that waits for its epoch."""

    cause: ElectionCause


class FailoverIs(Fact, frozen=True):
    """How far the work of a failover is."""

    state: Failover
    since: int | None = None
    """When it became necessary."""
    took_ms: int | None = None
    partitions: int = 0
    """How many partitions had a leader that was gone when it began."""


class ControllerHealthIs(Fact, frozen=True):
    """How well the controller does its work, as of a heartbeat."""

    writes: PendingWrites
    is_zombie: bool
    """Writes are pending, and for longer than the write timeout none came under its epoch."""


class ControllersAreRefused(Fact, frozen=True):
    """Brokers refuse controllers with an epoch below this one; None: they refuse none."""

    below: int | None


class ForeignWritesAre(Fact, frozen=True):
    """How many foreign writes of each kind (ForeignWriteKind) stand, as of a heartbeat."""

    counts: Mapping[str, int]


class KraftMigrationIs(Fact, frozen=True):
    """Whether a KRaft controller is the controller of a cluster that migrates from ZooKeeper."""

    under_way: bool


class MigrationIs(Fact, frozen=True):
    """How far a migration to KRaft has come; None without one."""

    migration: KraftMigration | None


class BrokerIs(Fact, frozen=True):
    """A broker is registered."""

    broker: int
    epoch: int | None
    """The broker epoch; None: not known."""
    since: int | None
    """When it registered, by the source's clock."""
    host: str | None = None
    port: int | None = None
    rack: str | None = None
    endpoints: tuple[str, ...] = ()
    features: Mapping[str, Mapping[str, int]] = {}
    is_same: bool = False
    """It is the registration that is held already, with other contents."""
    fenced: bool | None = None
    """The controller gives it no leaders yet, so that it is not live; None: the source knows no fencing."""
    shutting_down: bool = False
    log_dirs_offline: int | None = None
    """How many of its log directories are offline; None: not known."""
    is_retold: bool = False
    """It was counted before."""


class BrokerUnfenced(Fact, frozen=True):
    """A registered broker is live from now on."""

    broker: int


class BrokerShutsDown(Fact, frozen=True):
    """A broker is in controlled shutdown: it leads nothing any more, and is still registered."""

    broker: int


class BrokerGone(Fact, frozen=True):
    """A broker's registration ended, or the controller has fenced it."""

    broker: int
    end: BrokerEnd = BrokerEnd.UNKNOWN
    is_back: bool = False
    """Another registration of the same id was found in its place."""
    is_fenced: bool = False
    """It stays registered, fenced."""


class RegistrationGone(Fact, frozen=True):
    """The registration of a fenced broker is removed."""

    broker: int


class LogDirIsOffline(Fact, frozen=True):
    """A broker reported that a log directory failed."""

    broker: int
    is_news: bool
    """It was reported now; otherwise at some time before anybody watched."""
    offline: int | None = None
    """How many of its log directories are offline now; None: not known."""


class BrokerIdsAre(Fact, frozen=True):
    """How many broker ids Kafka has generated."""

    generated: int


class BrokerConfigIs(Fact, frozen=True):
    """The configuration of one broker, by its id, or of all ("<default>"); None: not set."""

    broker: str
    min_isr: int | None
    unclean: bool | None


class TopicConfigIs(Fact, frozen=True):
    """A topic's own configuration; None: not set."""

    topic: str
    min_isr: int | None
    unclean: bool | None
    origin: Origin | None = None


class TopicIs(Fact, frozen=True):
    """A topic's assignment."""

    topic: str
    topic_id: str | None
    partitions: Mapping[int, Replicas]
    adding: Mapping[int, Replicas]
    removing: Mapping[int, Replicas]
    since: int
    """When it was assigned so, by the source's clock."""
    is_another: bool = False
    """Another topic of this name was deleted unseen."""
    outdated: Collection[int] = ()
    """Partitions whose held state is that of a former topic of this name."""
    origin: Origin | None = None


class AssignmentsAre(Fact, frozen=True):
    """Partitions of a topic that is held are new, or have other replicas; its other partitions stay as they are."""

    topic: str
    partitions: Mapping[int, Replicas]
    adding: Mapping[int, Replicas]
    removing: Mapping[int, Replicas]
    since: int
    """When they were assigned so, by the source's clock."""


class TopicGone(Fact, frozen=True):
    """A topic is deleted, and with it the states of its partitions."""

    topic: str
    is_requested: bool = False
    """Its deletion was requested, which the source shows by that alone."""


class TopicDeletionIs(Fact, frozen=True):
    """A topic is to be deleted."""

    topic: str
    since: int


class TopicDeletionGone(Fact, frozen=True):
    """A topic is not to be deleted any more: it is deleted, or the request was withdrawn."""

    topic: str


class PartitionIs(Fact, frozen=True):
    """A partition's leader and ISR, and why they are not as before."""

    topic: str
    partition: int
    leader: int
    isr: Replicas
    leader_epoch: int
    """-1: not known; the topic's view has none then."""
    controller_epoch: int
    """That of the write; -1: not known, as events show it, and the topic's view has none then."""
    leader_recovery_state: int
    """0: recovered, 1: recovering (`kafka.elections`). -1: not known; it counts as recovered, and the topic's view has none."""
    named: tuple[TopicPartition, ...]
    """The partition, as events list it."""
    partition_epoch: int | None = None
    """None: not known; the topic's view has none then."""
    origin: Origin | None = None
    is_first: bool = False
    """The first state of a new partition."""
    election: LeaderElectionKind = LeaderElectionKind.UNKNOWN
    """Which election chose the leader, if it is another one than before."""
    asked_by: ElectionOrigin | None = None
    """Who asked for a preferred election; None: no request was seen."""
    stale_under: int | None = None
    """The current controller epoch, if this was written under an older one."""
    by_controller: bool = False
    """It is known that the controller changed the ISR; otherwise events show the change as the leader's."""
    drained: Collection[int] = ()
    """Brokers that the controller removed from the ISR while they were registered."""
    is_foreign: bool = False
    """No Kafka makes this step: it is no election."""
    eligible: EligibleLeaders | None = None
    """Who may lead besides the ISR, and who may not for its log directory; None: nobody, or the source knows no such replicas."""
    directories: tuple[int, ...] = ()
    """The log directory of each replica, by the source's own numbers; empty: it does not know them."""


class PartitionGone(Fact, frozen=True):
    """A partition's state does not exist any more."""

    topic: str
    partition: int


class RequestKind(enum.StrEnum):
    """What a tool may ask the controller for by a request of its own."""

    PREFERRED_ELECTION = "preferred_election"
    REASSIGNMENT = "reassignment"


class RequestIs(Fact, frozen=True):
    """A tool's request waits for the controller."""

    kind: RequestKind
    partitions: tuple[TopicPartition, ...]
    is_rewritten: bool = False
    """The controller has removed from it what is done."""
    since: int | None = None
    """When it was made, by the source's clock; None: now."""


class RequestGone(Fact, frozen=True):
    """A tool's request does not wait any more."""

    kind: RequestKind


class ClusterIdIs(Fact, frozen=True):
    """The cluster id."""

    cluster_id: str


class FeatureIs(Fact, frozen=True):
    """The finalized level of a feature of the cluster; None: it has none."""

    name: str
    level: int | None


class VotersAre(Fact, frozen=True):
    """The voters of the quorum."""

    voters: tuple[int, ...]


class RegisteredControllerIs(Fact, frozen=True):
    """A controller of the quorum is registered; None: it is not any more."""

    controller: int
    registration: RegisteredController | None


class MigrationStateIs(Fact, frozen=True):
    """How far the quorum is with a migration from ZooKeeper (org.apache.kafka.metadata.migration.ZkMigrationState).

    None: its log does not state it.
    """

    state: int | None


class CandidaciesAre(Fact, frozen=True):
    """How many epochs of the quorum had no leader: candidates that were not elected."""

    candidacies: int


class QuorumIs(Fact, frozen=True):
    """What the controllers answered about the quorum, as of a heartbeat; None: nothing is known of it."""

    leader: int | None
    leader_epoch: int | None
    high_watermark: int | None
    sample: QuorumSample | None = None
    snapshot_end: int | None = None
    snapshot_at: int | None = None
    unreachable_since: int | None = None
    leader_silent_since: int | None = None
