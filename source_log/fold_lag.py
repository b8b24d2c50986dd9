"""How far a walk may run ahead of a fold that other clusters need as well.

The fold processes the changes of all clusters in batches. A walk of everything that a source holds, as in a
resync, makes batches long when it publishes faster than the fold works, and delays the changes of the other clusters. So a walk goes on step by step. Each
progress that the fold's view shows allows one step more. At most two steps are in the log and not in the
view: one for the batch that runs, and one for the next. Until the fold has shown progress, it may be
starting: a step a second is allowed. When the fold has stopped, nothing waits for it. News is
never held back.
"""

from controller_model.kafka.ids import NOWHERE, Position

STEP = 12_500
"""Changes that a fold processes in half a second, in which a watcher reads as many."""

STEP_MS = 1_000
"""From one step to the next where the fold has shown no progress since we began."""

STOPPED_MS = 10_000
"""Without progress for this long, the fold counts as stopped: one that works shows progress within seconds."""


class FoldLag:
    """Follows the position of the fold's view, and says whether a walk may go on."""

    def __init__(self) -> None:
        self._position = NOWHERE
        self._advanced_ms: int | None = None
        """When the fold made progress; None: not since we began."""
        self._allowed = NOWHERE
        """Up to where a walk may publish."""
        self._allowed_ms = 0

    def on_view(self, position: Position, published: Position, now_ms: int) -> None:
        """Note up to where the view holds the log, and where the log ends.

        A fold that began again shows a position that it had shown before: that is progress, too.
        """
        if position != self._position:
            self._position = position
            self._advanced_ms = now_ms
            self._allow(published, now_ms)

    def allows_walk(self, published: Position, now_ms: int) -> bool:
        """Return whether a walk may publish more, when the log ends at `published`."""
        if self._advanced_ms is not None and now_ms - self._advanced_ms > STOPPED_MS:
            return True
        is_starting = self._advanced_ms is None and now_ms - self._allowed_ms >= STEP_MS
        if is_starting or published.generation != self._allowed.generation:
            self._allow(published, now_ms)
        return published < self._allowed

    def _allow(self, published: Position, now_ms: int) -> None:
        seq = published.seq + STEP
        if self._advanced_ms is not None:
            is_of_ours = self._position.generation == published.generation
            seq = min(seq, (self._position.seq if is_of_ours else 0) + 2 * STEP)
        self._allowed, self._allowed_ms = Position(published.generation, seq), now_ms
