"""Says in one line what made a query fail, and what can be done about it.

A user sees a cause, not a stack trace; the trace is in Spark's log. An unknown cause
counts as OTHER, and the service decides by how often it recurs.
"""

import enum
import re
from typing import NamedTuple

MAX_LINE_CHARS = 300
"""Longest line, in characters: it still fits two or three rows of a terminal."""


class FailureKind(enum.Enum):
    """Who has to act on a failure."""

    DISK = "disk"
    """The user: the checkpoint cannot be written."""
    KAFKA = "kafka"
    """Nobody: the pipeline's Kafka does not answer, and the fold waits for it."""
    HUNG = "hung"
    """Nobody: Spark's JVM did not answer or its batch did not end, and it was killed."""
    WORKER = "worker"
    """Nobody: Spark's Python did not start in time, because the machine is overloaded."""
    STATE = "state"
    """The fold: the checkpoint cannot be read, so a new lineage begins."""
    OTHER = "other"
    """Nobody at first: the fold tries again, and gives up when the failure recurs."""


class QueryFailure(NamedTuple):
    """A failed query's kind and cause."""

    kind: FailureKind
    line: str


_SIGNS: dict[FailureKind, tuple[str, ...]] = {
    FailureKind.DISK: (
        "No space left on device",
        "Disk quota exceeded",
        "Read-only file system",
        "Permission denied",
    ),
    # Spark gives its Python 10 s to start and to import itself, which no setting changes
    # (PythonWorkerFactory.createSimpleWorker). Nothing has been read by then, so nothing read can
    # be the cause.
    FailureKind.WORKER: ("waiting for the Python worker to connect back",),
    FailureKind.STATE: (
        "UnreadableStateError",
        "CANNOT_LOAD_STATE_STORE",
        "CANNOT_READ_STATE",
        "FAILED_TO_READ_STREAMING_STATE",
        "STATE_STORE_",
        "STATEFUL_PROCESSOR_",
        "Incomplete log file",
        "Failed to read log file",
        "Log file was malformed",
        "ChecksumException",
        "UnsupportedLogVersion",
        "batch metadata",
        "MISSING_METADATA_FILE",
        "checkpoint location",
        "Failed to read metadata",
        "No content to map due to end-of-input",
    ),
    FailureKind.KAFKA: (
        "org.apache.kafka.common.errors",
        "org.apache.kafka.common.KafkaException",
        "No resolvable bootstrap urls",
        "KAFKA_DATA_LOSS",
        "KafkaOffsetReader",
    ),
}
"""Text that identifies a kind of failure, the most certain kind first."""

_CAUSE = re.compile(r"^\s*Caused by: (.+)$", re.MULTILINE)
_PYTHON_ERROR = re.compile(r"^(?:[\w.]+\.)?(\w+(?:Error|Exception): .+)$", re.MULTILINE)


def describe(text: str) -> QueryFailure:
    r"""Return the kind and the one-line cause of a query's exception.

    >>> describe("x\nCaused by: java.io.IOException: No space left on device\n\tat y").line
    'No space left on device'
    """
    for kind, signs in _SIGNS.items():
        found = next((sign for sign in signs if sign in text), None)
        if found is not None:
            return QueryFailure(kind, found if kind is FailureKind.DISK else _line(text))
    return QueryFailure(FailureKind.OTHER, _line(text))


def _line(text: str) -> str:
    python = _PYTHON_ERROR.findall(text) if "Traceback (most recent call last)" in text else []
    causes = _CAUSE.findall(text)
    if python:
        found = python[-1]
    elif causes:
        found = causes[-1]
    else:
        found = next((row.strip() for row in text.splitlines() if row.strip()), "no reason given")
    short = re.sub(r"^(?:[a-z_]\w*\.)+(?=[A-Z])", "", found.strip())
    return short if len(short) <= MAX_LINE_CHARS else short[: MAX_LINE_CHARS - 1] + "…"
