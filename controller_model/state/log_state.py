"""What the fold's state holds of the log: the position, resyncs, proofs and counts of damage."""

import msgspec

from controller_model.kafka.ids import NOWHERE, Position
from controller_model.records.changes import SessionState
from controller_model.records.views import ResyncWanted, missed_among


class ResyncState(msgspec.Struct, array_like=True):
    """The resync that is under way."""

    id: int
    rebase: bool
    reason: str
    znodes: int = 0
    digest: int = 0
    whole: bool = True
    """No hole since its start; only such a resync may delete."""
    began: Position = NOWHERE


class LogClock(msgspec.Struct, array_like=True):
    """What the log's clock corrects at present; see `fold/log_clock`."""

    correction: int = 0
    """Milliseconds added to the watcher's clock, so that the log's time does not go back."""
    melted_at: int = 0
    """When the correction was last reduced, by the watcher's clock."""
    doubted: int | None = None
    """A time far ahead in one record that no later record has confirmed yet."""
    absurd: bool = False
    """The last record's time cannot be a time; that has been reported."""


class LogState(msgspec.Struct, array_like=True):
    """The fold's position in the log, and what it met on the way."""

    position: Position = NOWHERE
    watcher: str = ""
    baseline: bool = False
    """A resync of this lineage has ended well: since then changes are news."""
    resync: ResyncState | None = None
    resync_ordinal: int = 0
    znodes: int = 0
    digest: int = 0
    read_zxid: int = 0
    deletes_read_zxid: int = 0
    """The read_zxid of the newest delete: an older read cannot bring a znode back."""
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
    reconciliations: int = 0
    holes: int = 0
    dropped: int = 0
    dropped_base: int = 0
    """Subtracted from what this watcher has dropped, because each watcher starts at 0."""
    not_newer: int = 0
    stale: int = 0
    missed_updates: int = 0
    unreadable: int = 0
    anomalies: int = 0
    errors: int = 0
    rebases: int = 0
    """How often ZooKeeper's history was replaced, as the watcher reported or zxids showed."""
    rebasing: bool = False
    """Values of a replaced history may still be held: until a resync has ended well, a value wins
    whatever its mzxid is."""
    views_from: Position = NOWHERE
    """Where the last complete resync began. It touched every topic, so older views of topics are of
    topics that no longer exist."""
    unreadable_znodes: dict[str, int] = {}
    """Held znodes that the last resync was denied, and their mzxids: their last read value is kept,
    and the watcher's proofs do not include them."""
    denied_more: int = 0
    """How many denied znodes are below those in `denied` without being named."""
    clock: LogClock | None = None
    """None: the log's clock is the watcher's."""
    beats: bool = False
    """The watcher sends beats to the views, as its newest heartbeat reports."""

    def why_incomplete(self) -> str | None:
        """Return why the figures may lack something; None if nothing is known to be missing."""
        missed = missed_among(self.denied)
        if self.incomplete_since is not None or not missed:
            return self.incomplete_reason
        unnamed = len(missed) - 1 + self.denied_more
        more = f" and {unnamed} more" if unnamed else ""
        return f"READ is denied on {missed[0]}{more}: what depends on it is not known"
