"""What the fold knows of one cluster: the control plane, and one value per topic.

The rule: everything that a replay needs stands in these records and in nothing else, so that a
fold can stop anywhere, be packed, and go on as if it had not.
"""

from __future__ import annotations

import msgspec

from controller_model.kafka.ids import NO_CONTROLLER, NOWHERE, Position
from controller_model.records.changes import SessionState
from controller_model.records.events import ControllerElected
from controller_model.records.incidents import IncidentLedger
from controller_model.records.recommendations import RecommendationLedger
from controller_model.records.views import Failover, ResyncWanted, missed_among
from controller_model.state.contribution import Contribution

UNKNOWN_VERSION = -1
"""In a mark: the record did not carry the znode's version, so merged updates cannot be counted."""


class Assumed(msgspec.Struct, frozen=True, array_like=True):
    """What ZooKeeper does not hold and our own options therefore say."""

    min_insync_replicas: int = 1
    leader_imbalance_per_broker_percentage: int = 10


class Mark(msgspec.Struct, array_like=True, gc=False):
    """What is remembered of a znode besides its meaning."""

    mzxid: int
    czxid: int
    version: int
    """UNKNOWN_VERSION where the log did not tell it."""
    resync: int
    """The ordinal of the last resync that told this znode."""
    held_version: int | None = None
    """The version of the good value that stays, while the newest one cannot be read."""

    @property
    def value_version(self) -> int:
        """The version of the value that is held; UNKNOWN_VERSION where the log did not tell it."""
        return self.version if self.held_version is None else self.held_version


class PartitionRecord(msgspec.Struct, array_like=True, gc=False):
    """One partition: its assignment and, once the controller wrote one, its state."""

    replicas: tuple[int, ...] | None = None
    """None: a state stands without an assignment (the topic is being made or deleted)."""
    leader: int | None = None
    """None: no state znode."""
    isr: tuple[int, ...] = ()
    leader_epoch: int = 0
    controller_epoch: int = 0
    leader_recovery_state: int = 0
    mark: Mark | None = None


class TopicState(msgspec.Struct, array_like=True, gc=False):
    """One topic; the value under its name in the fold's state."""

    name: str
    partitions: dict[int, PartitionRecord] = {}
    adding: dict[int, tuple[int, ...]] = {}
    removing: dict[int, tuple[int, ...]] = {}
    topic_id: str | None = None
    min_isr: int | None = None
    reassigning_since: int | None = None
    mark: Mark | None = None
    """None: the topic's znode does not exist (any more, or yet)."""
    config_mark: Mark | None = None
    chunks: int = 0
    """How many topic views were written last."""
    unclean: bool | None = None
    """unclean.leader.election.enable of the topic's own configuration; None when it sets none."""


class BrokerRecord(msgspec.Struct, array_like=True):
    """A broker that was ever registered."""

    epoch: int | None = None
    live: bool = False
    since: int | None = None
    registrations: int = 0
    ends: dict[str, int] = {}
    host: str | None = None
    port: int | None = None
    rack: str | None = None
    isr_leaves: int = 0
    drained: int = 0
    """Partitions that the controller took it off while it was registered: a controlled shutdown
    or a failed log directory."""
    log_dir_failures: int = 0
    """Failed log directories that it told of, ever."""
    log_dir_failed: bool = False
    """One of them since it registered: what the controller took it off is no controlled shutdown."""
    former_address: str | None = None
    """Where it was registered before it moved to its present address."""
    endpoints: tuple[str, ...] = ()
    """All its listeners, as registered (BrokerIdZNode.endpoints)."""
    features: dict[str, dict[str, int]] = {}
    """What it supports: min_version and max_version by feature."""


class ControllerLedger(msgspec.Struct, array_like=True):
    """Who is the controller, and the account of elections."""

    id: int = NO_CONTROLLER
    last_id: int = NO_CONTROLLER
    """The holder before nobody held it."""
    last_holder_epoch: int | None = None
    """The broker epoch of the last holder when it was elected: tells a bounce from a deletion."""
    czxid: int | None = None
    elected_at: int | None = None
    epoch: int | None = None
    epoch_zxid: int = 0
    base_epoch: int | None = None
    """The epoch at which counting started, and how many elections stood for it."""
    base_elections: int = 0
    seen: int = 0
    """Creations of /controller seen since counting started."""
    elections: int = 0
    id_changes: int = 0
    missed: int = 0
    base_missed: int = 0
    missed_told: int = 0
    vacant_since: int | None = None
    held_until: int | None = None
    """When /controller was last known to be held."""
    vacancy_total_min_ms: int = 0
    vacancy_total_max_ms: int = 0
    vacancy_last_min_ms: int | None = None
    vacancy_last_max_ms: int | None = None
    failover: Failover = Failover.UNKNOWN
    failover_since: int | None = None
    failover_partitions: int = 0
    failover_last_write_at: int | None = None
    failover_last_ms: int | None = None
    stale_writes: int = 0
    migrating: bool = False
    untold: ControllerElected | None = None
    """An election whose epoch has not been read yet; told when it is."""
    untold_after: int | None = None
    """The epoch that was known when it was seen."""
    unsure_of: int = NO_CONTROLLER
    """The former holder, while it is open whether its registration vanished with /controller."""
    failover_due: int = 0
    """Leader writes that the failover work under way still owes."""
    timestamp: str | None = None
    """What the payload of /controller says about when it was written."""
    unread: int = 0
    """Elections whose /controller has been read, and the epoch not yet."""


class PredictionLedger(msgspec.Struct, array_like=True):
    """What the controller owes, as of the last heartbeat."""

    at: int | None = None
    """The last heartbeat; after a longer gap than usual nobody knows what was not seen in it."""
    known_since: int | None = None
    owed_since: int | None = None
    last_write_at: int | None = None
    holder: int | None = None
    """czxid of the /controller that the account is about: another controller, another account."""
    written: bool = False
    """A state was written under the current epoch since the last heartbeat."""
    leaderless_zxid: int = 0
    """The largest mzxid of a state that was written without a leader."""
    reassignments: int = 0
    """Reassignments that can go on to their end."""
    counts: dict[str, int] = {}
    told: bool = False
    """That this controller is a ghost."""


class ResyncLedger(msgspec.Struct, array_like=True):
    """The resync that is under way."""

    id: int
    rebase: bool
    reason: str
    znodes: int = 0
    digest: int = 0
    whole: bool = True
    """No hole since its start: only then may it delete."""
    began: Position = NOWHERE


class LogLedger(msgspec.Struct, array_like=True):
    """Where the fold is in the log, and how well it went."""

    position: Position = NOWHERE
    watcher: str = ""
    baseline: bool = False
    """A resync of this lineage has ended well: from then on changes are news."""
    resync: ResyncLedger | None = None
    resync_ordinal: int = 0
    znodes: int = 0
    digest: int = 0
    read_zxid: int = 0
    deletes_read_zxid: int = 0
    """The read_zxid of the newest delete: older reads cannot bring a znode back."""
    wanted: ResyncWanted | None = None
    asked: int = 0
    asked_reason: str = ""
    asked_times: int = 0
    """How often the same reason was given in a row."""
    session: SessionState | None = None
    session_since: int | None = None
    zookeeper: str | None = None
    heartbeat_at: int | None = None
    last_change_at: int | None = None
    last_change_mtime: int | None = None
    verified_at: int | None = None
    divergent_since: int | None = None
    incomplete_since: int | None = None
    incomplete_reason: str | None = None
    denied: tuple[str, ...] = ()
    resyncs: int = 0
    audits: int = 0
    holes: int = 0
    dropped: int = 0
    dropped_base: int = 0
    """What this watcher had dropped is counted from here, since each watcher starts at 0."""
    not_newer: int = 0
    stale: int = 0
    missed_updates: int = 0
    unreadable: int = 0
    anomalies: int = 0
    errors: int = 0
    rebases: int = 0
    """Histories that took the place of another one, told by the watcher or found by their zxids."""
    rebasing: bool = False
    """Values of a history that is over may still be held: until a resync has ended well, values
    win whatever their mzxid."""
    views_from: Position = NOWHERE
    """Where the last whole resync began, which touched all topics that there are: older views of
    topics are of what is no more."""
    hidden: dict[str, int] = {}
    """Held znodes that the last resync was denied, and their mzxids: they stay as they were read
    last, and the watcher's proofs know nothing of them."""

    def why_incomplete(self) -> str | None:
        """Return why the figures may lack something; None when nothing is known to be missing."""
        missed = missed_among(self.denied)
        if self.incomplete_since is not None or not missed:
            return self.incomplete_reason
        more = f" and {len(missed) - 1} more" if len(missed) > 1 else ""
        return f"READ is denied on {missed[0]}{more}: what depends on it is not known"


class ControlPlane(msgspec.Struct, array_like=True):
    """Everything of a cluster but its topics; one value in the fold's state."""

    cluster: str
    assumed: Assumed
    counters_since: int
    now: int = 0
    """The fold's clock: the largest observed_at in the log."""
    log: LogLedger = msgspec.field(default_factory=LogLedger)
    controller: ControllerLedger = msgspec.field(default_factory=ControllerLedger)
    brokers: dict[int, BrokerRecord] = {}
    marks: dict[str, Mark] = {}
    """Of every znode that belongs to no topic, by path."""
    deleting: dict[str, int] = {}
    """Topics under /admin/delete_topics, and since when."""
    reassigning: dict[str, int] = {}
    """Topics with adding or removing replicas, and since when."""
    broker_min_isr: dict[str, int] = {}
    """min.insync.replicas of /config/brokers, by id or "<default>"."""
    cluster_id: str | None = None
    totals: Contribution = msgspec.field(default_factory=Contribution)
    topics: int = 0
    leader_elections: dict[str, int] = {}
    unclean_elections: int = 0
    isr_shrinks: int = 0
    isr_expands: int = 0
    graves: dict[str, int] = {}
    """Keys of views that were deleted, and when: compaction may forget them later."""
    predictions: PredictionLedger = msgspec.field(default_factory=PredictionLedger)
    broker_unclean: dict[str, bool] = {}
    """unclean.leader.election.enable of /config/brokers, by id or "<default>"."""
    coordinators: dict[str, dict[int, int]] = {}
    """Of each topic whose leaders are coordinators: how many partitions each broker leads."""
    kraft_controller: int | None = None
    """The KRaft controller that /migration names; None without one."""
    incidents: IncidentLedger = msgspec.field(default_factory=IncidentLedger)
    recommendations: RecommendationLedger = msgspec.field(default_factory=RecommendationLedger)

    def live_brokers(self) -> set[int]:
        """Return the ids that are registered."""
        return {broker for broker, record in self.brokers.items() if record.live}

    @property
    def default_min_isr(self) -> int:
        """min.insync.replicas where neither the topic nor the leader's broker has its own."""
        return self.broker_min_isr.get("<default>", self.assumed.min_insync_replicas)

    def min_isr_for(self, leader: int) -> int:
        """Return min.insync.replicas for a topic that sets none, by Kafka's order of sources."""
        by_broker = self.broker_min_isr.get(str(leader))
        if by_broker is not None:
            return by_broker
        return self.default_min_isr


def new_cluster(cluster: str, *, assumed: Assumed, counters_since: int) -> ControlPlane:
    """Return a cluster of which nothing is known yet."""
    return ControlPlane(cluster=cluster, assumed=assumed, counters_since=counters_since)
