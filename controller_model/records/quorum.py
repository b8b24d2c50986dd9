"""What a KRaft cluster's view holds of its quorum, and of what the metadata log states of the cluster as a whole."""

import msgspec

from controller_model.records.metadata_log import QuorumSample


class RegisteredController(msgspec.Struct, frozen=True):
    """A controller process as it registered (RegisterController)."""

    endpoints: tuple[str, ...] = ()
    """`listener://host:port`."""
    zk_migration_ready: bool = False


class Fence(msgspec.Struct, frozen=True, gc=False):
    """A broker that the controller fenced without its controlled shutdown."""

    at: int
    broker: int
    epoch: int
    """The leader epoch in which it was fenced."""


class QuorumView(msgspec.Struct, kw_only=True):
    """The quorum of a KRaft cluster: the fold's state holds this value, and changes it."""

    end: int = 0
    """The offset of the metadata log that follows what the figures hold."""
    epoch: int | None = None
    """The epoch of the record before it."""
    appended_at: int | None = None
    """When that record was appended, by the clock of the controller that was active."""
    begins: int = 0
    """The offset from which on every record was taken: 0, or the end of a snapshot. What was before it shows in figures
    only as far as a snapshot holds it; elections do not."""
    high_watermark: int | None = None
    """Up to where the log was committed, as last known."""
    high_watermark_since: int | None = None
    """Since when it has been there, by the cluster's time: it moves at least with each no-op."""
    leader: int | None = None
    """The leader that the controllers named last; -1: they named none. None: not known."""
    leader_epoch: int | None = None
    candidacies: int = 0
    """Epochs without an elected leader, since `begins`."""
    voters: tuple[int, ...] = ()
    controllers: dict[int, RegisteredController] = {}
    """The registered controllers, by their id."""
    features: dict[str, int] = {}
    """Finalized features and their levels: metadata.version, kraft.version and others."""
    zk_migration_state: int | None = None
    """As the log states it (ZkMigrationState); None: it does not."""
    sample: QuorumSample | None = None
    """The last answer to DescribeQuorum; None: none came, or it may not be asked."""
    is_sampled: bool = False
    """Whether the watcher's last heartbeat held an answer of now: without one, `sample` is of the past."""
    snapshot_end: int | None = None
    snapshot_at: int | None = None
    """The newest snapshot that a controller offers: its end, and the time of its last record."""
    recent_fences: tuple[Fence, ...] = ()
    """Fences of the last minutes, oldest first, of brokers that have not registered again since (`records.recent`)."""
    unreachable_since: int | None = None
    """Since when no controller has answered the watcher; None: one answers."""
    leader_silent_since: int | None = None
    """Since when `leader` has not answered the watcher although another controller names it; None: it is not so.

    It may be dead: voters that cannot be elected go on naming it (org.apache.kafka.raft.ProspectiveState)."""
    unknown: dict[str, int] = {}
    """Records of a newer Kafka that were skipped, by api key and version: figures may lack what they changed."""
