"""What the state of a cluster holds for the metadata log as its source, and nobody else reads."""

from typing import cast

import msgspec

from controller_model.records.metadata_log import NO_EPOCH
from controller_model.records.quorum import QuorumView
from controller_model.state.control_plane import ControlPlane

EPOCHS_KEPT = 200
"""The most epochs whose beginnings are held: records of older ones that come again are dropped without a check."""


IDLE_MS = 500
"""Kafka's default of metadata.max.idle.interval.ms: after so long without a record the controller writes a no-op."""


class SnapshotReading(msgspec.Struct, array_like=True):
    """The snapshot whose reading is under way, and what it has named so far: what it does not name goes."""

    watcher: str
    end: int
    epoch: int
    at: int
    """When the last record that it includes was appended."""
    began: int
    """The seq of the position at which the reading began."""
    parts: int = 0
    """How many were applied."""
    is_whole: bool = True
    topics: dict[str, int] = {}
    """The number of partitions of each topic."""
    brokers: list[int] = []
    controllers: list[int] = []
    features: list[str] = []
    has_migration: bool = False
    configs: list[tuple[int, str, str]] = []
    """Resource type, resource and key."""


class KraftState(msgspec.Struct, array_like=True, tag="kraft"):
    """How far the metadata log is held, and what proves the next record to continue it.

    Its tag tells its bytes from those of other sources.
    """

    end: int = 0
    """The offset of the next record."""
    epoch: int = NO_EPOCH
    """The epoch of the record before it."""
    appended_at: int | None = None
    """When that was appended; None: nothing is held."""
    begins: int = 0
    """The offset from which on every record was taken."""
    epochs: list[tuple[int, int]] = []
    """Each epoch since then with the offset of its first record; at most EPOCHS_KEPT."""
    longest_pause_ms: int = IDLE_MS
    """The longest time between two records of one epoch: a controller may be active for as long after its last record."""
    known_end: int = 0
    """The largest offset that any record of the log has shown to exist."""
    is_whole: bool = True
    """False: something is held that contiguous records do not mend: an error of kcm, or a record that cannot be read."""
    arrived_at: int | None = None
    """When the last record of the slice was appended that is being applied; `appended_at` once it is."""
    is_retelling: bool = False
    """What comes was before what was held: a snapshot or another history began. It does not set the log's time back."""
    is_applying: bool = False
    """A record is being applied; if the next one finds this, an exception has ended that."""
    is_counting: bool = False
    """Counting has started; while something is told again, `LogState.baseline` is off all the same."""
    told_end: int = 0
    """Up to this offset everything was reported: a later generation of the same history may tell it again."""
    told_epoch: int = NO_EPOCH
    """The epoch of the record before that."""
    replaces: bool = False
    """The history was replaced by one that begins at offset 0: what is held goes before its first record is applied."""
    snapshot: SnapshotReading | None = None
    log_dirs: dict[int, tuple[str, ...]] = {}
    """The log directories with which each broker registered."""
    directories: dict[str, int] = {}
    """A number for each log directory that a replica is in."""
    online_dirs: dict[int, tuple[str, ...]] = {}
    """The log directories of each broker that are online; empty: all are (DirectoryId.isOnline)."""


def kraft_of(control: ControlPlane) -> KraftState:
    """Return what a cluster's state holds for the metadata log."""
    source: KraftState = control.source
    return source


def count_from(control: ControlPlane, offset: int) -> None:
    """Count and report what an offset states, unless that was reported before."""
    kraft = kraft_of(control)
    control.log.baseline = kraft.is_counting and offset >= kraft.told_end


def quorum_of(control: ControlPlane) -> QuorumView:
    """Return what views show of the quorum: a KRaft cluster has it from the start (`KraftSource.adopt`)."""
    return cast("QuorumView", control.quorum)
