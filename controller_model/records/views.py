"""What is true now: the records of the compacted topic `kcm.views`.

The rule: a view is an upsert under its key, and of two the newer `as_of` wins. All views of a
batch carry one `as_of`; the cluster view is written last and is the commit marker at which a reader
swaps. Times are milliseconds since 1970. None always means "not known", never zero.
"""

import enum
import hashlib
import re
from collections.abc import Iterable

import msgspec

from controller_model.kafka.errors import UnreadableRecordError
from controller_model.kafka.ids import NOWHERE, AsOf, Position
from controller_model.records.changes import SessionState
from controller_model.records.decoding import decode_record
from controller_model.records.incidents import Incident, IncidentsSummary
from controller_model.records.predictions import WritesDue
from controller_model.records.recommendations import Grade, RebalanceSummary, Recommended

VERSION = 1
"""The version that we write; a reader counts and skips any other."""

PARTITIONS_PER_TOPIC_VIEW = 1_000
"""Partitions in one topic view, so that no record comes near the topics' size limit."""

UNREADABLE_NAMED = 100
"""Unreadable znodes that a cluster's view names."""


class Failover(enum.StrEnum):
    """Where the controller's failover work stands, as far as leader writes show it."""

    NOT_NEEDED = "not_needed"
    """No partition's leader was gone when this controller was elected."""
    UNDER_WAY = "under_way"
    DONE = "done"
    UNKNOWN = "unknown"
    """The election was not seen, or ZooKeeper does not show it (migration to KRaft)."""


class ControllerView(msgspec.Struct, frozen=True, kw_only=True):
    """The controller and the counts of its elections."""

    id: int = -1
    """The broker that holds /controller; -1 when none does."""
    epoch: int | None = None
    elected_at: int | None = None
    """ctime of /controller, by ZooKeeper's clock; None when nobody holds it."""
    elections: int = 0
    """Creations of /controller seen plus those that only the epoch shows."""
    id_changes: int = 0
    """Elections won by another id than the one before."""
    missed_elections: int = 0
    vacant_since: int | None = None
    """Since when nobody holds /controller, by the watcher's clock; None when it is held."""
    vacancy_total_min_ms: int = 0
    """For how long nobody held it, at least; ended vacancies only."""
    vacancy_total_max_ms: int = 0
    """The same, at most: more than the minimum where a change of hands was not seen live."""
    vacancy_last_min_ms: int | None = None
    vacancy_last_max_ms: int | None = None
    failover: Failover = Failover.UNKNOWN
    failover_since: int | None = None
    """When the work that is under way (or was done last) became due."""
    failover_last_ms: int | None = None
    """How long the last finished failover work took."""
    stale_writes: int = 0
    migrating_to_kraft: bool = False
    recent_elections: tuple[tuple[int, int], ...] | None = None
    """When elections of the last 6 h were, and how many at each time; those that were missed count
    when the controller was last known before. None from a fold that does not keep them."""


class Counts(msgspec.Struct, frozen=True, kw_only=True):
    """The cluster's figures, with live brokers and defaults applied (definitions: the README)."""

    topics: int = 0
    partitions: int = 0
    offline: int = 0
    """A state exists and its leader is -1 or not live; topics being deleted excluded."""
    leaderless: int = 0
    """The part of `offline` whose written leader is -1."""
    leader_writes_due: int = 0
    """The part of `offline` whose written leader is a broker that is gone."""
    without_state: int = 0
    """Partitions whose state znode does not exist yet (NewPartition)."""
    under_replicated: int = 0
    under_min_isr: int | None = None
    at_min_isr: int | None = None
    """Both None while min.insync.replicas of some partition is not known."""
    under_replicated_at_min_isr: int | None = None
    """The part of `under_replicated` that is at min.insync.replicas; None while that is not known."""
    under_replicated_reassigning: int | None = None
    """The part of `under_replicated` that gets new replicas; None from a fold that does not count it."""
    preferred_imbalance: int = 0
    """The gauge rule (JMX PreferredReplicaImbalanceCount)."""
    preferred_electable: int = 0
    """Partitions not led by their preferred replica while that one is live and in the ISR."""
    reassigning: int = 0
    deleting_topics: int = 0
    replication_factor_1: int = 0
    min_isr_blocks: int | None = None
    """Partitions whose min.insync.replicas is not below the replication factor, RF 1 apart; None
    while that of some is not known."""
    replicas_on_gone_brokers: int = 0
    """Replicas that are assigned to brokers that are not registered now."""


class Pending(msgspec.Struct, frozen=True, kw_only=True):
    """What stands under /admin and the notification znodes."""

    preferred_election: bool = False
    reassign_partitions: bool = False
    notifications: int = 0
    oldest_reassignment_at: int | None = None
    oldest_deletion_at: int | None = None


_DENIED_BY_KAFKA = "/config/brokers"
"""Kafka's own ACLs (ZkData.SensitiveRootPaths) keep everybody else from it; our options stand in."""


def missed_among(denied: Iterable[str]) -> tuple[str, ...]:
    """Return the paths without which figures are not complete.

    >>> missed_among(["/config/brokers", "/controller"])
    ('/controller',)
    """
    return tuple(path for path in denied if not path.startswith(_DENIED_BY_KAFKA))


def is_below(path: str, denied: Iterable[str]) -> bool:
    """Return whether a path is one of these, or below one.

    >>> is_below("/brokers/topics/t", ["/brokers/topics/t2", "/brokers"])
    True
    """
    return any(path == each or path.startswith(f"{each.rstrip('/')}/") for each in denied)


class LogView(msgspec.Struct, frozen=True, kw_only=True):
    """How complete the figures are, and what the log went through."""

    watcher: str = ""
    session: SessionState | None = None
    session_since: int | None = None
    zookeeper: str | None = None
    heartbeat_at: int | None = None
    last_change_at: int | None = None
    """observed_at of the last change of a znode that was not merely confirmed."""
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
    denied_more: int = 0
    """How many denied znodes are below those in `denied`, not named themselves."""
    resync_under_way: bool = False
    resyncs: int = 0
    audits: int = 0
    holes: int = 0
    dropped_by_watcher: int = 0
    not_newer: int = 0
    """Changes at or before a position that was applied already."""
    stale: int = 0
    """Changes whose value was older than the one held."""
    missed_updates: int = 0
    """Updates that ZooKeeper merged before they could be read (by the znode's version)."""
    unreadable: int = 0
    """Payloads and records that could not be read."""
    anomalies: int = 0
    errors: int = 0
    """Errors of ours that a change met; the change is skipped and reported."""
    beats: bool = False
    """The watcher sends beats to the views: where none comes, it does not live. False: not known."""

    @property
    def incomplete(self) -> bool:
        """Whether the figures may lack something: changes, a first proof, or what is denied."""
        lacking = self.incomplete_since is not None or self.verified_at is None
        return lacking or bool(missed_among(self.denied))

    def is_denied(self, path: str) -> bool:
        """Return whether the watcher may not read some of the znodes whose paths begin so."""
        return any(denied.startswith(path) or denied == "/" for denied in self.denied)


class ResyncWanted(msgspec.Struct, frozen=True, kw_only=True):
    """The fold's request for a resync; the watcher names the number in its answer."""

    number: int
    reason: str


class View(msgspec.Struct, frozen=True, kw_only=True, tag=True, tag_field="view"):
    """What all views share."""

    v: int
    cluster: str
    as_of: AsOf


class ClusterView(View, tag="cluster", frozen=True, kw_only=True):
    """A cluster, and the commit marker of a batch."""

    counters_since: int
    """When this lineage's counters started."""
    folded_at: int
    """When the fold wrote this, by the clock of its own machine."""
    controller: ControllerView
    counts: Counts
    pending: Pending
    log: LogView
    writes_due: WritesDue = WritesDue()
    """The writes that the controller must make, and its health, by the log's clock."""
    cluster_id: str | None = None
    brokers_live: tuple[int, ...] = ()
    brokers_known: tuple[int, ...] = ()
    """Every id that was ever registered or is assigned."""
    leader_elections: dict[str, int] = {}
    unclean_elections: int = 0
    isr_shrinks: int = 0
    isr_expands: int = 0
    min_isr_assumed: int | None = None
    """min.insync.replicas where neither topic nor broker configuration in ZooKeeper says it, by a
    setting of the fold; None without one: it is not known."""
    broker_min_isr: dict[str, int] = {}
    """min.insync.replicas of /config/brokers, by id or "<default>"."""
    broker_unclean: dict[str, bool] = {}
    """unclean.leader.election.enable of /config/brokers, by id or "<default>"."""
    generated_broker_ids: int = 0
    """Broker ids that Kafka gave out itself (broker.id.generation.enable)."""
    kraft_controller: int | None = None
    """The KRaft controller that /migration names, in a migration; -1 before one has taken over."""
    resync_wanted: ResyncWanted | None = None
    incidents: IncidentsSummary = IncidentsSummary()
    rebalance: RebalanceSummary = RebalanceSummary()
    """By the totals; what holds until the controller checks, or somebody elects."""
    views_from: Position = NOWHERE
    """Where the last whole resync began: views of topics from before it are of what is no more,
    since it touched every topic. A fold that went on from an older checkpoint, into a log that has
    lost changes, does not know what it published before and cannot take it back one by one."""
    unreadable: tuple[str, ...] = ()
    """Znodes that belong to no topic and whose newest value cannot be read, /controller and its epoch first: what they
    show is their last good value, or nothing. At most `UNREADABLE_NAMED` of them."""
    unreadable_count: int = 0
    """How many there are."""
    views_digest: str | None = None
    """The digest over all other views of the cluster as they were published last (`view_digest`): a
    reader that holds others lacks some, or has older ones. None: an older release published some of them."""


class BrokerView(View, tag="broker", frozen=True, kw_only=True):
    """A broker: every id that was ever registered or is assigned."""

    id: int
    live: bool
    epoch: int | None = None
    """The broker epoch: czxid of the registration, the last one's for a dead broker."""
    since: int | None = None
    """When it registered (ctime), or when its end was seen."""
    registrations: int = 0
    """Distinct registrations seen."""
    ends: dict[str, int] = {}
    """Ended registrations by kind (events.BrokerEnd)."""
    host: str | None = None
    port: int | None = None
    rack: str | None = None
    leaders: int = 0
    replicas: int = 0
    preferred: int = 0
    """Partitions whose first replica it is, topics being deleted excluded."""
    preferred_not_led: int = 0
    """Those of them with a state whose leader is another (or none): the ratio rule."""
    preferred_electable: int = 0
    """Those of them that a preferred election would give back: it is live and in the ISR."""
    imbalance_ratio: float = 0.0
    """preferred_not_led / preferred, 0 without preferred partitions."""
    leader_skew: float | None = None
    """Leaders above (or below) an even share when every preferred replica leads, as a part of that
    share: what no election can mend. None for a broker that is gone, which leads nothing."""
    in_isr: int = 0
    offline_if_lost: int = 0
    """Partitions that it alone keeps in sync."""
    under_min_isr_if_lost: int | None = None
    """Partitions at their min.insync.replicas of which it is a member, if it is not the last; None
    while that of some is not known."""
    isr_leaves: int = 0
    """How often it left an ISR."""
    isr_leave_minutes: tuple[int, ...] | None = None
    """The minutes since 1970, of the last 30, in which it left one; None: the fold does not say."""
    inferred_state: str | None = None
    """The state that it most likely is in, in Kafka's words (broker_states.BrokerState); None for
    an id that is assigned and was never registered."""
    coordinated: dict[str, int] = {}
    """Partitions of __consumer_offsets ("group") and __transaction_state ("transaction") that it
    leads: it coordinates what is kept in them."""
    log_dir_failures: int = 0
    """Failed log directories that it reported."""
    endpoints: tuple[str, ...] = ()
    """All its listeners, as registered last: `listener://host:port`."""
    features: dict[str, dict[str, int]] = {}
    """What it supports: min_version and max_version by feature."""
    more_if_lost: bool = False
    """More may break than the two counts show: the controller owes leaders or the removal of gone
    members from ISRs, brokers differ in min.insync.replicas, or it is not known."""

    @property
    def safe_to_stop(self) -> bool | None:
        """Whether nothing would break if it stopped now; None: it is gone, or that is unknown.

        What is known to break is known; that nothing breaks, only once the controller owes nothing.
        """
        if not self.live:
            return None
        if self.offline_if_lost or self.under_min_isr_if_lost:
            return False
        return None if self.more_if_lost else True


class TopicView(View, tag="topic", frozen=True, kw_only=True):
    """Up to PARTITIONS_PER_TOPIC_VIEW partitions of a topic; parallel arrays, one entry each."""

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
    leader: tuple[int | None, ...] = ()
    """None: no state znode; -1 as Kafka wrote it."""
    isr: tuple[tuple[int, ...] | None, ...] = ()
    leader_epoch: tuple[int | None, ...] = ()
    controller_epoch: tuple[int | None, ...] = ()
    partition_epoch: tuple[int | None, ...] = ()
    """The version of the state znode that the facts were read of."""
    leader_recovery_state: tuple[int | None, ...] = ()
    unreadable: tuple[int, ...] = ()
    """Partitions whose newest state cannot be read: the last good one is shown, or none."""
    unreadable_znodes: tuple[str, ...] = ()
    """The topic's own znodes (assignment, configuration) of which that is true."""

    @property
    def is_even(self) -> bool:
        """Whether each column has one entry for each partition."""
        columns = (
            *(self.replicas, self.leader, self.isr, self.leader_epoch),
            *(self.controller_epoch, self.partition_epoch, self.leader_recovery_state),
        )
        return all(len(column) == len(self.partitions) for column in columns)


class IncidentsView(View, tag="incidents", frozen=True, kw_only=True):
    """The incidents of a cluster, the newest first; an open one is the first."""

    total: int = 0
    """Opened ever; those that are not here stand in the events."""
    incidents: tuple[Incident, ...] = ()


class RecommendationView(View, tag="recommendation", frozen=True, kw_only=True):
    """The recommendation that stands, and the grades of those before it, the newest first."""

    standing: Recommended | None = None
    graded: tuple[Grade, ...] = ()


class Deleted(View, tag="deleted", frozen=True, kw_only=True):
    """The view under this key is no more; the null that lets compaction forget it comes later."""

    deleted: bool = True


class WatcherBeat(msgspec.Struct, frozen=True, kw_only=True, tag="watcher_beat", tag_field="view"):
    """The watcher that leads lives, about once a second: written past the log and the fold.

    It holds no figure, so it has no `as_of`; of one cluster the newest record counts.
    """

    v: int
    cluster: str
    watcher: str
    generation: int
    seq: int
    """Of the last change of this generation that the log has acknowledged; 0 before the first."""
    number: int
    """Rises by one with each beat of a generation."""
    session: SessionState | None = None
    """Of the ZooKeeper session; None before its state is known."""
    zookeeper_answered_ms: int | None = None
    """How long ago ZooKeeper last answered anything, by a clock that nobody sets; None: never yet."""
    log_complete_ms: int | None = None
    """How long ago ZooKeeper had no more than the log holds now: what changed since may wait to be read,
    or to be acknowledged by Kafka. None: not known."""
    zookeeper_ahead_ms: int | None = None
    """By how much ZooKeeper's clock is ahead of the watcher's at least, as the newest changes show it; below 0:
    behind it. None: not known."""
    sent_at: int
    """When it was sent, by the watcher's clock: held against other clocks, never subtracted."""
    sent_steady: int | None = None
    """The same by a clock of the watcher's that nobody sets: between two beats of one watcher it shows by
    how much the second took longer on its way. None: a release that did not say it."""

    @property
    def position(self) -> Position:
        """How far the log was written when the beat was sent."""
        return Position(self.generation, self.seq)


FoldView = ClusterView | BrokerView | TopicView | IncidentsView | RecommendationView
AnyView = FoldView | Deleted | WatcherBeat

_encoder = msgspec.json.Encoder()
_decoder: msgspec.json.Decoder[AnyView] = msgspec.json.Decoder(AnyView)


def view_key(view: FoldView | WatcherBeat) -> str:
    """Return the key of a view: `cluster/kind/id`.

    >>> view_key(BrokerView(v=1, cluster="prod", as_of=AsOf("l", 1, 1), id=3, live=True))
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
    """Return the key of a cluster's own view; a null under it takes the cluster back from every reader."""
    return f"{cluster}/cluster"


def broker_key(cluster: str, broker: int) -> str:
    """Return the key of a broker's view."""
    return f"{cluster}/broker/{broker}"


def topic_key(cluster: str, topic: str, chunk: int) -> str:
    """Return the key of one chunk of a topic's views."""
    return f"{cluster}/topic/{topic}/{chunk}"


_NOT_KNOWN = re.compile(
    rb'"(?:under_min_isr|(?:under_replicated_)?at_min_isr|min_isr_blocks|min_isr_assumed|under_min_isr_if_lost)":null,'
)
"""What readers of releases before it could be not known take no null for: they have a default. Inside
of a text the quotation marks would be escaped."""


def encode_view(view: AnyView) -> bytes:
    """Return a view as JSON."""
    value = _encoder.encode(view)
    return _NOT_KNOWN.sub(b"", value) if isinstance(view, ClusterView | BrokerView) else value


_BLAKE2B_64 = hashlib.blake2b(digest_size=8)


def view_digest(value: bytes, as_of: AsOf) -> int:
    """Return the 64 bits of a digest of a view, given as JSON; XOR them over the views of a cluster.

    Its `as_of` does not count: a fold that goes on from an older checkpoint publishes the same views
    again, and its batches end elsewhere in the log.

    >>> places = [AsOf("l", 1, seq) for seq in (1, 2)]
    >>> views = [BrokerView(v=1, cluster="c", as_of=place, id=3, live=True) for place in places]
    >>> len({view_digest(encode_view(view), view.as_of) for view in views})
    1
    """
    hashed = _BLAKE2B_64.copy()
    # The place comes first in a view, before anything that a cluster's own names could imitate.
    hashed.update(value.replace(_encoder.encode(as_of), b"", 1))
    return int.from_bytes(hashed.digest())


def decode_view(data: bytes) -> AnyView:
    """Return the view; raises UnreadableRecordError when it is not one of this version."""
    view = decode_record(_decoder, data, "a view")
    if view.v != VERSION:
        raise UnreadableRecordError(f"a view of version {view.v}; this release reads {VERSION}")
    if isinstance(view, TopicView) and not view.is_even:
        raise UnreadableRecordError("a view of a topic whose columns are not of one length")
    return view
