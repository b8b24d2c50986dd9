"""Answer rehearsals in the API's terms: read the steps, refuse too much work, run the rehearsal.

A rehearsal takes memory and time in proportion to the cluster's size, so both are bounded before
it begins, memory by what is left. The refusal says how to run the rehearsal without the exporter.
"""

from collections.abc import Sequence

import msgspec
from starlette.exceptions import HTTPException

from controller_model.kafka.cluster_facts import ClusterFacts
from controller_model.records.event_records import decode_event
from controller_model.records.events import FailoverWork
from controller_model.records.pending_writes import ControllerHealth
from exporter.api.answers import RehearsalAnswer
from exporter.core.parameters import refuse
from exporter.core.records import ClusterSnapshot
from exporter.intake.event_store import EventStore
from rehearsal.failover import LastFailover
from rehearsal.rehearse import CannotRehearseError, rehearse
from rehearsal.report import shortened
from rehearsal.steps import RollingRestart, Step, StepError, read_step

PARTITION_BYTES = 6_000
"""Memory that a rehearsal is assumed to take for each partition: up to 5 kB where all of them change."""
MAX_WORK = 2_000_000
"""Most partitions times operations: that takes some minutes, for which other rehearsals wait."""
_LOOKED_AT = 10
"""Number of newest failovers searched: some had no leader to write."""

_MIB = 1024 * 1024

_ELSEWHERE = "kcm rehearse --from-topic rehearses on the recorded log, outside of the exporter"


def read_steps(texts: Sequence[str]) -> list[Step]:
    """Return the steps; raises HTTPException 400 where there is none, and for the first that cannot be read."""
    if not texts:
        raise refuse(
            "step", "say what is rehearsed, such as stop-broker:1; repeated, in this order"
        )
    try:
        return [read_step(text) for text in texts]
    except StepError as error:
        raise refuse("step", str(error)) from None


def check_work(steps: Sequence[Step], snapshot: ClusterSnapshot, memory_left: int | None) -> None:
    """Raise HTTPException 400 for more work than the exporter does; `memory_left` in bytes, None: not known."""
    partitions = snapshot.view.counts.partitions or 0
    needed = partitions * PARTITION_BYTES
    if memory_left is not None and needed > memory_left:
        why = (
            f"a rehearsal of {partitions} partitions may take {needed // _MIB} MiB of memory, and the exporter "
            f"has {memory_left // _MIB} left"
        )
        raise refuse("step", f"{why}; {_ELSEWHERE}")
    brokers = len(snapshot.view.brokers_live or ())
    operations = sum(
        2 * (len(step.order) or brokers) if isinstance(step, RollingRestart) else 1
        for step in steps
    )
    if operations * partitions > MAX_WORK:
        why = f"{operations} operations on {partitions} partitions are too much at once"
        raise refuse("step", f"{why}; ask for fewer, or: {_ELSEWHERE}")


def last_failover(events: EventStore, snapshot: ClusterSnapshot) -> LastFailover | None:
    """Return the last failover among the kept events that had leaders to write; None: none is known."""
    page = events.search(
        snapshot.name, up_to=snapshot.view.as_of, most=_LOOKED_AT, kinds=(FailoverWork.__name__,)
    )
    found = (LastFailover.of(decode_event(value).event) for value in page.values)
    return next((last for last in found if last is not None), None)


def rehearsal_of(
    snapshot: ClusterSnapshot,
    facts: ClusterFacts,
    steps: Sequence[Step],
    last: LastFailover | None,
    most: int,
) -> RehearsalAnswer:
    """Return what the controller would do in each step; raises HTTPException 409 where there is no controller.

    At most `most` partitions are named in each list.
    """
    try:
        rehearsed = rehearse(
            facts,
            snapshot.all_partitions(),
            steps,
            last_failover=last,
            is_zombie=snapshot.view.pending_writes.health is ControllerHealth.ZOMBIE,
        )
    except CannotRehearseError as error:
        raise HTTPException(409, str(error)) from None
    return RehearsalAnswer(**msgspec.structs.asdict(shortened(rehearsed, most)))
