"""What made a query fail, in one line, and what can be done about it.

The rule: a user hears a cause, not a stack trace; the trace is in Spark's log. What nobody has seen
before counts as OTHER, and the service decides by how often it comes back.
"""

import enum
import re
from typing import NamedTuple

MAX_LINE_CHARS = 300
"""A line that still fits a terminal's two or three rows."""


class FailureKind(enum.Enum):
    """Who has to act."""

    DISK = "disk"
    """The user: the checkpoint cannot be written."""
    KAFKA = "kafka"
    """Nobody: the pipeline's Kafka does not answer, and we wait for it."""
    HUNG = "hung"
    """Nobody: Spark's JVM did not answer or its batch did not end, and it was killed."""
    WORKER = "worker"
    """Nobody: Spark's Python did not start in time, as the machine has too much to do."""
    STATE = "state"
    """We: the checkpoint cannot be read, so a new lineage begins."""
    OTHER = "other"
    """Try again, and give up when it comes back."""


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
    # (PythonWorkerFactory.createSimpleWorker); nothing has been read by then that could be at fault.
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
"""Signs in the text of an exception, the surest kind first."""

_CAUSE = re.compile(r"^\s*Caused by: (.+)$", re.MULTILINE)
_PYTHON_ERROR = re.compile(r"^(?:[\w.]+\.)?(\w+(?:Error|Exception): .+)$", re.MULTILINE)


def describe(text: str) -> QueryFailure:
    r"""Return the kind and the one line of a query's exception.

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
