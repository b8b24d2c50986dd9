"""The board *Pipeline*: whether the monitor follows, how late it is, and what it has proved."""

from __future__ import annotations

from dashboards.boards.panels import ZERO_IS_GOOD, Steps, counts, figure, lines, timeline
from dashboards.boards.rows import YES_IS_GOOD, Row, row, trust
from dashboards.signals import delay
from dashboards.signals import pipeline as signals


def rows() -> tuple[Row, ...]:
    """Return the rows; the first is what other boards end with."""
    return (_followed(), _delay(), _proof(), _damage(), trust())


def _followed() -> Row:
    colours = {"1": ("so", "blue")}
    return row(
        "Does it follow?",
        figure("Watcher's session", signals.WATCHER_CONNECTED, span=6, texts=YES_IS_GOOD),
        figure("Blind", signals.BLIND, span=6, texts={"1": ("yes", "red")}, no_value="no"),
        figure("Last change", signals.LAST_CHANGE_AGE, span=6),
        figure("Znodes", signals.ZNODES, span=6),
        timeline("Status over time", signals.STATUS, span=24, texts=colours),
    )


def _delay() -> Row:
    late: Steps = ((None, "transparent"), (1, "red"))
    return row(
        "How late is it, and where?",
        lines(
            "99 of 100 took at most",
            delay.WATCHER_DELAY,
            delay.FOLD_DELAY,
            delay.EXPORTER_DELAY,
            delay.WHOLE_DELAY,
            span=12,
            steps=late,
        ),
        counts("Waits for its turn", delay.BUFFERED, delay.FOLD_LAG, delay.EXPORTER_LAG, span=12),
    )


def _proof() -> Row:
    return row(
        "What is proved?",
        counts(
            "Reconciliations and resyncs within an hour",
            signals.AUDITS_HOUR,
            signals.RESYNCS_HOUR,
            span=12,
        ),
        lines("Since the last proof", signals.VERIFIED_AGE, span=12),
        counts(
            "Resyncs wanted and under way", signals.RESYNC_WANTED, signals.RESYNC_UNDER_WAY, span=12
        ),
        counts("Incomplete or divergent", signals.DOUBTFUL, span=12),
    )


def _damage() -> Row:
    return row(
        "What was lost or not understood?",
        counts(
            "Lost on the way within an hour", signals.LOG_HOLES_HOUR, signals.DROPPED_HOUR, span=8
        ),
        counts(
            "Not understood within an hour",
            signals.UNREADABLE_HOUR,
            signals.ANOMALIES_HOUR,
            signals.ERRORS_HOUR,
            span=8,
        ),
        counts("Merged updates within an hour", signals.MISSED_UPDATES_HOUR, span=8),
        figure("Paths that may not be read", signals.DENIED_PATHS, span=24, steps=ZERO_IS_GOOD),
    )
