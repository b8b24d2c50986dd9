"""When ZooKeeper was last asked something that it has answered.

The rule: an answer counts from the moment of its question, as a lease's proof does, so a process that
was paused does not take an old answer for a new one. The question is a sync: the server answers it
only after it has heard its leader, so one that lags or was cut off is noticed as well as a silent one. An
error in its place, such as that of a server that throttles its clients, says nothing of the leader.
"""


class Pulse:
    """One question at a time; its tokens are negative, those of the decisions' requests positive."""

    def __init__(self, every_ms: int) -> None:
        self._every_ms = every_ms
        self._token = 0
        self._asked_ms: int | None = None
        """When the question under way was asked."""
        self._waits_since_ms: int | None = None
        """When the first question was asked that has had no answer since."""
        self._next_ms = 0
        self._answered_ms: int | None = None

    def ask(self, now_ms: int) -> int | None:
        """Return the token of a question that is to be asked now, or None."""
        if self._asked_ms is not None or now_ms < self._next_ms:
            return None
        self._token -= 1
        self._asked_ms = now_ms
        if self._waits_since_ms is None:
            self._waits_since_ms = now_ms
        self._next_ms = now_ms + self._every_ms
        return self._token

    def answer(self, token: int) -> int | None:
        """Take in an answer; return when it was asked for, or None where nobody waits for it any more."""
        if token != self._token or self._asked_ms is None:
            return None
        self._answered_ms, self._asked_ms, self._waits_since_ms = self._asked_ms, None, None
        return self._answered_ms

    def refuse(self, token: int) -> None:
        """Take in that a question got an error for its answer: it is asked again when the next one is due."""
        if token == self._token:
            self._asked_ms = None

    def give_up(self) -> None:
        """Expect no answer to the question under way: its connection is gone."""
        self._asked_ms = self._waits_since_ms = None

    def waits_ms(self, now_ms: int) -> int:
        """Return for how long an answer has been waited for, through all refusals; 0 when none is."""
        return 0 if self._waits_since_ms is None else now_ms - self._waits_since_ms

    def answered_ms(self, now_ms: int) -> int | None:
        """Return how long ago the newest question with an answer was asked; None before the first."""
        return None if self._answered_ms is None else now_ms - self._answered_ms
