"""What a query reads at once, and why one failed."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any
from unittest.mock import MagicMock, call

import pytest

from pipeline.settings import load
from streaming import query
from streaming.config import StreamSettings
from streaming.failures import FailureKind, describe
from streaming.query import MAX_CAUSES, failure_text, source


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


def test_the_fold_is_planned_without_timers_and_with_its_own_state_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """No initial state and no column of event time either; Spark's worker is told the same as its JVM."""
    for name in ("F", "DataFrame", "UserDefinedFunction"):
        monkeypatch.setattr(query, name, MagicMock())
    worker, records = MagicMock(), MagicMock()
    monkeypatch.setattr(query, "TransformWithStateInPandasUdfUtils", worker)
    query.fold(records, MagicMock())
    plan = records.groupBy.return_value._jgd.transformWithStateInPySpark
    _, _, output, time_mode, initial_state, event_time = plan.call_args.args
    assert (output, time_mode, initial_state, event_time) == ("update", "None", None, "")
    assert worker.call_args.args[1] == time_mode


@pytest.mark.usefixtures("no_settings_of_the_machine")
def test_a_batch_reads_a_limited_number_of_messages(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the limit the first batch of a new lineage would hold the whole log in memory."""
    monkeypatch.setattr(query, "F", MagicMock())
    spark = MagicMock()
    reader = spark.readStream.format.return_value.options.return_value
    reader.option.return_value = reader
    settings = load(StreamSettings, checkpoint_dir="/c", max_offsets_per_trigger=70)
    source(spark, settings, "kcm.changes")
    assert call("maxOffsetsPerTrigger", "70") in reader.option.mock_calls
