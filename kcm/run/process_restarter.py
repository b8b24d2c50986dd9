"""Keep a running pipeline running: restart what dies or hangs, unless a restart cannot help.

One `step` never waits, and yields the lines to print; the caller decides how often it
runs and where the lines go. Exit codes 2, 4 and 5 are final: a bad setting, a conflict or a missing
Java does not go away by a restart. Once everything has worked nothing is final: the cause, such as
a full disk, may be repaired, and until then the exporter shows how old its figures are. A process
that hangs is killed, and then restarted as one that died.
"""

import time
from collections.abc import Callable, Iterator
from functools import partial

from kcm.run.health_watch import FIRST_ANSWER_S, KAFKA_REQUEST, HealthWatch
from kcm.run.log_follower import LogFollower
from kcm.run.pipeline_processes import Pipeline
from kcm.servers.ports import HOST
from kcm.servers.process import Process
from pipeline.runtime import (
    Backoff,
    ConflictError,
    EnvironmentProblemError,
    KcmError,
    UnreachableError,
    UsageError,
)

BROKER = "the pipeline's Kafka"
HEALTHY_AFTER_S = 60.0
"""A process that ran for this long is restarted at once when it dies, as after its first death."""
MAX_BROKER_DEATHS = 3
"""Deaths in a row of the embedded broker before `kcm up` gives up: the broker's log says why."""

_FINAL: dict[int, type[KcmError]] = {
    each.exit_code: each for each in (UsageError, ConflictError, EnvironmentProblemError)
}
_FIRST_RESTART_S = 0.5
_MAX_RESTART_S = 30.0


class _RestartState:
    """When a process was started, how often it died, and when it may be started again."""

    def __init__(self, now: float) -> None:
        self.started_at = now
        self.restart_at: float | None = None
        self.deaths = 0
        self.pause = Backoff(first_s=_FIRST_RESTART_S, most_s=_MAX_RESTART_S)


class ProcessRestarter:
    """Restarts the processes of one pipeline; make it before the pipeline starts."""

    def __init__(self, pipeline: Pipeline, *, fail_fast: bool) -> None:
        """Watch over a pipeline; warnings that are already in its logs are not shown.

        With `fail_fast` an unreachable server is final as well.
        """
        self._pipeline = pipeline
        self._final = _FINAL | ({UnreachableError.exit_code: UnreachableError} if fail_fast else {})
        self._is_final_now = True
        self._states: dict[str, _RestartState] = {}
        self._watches = {
            name: HealthWatch(*at, tls=pipeline.is_tls) for name, at in pipeline.listens_at.items()
        }
        if broker := pipeline.broker:
            self._watches[BROKER] = HealthWatch(
                HOST, broker.port, KAFKA_REQUEST, first_answer_s=FIRST_ANSWER_S
            )
        self._followers = [
            LogFollower(name, process.log_path) for name, process in pipeline.processes.items()
        ]

    def has_worked(self) -> None:
        """Record that the figures have been shown live: from now on nothing is final."""
        self._is_final_now = False

    def close(self) -> None:
        """Close the connections of the health checks."""
        for watch in self._watches.values():
            watch.forget()

    def step(self) -> Iterator[str]:
        """Restart what has died and yield the lines for the user; raises KcmError when an error is final."""
        for follower in self._followers:
            yield from follower.news()
        if broker := self._pipeline.broker:
            yield from self._kill_if_it_hangs(BROKER, broker)
            yield from self._restart(BROKER, broker, partial(broker.start, wait=False))
        for name, process in self._pipeline.processes.items():
            yield from self._kill_if_it_hangs(name, process)
            yield from self._restart(name, process, process.start)

    def _kill_if_it_hangs(self, name: str, process: Process) -> Iterator[str]:
        watch = self._watches[name]
        if not process.running:
            watch.forget()
            return
        watch.step(time.monotonic())
        if problem := watch.problem:
            watch.forget()
            process.request_kill()
            yield f"{name} {problem}: it hangs, and is killed"

    def _restart(self, name: str, process: Process, start: Callable[[], None]) -> Iterator[str]:
        now = time.monotonic()
        state = self._states.setdefault(name, _RestartState(now))
        if process.running:
            return
        if state.restart_at is None:
            if self._is_final_now:
                self._check_final(name, process, state)
            if now - state.started_at >= HEALTHY_AFTER_S:
                state.pause.reset()
                state.deaths = 0
            state.deaths += 1
            wait_s = state.pause.next_s()
            state.restart_at = now + wait_s
            line = final_line(process)
            how = f"ended: {line}" if line else f"ended with exit code {process.exit_code}"
            yield f"{name} {how}; starting it again in {wait_s:g} s (log: {process.log_path})"
        if now >= state.restart_at:
            state.restart_at = None
            state.started_at = now
            try:
                start()
            except (OSError, KcmError) as error:
                if self._is_final_now:
                    raise
                wait_s = state.pause.next_s()
                state.restart_at = now + wait_s
                yield f"{name} cannot be started: {error}; trying again in {wait_s:g} s"

    def _check_final(self, name: str, process: Process, state: _RestartState) -> None:
        code = process.exit_code
        if name == BROKER:
            if state.deaths >= MAX_BROKER_DEATHS:
                process.check()
            return
        if code in self._final:
            line = final_line(process) or f"it ended with exit code {code}"
            raise self._final[code](f"{name}: {line} (log: {process.log_path})")


def final_line(process: Process) -> str:
    """Return the line in which a part reported why it ended; empty when there is none."""
    for line in reversed(process.log_tail().splitlines()):
        head, colon, rest = line.partition(": ")
        if colon and head.split()[:1] == ["kcm"]:
            return rest
    return ""
