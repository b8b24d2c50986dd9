"""Decides our generation, and what to do when another watcher writes under our cluster's name.

The rule: of two live watchers of one cluster exactly one continues, without a vote. A watcher that
has just started gives way to any live one that answers it. A watcher that has run for long answers
a newcomer by taking the next generation. If both have run for long (one was paused and is back),
each answers once; then the one whose name sorts last gives way. A predecessor that crashed never
answers, so a restarted watcher continues at once. Records from before our start do not show that
their watcher still runs.

An elected watcher never gives way: another one that writes was deposed, or is not part of
the election. The generations of an elected watcher are at least its term (`lease`), which grows
from leader to leader. It answers with a new generation, at most once in
`CONTEST_MS`. Before that generation is published, the lease must be proved again
(`lease`).
"""

import enum

import msgspec

from controller_model.kafka.ids import Position
from controller_model.records.changes import Int64

PROBATION_MS = 30_000
"""A watcher is new for this long after its first change: three heartbeats, in which a live incumbent answers."""

CONTEST_MS = 60_000
"""Answers that are further apart than this belong to two contests."""


class OtherWatcher(msgspec.Struct, frozen=True):
    """A record that another watcher wrote after our start, reduced to who wrote it and when."""

    cluster: str
    watcher: str
    generation: Int64
    """A generation that no record can hold must not be followed: none of ours could be above it."""
    observed_at: Int64


class FencingDecision(enum.Enum):
    """What a record of another watcher means for us."""

    IGNORE = "ignore"
    """The record is older than our generation."""
    TAKE_NEW_GENERATION = "take new generation"
    GIVE_WAY = "give way"


class Generations:
    """Our position in the log, and the highest generation seen of any watcher."""

    def __init__(self, name: str, *, term: int | None = None) -> None:
        """Start without a position. `term` is the lease's, None without election."""
        self.name = name
        self.elected = term is not None
        self._floor = term or 0
        self.generation = 0
        self.seq = 0
        """The seq of the last record that was numbered (`LogRecorder.next_header`)."""
        self._highest = 0
        self._began_ms = 0
        self._answered_ms: int | None = None
        self._answered_generation = 0

    @property
    def position(self) -> Position:
        """The position of the last change published."""
        return Position(self.generation, self.seq)

    def observe_generation(self, generation: int) -> None:
        """Note a generation that the log or a view contains."""
        self._highest = max(self._highest, generation)

    def begin_next(self, now_ms: int) -> None:
        """Begin the next generation: above all that were seen and all of our own."""
        if not self.generation:
            self._began_ms = now_ms
        self.generation = max(self._highest + 1, self.generation + 1, self._floor)
        self.seq = 0

    def competes(self, watcher: str, generation: int) -> bool:
        """Return whether this is another watcher that readers may follow instead of us."""
        ours = watcher in {"", self.name} or not self.generation
        return not ours and generation >= self.generation

    def judge_view(self, watcher: str, generation: int, now_ms: int) -> FencingDecision:
        """Judge whom the fold follows. A view shows the log's past, not who runs now."""
        self.observe_generation(generation)
        if not self.competes(watcher, generation):
            return FencingDecision.IGNORE
        if self.elected:
            return self._answer(generation, now_ms)
        return FencingDecision.TAKE_NEW_GENERATION

    def judge_record(self, watcher: str, generation: int, now_ms: int) -> FencingDecision:
        """Judge a record that another watcher wrote after our start."""
        self.observe_generation(generation)
        if not self.competes(watcher, generation) or generation <= self._answered_generation:
            return FencingDecision.IGNORE
        if not self.elected and self._gives_way(watcher, generation, now_ms):
            return FencingDecision.GIVE_WAY
        return self._answer(generation, now_ms)

    def _gives_way(self, watcher: str, generation: int, now_ms: int) -> bool:
        if now_ms - self._began_ms < PROBATION_MS:
            # Two that start at the same moment may take the same generation: exactly one must stay.
            return generation > self.generation or self.name > watcher
        return self._contested(now_ms) and self.name > watcher

    def _contested(self, now_ms: int) -> bool:
        return self._answered_ms is not None and now_ms - self._answered_ms < CONTEST_MS

    def _answer(self, generation: int, now_ms: int) -> FencingDecision:
        if self.elected and self._contested(now_ms):
            return FencingDecision.IGNORE  # two that never give way must not race
        self._answered_ms = now_ms
        self._answered_generation = generation
        return FencingDecision.TAKE_NEW_GENERATION
