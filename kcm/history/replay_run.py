"""One run of `kcm replay`: takes lines, gives events and snapshots.

Damage is counted, named on standard error with its place, and never ends the run. Only a
log without one readable change ends it: nothing is known of any cluster, so there is no snapshot, and
the error names the first damage.
"""

from collections.abc import Callable, Iterable, Sequence

from controller_model.history.log_replay import AssumedOf, LogReplay, Point, Sampler
from controller_model.history.snapshot import Snapshot
from controller_model.records.events import AnyEvent
from controller_model.records.loose_log import LooseLine, decode_line
from kcm.cli.text import printable, time_text, warn
from kcm.history.options import place_text, position_text
from kcm.history.replay_input import Line
from pipeline.runtime import UsageError

MAX_DAMAGE_SHOWN = 20
"""Lines about damage."""

EventSink = Callable[[str, Sequence[AnyEvent]], None]
"""Takes the cluster's name, empty where no record has one, and the events."""


class ReplayRun:
    """A replay of lines; `snapshots` are in the order of the points."""

    def __init__(
        self,
        cluster: str | None,
        points: Sequence[Point],
        *,
        assumed: AssumedOf,
        on_events: EventSink | None = None,
        sampler: Sampler | None = None,
        warn: Callable[[str], None] = lambda line: warn(printable(line)),
    ) -> None:
        self.replay = LogReplay(cluster, points=points, assumed=assumed, sampler=sampler)
        self.damaged = 0
        self._held: list[str] = []
        """What is unreadable before the first change: one line, if no change follows."""
        self._chosen = cluster
        self._points = points
        self._on_events = on_events
        self._warn = warn

    def follow(self, lines: Iterable[Line]) -> None:
        """Take in all lines; raises UsageError for a log of several clusters when none was chosen."""
        for line in lines:
            if self.replay.is_done and self._chosen is not None:
                break
            self._apply_line(line)
        self._report_events(self.replay.finish())
        self._check()
        self._warn_of_what_was_dropped()

    @property
    def snapshots(self) -> list[Snapshot]:
        """The snapshots; raises UsageError for a point before the log begins."""
        taken = []
        for point in self._points:
            snapshot = self.replay.snapshots.get(point)
            if snapshot is None:
                asked = position_text(point.until) if point.until else time_text(point.at or 0)
                first = self.replay.first
                at = f": at {place_text(first.position, first.observed_at)}" if first else ""
                raise UsageError(f"the log begins later than {asked}{at}")
            taken.append(snapshot)
        return taken

    def _apply_line(self, line: Line) -> None:
        loose = LooseLine((), 1, line.damage) if line.damage else decode_line(line.data)
        is_damaged = loose.unreadable > 0 and self._is_ours(loose)
        if is_damaged and not loose.ends_unreadable:
            self._report_damage(line, loose)
        self.replay.store_requests(loose.requests)
        events = self.replay.apply_changes(loose.changes)
        if loose.metadata:
            events += self.replay.apply_metadata(loose.metadata)
        if self.replay.first is not None:
            for held in self._held:
                self._warn(held)
            self._held = []
        if events:
            self._report_events(events)
        if is_damaged and loose.ends_unreadable:  # no change of the line shows what is missing
            self._report_damage(line, loose)

    def _is_ours(self, loose: LooseLine) -> bool:
        """Return whether damage may concern this cluster: all changes of a message are of one cluster."""
        ours = {"", self.replay.cluster}
        names = {each.cluster for each in loose.records}
        return self.replay.cluster is None or not names or not names.isdisjoint(ours)

    def _report_damage(self, line: Line, loose: LooseLine) -> None:
        if self.damaged < MAX_DAMAGE_SHOWN or line.damage:
            count = f"{loose.unreadable} records: " if loose.unreadable > 1 else ""
            self._report(f"{line.place}: unreadable, skipped: {count}{loose.reason}")
        elif self.damaged == MAX_DAMAGE_SHOWN:
            self._report(f"{line.place}: more that is unreadable is counted only")
        self.damaged += 1
        self._report_events(
            self.replay.count_unreadable(loose.unreadable, f"{line.place}: {loose.reason}")
        )

    def _report(self, text: str) -> None:
        if self.replay.first is None:
            self._held.append(text)
        else:
            self._warn(text)

    def _report_events(self, events: Sequence[AnyEvent]) -> None:
        if self._on_events is None or self._is_ambiguous():
            return
        if len(self._points) > 1:  # between the two points
            taken = (each.position for each in self.replay.snapshots.values() if each is not None)
            begin = min(taken, default=None)
            events = [each for each in events if begin is not None and each.position > begin]
        if events:
            self._on_events(self.replay.cluster or "", events)

    def _is_ambiguous(self) -> bool:
        return self._chosen is None and len(self.replay.clusters) > 1

    def _check(self) -> None:
        listed = printable(", ".join(sorted(self.replay.clusters)))
        if self._is_ambiguous():
            raise UsageError(f"the log has several clusters; choose one by --cluster: {listed}")
        if self.replay.first is not None:
            return
        if self.replay.clusters:
            raise UsageError(
                f"there is no change of cluster {self._chosen} in the log; it has: {listed}"
            )
        if self.damaged:
            raise UsageError(f"nothing in the log is a readable change: {self._held[0]}")
        raise UsageError("there is no change in the log")

    def _warn_of_what_was_dropped(self) -> None:
        log = self.replay.state.control.log.view
        if log.not_newer:
            self._warn(
                f"{log.not_newer} changes were dropped: not newer than those before them, "
                "or of another watcher (are the files in order?)"
            )
        if log.errors:
            self._warn(f"{log.errors} changes met an error of ours and were dropped: see --events")
