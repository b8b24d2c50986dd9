"""The dashboard *Balance*: which broker leads what, what restores the balance, and which broker can be stopped."""

from controller_model.insight.thresholds import SKEW_RATIO
from dashboards.boards.panels import (
    BLUE,
    STAT_HEIGHT,
    YES_IS_GOOD,
    ZERO_IS_BEST,
    ZERO_IS_GOOD,
    Column,
    bars,
    counts,
    figure,
    heat,
    table_of,
)
from dashboards.boards.rows import TRUST, Row
from dashboards.signals import brokers as signals
from dashboards.signals import incidents
from dashboards.signals.partitions import BROKERS_DOWN, IMBALANCE, PARTITIONS

_ABOVE_THRESHOLD = 1.0001
"""A multiple of the threshold: a ratio that equals the threshold is not above it."""

ROWS: tuple[Row, ...] = (
    Row(
        "Who leads what?",
        figure("Not led by the preferred replica", IMBALANCE, span=8, steps=ZERO_IS_BEST),
        figure("Partitions", PARTITIONS, span=8),
        figure("Brokers down", BROKERS_DOWN, span=8, steps=ZERO_IS_BEST),
        bars("Leaders", signals.BROKER_LEADERS, steps=BLUE),
        bars("Imbalance ratio", signals.BROKER_IMBALANCE, steps=BLUE, most=1),
    ),
    Row(
        "Since when?",
        counts("Leaders over time", signals.BROKER_LEADERS),
        heat(
            "Imbalance ratio as a share of the threshold, over time",
            signals.BROKER_IMBALANCE_OF_THRESHOLD,
            steps=((None, "green"), (0.5, "yellow"), (_ABOVE_THRESHOLD, "red")),
        ),
    ),
    Row(
        "What would a preferred election fix?",
        bars("Partitions that it would give back", signals.BROKER_ELECTABLE, span=8, steps=BLUE),
        bars(
            "Partitions that it could not give back",
            signals.BROKER_NOT_ELECTABLE,
            span=8,
            steps=ZERO_IS_BEST,
        ),
        bars(
            "Imbalance that it could not fix",
            signals.BROKER_UNMENDABLE,
            span=8,
            steps=((None, "red"),),
            most=1,
        ),
        figure("Recommended now", incidents.RECOMMENDED, steps=ZERO_IS_BEST),
        figure(
            "Brokers above the threshold",
            incidents.IMBALANCED_BROKERS,
            incidents.MENDABLE_BROKERS,
            steps=ZERO_IS_BEST,
        ),
        figure("Threshold, assumed", incidents.IMBALANCE_THRESHOLD, span=4),
        figure("Outcome of recommendations, last day", incidents.GRADED_DAY, span=8),
    ),
    Row(
        "What will the controller do by itself?",
        figure("Next automatic rebalance check", incidents.NEXT_REBALANCE, no_value="-"),
        figure("Would be elected then", incidents.NEXT_ELECTED),
        counts("Would elect, over time", incidents.NEXT_ELECTED, incidents.NEXT_BLOCKED).height(
            STAT_HEIGHT
        ),
    ),
    Row(
        "What can only a reassignment fix?",
        bars(
            "Deviation from an even share, if all preferred replicas lead",
            signals.BROKER_SKEW,
            steps=((None, "red"), (-SKEW_RATIO, "blue"), (SKEW_RATIO, "red")),
        ).min(-1),
        bars("Coordinates groups and transactions", signals.BROKER_COORDINATES, steps=BLUE),
    ),
    Row(
        "Which broker can be stopped?",
        table_of(
            "Brokers",
            Column("Live", signals.BROKER_LIVE, texts=YES_IS_GOOD),
            Column("Safe to stop", signals.BROKER_SAFE_TO_STOP, texts=YES_IS_GOOD),
            Column("Offline if lost", signals.BROKER_OFFLINE_IF_LOST, steps=ZERO_IS_GOOD),
            Column("Under min ISR if lost", signals.BROKER_UNDER_MIN_IF_LOST, steps=ZERO_IS_BEST),
            Column("Leaders", signals.BROKER_LEADERS),
            Column("Replicas", signals.BROKER_REPLICAS),
            Column("In sync", signals.BROKER_IN_SYNC),
            Column("Imbalance ratio", signals.BROKER_IMBALANCE),
            key="broker",
        ),
    ),
    TRUST,
)
"""The rows, from which broker leads what to whether that can be trusted."""
