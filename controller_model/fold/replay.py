"""Apply the log to a cluster, one record after the other.

The rule: `replay` never raises because of what the log holds. It compares each record by its position in
the log, and passes it to the cluster's source, which makes facts of it.
"""

from typing import Any

from controller_model.fold.log_clock import LEAP_MS, advance_clock
from controller_model.handlers.apply import apply_fact
from controller_model.kafka.ids import Position, new_tuple
from controller_model.records.events import AnyEvent
from controller_model.state.cluster import ClusterState
from controller_model.state.completeness import count_anomaly, mark_incomplete
from controller_model.state.incident_state import HealthSample
from controller_model.state.log_state import LogState
from controller_model.state.source import LogRecord
from controller_model.tracking import incident_tracker

Reported = tuple[list[AnyEvent], HealthSample | None]
"""Events, and the health sample that was taken after them, if there was one."""


def replay(state: ClusterState, record: Any) -> Reported:
    """Apply one record of the cluster's source to the state, and return what it reports."""
    control = state.control
    log = control.log
    generation, seq = record.generation, record.seq
    watcher = log.view.watcher
    hole = odd = None
    # As a whole: the fields of a NamedTuple are slow to read.
    follows = log.position == (generation, seq - 1)
    if follows and (record.watcher == watcher or not watcher):
        log.position = new_tuple(Position, (generation, seq))
    elif is_dropped(log, record):
        log.view.not_newer += 1
        return [], None
    else:
        follows = False
    at = record.observed_at
    if log.clock is None and 0 <= at - control.now <= LEAP_MS:
        control.now = at
    else:
        record, odd = advance_clock(state, record)
    source = state.source
    if not follows:
        hole = _jump(state, record)
    events, is_sampled = source.apply(state, record, apply_fact)
    sample = incident_tracker.take_sample(state) if is_sampled else None
    if hole:
        events = hole + events
    if odd is not None:
        where = source.name_of(record).partition(" ")[2]
        events = [count_anomaly(state, at=control.now, path=where, reason=odd), *events]
    return events, sample


def count_error(state: ClusterState, record: LogRecord, error: str) -> list[AnyEvent]:
    """Count an unexpected exception (a bug of kcm) of a record: the figures are incomplete from here on."""
    state.control.log.view.errors += 1
    at, name = record.observed_at, state.source.name_of(record)
    reason = f"an error of the monitor's own in {name}: {error}"
    return [
        count_anomaly(state, at=at, path=name.partition(" ")[2], reason=reason),
        *mark_incomplete(state, at=at, reason="an error of the monitor's own", ask=True),
    ]


def is_dropped(log: LogState, record: LogRecord) -> bool:
    """Return whether `replay` drops a record: it is not after the last one, or is another watcher's."""
    if record.position <= log.position:
        return True
    # One watcher per generation: the first to write it owns it.
    watcher = log.view.watcher
    is_same_generation = record.generation == log.position.generation
    return is_same_generation and bool(watcher) and record.watcher != watcher


def _jump(state: ClusterState, record: LogRecord) -> list[AnyEvent]:
    """Move the log's position to a record that does not follow the last one, and report the hole."""
    log = state.control.log
    before = log.position
    log.position = record.position
    begins = state.source.begins_reading(record)
    is_new_generation = record.generation != before.generation
    state.source.interrupt(state.control, new_generation=is_new_generation)
    if is_new_generation:
        if record.watcher != log.view.watcher:
            log.view.watcher = record.watcher
            log.dropped_base += log.dropped
            log.dropped = 0
        if begins and record.seq == 1:
            return []
        hole = f"the beginning of generation {record.generation} is missing"
    else:
        hole = f"changes {before.seq + 1} to {record.seq - 1} are missing"
    log.view.holes += 1
    reason = f"a hole in the log: {hole}"
    return mark_incomplete(state, at=record.observed_at, reason=reason, ask=not begins)
