"""Spark as the fold's service sees it: a JVM, a query, their errors, and checkpoints on disk.

The rule: nothing is decided here. The texts are Spark's own; the meaning of each is given by hand
next to it.
"""

from __future__ import annotations

import enum
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
from py4j.protocol import Py4JError, Py4JNetworkError
from pyspark.errors import PySparkException

from streaming.failures import FailureKind
from tests.support.progress import PROGRESS, Progress

if TYPE_CHECKING:
    from tests.simulation.fold import State
    from tests.simulation.process import Process

_REPORTED = 32
"""The number of batches whose figures Spark keeps."""

_KEPT = 20
"""The number of batches that Spark keeps in a checkpoint."""


class Way(enum.Enum):
    """How something fails."""

    REFUSED = "the query does not start"
    FAILS = "a batch fails"
    HANGS = "a batch does not end"
    DIES = "the JVM dies"
    SILENT = "the JVM does not answer"


class Trouble(NamedTuple):
    """A failure of a query."""

    way: Way
    kind: FailureKind
    """How the service must classify it."""
    text: str = ""
    """Spark's text, with its causes on separate lines."""


_STAGE = "org.apache.spark.SparkException: Job aborted due to stage failure: Task 0 in stage 7.0 failed 1 times"

TROUBLES: Mapping[str, Trouble] = {
    "Kafka is away": Trouble(
        Way.FAILS,
        FailureKind.KAFKA,
        f"{_STAGE}\norg.apache.kafka.common.errors.TimeoutException: Topic kcm.views not present in metadata "
        "after 60000 ms.",
    ),
    "Kafka's name is not known": Trouble(
        Way.FAILS,
        FailureKind.KAFKA,
        "org.apache.kafka.common.KafkaException: Failed to create new KafkaAdminClient\n"
        "org.apache.kafka.common.config.ConfigException: No resolvable bootstrap urls given in bootstrap.servers",
    ),
    "worker starts late": Trouble(
        Way.FAILS,
        FailureKind.WORKER,
        f"{_STAGE}\norg.apache.spark.SparkException: Python worker failed to connect back.\n"
        "java.net.SocketTimeoutException: Timed out while waiting for the Python worker to connect back",
    ),
    "worker dies": Trouble(
        Way.FAILS,
        FailureKind.OTHER,
        f"{_STAGE}\norg.apache.spark.SparkException: Python worker exited unexpectedly (crashed)\n"
        "java.io.EOFException",
    ),
    "state cannot be loaded": Trouble(
        Way.FAILS,
        FailureKind.STATE,
        f"{_STAGE}\norg.apache.spark.sql.execution.streaming.state.StateStoreException: "
        "[CANNOT_LOAD_STATE_STORE.UNCATEGORIZED] An error occurred during loading state.",
    ),
    "log of the checkpoint is damaged": Trouble(
        Way.REFUSED,
        FailureKind.STATE,
        "java.lang.IllegalStateException: Incomplete log file in the offset log",
    ),
    "query is refused": Trouble(
        Way.REFUSED, FailureKind.OTHER, "java.lang.IllegalArgumentException: requirement failed"
    ),
    "batch hangs": Trouble(Way.HANGS, FailureKind.HUNG),
    "JVM hangs": Trouble(Way.SILENT, FailureKind.HUNG),
    "JVM dies": Trouble(Way.DIES, FailureKind.OTHER),
}
"""By name."""

DISK_FULL = Trouble(
    Way.FAILS,
    FailureKind.DISK,
    "org.apache.spark.SparkException: the write of the offset log failed\n"
    "java.io.IOException: No space left on device",
)


class SimulatedJavaError(Py4JError):  # type: ignore[misc]  # the package has no types
    """Replaces an exception of the JVM: its text is read from the JVM."""

    def __init__(self, session: SimulatedSession, trouble: Trouble) -> None:
        super().__init__()
        self._session = session
        self._trouble = trouble

    def __str__(self) -> str:
        return self._session.error_text(self._trouble)


class SimulatedSparkError(PySparkException):
    """Replaces an exception for which pyspark has a class."""

    def __init__(self, session: SimulatedSession, trouble: Trouble) -> None:
        super().__init__(trouble.text)
        self._session = session
        self._trouble = trouble

    def __str__(self) -> str:
        return self._session.error_text(self._trouble)


class SimulatedSession:
    """Replaces the JVM."""

    def __init__(
        self, process: Process, on_failure: Callable[[FailureKind], None], takes_to_end_s: float
    ) -> None:
        """Run for a simulated process; `on_failure` gets the kind of each failure reported to the service."""
        self.spark = object()
        self.alive = True
        self.is_silent = False
        self._process = process
        self._on_failure = on_failure
        self._takes_to_end_s = takes_to_end_s
        self._is_asked = False

    def answer(self, after_s: float = 0.0) -> None:
        """Answer a call; raises where the JVM is dead, and does not return while it hangs."""
        if after_s:
            self._process.sleep(after_s)
        while self.alive and self.is_silent:
            self._is_asked = True
            self._process.wait()
        self._is_asked = False
        if not self.alive:
            self._on_failure(FailureKind.OTHER)
            raise Py4JNetworkError("Answer from Java side is empty")

    def error_text(self, trouble: Trouble) -> str:
        """Answer the call, report the failure, and return the error's text."""
        self.answer()
        self._on_failure(trouble.kind)
        return trouble.text

    def die(self) -> None:
        """Die in the middle of anything; a caller that waits for an answer gets an error."""
        self.alive = False
        if self._is_asked:
            self._process.wake()

    def kill(self) -> None:
        """Die because the service kills it."""
        self._on_failure(FailureKind.HUNG)
        self.die()

    def forget_temporary_files(self) -> None:
        """Accept the call."""
        self.answer()

    def close(self) -> None:
        """End cleanly, or do nothing where it is dead."""
        if self.alive:
            self._process.sleep(self._takes_to_end_s)
        self.alive = False


class SimulatedQuery:
    """Replaces a query; its checkpoint is a folder."""

    def __init__(
        self,
        session: SimulatedSession,
        checkpoint: Path,
        batch: int,
        on_asked: Callable[[int], None],
    ) -> None:
        """Start with a batch; `on_asked` gets the number of batches that are reported for the first time."""
        self.session = session
        self.checkpoint = checkpoint
        self.batch = batch
        """The number of the next batch."""
        self.failure: Trouble | None = None
        self.hangs = False
        self.is_stopped = False
        self._reports: list[Progress] = []
        self._told = 0
        self._on_asked = on_asked
        self._jsq = self

    @property
    def works(self) -> bool:
        """Whether its batches continue."""
        session = self.session
        has_ended = self.hangs or self.is_stopped or self.failure is not None
        return session.alive and not session.is_silent and not has_ended

    def report(self, messages: int, end: Mapping[str, Mapping[str, int]]) -> None:
        """Record a batch that has ended, up to these offsets."""
        progress = {
            "batchId": self.batch,
            "numInputRows": messages,
            "sources": [{"endOffset": end}],
        }
        self._reports.append(Progress(PROGRESS | progress, at=str(self.batch)))
        self.batch += 1

    @property
    def isActive(self) -> bool:  # noqa: N802  # Spark's name
        """Whether it is active."""
        self.session.answer()
        return self.failure is None and not self.is_stopped

    def recentProgress(self) -> list[Progress]:  # noqa: N802  # Spark's name
        """Return the newest reports."""
        self.session.answer()
        self._on_asked(len(self._reports) - self._told)
        self._told = len(self._reports)
        return self._reports[-_REPORTED:]

    def exception(self) -> _Exception:
        """Return the failure."""
        assert self.failure is not None
        return _Exception(self.session.error_text(self.failure).split("\n"))

    def stop(self) -> None:
        """End."""
        self.session.answer()
        self.is_stopped = True


class _Exception:
    """An exception and its causes, as Scala's Option and as a Throwable."""

    def __init__(self, lines: list[str]) -> None:
        self._lines = lines

    def isDefined(self) -> bool:  # noqa: N802  # Scala's name
        return bool(self._lines)

    def get(self) -> _Exception:
        return self

    def toString(self) -> str:  # noqa: N802  # Java's name
        return self._lines[0]

    def getCause(self) -> _Exception | None:  # noqa: N802  # Java's name
        return _Exception(self._lines[1:]) if self._lines[1:] else None


class Planned(NamedTuple):
    """A batch: what it reads of both partitions, and the log's offsets after it, by partition."""

    own: range
    beside: range
    ends: dict[int, int]


class Found(NamedTuple):
    """Where a checkpoint continues."""

    batch: int
    """The next batch."""
    state: State | None
    """The last committed state; None: there is none."""
    planned: Planned | None
    """The plan of the next batch, if it is already written."""


class Checkpoints:
    """Checkpoints: which batches they hold is on disk, as in Spark; the content of the batches is held here."""

    def __init__(self, topic: str) -> None:
        self._topic = topic
        self._planned: dict[tuple[str, int], Planned] = {}
        self._committed: dict[tuple[str, int], tuple[Planned, State]] = {}

    def plan(self, folder: Path, batch: int, planned: Planned) -> None:
        """Write the plan of a batch, before it runs."""
        self._planned[folder.name, batch] = planned
        offsets = msgspec.json.encode({self._topic: {str(p): e for p, e in planned.ends.items()}})
        _write(folder / "offsets" / str(batch), b"v1\n{}\n" + offsets)

    def commit(self, folder: Path, batch: int, state: State) -> None:
        """Store the result of a batch."""
        key = (folder.name, batch)
        self._committed[key] = (self._planned[key], state)
        _write(folder / "commits" / str(batch), b"v1\n{}")
        for name in ("offsets", "commits"):
            (folder / name / str(batch - _KEPT)).unlink(missing_ok=True)

    def find(self, folder: Path) -> Found:
        """Return where a query continues."""
        committed = newest_batch(folder / "commits")
        batch = committed + 1
        planned = None
        if newest_batch(folder / "offsets") == batch:
            planned = self._planned[folder.name, batch]
        state = self._committed[folder.name, committed][1] if committed >= 0 else None
        return Found(batch, state, planned)

    def ends(self, folder: Path) -> dict[int, int]:
        """Return up to which offset the log was planned to be folded, by partition; empty where nothing was."""
        batch = newest_batch(folder / "offsets")
        return self._planned[folder.name, batch].ends if batch >= 0 else {}

    def last_of(self, folder: Path, state: State) -> int:
        """Return the newest batch that led to a state; -1 where none did."""
        numbers = (
            number
            for (name, number), (_, held) in self._committed.items()
            if name == folder.name and held is state
        )
        return max(numbers, default=-1)

    def newest(self, folder: Path) -> int:
        """Return the newest batch that was committed; -1 where none was."""
        return newest_batch(folder / "commits")

    def go_back(self, folder: Path, last: int) -> None:
        """Make a checkpoint hold one batch and nothing newer."""
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        if last >= 0:
            planned, state = self._committed[folder.name, last]
            self.plan(folder, last, planned)
            self.commit(folder, last, state)


def newest_batch(folder: Path) -> int:
    """Return the newest batch of a checkpoint's folder of offsets or commits; -1 where there is none."""
    return max((int(path.name) for path in folder.glob("*")), default=-1)


def _write(path: Path, data: Any) -> None:
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(data)
