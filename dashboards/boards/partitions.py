"""The board *Partitions and ISR*: what is lost, what shrinks and by whom, and what is at risk."""

from __future__ import annotations

from dashboards.boards import panels
from dashboards.boards.panels import Column, bars, figure, heat, lines
from dashboards.boards.panels import rows as table_of
from dashboards.boards.rows import Row, trust
from dashboards.signals import brokers, topics
from dashboards.signals import partitions as signals
from dashboards.signals.thresholds import BOUNCES, RESTLESS_MINUTES


def rows() -> tuple[Row, ...]:
    """Return the rows, from what is lost to whether that can be trusted."""
    return (
        _lost(),
        _worst(),
        _shrinking(),
        _blame(),
        _elections(),
        _risks(),
        _under_way(),
        trust(),
    )


def _lost() -> Row:
    good = panels.ZERO_IS_GOOD
    best = panels.ZERO_IS_BEST
    return Row(
        title="Which partitions are not as they should be?",
        panels=(
            figure("Offline", signals.OFFLINE, span=4, steps=good),
            figure("Leaderless", signals.LEADERLESS, span=4, steps=good),
            figure("Under min ISR", signals.UNDER_MIN_ISR, span=4, steps=good),
            figure("At min ISR", signals.AT_MIN_ISR, span=4, steps=best),
            figure("Under-replicated", signals.UNDER_REPLICATED, span=4, steps=best),
            figure("Without a state", signals.WITHOUT_STATE, span=4, steps=best),
            lines(
                "Offline and under min ISR",
                signals.OFFLINE,
                signals.LEADERLESS,
                signals.UNDER_MIN_ISR,
                span=12,
                decimals=0,
            ),
            lines(
                "Under-replicated and at min ISR",
                signals.UNDER_REPLICATED,
                signals.AT_MIN_ISR,
                span=12,
                decimals=0,
            ),
        ),
    )


def _worst() -> Row:
    good = panels.ZERO_IS_GOOD
    return Row(
        title="Which topics?",
        panels=(
            table_of(
                "The topics that are worst off",
                Column(title="Offline", signal=topics.TOPIC_OFFLINE, steps=good),
                Column(title="Under min ISR", signal=topics.TOPIC_UNDER_MIN_ISR, steps=good),
                Column(
                    title="Under-replicated",
                    signal=topics.TOPIC_UNDER_REPLICATED,
                    steps=panels.ZERO_IS_BEST,
                ),
                span=20,
                key="topic",
                worst_by="Offline",
            ),
            figure("List made, ago", topics.WORST_TOPICS_AGE, span=4, no_value="not yet").height(
                panels.GRAPH_HEIGHT
            ),
        ),
    )


def _shrinking() -> Row:
    return Row(
        title="Do ISRs shrink?",
        panels=(
            lines(
                "Replicas that left and joined an ISR within an hour",
                signals.ISR_SHRINKS_HOUR,
                signals.ISR_EXPANDS_HOUR,
                span=12,
                decimals=0,
            ),
            heat(
                "Minutes in which replicas of a broker left an ISR",
                brokers.BROKER_ISR_RESTLESS,
                span=12,
                steps=((None, "green"), (2, "yellow"), (RESTLESS_MINUTES, "red")),
            ),
        ),
    )


def _blame() -> Row:
    crashed = ((None, "blue"), (BOUNCES, "red"))
    return Row(
        title="Which broker is to blame?",
        panels=(
            bars(
                "Absent from ISRs now",
                brokers.BROKER_ABSENT,
                span=12,
                steps=panels.ZERO_IS_BEST,
            ),
            bars(
                "Leads ISRs that are not whole",
                brokers.BROKER_LED_SHORT,
                span=12,
                steps=panels.ZERO_IS_BEST,
            ),
            bars(
                "Left an ISR, last hour",
                brokers.BROKER_ISR_LEAVES_HOUR,
                span=6,
                steps=panels.ZERO_IS_BEST,
            ),
            bars(
                "Registrations, last hour",
                brokers.BROKER_REGISTRATIONS_HOUR,
                span=6,
                steps=crashed,
            ),
            bars("How it ended, last hour", brokers.BROKER_ENDS_HOUR, span=6, steps=crashed),
            bars(
                "Failed log directories, last hour",
                brokers.BROKER_LOG_DIRS,
                span=6,
                steps=panels.ZERO_IS_GOOD,
            ),
        ),
    )


def _elections() -> Row:
    return Row(
        title="Which leaders were elected?",
        panels=(
            lines(
                "Partitions that got a leader within an hour, by kind",
                signals.LEADER_ELECTIONS_HOUR,
                span=18,
                decimals=0,
            ),
            figure(
                "Unclean elections, last hour",
                signals.UNCLEAN_HOUR,
                span=6,
                steps=panels.ZERO_IS_GOOD,
            ).height(panels.GRAPH_HEIGHT),
        ),
    )


def _risks() -> Row:
    best = panels.ZERO_IS_BEST
    return Row(
        title="What would the next failure cost?",
        panels=(
            figure("With a single replica", signals.REPLICATION_FACTOR_1, span=6, steps=best),
            figure("Block each restart", signals.MIN_ISR_BLOCKING, span=6, steps=best),
            figure("All replicas in one rack", signals.ONE_RACK, span=6, steps=best),
            figure("Replicas on gone brokers", signals.ON_GONE_BROKERS, span=6, steps=best),
            bars(
                "Offline if the broker dies now",
                brokers.BROKER_OFFLINE_IF_LOST,
                span=12,
                steps=panels.ZERO_IS_GOOD,
            ),
            bars(
                "Under min ISR if the broker dies now",
                brokers.BROKER_UNDER_MIN_IF_LOST,
                span=12,
                steps=best,
            ),
        ),
    )


def _under_way() -> Row:
    return Row(
        title="What is under way?",
        panels=(
            figure("Reassigning", signals.REASSIGNING, span=6),
            figure(
                "Reassignment stands still", signals.REASSIGNMENT_STALLED, span=6, no_value="no"
            ),
            figure("Topics being deleted", signals.DELETING, span=6),
            figure("Oldest deletion", signals.DELETION_AGE, span=6, no_value="none"),
        ),
    )
