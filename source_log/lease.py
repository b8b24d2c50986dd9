"""The right to write one cluster's log, as a source's election grants it.

The rule: nothing is published without a valid lease. Without one, changes wait. When it is lost,
the waiting changes are dropped and the watcher stands by again.
"""

import enum
import threading
from collections.abc import Callable
from typing import Protocol, Self

from pipeline.topic_probe import TopicProbe


class LeaseStatus(enum.Enum):
    """Whether the log may be written."""

    VALID = "valid"
    UNPROVEN = "unproven"
    """This watcher leads, but cannot prove it now. Changes wait."""
    LOST = "lost"
    """Another watcher leads, or soon will. Changes that wait are dropped."""


class LeaseLostError(Exception):
    """Another watcher leads, or soon will."""


class Lease(Protocol):
    """The right to write the log for one term."""

    term: int | None
    """A number that is larger than that of every earlier leader; every generation of the term is at
    least this. None: there is no election, or this watcher does not lead yet."""

    others: int
    """How many other watchers stand for election: each of them reaches the log, or did seconds ago."""

    @property
    def status(self) -> LeaseStatus:
        """Whether the log may be written now."""

    def report_alive(self) -> None:
        """Note that the main loop works: the lease is renewed only while it does."""

    def invalidate(self) -> None:
        """Make the lease unproven until a proof that was requested after now: another watcher may lead."""


class Elector(Protocol):
    """Stands for election, term after term."""

    def wait(self, stop: threading.Event, make_probe: Callable[[], TopicProbe]) -> Lease | None:
        """Wait until this watcher leads; return None if `stop` is set first.

        It stands for election only while the probe says that the log can be reached.
        """

    def resign(self) -> None:
        """Leave the lease to another watcher, which may do better. The next `wait` stands for election again."""

    def close(self) -> None:
        """Give up the lease at once, for another watcher."""


class SoleWatcher:
    """The elector, and the lease, of a watcher that runs alone."""

    term: int | None = None
    others = 0
    status = LeaseStatus.VALID

    def wait(self, stop: threading.Event, _make_probe: Callable[[], TopicProbe]) -> Self | None:
        """Return at once; None when `stop` is set."""
        return None if stop.is_set() else self

    def report_alive(self) -> None:
        """Do nothing: no other watcher can take over."""

    def invalidate(self) -> None:
        """Do nothing: there is no election to ask."""

    def resign(self) -> None:
        """Do nothing: no other watcher could lead."""

    def close(self) -> None:
        """Do nothing: no other watcher waits."""
