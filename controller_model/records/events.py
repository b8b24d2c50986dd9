"""The events that replay emits: what happened.

One event per cause. It says what was seen; what is inferred is marked so, what cannot
be known is "unknown". Times are milliseconds since 1970 by the watcher's clock, unless a field says so.
"""

import enum

import msgspec

from controller_model.kafka.coordinators import Coordinator
from controller_model.kafka.ids import Position, TopicPartition
from controller_model.records.election_requests import ElectionOrigin
from controller_model.records.foreign_writes import ForeignWriteKind
from controller_model.records.incidents import Incident
from controller_model.records.recommendations import Grade


class LeaderElectionKind(enum.StrEnum):
    """Which of the controller's elections chose a leader, as far as the znodes show it."""

    INITIAL = "initial"
    """The first leader of a new partition: not an election in Kafka's counters."""
    OFFLINE = "offline"
    UNCLEAN = "unclean"
    PREFERRED = "preferred"
    REASSIGNMENT = "reassignment"
    CONTROLLED_SHUTDOWN = "controlled_shutdown"
    """The leader moved off a registered broker that left the ISR at the same time, and no failed log
    directory was reported. Only the end of the broker's registration would prove it."""
    UNKNOWN = "unknown"


class BrokerEnd(enum.StrEnum):
    """How a broker's registration ended, or its time without a fence.

    A metadata log states it. In ZooKeeper all except `bounced` are inferred from what came before.
    """

    CONTROLLED_SHUTDOWN = "controlled_shutdown"
    CRASHED = "crashed"
    """It was in sync with others to the end: its process died, or lost its ZooKeeper session."""
    BOUNCED = "bounced"
    """The same id registered again (a larger czxid), and the end in between was not seen."""
    FENCED = "fenced"
    """Of a KRaft cluster: the controller fenced it. Its heartbeats did not come, or it asked to stop and led nothing, so
    that no controlled shutdown was written before (BrokerHeartbeatManager.calculateNextBrokerState)."""
    UNREGISTERED = "unregistered"
    """Of a KRaft cluster: an operator removed its registration."""
    UNKNOWN = "unknown"


ENDS_IN_ZOOKEEPER = (
    BrokerEnd.CONTROLLED_SHUTDOWN,
    BrokerEnd.CRASHED,
    BrokerEnd.BOUNCED,
    BrokerEnd.UNKNOWN,
)
"""Those that a ZooKeeper cluster's brokers can have."""
ENDS_IN_KRAFT = (
    BrokerEnd.CONTROLLED_SHUTDOWN,
    BrokerEnd.FENCED,
    BrokerEnd.BOUNCED,
    BrokerEnd.UNREGISTERED,
    BrokerEnd.UNKNOWN,
)
"""Those that a KRaft cluster's brokers can have."""


class ElectionCause(enum.StrEnum):
    """Why /controller changed hands."""

    FIRST = "first"
    """Nobody was elected before, as far as the epoch shows."""
    SESSION_LOST = "session_lost"
    """The old controller's own registration ended with it."""
    DELETED = "deleted"
    """/controller was deleted while its broker stayed registered: by hand, or by the controller
    itself after an error that it could not handle."""
    MIGRATION = "migration"
    """A KRaft controller took /controller over: a migration to KRaft."""
    ROLLBACK = "rollback"
    """A broker took /controller back after a KRaft controller had held it: the migration was rolled back."""
    UNKNOWN = "unknown"


class Event(
    msgspec.Struct,
    frozen=True,
    kw_only=True,
    tag=True,
    tag_field="kind",
    omit_defaults=True,
    gc=False,
):
    """Something that happened, seen at `at` in the change at `position` of the log."""

    at: int
    position: Position
    source_number: int | None = None
    """The source's own number of the change that showed it: in ZooKeeper its zxid, in KRaft its offset in the
    metadata log. None where there is none."""


class Baseline(Event, frozen=True, kw_only=True):
    """The first resync of a lineage has ended. Nothing before it is known, and counters start here."""

    znodes: int | None = None
    """How many were read; None: a KRaft cluster has none."""
    controller: int
    epoch: int | None
    elected_at: int | None = None
    """When that controller was elected, by ZooKeeper's clock; None: nobody is it, or it is not known."""


class ControllerElected(Event, frozen=True, kw_only=True):
    """A broker created /controller, or a KRaft quorum elected a leader: it is the active controller now."""

    from_broker: int
    """The previous holder; -1 if there was none or it is not known."""
    to_broker: int
    epoch: int | None
    """The controller epoch of this election; None while it is not known."""
    missed_elections: int = 0
    """Elections that only the jump of the epoch shows."""
    vacancy_ms: int | None = None
    """For how long nobody held /controller, by the watcher's clock; None where it was not seen."""
    vacancy_min_ms: int | None = None
    vacancy_max_ms: int | None = None
    """For how long at least and at most, by the same clock: equal if both ends were seen. The maximum
    is None if the vacancy began before anybody watched."""
    cause: ElectionCause = ElectionCause.UNKNOWN
    elected_at: int | None = None
    """When it was elected, by ZooKeeper's clock: long before `at` if nobody watched. Counts use this time."""
    of_quorum: bool = False
    """The ids are of nodes in a KRaft quorum, which need not be brokers."""


class ControllerVacated(Event, frozen=True, kw_only=True):
    """/controller was removed, or a KRaft quorum has no leader: nobody is the active controller."""

    from_broker: int
    epoch: int | None
    held_until: int | None = None
    """When `from_broker` was last known to be the controller. None: until `at`, or it is not known."""
    of_quorum: bool = False
    """The id is of a node in a KRaft quorum, which need not be a broker."""


class FailoverWork(Event, frozen=True, kw_only=True):
    """The controller has written all leaders that its election, or the end of a broker, made due."""

    controller: int
    epoch: int | None
    took_ms: int
    partitions: int
    """How many partitions had a leader that was gone when the work began."""


class BrokerStarted(Event, frozen=True, kw_only=True):
    """A broker registered under /brokers/ids."""

    broker: int
    epoch: int | None
    host: str | None = None
    port: int | None = None
    rack: str | None = None
    moved_from: str | None = None
    """The address of its last registration, if it was another one."""


class BrokerStopped(Event, frozen=True, kw_only=True):
    """A broker's registration ended; `end` is inferred."""

    broker: int
    epoch: int | None
    end: BrokerEnd


class LogDirFailed(Event, frozen=True, kw_only=True):
    """A broker reported a failed log directory: replicas in it are offline, and the broker runs on."""

    broker: int


class LeadersElected(Event, frozen=True, kw_only=True):
    """Partitions have a new leader; `election`, the kind of election that chose it, is inferred."""

    election: LeaderElectionKind
    from_broker: int
    to_broker: int
    controller_epoch: int
    partitions: tuple[TopicPartition, ...]
    by: ElectionOrigin | None = None
    """Of preferred elections, who asked for them. None: no request was seen, so it was the controller's own rebalance
    or a tool; the grade of a recommendation infers which."""


class PartitionsOffline(Event, frozen=True, kw_only=True):
    """The controller wrote that partitions have no leader: they are offline."""

    from_broker: int
    partitions: tuple[TopicPartition, ...]


class PartitionsOnline(Event, frozen=True, kw_only=True):
    """Partitions that had no leader have one again."""

    to_broker: int
    partitions: tuple[TopicPartition, ...]


class IsrShrunk(Event, frozen=True, kw_only=True):
    """Replicas left the ISR."""

    who: tuple[int, ...]
    leader: int
    by_controller: bool
    """The leader epoch rose with it: the controller removed the replica (dead, not slow)."""
    partitions: tuple[TopicPartition, ...]


class IsrExpanded(Event, frozen=True, kw_only=True):
    """Replicas joined the ISR."""

    who: tuple[int, ...]
    leader: int
    partitions: tuple[TopicPartition, ...]


class TopicCreated(Event, frozen=True, kw_only=True):
    """A topic's znode was created."""

    topic: str
    partitions: int


class TopicExpanded(Event, frozen=True, kw_only=True):
    """A topic's assignment got more partitions."""

    topic: str
    before: int
    partitions: int


class TopicDeleted(Event, frozen=True, kw_only=True):
    """A topic's znode was removed."""

    topic: str
    requested: bool
    """/admin/delete_topics had requested its deletion before."""


class TopicDeletionRequested(Event, frozen=True, kw_only=True):
    """A request to delete a topic was written under /admin/delete_topics."""

    topic: str


class TopicDeletionCompleted(Event, frozen=True, kw_only=True):
    """A request to delete a topic was removed from /admin/delete_topics."""

    topic: str
    deleted: bool
    """False: the topic still exists. The controller rejected the request (delete.topic.enable), or
    somebody withdrew it."""
    requested_at: int
    """When the request was made, by ZooKeeper's clock."""


class ReassignmentStarted(Event, frozen=True, kw_only=True):
    """A topic's assignment has adding or removing replicas now."""

    topic: str
    partitions: tuple[TopicPartition, ...]


class ReassignmentCompleted(Event, frozen=True, kw_only=True):
    """A topic's assignment has no adding or removing replicas any more."""

    topic: str
    partitions: tuple[TopicPartition, ...]


class ReassignmentRequested(Event, frozen=True, kw_only=True):
    """A tool requested a reassignment through /admin/reassign_partitions."""

    partitions: tuple[TopicPartition, ...]


class PreferredElectionRequested(Event, frozen=True, kw_only=True):
    """A tool requested preferred elections through /admin/preferred_replica_election."""

    partitions: tuple[TopicPartition, ...]


class CoordinatorsMoved(Event, frozen=True, kw_only=True):
    """Leaders of __consumer_offsets or __transaction_state changed, and with them the coordinators.

    The groups or transactional ids that are kept in these partitions have a coordinator at
    `to_broker` as soon as it has loaded them; none while it is -1.
    """

    coordinator: Coordinator
    from_broker: int
    to_broker: int
    partitions: tuple[TopicPartition, ...]


class StaleControllerWrite(Event, frozen=True, kw_only=True):
    """A leader was written under a controller epoch that is older than the current one."""

    controller_epoch: int
    current_epoch: int
    partitions: tuple[TopicPartition, ...]


class ControllerZombie(Event, frozen=True, kw_only=True):
    """Writes are pending, and for longer than the write timeout the controller has made none: a zombie controller.

    It is emitted once, at the heartbeat that shows it, and again only after the controller has worked or its health was
    unknown.
    """

    controller: int
    epoch: int | None
    pending: dict[str, int]
    """How many writes of each kind (pending_writes.PendingWriteKind)."""
    pending_since: int | None
    last_write_at: int | None
    """The last heartbeat that showed work done; None: none since the watching began."""
    write_timeout_ms: int


class IncidentOpened(Event, frozen=True, kw_only=True):
    """Something abnormal happened while no incident was open. What follows belongs to this one."""

    number: int
    opened_by: str
    """The kind of the event that opened it."""


class IncidentClosed(Event, frozen=True, kw_only=True):
    """An incident has ended; `incident` is the record of all that belonged to it."""

    incident: Incident


class RecommendationMade(Event, frozen=True, kw_only=True):
    """Brokers exceed the imbalance threshold, and preferred elections are recommended for them."""

    number: int
    brokers: tuple[int, ...]
    threshold_percentage: int
    partition_count: int
    """How many partitions an election would give back to them."""
    partitions: tuple[TopicPartition, ...]
    """Those of the first recommendations.TOPICS_LOOKED_AT topics, at most MAX_PARTITIONS."""


class RecommendationGraded(Event, frozen=True, kw_only=True):
    """A recommendation was closed; `grade` says what came of it."""

    grade: Grade


class Anomaly(Event, frozen=True, kw_only=True):
    """A znode or a record of the log is as no Kafka and no watcher writes it. It is counted and reported."""

    path: str
    reason: str
    foreign: ForeignWriteKind | None = None
    """Which kind of foreign write it is, if availability is at stake; such an anomaly opens an incident."""


class Incomplete(Event, frozen=True, kw_only=True):
    """The figures may lack changes from here on, until a resync has ended."""

    reason: str


class Divergent(Event, frozen=True, kw_only=True):
    """A reconciliation found that the figures differ from what ZooKeeper, or the metadata log, holds."""

    reason: str


class Verified(Event, frozen=True, kw_only=True):
    """The figures were found to agree with ZooKeeper, for the first time ever or since trouble began."""

    znodes: int


AnyEvent = (
    Baseline
    | ControllerElected
    | ControllerVacated
    | FailoverWork
    | BrokerStarted
    | BrokerStopped
    | LogDirFailed
    | LeadersElected
    | PartitionsOffline
    | PartitionsOnline
    | IsrShrunk
    | IsrExpanded
    | TopicCreated
    | TopicExpanded
    | TopicDeleted
    | TopicDeletionRequested
    | TopicDeletionCompleted
    | ReassignmentStarted
    | ReassignmentCompleted
    | ReassignmentRequested
    | PreferredElectionRequested
    | CoordinatorsMoved
    | StaleControllerWrite
    | ControllerZombie
    | IncidentOpened
    | IncidentClosed
    | RecommendationMade
    | RecommendationGraded
    | Anomaly
    | Incomplete
    | Divergent
    | Verified
)
"""Every kind of event; `kind` in the JSON is the class's name."""
