"""Rehearse on a recorded log, at any place of it, without an exporter.

The answer has the fields of the API's, so that a program reads both in the same way. Its
place in the log is in `as_of`. What the log does not show is reported on standard error.
"""

from collections.abc import Sequence

import msgspec

from controller_model.history.log_facts import facts_of, partitions_of
from controller_model.history.log_replay import Point
from controller_model.records.events import AnyEvent
from controller_model.records.pending_writes import ControllerHealth
from kcm.cli.text import printable, warn
from kcm.history.log_source import LogSource
from kcm.history.options import place_text
from kcm.history.replay_run import ReplayRun
from kcm.queries.api_client import Json
from pipeline.runtime import UsageError
from rehearsal.failover import LastFailover
from rehearsal.rehearse import CannotRehearseError, rehearse
from rehearsal.report import shortened
from rehearsal.steps import read_step


def rehearse_on_log(
    source: LogSource, steps: Sequence[str], *, cluster: str | None, point: Point, most: int
) -> Json:
    """Return the answer of a rehearsal at a place of a log; raises UsageError."""
    failovers: list[LastFailover] = []

    def note_failovers(_cluster: str, events: Sequence[AnyEvent]) -> None:
        failovers.extend(filter(None, map(LastFailover.of, events)))

    run = ReplayRun(cluster, (point,), assumed=source.assumed, on_events=note_failovers)
    run.follow(source.lines)
    (snapshot,) = run.snapshots
    place = place_text(snapshot.position, snapshot.at)
    if not snapshot.complete:
        why = printable(snapshot.incomplete_reason or "")
        warn(f"what the log shows at {place} is incomplete: {why}")
    # A replay takes in nothing after its one snapshot: the state is the one at that place.
    state = run.replay.state
    try:
        rehearsed = rehearse(
            facts_of(state),
            partitions_of(state),
            [read_step(step) for step in steps],
            last_failover=failovers[-1] if failovers else None,
            is_zombie=state.source.infer(state.control).pending_writes.health
            is ControllerHealth.ZOMBIE,
        )
    except CannotRehearseError as error:
        raise UsageError(f"at {place}: {error}") from None
    answer: Json = msgspec.to_builtins(shortened(rehearsed, most), str_keys=True)
    as_of = {"generation": str(snapshot.position.generation), "seq": snapshot.position.seq}
    head = {"name": snapshot.cluster, "as_of": as_of, "at": snapshot.at}
    return head | {"complete": snapshot.complete} | answer
