"""The board *Controller*: who it is, how steady, whether it does its work, and what that costs."""

from __future__ import annotations

from dashboards.boards.panels import (
    BLUE,
    NOBODY,
    NOT_KNOWN,
    ONLY_COLOUR,
    ZERO_IS_BEST,
    ZERO_IS_GOOD,
    bars,
    counts,
    figure,
    limit,
    lines,
    timeline,
    word,
)
from dashboards.boards.rows import TRUST, Row
from dashboards.signals import controller as signals
from dashboards.signals import zookeeper
from dashboards.signals.brokers import BROKER_IMBALANCE, BROKER_LEADERS
from dashboards.signals.incidents import INCIDENT, INCIDENT_AGE, INCIDENTS_DAY
from dashboards.signals.partitions import IMBALANCE, OFFLINE, UNDER_MIN_ISR, UNDER_REPLICATED
from dashboards.signals.thresholds import (
    FLAPPING_ELECTIONS,
    FLAPPING_LONG_ELECTIONS,
    SLOW_FAILOVER_SECONDS,
)

ROWS: tuple[Row, ...] = (
    Row(
        "Who is the controller?",
        figure("Controller", signals.CONTROLLER_ID, span=4, texts=NOBODY),
        figure("In office", signals.CONTROLLER_AGE, span=4, no_value="nobody is"),
        figure("Epoch", signals.CONTROLLER_EPOCH, span=4),
        figure(
            "Elections in the last hour",
            signals.ELECTIONS_HOUR,
            signals.ID_CHANGES_HOUR,
            signals.MISSED_ELECTIONS_HOUR,
            steps=ZERO_IS_BEST,
        ),
        figure("Vacant now", signals.VACANT_NOW, steps=((None, "green"), (0.001, "red"))),
        word("Incident that is open", INCIDENT, span=12, no_value="none"),
        figure("Incidents, last day", INCIDENTS_DAY),
        figure("The last one began", INCIDENT_AGE, no_value="never"),
        timeline("Controller over time", signals.CONTROLLER_ID, span=24, texts=NOBODY),
    ),
    Row(
        "Elections and vacancy",
        counts(
            f"Elections within {signals.FLAPPING_WINDOW}",
            signals.ELECTIONS_RECENT,
            span=8,
            steps=limit(FLAPPING_ELECTIONS),
        ),
        counts(
            f"Elections within {signals.FLAPPING_LONG_WINDOW}",
            signals.ELECTIONS_LONG,
            span=8,
            steps=limit(FLAPPING_LONG_ELECTIONS),
        ),
        lines(
            "Time without a controller within an hour",
            signals.VACANCY_HOUR,
            signals.VACANCY_AT_MOST_HOUR,
            span=8,
        ),
        figure("Last vacancy", signals.LAST_VACANCY, signals.LAST_VACANCY_AT_MOST, span=12),
        figure(
            "Last failover work took",
            signals.LAST_FAILOVER,
            steps=((None, "text"), (SLOW_FAILOVER_SECONDS, "red")),
            no_value="none yet",
        ),
        word("Failover work", signals.FAILOVER),
    ),
    Row(
        "Does it do its work?",
        word("Health", signals.VERDICT),
        figure("Leader writes due", signals.LEADER_WRITES_DUE, steps=ZERO_IS_GOOD),
        figure("Oldest write due", signals.OLDEST_WRITE_DUE, no_value="nothing is due"),
        figure(
            "Failover work under way",
            signals.FAILOVER_AGE,
            steps=((None, "orange"), (SLOW_FAILOVER_SECONDS, "red")),
            no_value="none",
        ),
        timeline("Failover work over time", signals.FAILOVER, texts=ONLY_COLOUR),
        timeline("Health over time", signals.VERDICT, texts=ONLY_COLOUR),
        counts("Writes due by kind", signals.WRITES_DUE),
        counts("Zombie controller and stale writes", signals.GHOST, signals.STALE_WRITES_HOUR),
    ),
    Row(
        "What does it cost?",
        figure("Offline partitions", OFFLINE, steps=ZERO_IS_GOOD),
        figure("Under min ISR", UNDER_MIN_ISR, steps=ZERO_IS_GOOD, no_value=NOT_KNOWN),
        figure("Under-replicated", UNDER_REPLICATED, steps=ZERO_IS_BEST),
        figure("Not led by the preferred replica", IMBALANCE, steps=ZERO_IS_BEST),
        counts(
            "Partitions not as they should be",
            OFFLINE,
            UNDER_MIN_ISR,
            UNDER_REPLICATED,
            IMBALANCE,
            span=24,
        ),
    ),
    Row(
        "Leaders per broker",
        bars("Leaders", BROKER_LEADERS, steps=BLUE),
        bars("Imbalance ratio", BROKER_IMBALANCE, steps=BLUE, most=1),
    ),
    Row(
        "ZooKeeper",
        word("The server that we are on", zookeeper.SERVER, no_value="none"),
        figure("Session as it is since", zookeeper.SESSION_AGE),
        word("Its role and release", zookeeper.ROLE, no_value="unknown"),
        figure("Sessions", zookeeper.SESSIONS, span=3, no_value="unknown"),
        figure("Connections", zookeeper.CONNECTIONS, span=3, no_value="unknown"),
        lines("How fast it answers", zookeeper.ANSWER, zookeeper.LATENCY, zookeeper.LATENCY_MOST),
        counts("Requests that wait in it", zookeeper.OUTSTANDING),
    ),
    TRUST,
)
"""The rows, from who it is to whether that can be trusted."""
