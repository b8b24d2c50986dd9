"""What the fold's state holds of the log: the position, the requests for a resync, its clock."""

import msgspec

from controller_model.kafka.ids import NOWHERE, Position
from controller_model.records.views import LogView, ResyncWanted

LATEST_MS = 4_102_444_800_000
"""The year 2100: a value beyond it, or before 1970, is not a time."""

STEP_MS = 5_000
"""A clock that is behind by at most this much is not corrected: the log's time waits for it."""


def is_time(record_at: int) -> bool:
    """Return whether a clock may show this value.

    >>> is_time(1_700_000_000_000), is_time(2**62), is_time(-1)
    (True, False, False)
    """
    return 0 <= record_at <= LATEST_MS


class LogClock(msgspec.Struct, array_like=True):
    """What the log's clock corrects at present; see `fold/log_clock`."""

    correction: int = 0
    """Milliseconds added to the watcher's clock, so that the log's time does not go back."""
    slewed_at: int = 0
    """When the correction was last reduced, by the watcher's clock."""
    outlier: int | None = None
    """A time far ahead in one record that no later record has confirmed yet."""
    impossible: bool = False
    """The last record's time cannot be a time; that has been reported."""


class LogState(msgspec.Struct, array_like=True):
    """The fold's position in the log, and what it met on the way."""

    view: LogView = msgspec.field(default_factory=LogView)
    position: Position = NOWHERE
    baseline: bool = False
    """Everything was read once in this lineage: since then changes are news."""
    reason: str | None = None
    """Why changes may be missing since `view.incomplete_since`."""
    hidden_reason: str | None = None
    """What cannot be seen, in words, if figures are not complete without it."""
    wanted: ResyncWanted | None = None
    asked: int = 0
    asked_reason: str = ""
    asked_times: int = 0
    """How often the same reason was given in a row."""
    dropped: int = 0
    dropped_base: int = 0
    """Added to what this watcher has dropped, because each watcher starts at 0."""
    views_from: Position = NOWHERE
    """Where the last complete resync began. It touched every topic, so older views of topics are of
    topics that no longer exist."""
    clock: LogClock | None = None
    """None: the log's clock is the watcher's."""

    @property
    def why_incomplete(self) -> str | None:
        """Why the figures may lack something; None if nothing is known to be missing."""
        is_known = self.view.incomplete_since is not None or self.hidden_reason is None
        return self.reason if is_known else self.hidden_reason
