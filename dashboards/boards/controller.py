"""The dashboard *Controller*: which node it is, how stable, whether it does its work, and what that costs."""

import functools

from controller_model.insight.thresholds import (
    FLAPPING_ELECTIONS,
    FLAPPING_LONG_ELECTIONS,
    SLOW_FAILOVER_SECONDS,
)
from dashboards.boards.panels import (
    BLUE,
    NOBODY,
    NOT_KNOWN,
    ONLY_COLOUR,
    STALE_IS_ORANGE,
    STALE_TEXT,
    ZERO_IS_BEST,
    ZERO_IS_GOOD,
    Column,
    Steps,
    bars,
    counts,
    figure,
    limit,
    lines,
    links_to,
    table_of,
    timeline,
    word,
)
from dashboards.boards.rows import TRUST, Row
from dashboards.signals import controller as signals
from dashboards.signals import first_screen as now
from dashboards.signals import zookeeper
from dashboards.signals.brokers import BROKER_IMBALANCE, BROKER_LEADERS
from dashboards.signals.incidents import INCIDENT, INCIDENT_AGE, INCIDENTS_DAY
from dashboards.signals.partitions import (
    BROKERS_DOWN,
    IMBALANCE,
    OFFLINE,
    UNDER_MIN_ISR,
    UNDER_REPLICATED,
    UNDER_REPLICATED_AT_MIN_ISR,
)
from dashboards.signals.pipeline import STATUS
from dashboards.signals.signal import RUNBOOKS

_PARTITIONS = "/d/kcm-partitions?${cluster:queryparam}"


def _up_to(limit_of: int) -> Steps:
    """Return the colours for a number of elections: red from `limit_of` on."""
    return ((None, "green"), (1, "text"), (limit_of, "red"))


_now = functools.partial(figure, span=4, steps=ZERO_IS_GOOD, no_value="not served")
"""Makes a figure of the first screen, which is never green where the value is stale or missing."""

ROWS: tuple[Row, ...] = (
    Row(
        "What is wrong now?",
        word("Can I trust this?", STATUS, span=4, no_value="not served", always=True),
        _now("Controller", signals.CONTROLLER_ID, steps=((None, "green"),), texts=NOBODY),
        figure(
            "Time since election",
            now.TIME_SINCE_ELECTION,
            span=4,
            steps=((None, "orange"), (0, "text")),
            no_value="nobody, or stale",
        ),
        _now(
            f"Elections within {signals.FLAPPING_WINDOW}",
            signals.ELECTIONS_RECENT,
            steps=_up_to(FLAPPING_ELECTIONS),
        ),
        _now(
            f"Elections within {signals.FLAPPING_LONG_WINDOW}",
            signals.ELECTIONS_LONG,
            steps=_up_to(FLAPPING_LONG_ELECTIONS),
        ),
        _now("Brokers down", BROKERS_DOWN),
        figure(
            "Without a controller, last hour",
            signals.VACANCY_HOUR,
            signals.VACANCY_AT_MOST_HOUR,
            span=8,
            no_value="not served",
        ),
        _now("Offline", OFFLINE),
        _now("Under min ISR", UNDER_MIN_ISR, no_value=NOT_KNOWN),
        _now("At min ISR, replicas missing", UNDER_REPLICATED_AT_MIN_ISR, no_value=NOT_KNOWN),
        _now("Under-replicated", UNDER_REPLICATED, steps=ZERO_IS_BEST),
        table_of(
            "Which brokers are gone?",
            Column("Replicas", now.BROKERS_GONE_NOW, STALE_IS_ORANGE, STALE_TEXT),
            key="broker",
            span=8,
            worst_by="Replicas",
            link=_PARTITIONS,
        ),
        table_of(
            "What fires now?",
            Column("Fires", now.FIRING, texts={"1": ("fires", "red")}),
            key="alertname",
            span=10,
            link=f"{RUNBOOKS}/${{__value.text}}",
        ),
        links_to(
            "Where next?",
            "The board that answers each further question, and what to do about alerts.",
            ("Which partitions, which broker is at fault", _PARTITIONS),
            ("Does the KRaft quorum commit, who follows", "/d/kcm-quorum?${cluster:queryparam}"),
            (
                "What can be elected back, who can be stopped",
                "/d/kcm-balance?${cluster:queryparam}",
            ),
            ("Does the monitor itself work", "/d/kcm-pipeline?${cluster:queryparam}"),
            ("Other clusters", "/d/kcm-fleet"),
            ("Runbooks of all alerts", RUNBOOKS),
            span=6,
        ),
    ),
    Row(
        "Who is the controller?",
        figure("Epoch", signals.CONTROLLER_EPOCH),
        figure(
            "Elections in the last hour",
            signals.ELECTIONS_HOUR,
            signals.ID_CHANGES_HOUR,
            signals.MISSED_ELECTIONS_HOUR,
            steps=ZERO_IS_BEST,
        ),
        figure("Vacant now", signals.VACANT_NOW, steps=((None, "green"), (0.001, "red"))),
        figure("Incidents, last day", INCIDENTS_DAY),
        word("Open incident", INCIDENT, span=12, no_value="none"),
        figure("Newest incident began", INCIDENT_AGE, span=12, no_value="never"),
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
        word("Health", signals.CONTROLLER_HEALTH),
        figure(
            "Pending leader writes",
            signals.PENDING_LEADER_WRITES,
            steps=ZERO_IS_GOOD,
        ),
        figure(
            "Oldest pending write",
            signals.OLDEST_PENDING_WRITE,
            no_value="none",
        ),
        figure(
            "Failover work under way",
            signals.FAILOVER_AGE,
            steps=((None, "orange"), (SLOW_FAILOVER_SECONDS, "red")),
            no_value="none",
        ),
        timeline("Failover work over time", signals.FAILOVER, texts=ONLY_COLOUR),
        timeline("Health over time", signals.CONTROLLER_HEALTH, texts=ONLY_COLOUR),
        counts("Pending writes by kind", signals.PENDING_WRITES, span=8),
        counts(
            "Zombie controller and stale writes", signals.ZOMBIE, signals.STALE_WRITES_HOUR, span=8
        ),
        counts("Writes that no Kafka makes", signals.FOREIGN_WRITES, span=8),
    ),
    Row(
        "What does it cost?",
        figure("Offline partitions", OFFLINE, steps=ZERO_IS_GOOD),
        figure("Under min ISR", UNDER_MIN_ISR, steps=ZERO_IS_GOOD, no_value=NOT_KNOWN),
        figure("Under-replicated", UNDER_REPLICATED, steps=ZERO_IS_BEST),
        figure("Not led by the preferred replica", IMBALANCE, steps=ZERO_IS_BEST),
        counts(
            "Unhealthy partitions", OFFLINE, UNDER_MIN_ISR, UNDER_REPLICATED, IMBALANCE, span=24
        ),
    ),
    Row(
        "Leaders per broker",
        bars("Leaders", BROKER_LEADERS, steps=BLUE),
        bars("Imbalance ratio", BROKER_IMBALANCE, steps=BLUE, most=1),
    ),
    Row(
        "ZooKeeper",
        word("ZooKeeper server in use", zookeeper.SERVER, no_value="none", always=True),
        figure("Session in this state for", zookeeper.SESSION_AGE),
        word("Server's role and release", zookeeper.ROLE, no_value="unknown", always=True),
        figure("Sessions", zookeeper.SESSIONS, span=3, no_value="unknown"),
        figure("Connections", zookeeper.CONNECTIONS, span=3, no_value="unknown"),
        lines(
            "Answer time and latency", zookeeper.ANSWER, zookeeper.LATENCY, zookeeper.LATENCY_MOST
        ),
        counts("Outstanding requests", zookeeper.OUTSTANDING),
    ),
    TRUST,
)
"""The rows, from which broker it is to whether that can be trusted."""
