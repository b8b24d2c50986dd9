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
            text=f"the first of brokers {', '.join(map(str, candidates))} to write /controller becomes "
            f"controller; the rehearsal goes on with {elected}",
        )
    if isinstance(operation, KillBroker):
        yield RaceNote(
            race=Race.SESSION_END,
            text=f"until ZooKeeper ends the session of broker {operation.broker} "
            "(zookeeper.session.timeout.ms) what it leads does not answer; leaders that miss it for "
            "replica.lag.time.max.ms may take it out of ISRs before",
        )
    if observer.isr_changes:
        waits = (
            "the copies take as long as the data needs"
            if isinstance(operation, Reassign)
            else "followers catch up in a time and an order of their own"
        )
        yield RaceNote(
            race=Race.CATCH_UP,
            text=f"{waits}; the rehearsal waits for all of them before the next step",
        )
