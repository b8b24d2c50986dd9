"""The board *Pipeline*: whether the monitor follows, how late it is, and what it has proved."""

from __future__ import annotations

from dashboards.boards import panels
from dashboards.boards.panels import Steps, figure, lines, timeline
from dashboards.boards.rows import YES_IS_GOOD, Row, trust
from dashboards.signals import delay
from dashboards.signals import pipeline as signals


def rows() -> tuple[Row, ...]:
    """Return the rows; the first is what other boards end with."""
    return (_followed(), _delay(), _proof(), _damage(), trust())


def _followed() -> Row:
    colours = {"1": ("so", "blue")}
    return Row(
        title="Does it follow?",
        panels=(
            figure("Watcher's session", signals.WATCHER_CONNECTED, span=6, texts=YES_IS_GOOD),
            figure("Blind", signals.BLIND, span=6, texts={"1": ("yes", "red")}, no_value="no"),
            figure("Last change", signals.LAST_CHANGE_AGE, span=6),
            figure("Znodes", signals.ZNODES, span=6),
            timeline("Status over time", signals.STATUS, span=24, texts=colours),
        ),
    )


def _delay() -> Row:
    late: Steps = ((None, "transparent"), (1, "red"))
    return Row(
        title="How late is it, and where?",
        panels=(
            lines(
                "99 of 100 took at most",
                delay.WATCHER_DELAY,
                delay.FOLD_DELAY,
                delay.EXPORTER_DELAY,
                delay.WHOLE_DELAY,
                span=12,
                steps=late,
            ),
            lines(
                "Waits for its turn",
                delay.BUFFERED,
                delay.FOLD_LAG,
                delay.EXPORTER_LAG,
                span=12,
                decimals=0,
            ),
        ),
    )


def _proof() -> Row:
    return Row(
        title="What is proved?",
        panels=(
            lines(
                "Audits and resyncs within an hour",
                signals.AUDITS_HOUR,
                signals.RESYNCS_HOUR,
                span=12,
                decimals=0,
            ),
            lines("Since the last proof", signals.VERIFIED_AGE, span=12),
            lines(
                "Resyncs wanted and under way",
                signals.RESYNC_WANTED,
                signals.RESYNC_UNDER_WAY,
                span=12,
                decimals=0,
            ),
            lines("Incomplete or divergent", signals.DOUBTFUL, span=12, decimals=0),
        ),
    )


def _damage() -> Row:
    return Row(
        title="What was lost or not understood?",
        panels=(
            lines(
                "Lost on the way within an hour",
                signals.LOG_HOLES_HOUR,
                signals.DROPPED_HOUR,
                span=8,
                decimals=0,
            ),
            lines(
                "Not understood within an hour",
                signals.UNREADABLE_HOUR,
                signals.ANOMALIES_HOUR,
                signals.ERRORS_HOUR,
                span=8,
                decimals=0,
            ),
            lines("Merged updates within an hour", signals.MISSED_UPDATES_HOUR, span=8, decimals=0),
            figure(
                "Paths that may not be read",
                signals.DENIED_PATHS,
                span=24,
                steps=panels.ZERO_IS_GOOD,
            ),
        ),
    )
