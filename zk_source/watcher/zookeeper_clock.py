"""Bounds the difference between ZooKeeper's clock, whose times znodes carry, and this machine's clock.

The rule: a notification that arrives after an answer of ZooKeeper is about a change made after the
question, and it arrives before the changed value. So the change was made between the question and
the arrival of the value. If its `mtime` is outside of that interval, the clocks differ by at least
as much as it is outside. A late read proves less, and never proves anything wrong. A server that
has lost its peers without noticing answers from its past, and the changes that it then receives all
at once are older than that; so two moments must agree.

All times are of the steady clock, which nobody sets, so that setting this machine's clock does not
shift ZooKeeper's.
"""

from typing import NamedTuple

_FOLLOW_TIMEOUT_MS = 10_000
"""How long to wait for the value of a change before another change is followed."""

_APART_MS = 2_000
"""The shortest time between two moments: changes within it may have been received all at once."""


class _Noticed(NamedTuple):
    """A change whose value has not arrived yet."""

    path: str
    after_ms: int
    at_ms: int


class _Moment(NamedTuple):
    """The bounds that the changes of one moment give: how far ZooKeeper's clock is ahead, at least and at most."""

    at_ms: int
    least_ms: int
    most_ms: int


class ZookeeperClock:
    """Follows one change at a time from its notification to its value."""

    def __init__(self) -> None:
        self._new: _Noticed | None = None
        self._noticed: _Noticed | None = None
        self._moments: tuple[_Moment, ...] = ()
        """The newest two, measured against the steady clock."""

    def on_notification(self, path: str, complete_as_of_ms: int | None, now_ms: int) -> None:
        """Note that a znode was created or set, and as of when the log held all that ZooKeeper had."""
        followed = self._noticed
        if complete_as_of_ms is None or (
            followed and now_ms - followed.at_ms <= _FOLLOW_TIMEOUT_MS
        ):
            return
        self._new = self._new or _Noticed(path, complete_as_of_ms, now_ms)

    def on_published(self) -> None:
        """Note that every value from before the newest notification has been published."""
        if self._new is not None:
            self._noticed, self._new = self._new, None

    def on_session(self) -> None:
        """Stop following: the next connection's server may not be as far."""
        self._noticed = self._new = None

    def on_value(self, path: str, mtime: int, now_ms: int) -> None:
        """Note a value that is published now, and when it was set by ZooKeeper's clock."""
        followed = self._noticed
        if followed is None or path != followed.path:
            return
        self._noticed = None
        new = _Moment(now_ms, mtime - now_ms, mtime - followed.after_ms)
        *_, last = self._moments or (None,)
        if last is not None and now_ms - last.at_ms < _APART_MS:
            new = _Moment(last.at_ms, *_bounds_of(last, new))
            self._moments = (*self._moments[:-1], new)
        else:
            self._moments = (*self._moments, new)[-2:]

    def ahead_ms(self, clock_ahead_ms: int) -> int | None:
        """Return by how many ms ZooKeeper's clock is at least ahead of this machine's.

        Negative: it is behind by at least that. None: not known. `clock_ahead_ms` is how far this
        machine's clock is ahead of the steady clock.
        """
        if len(self._moments) < 2:  # noqa: PLR2004  # two moments must agree
            return None
        least, most = (bound - clock_ahead_ms for bound in _bounds_of(*self._moments))
        return max(0, least) + min(0, most)


def _bounds_of(*moments: _Moment) -> tuple[int, int]:
    return min(each.least_ms for each in moments), max(each.most_ms for each in moments)
