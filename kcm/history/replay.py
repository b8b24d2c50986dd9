"""`kcm replay`: the flight recorder: replay the log through the model, and show any place of it.

Standard output has what was requested and nothing else. Damage, and what a log does not
hold, are reported on standard error.
"""

import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated

import msgspec
import typer

from controller_model.history.log_replay import END, Point
from controller_model.history.snapshot import Snapshot, encode_snapshot
from controller_model.history.snapshot_diff import diff, encode_diff
from controller_model.kafka.ids import NOWHERE, Position
from controller_model.records.event_records import EventId, encode_event, number
from controller_model.records.events import AnyEvent
from kcm.cli.options import Options, with_options
from kcm.cli.text import read_milliseconds, warn
from kcm.history.log_source import ClusterName, FromTopic, LogFiles, LogSource, open_log
from kcm.history.options import (
    NAMES,
    ReplaySettings,
    load_replay,
    place_text,
    position_text,
    read_point,
    read_position,
)
from kcm.history.replay_run import ReplayRun
from kcm.history.replay_text import UNPROVEN, diff_lines, event_line, summary
from kcm.queries.options import AsJsonLines, console, printing
from pipeline.runtime import UsageError

LINEAGE = "replay"
"""Part of the ids of events: these are a replay's, not those of the pipeline's fold."""
PIPE_WIDTH = 120
"""Columns of a summary whose width no terminal limits."""


Until = Annotated[
    str | None,
    typer.Option(metavar="GENERATION:SEQ", help="Up to this change, inclusive."),
]
At = Annotated[
    str | None,
    typer.Option(
        metavar="TIME",
        help="Up to this time of the log: 2026-11-21T10:00:00Z, or milliseconds since 1970.",
    ),
]
WithEvents = Annotated[bool, typer.Option("--events", help="Print the events as well.")]
Difference = Annotated[
    tuple[str, str] | None,
    typer.Option(
        "--diff",
        metavar="A B",
        help="Print what changed between two places instead; each is GENERATION:SEQ or a TIME.",
    ),
]


@with_options(ReplaySettings, only=NAMES)
def replay(
    config: Path | None,
    options: Options,
    *,
    files: LogFiles = None,
    cluster: ClusterName = None,
    until: Until = None,
    at: At = None,
    as_json: AsJsonLines = False,
    events: WithEvents = False,
    difference: Difference = None,
    from_topic: FromTopic = False,
) -> int:
    """Replay a log, and show the cluster as it was at any point of it.

    Examples: kcm replay changes.jsonl.gz --at 2026-11-21T10:00:00Z, kcm replay incident.zip --events, kcm replay --from-topic --diff 7:1200 7:1300, kcm replay __cluster_metadata-0 --events

    A line of a log is one change or an array of changes, as in <prefix>.changes; a field that is absent or null is not checked. Damaged
    lines are counted and reported; the snapshot is called incomplete unless the following lines show that nothing was left out. A log that
    does not begin with a resync is replayed from its first change on, and its snapshot is called incomplete, too.

    A folder __cluster_metadata-0, copied from any node of a KRaft cluster, holds the last days of a cluster that nobody watched. A place in it is 1:OFFSET, the
    offset that follows. Copy meta.properties beside it, too. Records at its end that nothing in it proves to be committed are marked.
    """  # fmt: skip
    points = _points(until, at, difference)
    source = open_log(load_replay(config, options), files, cluster, from_topic=from_topic)
    on_events = EventPrinter(as_json=as_json, is_proven=source.is_proven) if events else None
    run = ReplayRun(cluster, points, assumed=source.assumed, on_events=on_events)
    with printing():
        run.follow(source.lines)
        snapshots = [_marked(each, source) for each in run.snapshots]
        for point in run.replay.unreached:
            place = place_text(snapshots[-1].position, snapshots[-1].at)
            warn(f"the log ends before {position_text(point.until or NOWHERE)}: at {place}")
        if difference is not None:
            found = diff(*snapshots)
            lines = [encode_diff(found).decode()] if as_json else diff_lines(found)
            sys.stdout.writelines(f"{line}\n" for line in lines)
        elif as_json:
            sys.stdout.write(f"{encode_snapshot(snapshots[0]).decode()}\n")
        else:
            console(PIPE_WIDTH).print(summary(snapshots[0]), crop=False)
    return 0


def _points(
    until: str | None, at: str | None, difference: tuple[str, str] | None
) -> tuple[Point, ...]:
    options = {"--until": until, "--at": at, "--diff": difference}
    given = [name for name, value in options.items() if value is not None]
    if len(given) > 1:
        raise UsageError(f"give one of {' and '.join(given)}, not both")
    if difference is not None:
        return tuple(read_point("--diff", text) for text in difference)
    if until is not None:
        return (read_position("--until", until),)
    return (END,) if at is None else (Point(at=read_milliseconds("--at", at)),)


class EventPrinter:
    """Prints events as they happen: as records of <prefix>.events, or for the eye."""

    def __init__(
        self, *, as_json: bool, is_proven: Callable[[Position], bool] = lambda _: True
    ) -> None:
        """Print events; those that are not proven are marked where people read them."""
        self._as_json = as_json
        self._is_proven = is_proven
        self._last: EventId | None = None

    def __call__(self, cluster: str, events: Sequence[AnyEvent]) -> None:
        """Print events, each with a higher id than the event before it."""
        if not self._as_json:
            for event in events:
                mark = "" if self._is_proven(event.position) else f"  ({UNPROVEN})"
                sys.stdout.write(f"{event_line(event)}{mark}\n")
            return
        for record in number(cluster, LINEAGE, events, after=self._last):
            self._last = record.id
            sys.stdout.write(f"{encode_event(record).decode()}\n")


def _marked(snapshot: Snapshot, source: LogSource) -> Snapshot:
    """Return a snapshot that says from where on it is not proven."""
    if source.is_proven(snapshot.position):
        return snapshot
    return msgspec.structs.replace(snapshot, unproven_from=source.proven_end)
