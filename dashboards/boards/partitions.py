"""The dashboard *Partitions and ISR*: what is unavailable, which ISRs shrink and by which brokers, and what is at risk."""

from controller_model.insight.thresholds import BOUNCES, ISR_FLAPPING_MINUTES
from dashboards.boards.panels import (
    GRAPH_HEIGHT,
    NOT_KNOWN,
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
from dashboards.signals import brokers
from dashboards.signals import partitions as signals

_BOUNCING = ((None, "blue"), (BOUNCES, "red"))

ROWS: tuple[Row, ...] = (
    Row(
        "Which partitions are unhealthy?",
        figure("Offline", signals.OFFLINE, span=4, steps=ZERO_IS_GOOD),
        figure("Leaderless", signals.LEADERLESS, span=4, steps=ZERO_IS_GOOD),
        figure(
            "Under min ISR", signals.UNDER_MIN_ISR, span=4, steps=ZERO_IS_GOOD, no_value=NOT_KNOWN
        ),
        figure("At min ISR", signals.AT_MIN_ISR, span=4, steps=ZERO_IS_BEST, no_value=NOT_KNOWN),
        figure("Under-replicated", signals.UNDER_REPLICATED, span=4, steps=ZERO_IS_BEST),
        figure("Without a state", signals.WITHOUT_STATE, span=4, steps=ZERO_IS_BEST),
        counts(
            "Offline and under min ISR", signals.OFFLINE, signals.LEADERLESS, signals.UNDER_MIN_ISR
        ),
        counts("Under-replicated and at min ISR", signals.UNDER_REPLICATED, signals.AT_MIN_ISR),
    ),
    Row(
        "Which topics?",
        table_of(
            "Worst topics",
            Column("Offline", signals.TOPIC_OFFLINE, steps=ZERO_IS_GOOD),
            Column("Under min ISR", signals.TOPIC_UNDER_MIN_ISR, steps=ZERO_IS_GOOD),
            Column("Under-replicated", signals.TOPIC_UNDER_REPLICATED, steps=ZERO_IS_BEST),
            span=20,
            key="topic",
            worst_by="Offline",
        ),
        figure("Age of the list", signals.WORST_TOPICS_AGE, span=4, no_value="not yet").height(
            GRAPH_HEIGHT
        ),
    ),
    Row(
        "Do ISRs shrink?",
        counts(
            "Replicas that left and joined an ISR within an hour",
            signals.ISR_SHRINKS_HOUR,
            signals.ISR_EXPANDS_HOUR,
        ),
        heat(
            "Minutes in which replicas of a broker left an ISR",
            brokers.BROKER_ISR_FLAPPING,
            steps=((None, "green"), (2, "yellow"), (ISR_FLAPPING_MINUTES, "red")),
        ),
    ),
    Row(
        "Which broker is at fault?",
        bars("Absent from ISRs now", brokers.BROKER_ABSENT, steps=ZERO_IS_BEST),
        bars("Leads under-replicated partitions", brokers.BROKER_LED_SHORT, steps=ZERO_IS_BEST),
        bars("Left an ISR, last hour", brokers.BROKER_ISR_LEAVES_HOUR, span=6, steps=ZERO_IS_BEST),
        bars(
            "Registrations, last hour", brokers.BROKER_REGISTRATIONS_HOUR, span=6, steps=_BOUNCING
        ),
        bars("Ended registrations, last hour", brokers.BROKER_ENDS_HOUR, span=6, steps=_BOUNCING),
        bars("Failed log directories", brokers.BROKER_LOG_DIRS, span=6, steps=ZERO_IS_GOOD),
    ),
    Row(
        "Which leaders were elected?",
        counts(
            "Partitions that got a leader within an hour, by kind",
            signals.LEADER_ELECTIONS_HOUR,
            span=18,
        ),
        figure("Unclean elections, last hour", signals.UNCLEAN_HOUR, steps=ZERO_IS_GOOD).height(
            GRAPH_HEIGHT
        ),
    ),
    Row(
        "What would the next failure cost?",
        figure("With a single replica", signals.REPLICATION_FACTOR_1, steps=ZERO_IS_BEST),
        figure(
            "Block every broker restart",
            signals.MIN_ISR_BLOCKING,
            steps=ZERO_IS_BEST,
            no_value=NOT_KNOWN,
        ),
        figure("All replicas in one rack", signals.ONE_RACK, steps=ZERO_IS_BEST),
        figure("Replicas on gone brokers", signals.ON_GONE_BROKERS, steps=ZERO_IS_BEST),
        bars(
            "Offline if the broker is lost now", brokers.BROKER_OFFLINE_IF_LOST, steps=ZERO_IS_GOOD
        ),
        bars(
            "Under min ISR if the broker is lost now",
            brokers.BROKER_UNDER_MIN_IF_LOST,
            steps=ZERO_IS_BEST,
        ),
    ),
    Row(
        "What is under way?",
        figure("Reassigning", signals.REASSIGNING, span=5),
        figure("Oldest stuck reassignment", signals.REASSIGNMENT_STALLED, span=5, no_value="no"),
        figure("Topics being deleted", signals.DELETING, span=5),
        figure("Oldest deletion", signals.DELETION_AGE, span=5, no_value="none"),
        figure("Oldest request", signals.REQUEST_AGE, span=4, no_value="none"),
    ),
    TRUST,
)
"""The rows, from what is unavailable to whether that can be trusted."""
