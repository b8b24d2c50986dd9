"""The board *Controller*: who it is, how steady, whether it does its work, and what that costs."""

from __future__ import annotations

from dashboards.boards.panels import (
    ZERO_IS_BEST,
    ZERO_IS_GOOD,
    Texts,
    bars,
    counts,
    figure,
    lines,
    timeline,
    word,
)
from dashboards.boards.rows import Row, row, trust
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

_NOBODY: Texts = {"-1": ("nobody", "red")}
_ONLY_COLOUR: Texts = {"1": ("so", "blue")}


def rows() -> tuple[Row, ...]:
    """Return the rows, from who it is to whether that can be trusted."""
    return (_who(), _steadiness(), _work(), _partitions(), _brokers(), _zookeeper(), trust())


def _who() -> Row:
    return row(
        "Who is the controller?",
        figure("Controller", signals.CONTROLLER_ID, span=4, texts=_NOBODY),
        figure("In office", signals.CONTROLLER_AGE, span=4, no_value="nobody is"),
        figure("Epoch", signals.CONTROLLER_EPOCH, span=4),
        figure(
            "Elections in the last hour",
            signals.ELECTIONS_HOUR,
            signals.ID_CHANGES_HOUR,
            signals.MISSED_ELECTIONS_HOUR,
            span=6,
            steps=ZERO_IS_BEST,
        ),
        figure("Vacant now", signals.VACANT_NOW, span=6, steps=((None, "green"), (0.001, "red"))),
        word("Incident that is open", INCIDENT, span=12, no_value="none"),
        figure("Incidents, last day", INCIDENTS_DAY, span=6),
        figure("The last one began", INCIDENT_AGE, span=6, no_value="never"),
        timeline("Controller over time", signals.CONTROLLER_ID, span=24, texts=_NOBODY),
    )


def _steadiness() -> Row:
    return row(
        "Elections and vacancy",
        counts(
            f"Elections within {signals.FLAPPING_WINDOW}",
            signals.ELECTIONS_RECENT,
            span=8,
            steps=((None, "transparent"), (FLAPPING_ELECTIONS, "red")),
        ),
        counts(
            f"Elections within {signals.FLAPPING_LONG_WINDOW}",
            signals.ELECTIONS_LONG,
            span=8,
            steps=((None, "transparent"), (FLAPPING_LONG_ELECTIONS, "red")),
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
            span=6,
            steps=((None, "text"), (SLOW_FAILOVER_SECONDS, "red")),
            no_value="none yet",
        ),
        word("Failover work", signals.FAILOVER, span=6),
    )


def _work() -> Row:
    return row(
        "Does it do its work?",
        word("Health", signals.VERDICT, span=6),
        figure("Leader writes due", signals.LEADER_WRITES_DUE, span=6, steps=ZERO_IS_GOOD),
        figure("Oldest write due", signals.OLDEST_WRITE_DUE, span=6, no_value="nothing is due"),
        figure(
            "Failover work under way",
            signals.FAILOVER_AGE,
            span=6,
            steps=((None, "orange"), (SLOW_FAILOVER_SECONDS, "red")),
            no_value="none",
        ),
        timeline("Failover work over time", signals.FAILOVER, span=12, texts=_ONLY_COLOUR),
        timeline("Health over time", signals.VERDICT, span=12, texts=_ONLY_COLOUR),
        counts("Writes due by kind", signals.WRITES_DUE, span=12),
        counts(
            "Zombie controller and stale writes", signals.GHOST, signals.STALE_WRITES_HOUR, span=12
        ),
    )


def _partitions() -> Row:
    shown = (OFFLINE, UNDER_MIN_ISR, UNDER_REPLICATED, IMBALANCE)
    return row(
        "What does it cost?",
        figure("Offline partitions", OFFLINE, span=6, steps=ZERO_IS_GOOD),
        figure("Under min ISR", UNDER_MIN_ISR, span=6, steps=ZERO_IS_GOOD),
        figure("Under-replicated", UNDER_REPLICATED, span=6, steps=ZERO_IS_BEST),
        figure("Not led by the preferred replica", IMBALANCE, span=6, steps=ZERO_IS_BEST),
        counts("Partitions not as they should be", *shown, span=24),
    )


def _brokers() -> Row:
    return row(
        "Leaders per broker",
        bars("Leaders", BROKER_LEADERS, span=12, steps=((None, "blue"),)),
        bars("Imbalance ratio", BROKER_IMBALANCE, span=12, steps=((None, "blue"),), most=1),
    )


def _zookeeper() -> Row:
    return row(
        "ZooKeeper",
        word("The server that we are on", zookeeper.SERVER, span=6, no_value="none"),
        figure("Session as it is since", zookeeper.SESSION_AGE, span=6),
        word("Its role and release", zookeeper.ROLE, span=6, no_value="unknown"),
        figure("Sessions", zookeeper.SESSIONS, span=3, no_value="unknown"),
        figure("Connections", zookeeper.CONNECTIONS, span=3, no_value="unknown"),
        lines(
            "How fast it answers",
            zookeeper.ANSWER,
            zookeeper.LATENCY,
            zookeeper.LATENCY_MOST,
            span=12,
        ),
        counts("Requests that wait in it", zookeeper.OUTSTANDING, span=12),
    )
