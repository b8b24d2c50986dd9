"""The log's clock: the time of each change, whatever the watcher's clock says.

The rule: time never goes back and never stops. If a watcher's clock is set back, or a watcher takes
over with a clock that is behind, the log's time continues: what the clock lacks is added to its times as a
correction, so that deadlines keep running. The correction is reduced slowly while time passes. A time that only
one record holds, or that no clock can show, does not move the log's time.
"""

from typing import Any

import msgspec

from controller_model.records.completeness import LATE_MS
from controller_model.state.cluster import ClusterState
from controller_model.state.log_state import STEP_MS, LogClock, is_time
from controller_model.state.source import LogRecord

LEAP_MS = 86_400_000
"""A jump ahead by more must be in two records in a row: the first one does not move the clock."""

_SLEW_INTERVAL_MS = 1_000
_SLEW_DIVISOR = 10
"""A correction is reduced by the time that passes, divided by this."""


def advance_clock(state: ClusterState, record: Any) -> tuple[Any, str | None]:
    """Advance the log's clock by a record; return the record at the log's time, and what is odd about it."""
    control = state.control
    now, record_at = control.now, record.observed_at
    clock = control.log.clock or LogClock()
    odd = _discipline(clock, now, record_at, state.source.clock_name)
    control.now = _moved(clock, now, record_at)
    control.log.clock = clock if clock != LogClock() else None
    if clock.correction or record_at > control.now or record_at < 0:
        record = msgspec.structs.replace(record, observed_at=control.now)
    return record, odd


def time_after(state: ClusterState, record: LogRecord) -> int:
    """Return what the log's time will be after a record, without advancing it."""
    control = state.control
    clock = msgspec.structs.replace(control.log.clock or LogClock())
    _discipline(clock, control.now, record.observed_at, state.source.clock_name)
    return _moved(clock, control.now, record.observed_at)


def _moved(clock: LogClock, now: int, record_at: int) -> int:
    """Return the log's time after a record's time, with a clock that `_discipline` has adjusted."""
    is_accepted = is_time(record_at) and clock.outlier is None
    return max(now, record_at + clock.correction) if is_accepted else now


def _discipline(clock: LogClock, now: int, record_at: int, whose: str) -> str | None:
    """Adjust the clock to a record's time; return what is odd about that time, by `whose` clock it is."""
    if not is_time(record_at):
        again, clock.impossible = clock.impossible, True
        return None if again else f"a record says that it is of {record_at}, which is no time"
    clock.impossible = False
    outlier = clock.outlier
    ahead = record_at + clock.correction - now
    if now and ahead > LEAP_MS and (outlier is None or record_at < outlier - STEP_MS):
        clock.outlier = record_at
        return None
    clock.outlier = None
    if ahead < -STEP_MS:
        clock.correction -= ahead
        clock.slewed_at = record_at
        return f"{whose} stepped back by {-ahead} ms: the log's time goes on without it"
    if clock.correction:
        _slew(clock, record_at, ahead)
    if outlier is not None and ahead <= LEAP_MS:
        return f"one record says that it is of {outlier}: the log's time did not follow it"
    return None


def _slew(clock: LogClock, record_at: int, ahead: int) -> None:
    """Reduce a correction by a part, or by a gap in the log, of which enough is left to be seen."""
    gap = ahead - LATE_MS - 1
    passed = record_at - clock.slewed_at
    if gap > 0:
        slewed = gap
    elif passed >= _SLEW_INTERVAL_MS:
        slewed = passed // _SLEW_DIVISOR
    else:
        return
    clock.correction -= min(clock.correction, slewed)
    clock.slewed_at = record_at if clock.correction else 0
