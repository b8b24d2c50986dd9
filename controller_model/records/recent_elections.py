"""The times of the controller elections of the last hours, which distinguish flapping from an old event.

The rule: an election counts at its own time, by ZooKeeper's clock, whenever it is read. So neither a
watcher that catches up nor an exporter that starts late makes past elections recent, and the epoch
with which a rebuilt cluster begins is not an election. Of elections that only a jump of the epoch
shows, a time is known after which they were: they count at that time, so a count is never too high.
"""

from collections.abc import Mapping

WINDOWS_MS: Mapping[str, int] = {"10m": 600_000, "6h": 6 * 3_600_000}
"""The windows that are counted, by their names in Prometheus's notation."""

MAX_KEPT = 200
"""The most entries: a controller elected every three seconds fills the short window; each takes 20 bytes of a view."""

Elections = tuple[tuple[int, int], ...]
"""The times of elections in milliseconds since 1970, each with their number, oldest first."""


def noted(elections: Elections, at: int, count: int = 1) -> Elections:
    """Return the elections with new ones added; those outside all windows are dropped.

    >>> noted(((1_000, 1),), 5_000, 2)
    ((1000, 1), (5000, 2))
    >>> noted(((1_000, 1),), 1_000 + WINDOWS_MS["6h"])
    ((21601000, 1),)
    """
    together = sorted((*elections, (at, count)))
    newest, longest = together[-1][0], max(WINDOWS_MS.values())
    kept = [each for each in together if each[0] > newest - longest]
    while len(kept) > MAX_KEPT:
        # No election is lost: those of the two oldest entries count at the older time.
        (oldest, first), (_, second), *rest = kept
        kept = [(oldest, first + second), *rest]
    return tuple(kept)


def within_windows(elections: Elections, now: int) -> dict[str, int]:
    """Return how many elections were within each window up to now.

    >>> within_windows(((1_000, 1), (900_000, 2)), 1_000_000)
    {'10m': 2, '6h': 3}
    """
    return {
        name: sum(count for at, count in elections if at > now - window_ms)
        for name, window_ms in WINDOWS_MS.items()
    }
