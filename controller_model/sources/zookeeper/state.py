"""What the state of a cluster holds for ZooKeeper as its source, and nobody else reads."""

import msgspec

from controller_model.facts.origin import Origin
from controller_model.kafka.ids import NO_CONTROLLER, NOWHERE, Position
from controller_model.state.control_plane import ControlPlane

DENIED = -1
"""`Origin.reading` of a held znode that the last resync was denied: its last read value is kept, and the watcher's
proofs do not include it."""


class DeniedTree(msgspec.Struct, array_like=True):
    """The held znodes below one path that the last resync was denied."""

    znodes: int = 0
    digest: int = 0


class ResyncState(msgspec.Struct, array_like=True):
    """The resync that is under way."""

    id: int
    rebase: bool
    """ZooKeeper's history was replaced: in this resync a value wins whatever its mzxid is."""
    znodes: int = 0
    digest: int = 0
    whole: bool = True
    """No hole since its start; only such a resync may delete."""
    began: Position = NOWHERE


class ControllerZnodes(msgspec.Struct, array_like=True):
    """The join of /controller with /controller_epoch: which election's epoch has been read."""

    czxid: int | None = None
    """Of /controller; None while nobody holds it."""
    timestamp: str | None = None
    """The time at which /controller was written, by its payload."""
    epoch_zxid: int = 0
    """mzxid of /controller_epoch."""
    holder_epoch: int | None = None
    """The broker epoch of the holder at its election: it distinguishes a bounce from a deletion."""
    unresolved_holder: int = NO_CONTROLLER
    """The former holder, while it is not known whether its registration ended with /controller."""
    epoch_before: int | None = None
    """The epoch that was known when the election was seen that waits for its own."""
    missed_reported: int = 0
    owner: int | None = None
    """The session that holds /controller; 0: it is persistent. None: not known, or nobody holds it."""

    @property
    def epoch_is_behind(self) -> bool:
        """Whether /controller is newer than the epoch: its election's epoch has yet to be read."""
        return self.czxid is not None and 0 < self.epoch_zxid < self.czxid


class ElectionCount(msgspec.Struct, array_like=True):
    """The count of elections by the controller epoch (`election_count`)."""

    base_epoch: int | None = None
    """The epoch at which counting started; `base_elections` is the number of elections at that epoch."""
    base_elections: int = 0
    base_missed: int = 0
    seen: int = 0
    """Creations of /controller seen since counting started."""
    awaiting_epoch: int = 0
    """Elections whose /controller has been read, but whose epoch has not."""
    known_before: int | None = None
    """The last time before the newest election at which the holder of /controller was known; None: never."""


class FailoverState(msgspec.Struct, array_like=True):
    """The work of a failover that is under way, or was last."""

    partitions: int = 0
    pending: int = 0
    """Leader writes that are still pending."""
    last_write_at: int | None = None


class PendingWriteState(msgspec.Struct, array_like=True):
    """The pending writes as of the last heartbeat."""

    at: int | None = None
    """The last heartbeat; after a longer gap than usual it is not known what happened in the gap."""
    known_since: int | None = None
    pending_since: int | None = None
    """Since when every heartbeat has shown a pending write of a partition."""
    waiting: dict[str, int] = {}
    """The oldest requests and notifications that wait for the controller (`_waiting`), and the heartbeats that
    first showed each as the oldest."""
    last_write_at: int | None = None
    holder: int | None = None
    """czxid of the /controller to which these values apply; a new controller starts new ones."""
    zombie_since: int | None = None
    """Since when the holder has been a zombie by writes of partitions; None: it is not known to be one."""
    written: bool = False
    """The controller wrote a partition's state since the last heartbeat (`is_by_controller`)."""
    leaderless_zxid: dict[int, int] = {}
    """By broker, the largest mzxid of a state without a leader in whose ISR it is."""
    asking: set[int] = set()
    """Brokers that leave changes of an ISR to the controller (AlterPartition), by their newest registrations."""
    removed: dict[str, set[int]] = {}
    """Partitions whose states were removed while their topics stay (`note_removed`)."""
    removed_count: int = 0
    """How many of them look like new ones."""
    reassignments: int = 0
    """Reassignments that the controller can complete."""
    deletions: int = 0
    """Partitions of topics to be deleted that the controller can begin to delete."""


class ForeignWriteState(msgspec.Struct, array_like=True):
    """What is held of writes that no Kafka makes (`foreign_writes`)."""

    owners: dict[int, int] = {}
    """The session of each registration; 0: it is persistent."""
    suspected: tuple[str, ...] = ()
    """What did not fit together at the last heartbeat: it counts if it does not at the next one either."""
    reported: tuple[str, ...] = ()
    """What stood at the last heartbeat."""
    epoch_zxid: int = 0
    """The zxid at which the controller epoch went back or was removed."""
    topic_ids: dict[str, tuple[str, int]] = {}
    """Topics whose id was lost or replaced: the id that brokers know, and the zxid of the write."""
    leader_epochs: dict[str, int] = {}
    """Paths of states whose leader epoch shows a foreign write, and the zxid of it."""


class ZooKeeperState(msgspec.Struct, array_like=True):
    """What orders and proves the znodes that are held, and what is inferred from them."""

    stats: dict[str, Origin] = {}
    """The stat of every znode that belongs to no topic, by path."""
    digest: int = 0
    resync: ResyncState | None = None
    resync_ordinal: int = 0
    deletes_read_zxid: int = 0
    """The read_zxid of the newest delete: an older read cannot bring a znode back."""
    rebases: int = 0
    """How often ZooKeeper's history was replaced, as the watcher reported or zxids showed."""
    rebasing: bool = False
    """Values of a replaced history may still be held: until a resync has ended well, a value wins
    whatever its mzxid is."""
    denied_trees: dict[str, DeniedTree] = {}
    """By denied path, how much is held below it; which znodes these are, their stats show (`DENIED`)."""
    controller: ControllerZnodes = msgspec.field(default_factory=ControllerZnodes)
    elections: ElectionCount = msgspec.field(default_factory=ElectionCount)
    failover: FailoverState = msgspec.field(default_factory=FailoverState)
    writes: PendingWriteState = msgspec.field(default_factory=PendingWriteState)
    foreign: ForeignWriteState = msgspec.field(default_factory=ForeignWriteState)


def zookeeper_of(control: ControlPlane) -> ZooKeeperState:
    """Return what the state of a cluster holds for ZooKeeper."""
    source: ZooKeeperState = control.source
    return source
