"""Tracks when the newest question that ZooKeeper has answered was asked.

The rule: an answer counts from the moment of its question, as a proof of the lease does, so to a
process that was paused an old answer does not look new. The question is a sync, which a
server answers only after it has heard from its leader. So a server that lags or is cut off is
noticed, as well as a silent one. An error instead of an answer, such as from a server that
throttles its clients, shows nothing about the leader.
"""


class Pulse:
    """Asks one question at a time; its tokens are negative, those of the decisions' requests positive."""

    def __init__(self, every_ms: int) -> None:
        self._every_ms = every_ms
        self._token = 0
        self._asked_ms: int | None = None
        """When the question in flight was asked."""
        self._waits_since_ms: int | None = None
        """When the first question that has had no answer since was asked."""
        self._next_ms = 0
        self._answered_ms: int | None = None

    def ask(self, now_ms: int) -> int | None:
        """Return the token of a question to be asked now, or None."""
        if self._asked_ms is not None or now_ms < self._next_ms:
            return None
        self._token -= 1
        self._asked_ms = now_ms
        if self._waits_since_ms is None:
            self._waits_since_ms = now_ms
        self._next_ms = now_ms + self._every_ms
        return self._token

    def answer(self, token: int) -> int | None:
        """Handle an answer; return when its question was asked, None when nobody waits for it any more."""
        if token != self._token or self._asked_ms is None:
            return None
        self._answered_ms, self._asked_ms, self._waits_since_ms = self._asked_ms, None, None
        return self._answered_ms

    def refuse(self, token: int) -> None:
        """Note that a question was answered with an error: it is asked again when the next one is due."""
        if token == self._token:
            self._asked_ms = None

    def give_up(self) -> None:
        """Stop waiting for the question in flight: its connection is gone."""
        self._asked_ms = self._waits_since_ms = None

    def waits_ms(self, now_ms: int) -> int:
        """Return for how many ms no answer has arrived, refusals included; 0 when none is awaited."""
        return 0 if self._waits_since_ms is None else now_ms - self._waits_since_ms

    def answered_ms(self, now_ms: int) -> int | None:
        """Return how many ms ago the newest answered question was asked; None before the first."""
        return None if self._answered_ms is None else now_ms - self._answered_ms
