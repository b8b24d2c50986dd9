"""Each way in which a query fails has one line and one kind."""

from __future__ import annotations

import pytest

from streaming.failures import MAX_LINE_CHARS, FailureKind, describe

QUERY = "[STREAM_FAILED] Query [id = 1, runId = 2] terminated with exception: "

LATE_WORKER = "Timed out while waiting for the Python worker to connect back"


@pytest.mark.parametrize(
    ("text", "kind", "line"),
    [
        (
            QUERY + "boom\n\tat x\nCaused by: java.io.IOException: No space left on device\n\tat y",
            FailureKind.DISK,
            "No space left on device",
        ),
        (
            QUERY
            + "x\nCaused by: org.apache.kafka.common.errors.TimeoutException: Timed out waiting",
            FailureKind.KAFKA,
            "TimeoutException: Timed out waiting",
        ),
        (
            QUERY
            + "x\nTraceback (most recent call last):\n  File 'a', line 1\n"
            + "controller_model.packing.UnreadableStateError: a state of format fe, not 01\n\n\tat x",
            FailureKind.STATE,
            "UnreadableStateError: a state of format fe, not 01",
        ),
        (
            QUERY + "[CANNOT_LOAD_STATE_STORE.UNCATEGORIZED] An error occurred",
            FailureKind.STATE,
            QUERY + "[CANNOT_LOAD_STATE_STORE.UNCATEGORIZED] An error occurred",
        ),
        (
            QUERY + f"x\nCaused by: java.net.SocketTimeoutException: {LATE_WORKER}",
            FailureKind.WORKER,
            f"SocketTimeoutException: {LATE_WORKER}",
        ),
        ("", FailureKind.OTHER, "no reason given"),
        ("java.lang.NullPointerException", FailureKind.OTHER, "NullPointerException"),
    ],
)
def test_a_failure_is_classified_with_a_line(text: str, kind: FailureKind, line: str) -> None:
    """The innermost cause is reported. The kind follows from signs in the text."""
    assert describe(text) == (kind, line)


def test_the_line_of_a_failure_has_a_maximum_length() -> None:
    """However long a cause is, the user reads one short line."""
    line = describe("x" * 5_000 + "\n" + "y" * 5_000).line
    assert len(line) == MAX_LINE_CHARS
    assert "\n" not in line


def test_a_full_disk_takes_precedence_over_the_errors_that_it_causes() -> None:
    """A state store that cannot commit because the disk is full does not need a new lineage."""
    text = "CANNOT_LOAD_STATE_STORE\nCaused by: java.io.IOException: No space left on device"
    assert describe(text).kind is FailureKind.DISK
