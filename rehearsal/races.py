"""The races in a step, and what the rehearsal assumes for each, in words."""

from collections.abc import Iterator

from controller_simulator.cluster.operations import KillBroker, Reassign
from rehearsal.observer import StepObserver
from rehearsal.report import Race, RaceNote
from rehearsal.steps import Act


def races_of(
    operation: Act, candidates: tuple[int, ...], elected: int | None, observer: StepObserver
) -> Iterator[RaceNote]:
    """Yield the races of a step."""
    if len(candidates) > 1:
        yield RaceNote(
            race=Race.CONTROLLER,
            text=f"brokers {', '.join(map(str, candidates))} race for /controller: the first to create it becomes "
            f"controller; the rehearsal assumes broker {elected}",
        )
    if isinstance(operation, KillBroker):
        yield RaceNote(
            race=Race.SESSION_END,
            text=f"until the session of broker {operation.broker} expires (zookeeper.session.timeout.ms), the "
            "partitions that it leads do not answer; other leaders may remove it from ISRs before that "
            "(replica.lag.time.max.ms)",
        )
    if observer.isr_changes:
        waits = (
            "the duration depends on the data to copy"
            if isinstance(operation, Reassign)
            else "followers catch up at different times, in any order"
        )
        yield RaceNote(
            race=Race.CATCH_UP,
            text=f"{waits}; the rehearsal assumes that all have caught up before the next step",
        )
