"""What happened recently, which distinguishes flapping from an old event: controller elections, ISR leaves, fences.

The rule: what happened counts at its own time, by ZooKeeper's clock, whenever it is read. So neither a
watcher that catches up nor an exporter that starts late makes the past recent, and the epoch with which a
rebuilt cluster begins is not an election. Of elections that only a jump of the epoch shows, a time is known
after which they were: they count at that time, so a count is never too high. Every count of elections within a
window is made here: metrics, alerts, boards, page, API and `kcm status` show one number for one window. A minute in which replicas of a
broker left ISRs counts once, so that a broker that dies with a thousand replicas counts like one that loses one.
"""

from collections import defaultdict
from collections.abc import Mapping

from controller_model.records.quorum import Fence

ELECTION_WINDOWS_MS: Mapping[str, int] = {"10m": 600_000, "1h": 3_600_000, "6h": 6 * 3_600_000}
"""The windows of the metric, by their names in Prometheus's notation."""

ELECTIONS_KEPT_MS = 7 * 86_400_000
"""The longest window that can be asked about."""

MAX_KEPT = 200
"""The most entries: a controller elected every three seconds fills the short window; each takes 20 bytes of a view."""

Elections = tuple[tuple[int, int], ...]
"""The times of elections in milliseconds since 1970, each with their number, oldest first."""

LEAVES_WINDOW = "30m"
"""The window in Prometheus's notation: it holds several rounds of a replica that falls behind and catches up."""

LEAVES_WINDOW_MINUTES = 30
_MINUTE_MS = 60_000

Minutes = tuple[int, ...]
"""Minutes since 1970, oldest first."""


def note_election(elections: Elections, at: int, count: int = 1) -> Elections:
    """Return the elections with new ones added; those outside the longest window are dropped.

    >>> note_election(((1_000, 1),), 5_000, 2)
    ((1000, 1), (5000, 2))
    >>> note_election(((1_000, 1),), 1_000 + ELECTIONS_KEPT_MS)
    ((604801000, 1),)
    """
    together = sorted((*elections, (at, count)))
    kept = [each for each in together if each[0] > together[-1][0] - ELECTIONS_KEPT_MS]
    while len(kept) > MAX_KEPT:
        # No election is lost: those of the two oldest entries count at the older time.
        (oldest, first), (_, second), *rest = kept
        kept = [(oldest, first + second), *rest]
    return tuple(kept)


def count_elections(elections: Elections, now: int, window_ms: int) -> int:
    """Return how many elections were within a window up to now.

    >>> count_elections(((1_000, 1), (900_000, 2)), 1_000_000, 600_000)
    2
    """
    return sum(count for at, count in elections if at > now - window_ms)


def elections_within(elections: Elections, now: int) -> dict[str, int]:
    """Return how many elections were within each window of the metric up to now.

    >>> elections_within(((1_000, 1), (900_000, 2)), 1_000_000)
    {'10m': 2, '1h': 3, '6h': 3}
    """
    return {
        name: count_elections(elections, now, window_ms)
        for name, window_ms in ELECTION_WINDOWS_MS.items()
    }


def note_leave(minutes: Minutes, at: int) -> Minutes:
    """Return the minutes with the one of `at` (ms since 1970); those outside the window are dropped.

    >>> note_leave((10,), 11 * 60_000)
    (10, 11)
    >>> note_leave((10, 11), 41 * 60_000)
    (41,)
    """
    minute = at // _MINUTE_MS
    if minute in minutes:
        return minutes
    together = sorted((*minutes, minute))
    return tuple(each for each in together if each > together[-1] - LEAVES_WINDOW_MINUTES)


def leaves_within(minutes: Minutes, now: int) -> int:
    """Return in how many minutes of the window up to `now` (ms since 1970) replicas left ISRs.

    >>> leaves_within((10, 11, 20), 40 * 60_000)
    2
    """
    return sum(minute > now // _MINUTE_MS - LEAVES_WINDOW_MINUTES for minute in minutes)


FENCES_WINDOW = "10m"
"""The window in Prometheus's notation: all that one overload of the controller fences."""
FENCES_WINDOW_MS = 600_000

Fences = tuple[Fence, ...]


def note_fence(fences: Fences, fence: Fence) -> Fences:
    """Return the fences with a new one, of each broker the newest; those outside the window are dropped.

    >>> note_fence((Fence(1_000, 1, 4),), Fence(601_000, 2, 4))
    (Fence(at=601000, broker=2, epoch=4),)
    """
    kept = without_broker(fences, fence.broker)
    return (*(each for each in kept if each.at > fence.at - FENCES_WINDOW_MS), fence)


def without_broker(fences: Fences, broker: int) -> Fences:
    """Return the fences without that of a broker, which has registered again."""
    return tuple([each for each in fences if each.broker != broker])


def fenced_within(fences: Fences, now: int) -> int:
    """Return how many brokers were fenced within the window up to `now` under one epoch: the epoch with the most.

    >>> fenced_within((Fence(1_000, 1, 4), Fence(2_000, 2, 4), Fence(3_000, 3, 5)), 4_000)
    2
    """
    by_epoch: defaultdict[int, int] = defaultdict(int)
    for each in fences:
        by_epoch[each.epoch] += each.at > now - FENCES_WINDOW_MS
    return max(by_epoch.values(), default=0)
