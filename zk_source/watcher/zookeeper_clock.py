"""By how much ZooKeeper's clock, whose times its znodes carry, is certainly ahead of this machine's or behind it.

The rule: a notification after an answer of ZooKeeper is of a change after the question, and it comes before the
change's value. So the change was made between the question and the value, and where its `mtime` lies outside of
that, the clocks disagree by no less. A read that is late proves less, and never what is wrong. A server that has
lost its peers without noticing it answers from its past, and what it then hears at once is older: so two moments
must agree.
Times are by a clock that nobody sets: that this machine's own is set does not move ZooKeeper's.
"""

from typing import NamedTuple

_HELD_MS = 10_000
"""For how long the value of a change is waited for before another change is followed."""

_APART_MS = 2_000
"""Between two moments: changes within it may have been heard of at once."""


class _Noticed(NamedTuple):
    """A change whose value has yet to come."""

    path: str
    after_ms: int
    at_ms: int


class _Moment(NamedTuple):
    """What the changes of a moment leave open: by how much ZooKeeper's clock is ahead, at least and at most."""

    at_ms: int
    least_ms: int
    most_ms: int


class ZookeeperClock:
    """Follows one change at a time from its notification to its value."""

    def __init__(self) -> None:
        self._new: _Noticed | None = None
        self._noticed: _Noticed | None = None
        self._moments: tuple[_Moment, ...] = ()
        """The newest two; the clock that they are held against is the one that nobody sets."""

    def on_notification(self, path: str, complete_as_of_ms: int | None, now_ms: int) -> None:
        """Take in that a znode was made or set, and up to when the log held all that ZooKeeper had."""
        held = self._noticed
        if complete_as_of_ms is None or (held and now_ms - held.at_ms <= _HELD_MS):
            return
        self._new = self._new or _Noticed(path, complete_as_of_ms, now_ms)

    def on_carried_out(self) -> None:
        """Take in that every value from before the newest notification has been published."""
        if self._new is not None:
            self._noticed, self._new = self._new, None

    def on_session(self) -> None:
        """Follow no change over a connection: the next server may not have come as far."""
        self._noticed = self._new = None

    def on_value(self, path: str, mtime: int, now_ms: int) -> None:
        """Take in a value that is published now, and when ZooKeeper says that it was set."""
        held = self._noticed
        if held is None or path != held.path:
            return
        self._noticed = None
        new = _Moment(now_ms, mtime - now_ms, mtime - held.after_ms)
        *_, last = self._moments or (None,)
        if last is not None and now_ms - last.at_ms < _APART_MS:
            new = _Moment(last.at_ms, *_leaves_open(last, new))
            self._moments = (*self._moments[:-1], new)
        else:
            self._moments = (*self._moments, new)[-2:]

    def ahead_ms(self, clock_ahead_ms: int) -> int | None:
        """Return by how much it is ahead of this machine's at least, below 0: behind it; None: not known.

        `clock_ahead_ms` is by how much this machine's clock is ahead of the one that nobody sets.
        """
        if len(self._moments) < 2:  # noqa: PLR2004  # two moments must agree
            return None
        least, most = (bound - clock_ahead_ms for bound in _leaves_open(*self._moments))
        return max(0, least) + min(0, most)


def _leaves_open(*moments: _Moment) -> tuple[int, int]:
    return min(each.least_ms for each in moments), max(each.most_ms for each in moments)
