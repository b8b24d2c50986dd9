"""What the fold knows of one cluster: the control plane, and one value per topic.

The rule: everything that a replay needs stands in these records and in nothing else, so that a
fold can stop anywhere, be packed, and go on as if it had not. A topic is loaded when a change
touches it; the totals never need the others.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol, TypeVar

import msgspec

from controller_model.changes import SessionState
from controller_model.contribution import NO_MIN_ISR, Contribution
from controller_model.coordinators import COORDINATOR_OF, coordinated_by
from controller_model.errors import ModelError
from controller_model.events import ControllerElected
from controller_model.ids import NO_CONTROLLER, NOWHERE, Position
from controller_model.incidents import IncidentLedger, Look
from controller_model.recommendations import RecommendationLedger
from controller_model.views import Failover, ResyncWanted

STATE_VERSION = 3
"""Of the packed values below; a checkpoint of another version is rebuilt from the log."""


UNKNOWN_VERSION = -1
"""In a mark: the record did not carry the znode's version, so merged updates cannot be counted."""


class UnreadableStateError(ModelError):
    """A packed value is damaged or of another version: the fold must start anew."""


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

    def min_isr_for(self, leader: int) -> int:
        """Return min.insync.replicas for a topic that sets none, by Kafka's order of sources."""
        by_broker = self.broker_min_isr.get(str(leader))
        if by_broker is not None:
            return by_broker
        return self.broker_min_isr.get("<default>", self.assumed.min_insync_replicas)


class TopicStore(Protocol):
    """Where topics are kept; a dict in tests, Spark's state in the fold."""

    def get(self, name: str) -> TopicState | None:
        """Return the topic, or None; the caller owns it until it puts it back."""

    def put(self, topic: TopicState) -> None:
        """Keep the topic."""

    def remove(self, name: str) -> None:
        """Forget the topic; nothing happens if there is none."""

    def names(self) -> Iterable[str]:
        """Return the names of all topics: rare, it may read everything."""


class MemoryTopicStore:
    """Topics in a dict."""

    def __init__(self) -> None:
        self._topics: dict[str, TopicState] = {}

    def get(self, name: str) -> TopicState | None:
        """Return the topic, or None."""
        return self._topics.get(name)

    def put(self, topic: TopicState) -> None:
        """Keep the topic."""
        self._topics[topic.name] = topic

    def remove(self, name: str) -> None:
        """Forget the topic."""
        self._topics.pop(name, None)

    def names(self) -> Iterable[str]:
        """Return the names of all topics."""
        return list(self._topics)


class ClusterState:
    """A cluster while changes are applied: the control plane, and the topics at hand.

    `touched` holds the topics that changed since the last `settle`. Before something changes that
    is counted, its counts leave the totals, of a whole topic or of one partition's state alone;
    `settle` counts the new ones. `changed` names the topics that changed since the last projection.
    """

    def __init__(self, control: ControlPlane, topics: TopicStore) -> None:
        self.control = control
        self.topics = topics
        self.touched: dict[str, TopicState] = {}
        self.changed: set[str] = set()
        self.removed: dict[str, int] = {}
        """Topics that are gone since the last projection, and how many views each had."""
        self.look: Look | None = None
        """What was counted at the last change, until the accounts have taken it."""
        self._uncounted: dict[str, set[int] | None] = {}
        """The partitions of touched topics whose states are off the totals; None: all of a topic."""

    def topic(self, name: str) -> TopicState | None:
        """Return a topic for reading."""
        return self.touched.get(name) or self.topics.get(name)

    def hold(self, name: str) -> TopicState:
        """Return a topic for changing what is not counted, new if need be."""
        topic = self.touched.get(name)
        if topic is None:
            topic = self.topics.get(name)
            self._uncounted[name] = set()
            if topic is None:
                topic = TopicState(name)
                self._uncounted[name] = None
            self.touched[name] = topic
        return topic

    def touch(self, name: str) -> TopicState:
        """Return a topic for changing, new if need be; its counts leave the totals."""
        topic = self.hold(name)
        off = self._uncounted[name]
        if off is not None:
            for partition in off:
                self._count(topic, partition, 1, whole=False)
            for partition in topic.partitions:
                self._count(topic, partition, -1, whole=True)
            self._uncounted[name] = None
        return topic

    def touch_state(self, name: str, partition: int) -> TopicState:
        """Return a topic for changing the state of one partition, which leaves the totals."""
        topic = self.hold(name)
        off = self._uncounted[name]
        if off is not None and partition not in off:
            self._count(topic, partition, -1, whole=False)
            off.add(partition)
        return topic

    def _count(self, topic: TopicState, partition: int, by: int, *, whole: bool) -> None:
        """Count a partition, or its state alone, in or out; one without an assignment is none."""
        record = topic.partitions.get(partition)
        if record is None or record.replicas is None:
            return
        totals = self.control.totals
        counted = (record.replicas, record.leader, record.isr)
        added = topic.adding.get(partition, ())
        min_isr = topic.min_isr or NO_MIN_ISR
        deleting = topic.name in self.control.deleting
        if not whole:
            totals.count_state(by, counted, added=added, min_isr=min_isr, deleting=deleting)
            return
        removed = topic.removing.get(partition, ())
        totals.count_partition(
            by, counted, added=added, removed=removed, min_isr=min_isr, deleting=deleting
        )

    def count(self, topic: TopicState) -> Contribution:
        """Return a topic's numbers."""
        return Contribution.of(
            {
                partition: (record.replicas, record.leader, record.isr)
                for partition, record in topic.partitions.items()
                if record.replicas is not None
            },
            adding=topic.adding,
            removing=topic.removing,
            min_isr=topic.min_isr,
            deleting=topic.name in self.control.deleting,
        )

    def settle(self) -> None:
        """Add what the touched topics count now to the totals, and put them into the store."""
        for name, topic in self.touched.items():
            self.changed.add(name)
            if name in COORDINATOR_OF:
                self._count_coordinators(topic)
            off = self._uncounted[name]
            for partition in topic.partitions if off is None else off:
                self._count(topic, partition, 1, whole=off is None)
            if topic.mark is None and topic.config_mark is None and not topic.partitions:
                self.topics.remove(name)
                # At least one: a batch that runs anew may make and end a topic that was told before.
                self.removed[name] = max(topic.chunks, self.removed.get(name, 1))
                continue
            self.topics.put(topic)
        self.touched.clear()
        self._uncounted.clear()

    def _count_coordinators(self, topic: TopicState) -> None:
        if topic.partitions:
            leaders = (record.leader for record in topic.partitions.values())
            self.control.coordinators[topic.name] = coordinated_by(leaders)
        else:
            self.control.coordinators.pop(topic.name, None)


def new_cluster(cluster: str, *, assumed: Assumed, counters_since: int) -> ControlPlane:
    """Return a cluster of which nothing is known yet."""
    return ControlPlane(cluster=cluster, assumed=assumed, counters_since=counters_since)


_StateT = TypeVar("_StateT")
_encoder = msgspec.msgpack.Encoder()
_control_decoder = msgspec.msgpack.Decoder(ControlPlane)
_topic_decoder = msgspec.msgpack.Decoder(TopicState)
_PREFIX = bytes([STATE_VERSION])


def pack_control(control: ControlPlane) -> bytes:
    """Return the control plane as bytes."""
    return _PREFIX + _encoder.encode(control)


def unpack_control(data: bytes) -> ControlPlane:
    """Return the control plane; raises UnreadableStateError."""
    return _unpack(_control_decoder, data)


def pack_topic(topic: TopicState) -> bytes:
    """Return a topic as bytes."""
    return _PREFIX + _encoder.encode(topic)


def unpack_topic(data: bytes) -> TopicState:
    """Return a topic; raises UnreadableStateError."""
    return _unpack(_topic_decoder, data)


def _unpack(decoder: msgspec.msgpack.Decoder[_StateT], data: bytes) -> _StateT:
    if data[:1] != _PREFIX:
        raise UnreadableStateError(f"a state of format {data[:1].hex()}, not {_PREFIX.hex()}")
    try:
        return decoder.decode(memoryview(data)[1:])
    except msgspec.DecodeError as error:
        raise UnreadableStateError(f"a damaged state: {error}") from None
