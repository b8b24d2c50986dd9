"""The dashboard *Pipeline*: whether the monitor follows the cluster, how late it is, and what it has proved."""

from controller_model.insight.thresholds import CLOCKS_DISAGREE_SECONDS
from dashboards.boards.panels import (
    ONLY_COLOUR,
    YES_IS_GOOD,
    ZERO_IS_GOOD,
    counts,
    figure,
    limit,
    lines,
    timeline,
)
from dashboards.boards.rows import TRUST, Row
from dashboards.signals import delay
from dashboards.signals import pipeline as signals

ROWS: tuple[Row, ...] = (
    Row(
        "Does it follow?",
        figure("Watcher's session", signals.WATCHER_CONNECTED, texts=YES_IS_GOOD, always=True),
        figure("Blind", signals.BLIND, texts={"1": ("yes", "red")}, no_value="no"),
        figure("Last change", signals.LAST_CHANGE_AGE),
        figure("Znodes", signals.ZNODES),
        timeline("Status over time", signals.STATUS, span=24, texts=ONLY_COLOUR, always=True),
    ),
    Row(
        "How late is it, and where?",
        lines(
            "Delay, 99th percentile",
            delay.WATCHER_DELAY,
            delay.FOLD_DELAY,
            delay.EXPORTER_DELAY,
            delay.WHOLE_DELAY,
            steps=limit(1),
        ),
        counts("Waiting to be processed", delay.BUFFERED, delay.FOLD_LAG, delay.EXPORTER_LAG),
        lines("Clocks apart", signals.CLOCK_SKEW, span=24, steps=limit(CLOCKS_DISAGREE_SECONDS)),
    ),
    Row(
        "What is proved?",
        counts(
            "Reconciliations and resyncs within an hour",
            signals.RECONCILIATIONS_HOUR,
            signals.RESYNCS_HOUR,
        ),
        lines("Since the last proof", signals.VERIFIED_AGE),
        counts("Resyncs wanted and under way", signals.RESYNC_WANTED, signals.RESYNC_UNDER_WAY),
        counts("Incomplete or divergent", signals.DOUBTFUL),
    ),
    Row(
        "What was lost or could not be read?",
        counts(
            "Lost on the way within an hour", signals.LOG_HOLES_HOUR, signals.DROPPED_HOUR, span=8
        ),
        counts(
            "Not readable or unexpected within an hour",
            signals.UNREADABLE_HOUR,
            signals.ANOMALIES_HOUR,
            signals.ERRORS_HOUR,
            span=8,
        ),
        counts("Merged updates within an hour", signals.MISSED_UPDATES_HOUR, span=8),
        figure(
            "Paths that may not be read",
            signals.DENIED_PATHS,
            span=24,
            steps=ZERO_IS_GOOD,
            always=True,
        ),
    ),
    TRUST,
)
"""The rows; the first is the one with which other dashboards end."""
