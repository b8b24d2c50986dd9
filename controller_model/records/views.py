"""The views: what is true now, as records of the compacted topic `kcm.views`.

The rule: a view is an upsert under its key; of two, the one with the newer `as_of` wins. All views
of a batch carry one `as_of`. The cluster view is written last: it is the commit marker at which a
reader swaps. Times are milliseconds since 1970. None always means "not known", never zero.
"""

import enum
import hashlib
from collections.abc import Callable, Mapping

import msgspec

from controller_model.kafka.errors import UnreadableRecordError
from controller_model.kafka.ids import NOWHERE, AsOf, Position
from controller_model.records.changes import SessionState
from controller_model.records.decoding import decode_record
from controller_model.records.incidents import Incident, IncidentsSummary
from controller_model.records.pending_writes import PendingWrites
from controller_model.records.quorum import QuorumView
from controller_model.records.recommendations import Grade, RebalanceSummary, Recommended

VERSION = 1
"""The version that is written; a reader skips records of any other, and counts them."""

PARTITIONS_PER_TOPIC_VIEW = 1_000
"""Partitions in one topic view, so that no record comes near the topics' size limit."""

UNREADABLE_NAMED = 100
"""Unreadable znodes that a cluster's view names."""


class Failover(enum.StrEnum):
    """How far the controller's failover work is, as far as leader writes show it."""

    NOT_NEEDED = "not_needed"
    """No partition's leader was gone when this controller was elected."""
    UNDER_WAY = "under_way"
    DONE = "done"
    UNKNOWN = "unknown"
    """The election was not seen, or ZooKeeper does not show the work (migration to KRaft)."""


class Capability(enum.StrEnum):
    """What of a cluster a source can see; what depends on one that it cannot see is not known."""

    CONTROLLER = "controller"
    """Who the controller is, its epoch and its elections."""
    BROKERS = "brokers"
    """Which brokers are registered."""
    TOPICS = "topics"
    """Assignments, leaders and ISRs."""
    TOPIC_CONFIGS = "topic_configs"
    BROKER_CONFIGS = "broker_configs"
    """min.insync.replicas and unclean.leader.election.enable of brokers. Kafka's own ACLs deny them to everybody
    else (ZkData.SensitiveRootPaths), so figures count as complete without them: settings of kcm replace them."""
    DELETIONS = "deletions"
    """Which topics are to be deleted: most figures leave them out, and are not known without it. KRaft, which deletes at
    once, has it: no topic waits."""
    REQUESTS = "requests"
    """What else tools ask the controller for, and what waits for it."""
    CLUSTER = "cluster"
    """The cluster id, features, and a migration to KRaft."""
    PENDING_WRITES = "pending_writes"
    """What the controller has yet to write, and its health by that. In KRaft the decision is the write."""
    FOREIGN_WRITES = "foreign_writes"
    """Writes past the controller. In KRaft nobody else can write."""
    SESSION = "session"
    """The watcher's session with ZooKeeper."""


ABSENT_IN_KRAFT = (
    Capability.REQUESTS,
    Capability.PENDING_WRITES,
    Capability.FOREIGN_WRITES,
    Capability.SESSION,
)
"""What a KRaft cluster does not have: nothing of it is shown, and nothing is missing without it."""


class ControllerView(msgspec.Struct, kw_only=True):
    """The controller and the counts of its elections: the fold's state holds this value, and changes it."""

    id: int = -1
    """The broker that holds /controller; -1 if none does."""
    epoch: int | None = None
    elected_at: int | None = None
    """ctime of /controller, by ZooKeeper's clock; None while nobody holds it."""
    elections: int = 0
    """Creations of /controller seen plus those that only the epoch shows."""
    id_changes: int = 0
    """Elections won by another broker than the one before."""
    missed_elections: int = 0
    possible_elections: int = 0
    """Elections that may have been besides: across a snapshot of a metadata log the epoch shows at least one."""
    vacant_since: int | None = None
    """Since when nobody holds /controller, by the watcher's clock; None while it is held."""
    vacancy_total_min_ms: int = 0
    """For how long nobody held it, at least; only vacancies that have ended."""
    vacancy_total_max_ms: int = 0
    """The same, at most: more than the minimum if an election was not seen live."""
    vacancy_last_min_ms: int | None = None
    vacancy_last_max_ms: int | None = None
    failover: Failover | None = Failover.UNKNOWN
    """None, in a view: the cluster has no such work (KRaft)."""
    failover_since: int | None = None
    """When the work that is under way (or was done last) became due."""
    failover_last_ms: int | None = None
    """How long the last finished failover work took."""
    stale_writes: int | None = 0
    """None, in a view: nobody but the active controller can write (KRaft)."""
    migrating_to_kraft: bool = False
    refused_below: int | None = None
    """Brokers refuse a controller with an epoch below this one (STALE_CONTROLLER_EPOCH): /controller_epoch went back from
    it, and brokers have run since before. None: they refuse none."""
    recent_elections: tuple[tuple[int, int], ...] = ()
    """The times of the elections in the last 7 days, by ZooKeeper's clock, and how many were at each; missed ones
    count at the last time at which the controller was known. Every count within a window is made of them."""


class Counts(msgspec.Struct, frozen=True, kw_only=True):
    """The cluster's figures, with live brokers and defaults applied (definitions: the README); None: not known."""

    topics: int | None = 0
    partitions: int | None = 0
    offline: int | None = 0
    """A state exists and its leader is -1 or not live; topics being deleted excluded."""
    leaderless: int | None = 0
    """The part of `offline` whose written leader is -1."""
    pending_leader_writes: int | None = 0
    """The part of `offline` whose written leader is a broker that is gone."""
    without_state: int | None = 0
    """Partitions whose state znode does not exist yet (NewPartition)."""
    under_replicated: int | None = 0
    under_min_isr: int | None = None
    at_min_isr: int | None = None
    """Both None while min.insync.replicas of some partition is not known."""
    under_replicated_at_min_isr: int | None = None
    """The part of `under_replicated` that is at min.insync.replicas; None while that is not known."""
    under_replicated_reassigning: int | None = 0
    """The part of `under_replicated` that gets new replicas."""
    preferred_imbalance: int | None = 0
    """The gauge rule (JMX PreferredReplicaImbalanceCount)."""
    preferred_electable: int | None = 0
    """Partitions not led by their preferred replica although it is live and in the ISR."""
    reassigning: int | None = 0
    deleting_topics: int | None = 0
    replication_factor_1: int | None = 0
    min_isr_blocks: int | None = None
    """Partitions whose min.insync.replicas is not below the replication factor, except those with
    RF 1; None while that of some is not known."""
    replicas_on_gone_brokers: int | None = 0
    """Replicas that are assigned to brokers that are not registered now, in a KRaft cluster that are not active."""
    recovering: int | None = 0
    """Partitions whose leader came from an unclean election, and recovers."""
    isr_empty: int | None = None
    """Partitions with nobody in sync; None: only eligible leader replicas let an ISR be empty."""
    with_elr: int | None = None
    """Partitions with eligible leader replicas: they are below min.insync.replicas. None: not a KRaft cluster."""


class Pending(msgspec.Struct, kw_only=True):
    """What tools and brokers wait for: the fold's state holds this value, and changes it.

    In a view, None of a number or of whether a request waits is not known, and then no time beside it is.
    """

    preferred_election: bool | None = False
    """A tool's request for preferred elections waits (/admin/preferred_replica_election)."""
    preferred_election_at: int | None = None
    """When it was made; None while none waits."""
    reassign_partitions: bool | None = False
    """A tool's request for reassignments waits (/admin/reassign_partitions)."""
    reassign_partitions_at: int | None = None
    """When it was made; None while none waits."""
    notifications: int | None = 0
    """Notifications of brokers that the controller has yet to process."""
    oldest_reassignment_at: int | None = None
    oldest_deletion_at: int | None = None
    oldest_request_at: int | None = None
    """When the oldest request was made that the controller has not begun with; None without one. It has begun with
    reassignments while any partition is reassigned (KafkaController.maybeTriggerPartitionReassignment)."""


class LogView(msgspec.Struct, kw_only=True):
    """How complete the figures are, and what happened to the log: the fold's state holds this value, and changes it."""

    watcher: str = ""
    session: SessionState | None = None
    session_since: int | None = None
    zookeeper: str | None = None
    heartbeat_at: int | None = None
    last_change_at: int | None = None
    """observed_at of the last znode change that did more than confirm a known value."""
    last_change_mtime: int | None = None
    znodes: int = 0
    digest: str = ""
    read_zxid: int = 0
    """The largest read_zxid applied: a resync must not start from less."""
    verified_at: int | None = None
    """observed_at of the last proof (resync or reconciliation) that the state equals ZooKeeper's."""
    divergent_since: int | None = None
    incomplete_since: int | None = None
    incomplete_reason: str | None = None
    denied: tuple[str, ...] = ()
    """What the source may not read, in its own terms."""
    denied_more: int = 0
    """How many more there are below those in `denied` without being named."""
    hidden: tuple[Capability, ...] = ()
    """What cannot be seen, wholly or in part: it is denied, or has left ZooKeeper."""
    kraft_since: int | None = None
    """Since when a KRaft controller runs the cluster, at the latest; None: none does, or it is not known."""
    left_since: int | None = None
    """Since when ZooKeeper does not show all of a cluster that a KRaft controller runs; None: it does, or none runs it."""
    absent: tuple[Capability, ...] = ()
    """What this kind of cluster does not have, or its source never shows (`Source.absent`): what depends on it is None, and
    the figures are complete without it."""
    resync_under_way: bool = False
    """Everything is being read again: figures mix two points in time."""
    resyncs: int = 0
    reconciliations: int = 0
    holes: int = 0
    dropped_by_watcher: int = 0
    not_newer: int = 0
    """Changes at or before a position that was already applied."""
    stale: int = 0
    """Changes whose value was older than the known one."""
    missed_updates: int = 0
    """Updates that ZooKeeper merged before they could be read (by the znode's version)."""
    unreadable: int = 0
    """Payloads and records that could not be read."""
    anomalies: int = 0
    errors: int = 0
    """Unexpected exceptions (bugs of kcm) that a change caused; the change is skipped and reported."""

    @property
    def incomplete(self) -> bool:
        """Whether the figures may lack something that ZooKeeper holds: changes, a first proof, or denied znodes."""
        lacking = self.incomplete_since is not None or self.verified_at is None
        return lacking or (self.left_since is None and self.is_missing_some)

    def hides_topic(self, topic: str) -> bool:
        """Return whether it cannot be seen if this topic exists: its path, or one above it, is denied."""
        return self._hides(f"/brokers/topics/{topic}")

    def hides_state(self, topic: str, partition: int) -> bool:
        """Return whether a partition's state cannot be seen, nor whether it has one."""
        return bool(self.denied) and self._hides(
            f"/brokers/topics/{topic}/partitions/{partition}/state"
        )

    def _hides(self, path: str) -> bool:
        return any(path == each or path.startswith(f"{each.rstrip('/')}/") for each in self.denied)

    @property
    def is_followed(self) -> bool:
        """Whether the source's session shows changes to the watcher, by what it reported last; true without sessions."""
        return self.session in {None, SessionState.CONNECTED}

    @property
    def sign_of_life(self) -> int | None:
        """When the watcher last sent a heartbeat or a change, by its clock; None if never."""
        return max(filter(None, (self.heartbeat_at, self.last_change_at)), default=None)

    @property
    def unseen(self) -> frozenset[Capability]:
        """What is hidden or absent: what depends on it is not known."""
        return frozenset(self.hidden).union(self.absent)

    @property
    def is_missing_some(self) -> bool:
        """Whether something cannot be seen without which figures are not complete."""
        return any(each is not Capability.BROKER_CONFIGS for each in self.hidden)


class ClusterCounters(msgspec.Struct, kw_only=True):
    """What has happened to partitions since counting started: the fold's state holds this value, and changes it."""

    leader_elections: dict[str, int] = {}
    """Partitions that got a leader, by the kind of election (events.LeaderElectionKind)."""
    unclean_elections: int = 0
    isr_shrinks: int = 0
    isr_expands: int = 0


class KraftMigration(msgspec.Struct, frozen=True, kw_only=True):
    """How far a migration to KRaft has come (/migration); -1 before a KRaft controller has taken over."""

    controller: int
    controller_epoch: int
    metadata_offset: int
    """ZooKeeper is a copy of the metadata log up to this offset."""
    metadata_epoch: int
    written_at: int
    """When that was written, in milliseconds since 1970; in dual write every 500 ms."""


class ClusterConfig(msgspec.Struct, kw_only=True):
    """What is held of the cluster as a whole: the fold's state holds this value, and changes it."""

    cluster_id: str | None = None
    broker_min_isr: dict[str, int] = {}
    """min.insync.replicas of /config/brokers, by id or "<default>"."""
    broker_unclean: dict[str, bool] = {}
    """unclean.leader.election.enable of /config/brokers, by id or "<default>"."""
    generated_broker_ids: int = 0
    """Broker ids that Kafka generated (broker.id.generation.enable)."""
    migration: KraftMigration | None = None
    """None: there is none."""


class ResyncWanted(msgspec.Struct, frozen=True, kw_only=True):
    """The fold's request for a resync; the watcher names the number in its answer."""

    number: int
    reason: str
    offset: int | None = None
    """Of a KRaft cluster: the offset of the metadata log at which the fold goes on. None: it needs a snapshot."""


class View(msgspec.Struct, frozen=True, kw_only=True, tag=True, tag_field="view"):
    """The fields that all views have."""

    v: int
    cluster: str
    as_of: AsOf


class ClusterView(View, tag="cluster", frozen=True, kw_only=True):
    """A cluster; this view is also the commit marker of a batch.

    A part that is None is not known: it depends on what the source cannot see (`records.visibility`).
    """

    counters_since: int
    """When this lineage's counters started."""
    folded_at: int
    """When the fold wrote this, by the clock of its own machine."""
    controller: ControllerView | None
    counts: Counts
    pending: Pending
    log: LogView
    pending_writes: PendingWrites = msgspec.field(default_factory=PendingWrites)
    """The pending writes from the controller, and its health, by the log's clock."""
    foreign_writes: dict[str, int] | None = {}
    """How many writes stand that no Kafka makes, by kind (records.foreign_writes)."""
    counters: ClusterCounters | None = msgspec.field(default_factory=ClusterCounters)
    config: ClusterConfig = msgspec.field(default_factory=ClusterConfig)
    brokers_live: tuple[int, ...] | None = ()
    """The registered brokers; in a KRaft cluster the active ones: neither fenced nor shutting down. None: not known."""
    brokers_known: tuple[int, ...] = ()
    """Every id that was ever registered or is assigned."""
    min_isr_assumed: int | None = None
    """min.insync.replicas by a setting of the fold, for partitions where neither the topic's nor a broker's
    configuration in ZooKeeper holds it; None without the setting: it is not known."""
    resync_wanted: ResyncWanted | None = None
    incidents: IncidentsSummary | None = msgspec.field(default_factory=IncidentsSummary)
    rebalance: RebalanceSummary | None = RebalanceSummary()
    """Computed from the totals; it holds until the controller checks, or somebody elects."""
    views_from: Position = NOWHERE
    """Where the last complete resync began. It touched every topic, so views of topics from before it
    are of topics that no longer exist. A fold that resumed from an older checkpoint, on a log that has
    lost changes, does not know what it published before and cannot delete those views one by one."""
    unreadable: tuple[str, ...] = ()
    """Znodes that belong to no topic and whose newest value cannot be read, /controller and its epoch first. The
    figures show their last good value, or nothing. At most `UNREADABLE_NAMED` of them."""
    unreadable_count: int = 0
    """How many such znodes there are."""
    unreadable_controller: bool = False
    """/controller or its epoch is among them."""
    views_digest: str | None = None
    """The digest over all other views of the cluster as last published (`view_digest`). A reader whose
    views have another digest lacks some, or has older ones. None: nothing can be compared."""
    quorum: QuorumView | None = None
    """The quorum and what the metadata log states of the cluster; None: it is not a KRaft cluster."""
    controllers_safe_to_stop: dict[int, bool] = {}
    """Whether each controller of a KRaft cluster can stop now and nothing breaks; one that is a broker as well is judged as
    both. Those of which it is not known are not in it."""

    @property
    def has_zookeeper(self) -> bool:
        """Return whether the cluster is watched in ZooKeeper: a KRaft cluster has no session, znodes or paths."""
        return Capability.SESSION not in self.log.absent

    def can_see(self, capability: Capability) -> bool:
        """Return whether the source can see all of this; what depends on it is not known otherwise, or does not exist."""
        return capability not in self.log.hidden and capability not in self.log.absent


class BrokerRecord(msgspec.Struct, kw_only=True):
    """What is held of a broker's registrations: the fold's state holds this value, and changes it."""

    live: bool | None = False
    """It is registered, and in a KRaft cluster not fenced. None, in a view: not known, and nothing else of its
    registrations is."""
    epoch: int | None = None
    """The broker epoch: czxid of its registration, of the last one for a dead broker; in KRaft an offset."""
    since: int | None = None
    """When it registered (ctime), or when its end was seen."""
    registrations: int = 0
    """Distinct registrations seen."""
    ends: dict[str, int] = {}
    """Ended registrations by kind (events.BrokerEnd)."""
    host: str | None = None
    port: int | None = None
    rack: str | None = None
    endpoints: tuple[str, ...] = ()
    """All listeners of its last registration: `listener://host:port`."""
    features: Mapping[str, Mapping[str, int]] = {}
    """The features that it supports: min_version and max_version of each."""
    isr_leaves: int = 0
    """How often it left an ISR."""
    isr_leave_minutes: tuple[int, ...] = ()
    """The minutes since 1970, of the last 30, in which it left one (`records.recent`)."""
    log_dir_failures: int = 0
    """Failed log directories that it reported."""
    fenced: bool | None = None
    """Whether the controller has fenced it: it is registered, and leads nothing. None: it is not registered, or ZooKeeper
    is the source, which knows no fencing."""
    shutting_down: bool = False
    """It is in controlled shutdown, or was when it was fenced: it leads nothing, until it registers again."""
    log_dirs_offline: int | None = None
    """How many of its log directories are offline; None: not known."""

    @property
    def is_active(self) -> bool:
        """Whether it may lead partitions (ClusterControlManager.isActive)."""
        return self.live is True and not self.shutting_down


class BrokerView(View, tag="broker", frozen=True, kw_only=True):
    """A broker; every id that was ever registered or is assigned has a view."""

    id: int
    record: BrokerRecord = msgspec.field(default_factory=BrokerRecord)
    leaders: int | None = 0
    replicas: int | None = 0
    preferred: int | None = 0
    """Partitions whose first replica it is, topics being deleted excluded."""
    preferred_not_led: int | None = 0
    """The part of `preferred` that has a state and another leader (or none): the ratio rule."""
    preferred_electable: int | None = 0
    """The part of `preferred_not_led` that a preferred election would give back: it is live and in the ISR."""
    imbalance_ratio: float | None = 0.0
    """preferred_not_led / preferred, 0 without preferred partitions."""
    leader_skew: float | None = None
    """Leaders above (or below) an even share when every preferred replica leads, as a fraction of that
    share: no election can fix it. None for a broker that is gone, which leads nothing."""
    in_isr: int | None = 0
    offline_if_lost: int | None = 0
    under_min_isr_if_lost: int | None = None
    stranded_if_lost: int | None = 0
    unclean_if_lost: int | None = 0
    """What would break if it were lost now: the counts of a what-if (`insight.loss.Loss`). None: not known, while the
    controller has yet to remove members from ISRs, or while min.insync.replicas of some is not known."""
    inferred_state: str | None = None
    """The state that it is most likely in, by Kafka's name (kafka.states.BrokerState); None for
    an id that is assigned and was never registered."""
    coordinated: dict[str, int] | None = {}
    """Partitions of __consumer_offsets ("group") and __transaction_state ("transaction") that it
    leads: it coordinates what is kept in them."""
    breaks_if_lost: bool = False
    """Something would break for certain, also where it is not known how much."""
    min_isr_unknown_if_lost: bool = False
    """min.insync.replicas of some of its partitions is not known."""
    more_if_lost: bool = False
    """More may break than is counted: a count is not known, or some znodes are denied."""
    quorum_keeps_majority: bool | None = True
    """Whether its loss is safe for the quorum of a KRaft cluster (`insight.quorum_loss`): it is no controller, or one that
    may be lost. None: not known."""

    @property
    def safe_to_stop(self) -> bool | None:
        """Whether nothing would break if it stopped now; None: it is gone, or that is unknown.

        What is known to break makes it False at once; it is True only if nothing more may break.
        """
        if not self.record.live:
            return None
        counts = (
            self.offline_if_lost,
            self.under_min_isr_if_lost,
            self.stranded_if_lost,
            self.unclean_if_lost,
        )
        if self.breaks_if_lost or any(counts) or self.quorum_keeps_majority is False:
            return False
        return None if self.more_if_lost or self.quorum_keeps_majority is None else True


TOPIC_COLUMNS = (
    *("replicas", "leader", "isr", "leader_epoch", "controller_epoch", "partition_epoch"),
    "leader_recovery_state",
)
"""The fields of a topic's view that have one entry for each partition."""


class TopicView(View, tag="topic", frozen=True, kw_only=True):
    """Up to PARTITIONS_PER_TOPIC_VIEW partitions of a topic, as parallel arrays with one entry each."""

    name: str
    chunk: int
    chunks: int
    topic_id: str | None = None
    deleting: bool = False
    min_isr: int | None = None
    """The topic's own min.insync.replicas; None when it has none."""
    unclean: bool | None = None
    """The topic's own unclean.leader.election.enable; None when it has none."""
    partitions: tuple[int, ...] = ()
    replicas: tuple[tuple[int, ...], ...] = ()
    adding: dict[int, tuple[int, ...]] = {}
    removing: dict[int, tuple[int, ...]] = {}
    elr: dict[int, tuple[int, ...]] = {}
    """The eligible leader replicas of partitions that have any."""
    last_known_elr: dict[int, tuple[int, ...]] = {}
    """The last known leader of partitions that have one."""
    offline_replicas: dict[int, tuple[int, ...]] = {}
    """Replicas whose log directory is offline, in a KRaft cluster, though their broker may live: they may not lead."""
    leader: tuple[int | None, ...] = ()
    """None: no state znode; -1 as Kafka wrote it."""
    isr: tuple[tuple[int, ...] | None, ...] = ()
    leader_epoch: tuple[int | None, ...] = ()
    controller_epoch: tuple[int | None, ...] = ()
    partition_epoch: tuple[int | None, ...] = ()
    """The version of the state znode from which the facts were read."""
    leader_recovery_state: tuple[int | None, ...] = ()
    unreadable: tuple[int, ...] = ()
    """Partitions whose newest state cannot be read; their last good one is shown. Without one, or where the source may
    not read it, the state is not known: neither whether it exists."""
    unreadable_parts: tuple[str, ...] = ()
    """What of the topic itself (assignment, configuration) cannot be read in its newest value, in the source's terms."""

    @property
    def is_even(self) -> bool:
        """Whether each column has one entry for each partition."""
        return all(len(getattr(self, name)) == len(self.partitions) for name in TOPIC_COLUMNS)


class IncidentsView(View, tag="incidents", frozen=True, kw_only=True):
    """The incidents of a cluster, the newest first; an open one is the first."""

    total: int = 0
    """Incidents ever opened; those that are not listed are in the events."""
    incidents: tuple[Incident, ...] = ()


class RecommendationView(View, tag="recommendation", frozen=True, kw_only=True):
    """The current recommendation, and the grades of earlier ones, the newest first."""

    standing: Recommended | None = None
    graded: tuple[Grade, ...] = ()


class Deleted(View, tag="deleted", frozen=True, kw_only=True):
    """The view under this key is deleted; the null that lets compaction remove it follows later."""

    deleted: bool = True


class WatcherBeat(msgspec.Struct, frozen=True, kw_only=True, tag="watcher_beat", tag_field="view"):
    """A sign of life of the leading watcher, about once a second, that bypasses the log and the fold.

    It holds no figure, so it has no `as_of`; the newest record of a cluster counts.
    """

    v: int
    cluster: str
    watcher: str
    generation: int
    seq: int
    """The last change of this generation that the log has acknowledged; 0 before the first."""
    number: int
    """Rises by one with each beat of a generation."""
    session: SessionState | None = None
    """The state of the ZooKeeper session; None before it is known."""
    source_answered_ms: int | None = None
    """How long ago the source (ZooKeeper) last answered anything, by a monotonic clock; None: never yet."""
    log_complete_ms: int | None = None
    """How long ago the source held nothing that the log does not hold now: later changes may wait to be read,
    or to be acknowledged by Kafka. While a resync goes on, it may lack what the resync has yet to read, and says so.
    None: not known."""
    source_ahead_ms: int | None = None
    """By how much the source's clock is at least ahead of the watcher's, as the newest changes show it; negative
    if it is behind. None: not known."""
    sent_at: int
    """When it was sent, by the watcher's clock: only compared with other clocks, no age is computed from it."""
    sent_steady: int
    """The same by a monotonic clock of the watcher. Between two beats of one watcher it shows how much
    longer the second one travelled."""

    @property
    def position(self) -> Position:
        """The position up to which the log was written when the beat was sent."""
        return Position(self.generation, self.seq)


FoldView = ClusterView | BrokerView | TopicView | IncidentsView | RecommendationView
AnyView = FoldView | Deleted | WatcherBeat

_encode = msgspec.json.Encoder().encode
encode_view: Callable[[AnyView], bytes] = _encode
"""Returns a view as JSON."""
_decoder: msgspec.json.Decoder[AnyView] = msgspec.json.Decoder(AnyView)


def view_key(view: FoldView | WatcherBeat) -> str:
    """Return the key of a view: `cluster/kind/id`.

    >>> view_key(BrokerView(v=1, cluster="prod", as_of=AsOf("l", 1, 1), id=3))
    'prod/broker/3'
    """
    if isinstance(view, ClusterView):
        return cluster_key(view.cluster)
    if isinstance(view, BrokerView):
        return broker_key(view.cluster, view.id)
    if isinstance(view, IncidentsView):
        return f"{view.cluster}/incidents"
    if isinstance(view, RecommendationView):
        return f"{view.cluster}/recommendation"
    if isinstance(view, WatcherBeat):
        return f"{view.cluster}/watcher"
    return topic_key(view.cluster, view.name, view.chunk)


def cluster_key(cluster: str) -> str:
    """Return the key of a cluster's own view; a null under it removes the cluster from every reader."""
    return f"{cluster}/cluster"


def broker_key(cluster: str, broker: int) -> str:
    """Return the key of a broker's view."""
    return f"{cluster}/broker/{broker}"


def topic_key(cluster: str, topic: str, chunk: int) -> str:
    """Return the key of one chunk of a topic's views."""
    return f"{cluster}/topic/{topic}/{chunk}"


_BLAKE2B_64 = hashlib.blake2b(digest_size=8)


def view_digest(value: bytes, as_of: AsOf) -> int:
    """Return a view's 64-bit part of a digest, from its JSON; XOR the parts over a cluster's views.

    `as_of` is left out: a fold that resumes from an older checkpoint publishes the same views again,
    and its batches end at other positions of the log.

    >>> places = [AsOf("l", 1, seq) for seq in (1, 2)]
    >>> views = [BrokerView(v=1, cluster="c", as_of=place, id=3) for place in places]
    >>> len({view_digest(encode_view(view), view.as_of) for view in views})
    1
    """
    hashed = _BLAKE2B_64.copy()
    # as_of is in front of everything that a cluster's own names could imitate.
    hashed.update(value.replace(_encode(as_of), b"", 1))
    return int.from_bytes(hashed.digest())


def decode_view(data: bytes) -> AnyView:
    """Return the view; raise UnreadableRecordError if it is not one of this version."""
    view = decode_record(_decoder, data, "a view")
    if view.v != VERSION:
        raise UnreadableRecordError(f"a view of version {view.v}; this release reads {VERSION}")
    if isinstance(view, TopicView) and not view.is_even:
        raise UnreadableRecordError("a view of a topic whose columns are not of one length")
    return view
