"""Why a query failed."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from streaming.failures import FailureKind, describe
from streaming.query import MAX_CAUSES, failure_text


class JavaError:
    """An exception of the JVM, as py4j shows it."""

    def __init__(self, text: str, cause: JavaError | None = None) -> None:
        self._text, self._cause = text, cause

    def toString(self) -> str:  # noqa: N802  # Java's name
        """Return the class and the message."""
        return self._text

    def getCause(self) -> JavaError | None:  # noqa: N802  # Java's name
        """Return the cause, if there is one."""
        return self._cause


def failed_of(error: JavaError | None) -> Any:
    """Return a query that ended with this error; with None, it ended by itself."""
    found = SimpleNamespace(isDefined=lambda: error is not None, get=lambda: error)
    return SimpleNamespace(_jsq=SimpleNamespace(exception=lambda: found))


def test_causes_are_listed_to_the_innermost() -> None:
    """The innermost is the one that a user sees."""
    disk = JavaError("java.io.IOException: No space left on device")
    text = failure_text(failed_of(JavaError("StreamingQueryException: batch 7", disk)))
    assert text.splitlines() == [
        "Caused by: StreamingQueryException: batch 7",
        "Caused by: java.io.IOException: No space left on device",
    ]
    assert describe(text).kind is FailureKind.DISK


def test_a_cycle_of_causes_is_cut_at_a_maximum() -> None:
    """Java allows an exception to be its own cause."""
    loop = JavaError("again")
    loop._cause = loop
    assert len(failure_text(failed_of(loop)).splitlines()) == MAX_CAUSES


def test_a_query_that_ended_without_an_error_has_a_text() -> None:
    """The text is then: the query ended by itself."""
    assert failure_text(failed_of(None)) == "the query ended by itself"
