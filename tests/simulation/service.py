"""`kcm stream` in the simulation: its real service, with its lineages in a real folder, over simulated batches.

The rule: Spark, threads, time and Kafka's clients are simulated; the service itself decides when a
query restarts, what is waited for and when a lineage begins. This module draws its faults from its
own random numbers, so that a seed without it stays the same.
"""

from __future__ import annotations

import random
import shutil
import tempfile
from collections import deque
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING
from unittest import mock

from prometheus_client import CollectorRegistry

from pipeline.runtime import EnvironmentProblemError, KcmError
from pipeline.stop_signal import StopSignal
from pipeline.topics import EnsuredTopics
from streaming import processor as processor_module
from streaming import service
from streaming.lineage import Lineage
from tests.simulation.fold import Fold, State
from tests.simulation.oracle import BrokenError
from tests.simulation.process import KilledError, Process
from tests.simulation.service_faults import break_something
from tests.simulation.service_oracle import ServiceOracle
from tests.simulation.service_stage import ServiceStage, stream_settings
from tests.simulation.spark import (
    DISK_FULL,
    TROUBLES,
    Checkpoints,
    Planned,
    SimulatedJavaError,
    SimulatedQuery,
    SimulatedSession,
    SimulatedSparkError,
    Trouble,
    Way,
)
from tests.simulation.stage import is_serviced

if TYPE_CHECKING:
    from tests.simulation.world import World

SILENT = 0.4
"""How often a JVM that refuses a query gives no reason."""

_CONVERTED = "java.lang.IllegalArgumentException"
"""One of Java's exceptions for which pyspark has a class."""

_RETRIES_MS = 2_000
"""For how long Spark retries where a log seems to have lost records at its end."""

STOP_MS = 60_000
"""Within this time a stop must end the part, also where each of its limits is reached once."""


def fold_of(world: World) -> Fold:
    """Return the fold of a world."""
    return ServicedFold(world) if is_serviced(world.seed) else Fold(world)


class Stop(StopSignal):
    """The event that a signal sets; a wait for it uses the clock."""

    def __init__(self, fold: ServicedFold) -> None:
        super().__init__()
        self._fold = fold
        self._is_waited_for = False

    def set(self) -> None:
        """Request the end."""
        super().set()
        if self._is_waited_for:
            self._fold.process.wake()

    def wait(self, timeout: float | None = None) -> bool:
        """Let the time pass."""
        assert timeout is not None
        if not self.is_set():
            self._fold.judge.on_wait(timeout)
            self._is_waited_for = True
            self._fold.process.sleep(timeout)
            self._is_waited_for = False
        return self.is_set()


class ServicedFold(Fold):
    """`kcm stream` under a supervisor that restarts it."""

    process: Process
    """The current process, or the last one."""
    stop: Stop

    def _start(self) -> None:
        world, closing = self.world, self.world.stage.closing
        self.rng = random.Random(f"service {world.seed}")  # noqa: S311  # a play, not a secret
        self.damages = random.Random(f"{world.seed} damages files")  # noqa: S311  # a play, not a secret
        self.root = Path(closing.enter_context(tempfile.TemporaryDirectory())).resolve()
        self.names: set[str] = set()
        """All lineages that were ever begun."""
        self._steady_ahead_ms = 0
        self.full_until = 0
        self.cut_off_until = 0
        self.troubles: deque[tuple[Trouble, int]] = deque()
        """The next faults, each after a number of batches."""
        self.damaged: dict[str, Trouble] = {}
        """What is wrong with a lineage's checkpoint, permanently."""
        self.damaged_files: set[str] = set()
        """The lineages of which a file is damaged."""
        self.next_session: Way | None = None
        """The fault of the next start of Spark."""
        self.session: SimulatedSession | None = None
        self.query: SimulatedQuery | None = None
        self.checkpoints = Checkpoints(world.log.name)
        self.backup: tuple[Lineage, int] | None = None
        """A copy of the checkpoint: its lineage, and its newest batch."""
        self._settings = stream_settings(self.root)
        self._is_over = False
        self.judge = ServiceOracle(self)
        for module, name, stand_in in ServiceStage(self).stand_ins():
            closing.enter_context(mock.patch.object(module, name, stand_in))
        closing.callback(self._end)
        world.hit("a fold that its service runs")
        self._boot_after(0)

    # --- the process ------------------------------------------------------------------------

    def _boot_after(self, ms: int) -> None:
        self.world.clock.after(ms, self._boot)

    def _boot(self) -> None:
        self.judge.begin()
        self._steady_ahead_ms = self.world.clock.steady_ahead_ms()
        self.registry = CollectorRegistry()
        self.stop = Stop(self)
        self.process = Process(
            self.world.clock, lambda: service.run(self._settings, self.stop), self._on_end
        )
        self.process.start()

    @property
    def steady(self) -> int:
        """The process's steady clock."""
        return self.world.clock.now + self._steady_ahead_ms

    @property
    def is_up(self) -> bool:
        """Whether the process runs."""
        return "process" in vars(self) and not self.process.has_ended

    def _on_end(self, error: BaseException | None) -> None:
        self.session = self.query = None
        if self._is_over:
            return
        self.world.trace(self.without_folder(f"STREAM ends: {error!r}"))
        if isinstance(error, KcmError):
            self.judge.on_end(error)
            self.world.hit(f"service: it ended with exit code {error.exit_code}")
        elif error is not None and not isinstance(error, KilledError):
            raise error
        self._boot_after(self.rng.choice((500, 5_000)))

    def without_folder(self, text: str) -> str:
        """Return a text without the name of the temporary folder, so that a seed always has the same trace."""
        return text.replace(str(self.root), "checkpoint")

    def leave(self, _code: int) -> None:
        """End the process at once, as `end_at_once` does."""
        self.judge.on_leaving()
        self.world.hit("service: it ended a process whose JVM hung at its start")
        self.process.kill()

    def kill(self) -> None:
        """Kill the process with its JVM; it is restarted."""
        if self.is_up:
            self.process.kill()

    def end_in_order(self) -> None:
        """Send the process SIGTERM."""
        process = self.process
        self.stop.set()

        def check() -> None:
            if not process.has_ended:
                raise BrokenError("a stop ends the fold", f"not within {STOP_MS} ms")

        self.world.clock.after(STOP_MS, check)

    def _end(self) -> None:
        self._is_over = True
        self.kill()

    # --- Spark, as the service calls it -----------------------------------------------------

    def open_session(self, *_: object) -> SimulatedSession:
        """Start a JVM."""
        way, self.next_session = self.next_session, None
        if way is Way.SILENT:
            self.judge.hangs_at_start = True
            self.world.hit("service: Spark hangs while it starts")
            self.process.wait()
        if way is Way.REFUSED:
            self.judge.on_lack()
            self.world.hit("service: Spark does not start")
            raise EnvironmentProblemError("Spark's JVM did not start: no memory")
        self.process.sleep(self.rng.choice((0.2, 1, 3)))
        processor_module._remembered.clear()
        self.session = SimulatedSession(
            self.process, self.judge.on_failure, self.rng.choice((0.2, 1, 4))
        )
        return self.session

    def start_query(
        self, _spark: object, _settings: object, topics: EnsuredTopics, lineage: Lineage, at: Path
    ) -> SimulatedQuery:
        """Start a query from its checkpoint."""
        assert self.session is not None
        self.session.answer(self.rng.choice((0.05, 0.2, 1)))
        self.judge.on_query(lineage, topics.ids)
        self._refuse(lineage)
        if lineage.name != self.lineage:
            self.lineage = lineage.name
            self.outputs = []
        found = self.checkpoints.find(at)
        self.committed = found.state or self._nothing_folded()
        self._retry = None if found.planned is None else (found.planned.own, found.planned.beside)
        self.kept = []
        self.query = SimulatedQuery(self.session, at, found.batch, self.judge.on_asked)
        self.plan()
        return self.query

    def _refuse(self, lineage: Lineage) -> None:
        """Raise if the query cannot start: as pyspark does, by the exception's class."""
        assert self.session is not None
        trouble = self.damaged.get(lineage.name)
        if trouble is None and self.troubles and self.troubles[0][0].way is Way.REFUSED:
            trouble = self.troubles.popleft()[0]
        if trouble is None or trouble.way is not Way.REFUSED:
            return
        self.world.hit(f"service: {trouble.way.value}")
        if self.rng.random() < SILENT:
            self.session.is_silent = True
        is_converted = trouble.text.startswith(_CONVERTED)
        raise (SimulatedSparkError if is_converted else SimulatedJavaError)(self.session, trouble)

    def folded_to(self, lineage: Lineage) -> Mapping[int, int]:
        """Return up to which offset a lineage was planned to fold the log, by partition."""
        return self.checkpoints.ends(self.root / "lineages" / lineage.name)

    def on_lineage(self, lineage: Lineage) -> None:
        """Record a new lineage."""
        self.names.add(lineage.name)
        self.lineages += 1
        self.judge.on_lineage(lineage)

    @property
    def topic_ids(self) -> dict[str, str]:
        """The current ids of the topics."""
        return {topic.name: topic.id for topic in self.world.topics.values()}

    @property
    def is_cut_off(self) -> bool:
        """Whether Kafka does not answer it."""
        return self.world.clock.now < self.cut_off_until

    @property
    def is_full(self) -> bool:
        """Whether its disk is full."""
        return self.world.clock.now < self.full_until

    # --- batches ----------------------------------------------------------------------------

    @property
    def _works(self) -> bool:
        return self.query is not None and self.query.works

    @property
    def idle(self) -> bool:
        """Whether everything in the log is folded, and the query runs on the current topics."""
        is_at_end = self.committed.offset == self.world.log.end and self._retry is None
        return self._works and self.judge.is_of_the_topics and is_at_end and super().idle

    def plan(self) -> None:
        """Plan the next batch, if a query runs."""
        if self._works:
            super().plan()

    @property
    def _is_beyond(self) -> bool:
        """Whether the log ends before the offset that was folded."""
        return self.committed.offset > self.world.log.end

    def _run(self) -> None:
        if not self._works:
            self._planned = False
        elif self.is_cut_off:
            self._planned = False
            self.world.clock.at(self.cut_off_until, self.plan)
        elif self._is_beyond and self._retry is None:
            self._planned = False
            self.world.clock.after(_RETRIES_MS, self._take_the_end)
        else:
            super()._run()

    def _take_the_end(self) -> None:
        """Continue at the log's end, as Spark 4.2.1 does while it runs; records written there meanwhile are skipped."""
        if self._works and self._is_beyond and self._retry is None and not self.is_cut_off:
            self.world.hit("service: Spark went back to the log's end")
            self._batch(range(self.world.log.end, self.world.log.end), range(0))
        self.plan()

    def _batch(self, own: range, beside: range) -> None:
        query, log = self.query, self.world.log
        assert query is not None
        self.judge.on_batch()
        if self.is_full:
            self._break(DISK_FULL)
            return
        mine, other = self.world.partition, 1 - self.world.partition
        ends = {mine: own.stop}
        if log.beside is not None:
            ends[other] = max(beside.stop, self.committed.beside)
        self.checkpoints.plan(query.checkpoint, query.batch, Planned(own, beside, ends))
        trouble = self._due()
        self.crash_next = trouble is not None
        super()._batch(own, beside)
        if trouble is not None:
            self._break(trouble)
            return
        self.checkpoints.commit(query.checkpoint, query.batch, self.committed)
        query.report(len(own) + len(beside), {log.name: {str(p): end for p, end in ends.items()}})

    def _due(self) -> Trouble | None:
        """Return the fault of the current batch; None: there is none."""
        trouble = self.damaged.get(self.lineage)
        if trouble is not None:
            return trouble
        if self.crash_next:
            return TROUBLES[self.rng.choice(("worker dies", "JVM dies", "worker starts late"))]
        if not self.troubles:
            return None
        trouble, after = self.troubles[0]
        if after:
            self.troubles[0] = (trouble, after - 1)
            return None
        # A fault that prevents a query from starting stays for the next query.
        return None if trouble.way is Way.REFUSED else self.troubles.popleft()[0]

    def _break(self, trouble: Trouble) -> None:
        """Make the query fail."""
        assert self.query is not None
        assert self.session is not None
        self.world.hit(f"service: {trouble.way.value}")
        match trouble.way:
            case Way.HANGS:
                self.query.hangs = True
            case Way.DIES:
                self.session.die()
            case Way.SILENT:
                self.session.is_silent = True
            case _:
                self.query.failure = trouble

    # --- its faults -------------------------------------------------------------------------

    def act(self) -> None:
        """Cause a fault around it, or none."""
        break_something(self)

    def heal(self) -> None:
        """End every fault of its machine; the service itself must end what hangs."""
        self.full_until = self.cut_off_until = 0
        self.troubles.clear()
        self.next_session = None
        super().heal()

    def check(self) -> None:
        """Raise BrokenError unless its service has correct results."""
        self.judge.check(self.registry)

    def begin_lineage(self) -> None:
        """Let the service notice what requires a new lineage: at its next start, or while its query runs."""
        log, held = self.world.log, self.committed
        # A query waits until a partition has grown past what it has folded, and the other partition
        # may be idle for long.
        is_cut = log.beside is not None and held.beside > log.beside.end
        if is_cut or self.rng.random() < 0.5:  # both are equally likely
            self.kill()
        self.plan()

    def go_back(self, state: State) -> None:
        """Restart from an older checkpoint."""
        lineage = self.judge.lineage
        self.kill()
        if lineage is not None and lineage.name == self.lineage:
            folder = self.root / "lineages" / lineage.name
            self.checkpoints.go_back(folder, self.checkpoints.last_of(folder, state))

    def lose_checkpoint(self) -> None:
        """Lose the checkpoint, or the file by which it is found."""
        self.kill()
        self.judge.lineage = None
        match self.rng.choice(("all", "lineages", "name", "half of the name")):
            case "all":
                shutil.rmtree(self.root)
            case "lineages":
                shutil.rmtree(self.root / "lineages", ignore_errors=True)
            case "name":
                (self.root / "lineage.json").unlink(missing_ok=True)
            case _:
                path = self.root / "lineage.json"
                if path.exists():
                    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
