"""Up to when the log holds all that ZooKeeper had: what was reported, read, and acknowledged by Kafka.

The rule: an answer of ZooKeeper comes after all notifications of what it had at the question. Once the
paths of those are read and Kafka has acknowledged what was published until then, the log is complete as
of the question. So a beat claims nothing for changes that still wait, be it for a read or for Kafka.
"""

from collections import deque
from typing import NamedTuple

from controller_model.kafka.ids import Position

_MOST_WAITING = 60
"""Questions, one a second: where the log is later than that, the newest show when it has caught up."""


class _Unread(NamedTuple):
    """A question, and the round of reads that began with its answer."""

    asked_ms: int
    round: int


class _Unacknowledged(NamedTuple):
    """A question, and the newest place of the log when all before its answer had been read."""

    asked_ms: int
    position: Position


class LogCompleteness:
    """Follows ZooKeeper's answers until the log holds what came before them."""

    def __init__(self) -> None:
        self._unread: deque[_Unread] = deque(maxlen=_MOST_WAITING)
        self._unacknowledged: deque[_Unacknowledged] = deque(maxlen=_MOST_WAITING)
        self.as_of_ms: int | None = None
        """When the log was complete; None while that is not known."""

    def answered(self, asked_ms: int, round_: int) -> None:
        """Take in an answer; what is marked to be read from now on is of this round."""
        self._unread.append(_Unread(asked_ms, round_))

    def reads_forgotten(self) -> None:
        """Take in that changed paths will not be read: a resync reads them."""
        self._unread.clear()

    def advance(self, *, oldest_round: int, published: Position, acknowledged: Position) -> None:
        """Take in how far the reads, the publishing and Kafka's acknowledgements are."""
        while self._unread and self._unread[0].round <= oldest_round:
            read = self._unread.popleft()
            self._unacknowledged.append(_Unacknowledged(read.asked_ms, published))
        while self._unacknowledged and self._unacknowledged[0].position <= acknowledged:
            self.as_of_ms = self._unacknowledged.popleft().asked_ms

    def complete_ms(self, now_ms: int) -> int | None:
        """Return how long ago the log was complete; None while that is not known."""
        return None if self.as_of_ms is None else now_ms - self.as_of_ms
