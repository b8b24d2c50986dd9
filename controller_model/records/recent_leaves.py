"""The minutes in which replicas of a broker left ISRs, which distinguish a flapping replica from a dead broker.

The rule: a minute counts once, however many replicas left in it, and at its own time, by ZooKeeper's clock. So a
broker that dies with a thousand replicas counts like one that loses a single one, and what is read late is not recent.
"""

WINDOW = "30m"
"""The window in Prometheus's notation: it holds several rounds of a replica that falls behind and catches up."""

WINDOW_MINUTES = 30
_MINUTE_MS = 60_000

Minutes = tuple[int, ...]
"""Minutes since 1970, oldest first."""


def noted(minutes: Minutes, at: int) -> Minutes:
    """Return the minutes with the one of `at` (ms since 1970); those outside the window are dropped.

    >>> noted((10,), 11 * 60_000)
    (10, 11)
    >>> noted((10, 11), 41 * 60_000)
    (41,)
    """
    minute = at // _MINUTE_MS
    if minute in minutes:
        return minutes
    together = sorted((*minutes, minute))
    return tuple(each for each in together if each > together[-1] - WINDOW_MINUTES)


def within_window(minutes: Minutes, now: int) -> int:
    """Return in how many minutes of the window up to `now` (ms since 1970) replicas left ISRs.

    >>> within_window((10, 11, 20), 40 * 60_000)
    2
    """
    return sum(minute > now // _MINUTE_MS - WINDOW_MINUTES for minute in minutes)
