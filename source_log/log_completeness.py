"""Computes up to when the log holds all changes that the source's cluster had.

The rule: the answer to a question that the source asks arrives after all notifications of changes
that the cluster had at the time of the question. When the paths of those notifications are read, and Kafka has acknowledged
what was published until then, the log is complete as of the question. So a beat claims nothing
about changes that still wait, whether for a read or for Kafka.
"""

from collections import deque
from typing import NamedTuple

from controller_model.kafka.ids import Position

_MAX_WAITING = 60
"""Questions kept, one a second. When the log is further behind, the newest ones show when it has caught up."""


class _Unread(NamedTuple):
    """A question, and the round of reads that began with its answer."""

    asked_ms: int
    round: int


class _Unacknowledged(NamedTuple):
    """A question, and the newest position of the log when everything before its answer had been read."""

    asked_ms: int
    position: Position


class LogCompleteness:
    """Follows the answers to a source's questions until the log holds what was before them."""

    def __init__(self) -> None:
        self._unread: deque[_Unread] = deque(maxlen=_MAX_WAITING)
        self._unacknowledged: deque[_Unacknowledged] = deque(maxlen=_MAX_WAITING)
        self.as_of_ms: int | None = None
        """As of when the log is complete, in ms of the steady clock; None while that is not known."""

    def answered(self, asked_ms: int, round_: int) -> None:
        """Note an answer. What is marked to be read from now on belongs to this round."""
        self._unread.append(_Unread(asked_ms, round_))

    def reads_forgotten(self) -> None:
        """Note that changed paths will not be read: a resync reads them."""
        self._unread.clear()

    def advance(self, *, oldest_round: int, published: Position, acknowledged: Position) -> bool:
        """Note how far the reads, the publishing and Kafka's acknowledgements are.

        Return whether more is read than before: the log will be complete as of a newer question once it holds `published`.
        """
        is_read = bool(self._unread) and self._unread[0].round <= oldest_round
        while self._unread and self._unread[0].round <= oldest_round:
            read = self._unread.popleft()
            self._unacknowledged.append(_Unacknowledged(read.asked_ms, published))
        while self._unacknowledged and self._unacknowledged[0].position <= acknowledged:
            self.as_of_ms = self._unacknowledged.popleft().asked_ms
        return is_read

    def complete_ms(self, now_ms: int) -> int | None:
        """Return how long ago the log was complete, in ms; None while that is not known."""
        return None if self.as_of_ms is None else now_ms - self.as_of_ms
