"""The signs of life of one cluster's watcher and fold, and since when each has not advanced.

The rule: ages are measured by the reader's own steady clock (`now`), which nobody sets. A value that was
already there proves nothing until it advances, at the start and after every silence: the first record
after a silence may have been delayed on its way, or may precede what was missed. So a proof takes two
beats that are apart in time. The figures are stale until the view has reached the position up to which,
according to the beats, the log is written. A beat counts from when it was sent, not from when it arrived:
the steady clocks of both sides show how much longer it took than other beats of its watcher, because their
difference does not change.
The same difference compares the wall clocks: a beat names both clocks of its watcher at one moment, so no
delay of that beat counts as a disagreement. It is known from beats that came while the reader was at the end
of the topics; after an interruption the records that waited prove nothing, and a new watcher begins anew.
No clock, no I/O: each method returns a new value, so any thread may read the one that it has.
"""

from typing import NamedTuple, Self

import msgspec

from controller_model.kafka.ids import NOWHERE, Position
from controller_model.records.changes import SessionState
from controller_model.records.completeness import LATE_BEATS_MS, ReaderProgress, Stage
from controller_model.records.views import ClusterView, WatcherBeat

_APART_MS = 500
"""Least time between two beats that prove something: beats that were delayed on their way arrive together."""

_BETWEEN_ANSWERS_MS = 1_500
"""Greatest age of ZooKeeper's last answer: it is asked once a second, so an older one means that an answer is missing."""

_MAX_DUE = 16
"""Most positions kept that the view has yet to reach. Where there are more, the newest replaces the last one and keeps its
time, which is earlier."""

_VIEWS = 5
"""Newest views kept. A view names only the fold's wall clock, so the fastest of them shows the clocks' difference: one
view may be late, not all of them."""
_MIN_SAMPLES = 3
"""Least beats, or views, that compare clocks."""

_TRANSITS = 16
"""Beats kept, at least `_APART_MS` apart; each beat is compared with the fastest of them. A watcher whose machine was
suspended together with its clock is trusted again after as many seconds."""


class _Transit(NamedTuple):
    """How long beats took from a watcher to the exporter, up to a constant: steady clocks start at any value."""

    came_at: int
    ms: int
    """The least of the beats that arrived within `_APART_MS`."""


class _Due(NamedTuple):
    """A position of the log that the view has yet to reach."""

    position: Position
    since: int | None
    """Since when the position is due; None: since before anything was known."""


class LifeSigns(msgspec.Struct, frozen=True, kw_only=True):
    """The signs of life of one cluster; times are in milliseconds of the steady clock, which nobody sets."""

    beat: WatcherBeat | None = None
    beat_at: int | None = None
    """When the newest beat was sent; None: it was read before the end of the topic was reached."""
    transits: tuple[_Transit, ...] = ()
    """The transits of the newest timely beats of the watcher that sent the last one."""
    log_complete_at: int | None = None
    """Up to when the log holds everything that ZooKeeper had, according to the beats."""
    unproven_since: int | None = None
    """When the first beat after a silence arrived; None once later beats have proved something."""
    proven_at: int | None = None
    """`log_complete_at` at the last beat that proves something; None: there was none."""
    due: tuple[_Due, ...] = ()
    position: Position = NOWHERE
    """The view's position in the log."""
    fold_behind: tuple[int, ...] = ()
    """By how much the fold's wall clock was behind our steady one, in ms, for the newest timely views."""

    def with_beat(self, beat: WatcherBeat, now: int, *, is_live: bool, read_at: int | None) -> Self:
        """Return the signs with a beat added.

        Not `is_live`: it was read before the topic's end and may be of any age. `read_at`: when the
        reader had last read everything there was, before this beat.
        """
        last = self.beat
        if last and (beat.generation, beat.number) <= (last.generation, last.number):
            return self
        held = self._transits_of(beat.watcher)
        if not is_live:
            return msgspec.structs.replace(self, beat=beat, transits=held)
        new = _Transit(now, now - beat.sent_steady)
        transits = _with_transit(held, new) if _is_timely(now, read_at) else held
        # As if the fastest beat of its watcher had taken no time.
        sent_at = beat.sent_steady + min(transit.ms for transit in (new, *transits))
        complete_ms = beat.log_complete_ms
        complete_at = None if complete_ms is None else sent_at - max(0, complete_ms)
        # While beats prove nothing yet, what they report may be stale: they may have been delayed.
        known_at = self.log_complete_at if self.unproven_since is None else self.proven_at
        log_complete_at = max(filter(None, (known_at, complete_at)), default=None)
        is_first = last is not None and last.watcher != beat.watcher
        unproven_since, is_proof = (now, False) if is_first else self._judged(log_complete_at, now)
        is_continued = unproven_since is None and last and last.generation == beat.generation
        # At the beat before, the log held no more than that beat reported: the rest was written in between.
        since = self._seen_until() if is_continued and not is_proof else self.proven_at
        proven = unproven_since is None
        return msgspec.structs.replace(
            self,
            beat=beat,
            beat_at=sent_at if self.beat_at is None else max(sent_at, self.beat_at),
            transits=transits,
            log_complete_at=log_complete_at,
            unproven_since=unproven_since,
            proven_at=log_complete_at if proven else self.proven_at,
            due=self._with_due(_Due(beat.position, since)),
        )

    def _transits_of(self, watcher: str) -> tuple[_Transit, ...]:
        """Return the transits held of a watcher: the steady clock of another one began at another value."""
        is_same = self.beat is not None and self.beat.watcher == watcher
        return self.transits if is_same else ()

    def _seen_until(self) -> int | None:
        """Return up to when the log held everything of ZooKeeper at the newest beat: successive silences add up."""
        if self.beat_at is None or self.log_complete_at is None:
            return self.beat_at
        is_answered = self.beat_at - self.log_complete_at <= _BETWEEN_ANSWERS_MS
        return self.beat_at if is_answered else self.log_complete_at

    def _judged(self, log_complete_at: int | None, now: int) -> tuple[int | None, bool]:
        """Return since when beats prove nothing (None: they do), and whether this beat is the first that does."""
        before = self.log_complete_at
        was_silent = self.beat_at is None or now - self.beat_at > LATE_BEATS_MS
        if (
            was_silent
            or before is None
            or log_complete_at is None
            or log_complete_at - before > LATE_BEATS_MS
        ):
            return now, False
        if self.unproven_since is None:
            return None, False
        is_proof = now - self.unproven_since >= _APART_MS
        return (None if is_proof else self.unproven_since), is_proof

    def _with_due(self, new: _Due) -> tuple[_Due, ...]:
        if new.position <= self.position:
            return self.due
        if not self.due or new.position > self.due[-1].position:
            if len(self.due) < _MAX_DUE:
                return (*self.due, new)
            return (*self.due[:-1], _Due(new.position, self.due[-1].since))
        return self.due

    def with_view(self, view: ClusterView, now: int, *, is_live: bool, read_at: int | None) -> Self:
        """Return the signs with the cluster's current view added; for the rest see `with_beat`."""
        position = view.as_of.position
        due = tuple(due for due in self.due if due.position > position)
        is_behind_all = bool(due) and due[0].since is None
        if position < self.position and not is_behind_all:
            # The fold restarted from an older checkpoint: newer figures than these were already shown.
            due = (_Due(self.position, None), *due)
        behind = self.fold_behind
        if is_live and _is_timely(now, read_at):
            behind = (*behind, now - view.folded_at)[-_VIEWS:]
        return msgspec.structs.replace(self, position=position, due=due, fold_behind=behind)

    def _skew_ms(self, ahead_ms: int, source: Stage) -> dict[Stage, int]:
        """Return by how much each wall clock is ahead of ours, which is `ahead_ms` ahead of our steady one."""
        skew = {}
        if len(self.fold_behind) >= _MIN_SAMPLES:
            skew[Stage.FOLD] = -min(self.fold_behind) - ahead_ms
        beat = self.beat
        if beat is not None and len(self.transits) >= _MIN_SAMPLES:
            steady_ms = min(transit.ms for transit in self.transits)
            skew[Stage.WATCHER] = beat.sent_at - beat.sent_steady - steady_ms - ahead_ms
            if beat.source_ahead_ms is not None:
                skew[source] = skew[Stage.WATCHER] + beat.source_ahead_ms
        return skew

    def progress(
        self, now: int, *, wall: int, read_at: int | None, source: Stage = Stage.ZOOKEEPER
    ) -> ReaderProgress:
        """Return the age of each sign at `now`, which our wall clock calls `wall`.

        `source`: whose clock a beat compares with the watcher's. `read_at`: see `with_beat`.
        """
        read_ms = _age(now, read_at)
        proven_at = self.log_complete_at if self.unproven_since is None else self.proven_at
        return ReaderProgress(
            read_ms=read_ms,
            # Where ZooKeeper answers and the log is late, the watcher is, or the Kafka that it writes to.
            watcher_ms=_age(now, proven_at if _is_log_late(self.beat) else self.beat_at),
            fold_ms=_age(now, self.due[0].since) if self.due else 0,
            zookeeper_ms=_age(now, proven_at),
            session=None if self.beat is None else self.beat.session,
            clock_skew_ms=self._skew_ms(wall - now, source),
        )


def _is_timely(now: int, read_at: int | None) -> bool:
    """Return whether a record that is read now was in the topic for a short time only."""
    return read_at is not None and now - read_at <= LATE_BEATS_MS


def _with_transit(held: tuple[_Transit, ...], new: _Transit) -> tuple[_Transit, ...]:
    """Return the newest transits of a watcher with one added."""
    if held and new.came_at - held[-1].came_at < _APART_MS:
        # Beats that were delayed together count as one: they must not push the others out.
        return (*held[:-1], _Transit(held[-1].came_at, min(held[-1].ms, new.ms)))
    return (*held, new)[-_TRANSITS:]


def _is_log_late(beat: WatcherBeat | None) -> bool:
    """Return whether changes wait in the watcher although ZooKeeper has answered it since."""
    if beat is None or beat.session not in {None, SessionState.CONNECTED}:
        return False
    answered_ms, complete_ms = beat.source_answered_ms, beat.log_complete_ms
    if answered_ms is None or complete_ms is None:
        return False
    return complete_ms - answered_ms > _BETWEEN_ANSWERS_MS


def _age(now: int, at: int | None) -> int | None:
    return None if at is None else max(0, now - at)
