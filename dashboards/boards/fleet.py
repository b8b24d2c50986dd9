"""The dashboard *Fleet*: all clusters, the worst on top; a click leads to the cluster's own dashboard."""

from dashboards.boards.panels import (
    NOBODY,
    YES_IS_GOOD,
    ZERO_IS_BEST,
    ZERO_IS_GOOD,
    Column,
    Texts,
    counts,
    figure,
    lines,
    table_of,
)
from dashboards.boards.rows import Row
from dashboards.signals import fleet as signals
from dashboards.signals.controller import CONTROLLER_ID, ELECTIONS_HOUR
from dashboards.signals.incidents import INCIDENT_OPEN
from dashboards.signals.partitions import (
    BROKERS_DOWN,
    IMBALANCE,
    OFFLINE,
    PARTITIONS,
    UNDER_MIN_ISR,
    UNDER_REPLICATED,
)
from dashboards.signals.pipeline import FOLLOWED, VERIFIED_AGE

_CLUSTERS_BOARD = "/d/kcm-controller?${datasource:queryparam}&var-cluster=${__value.raw}"


_INCIDENT: Texts = {"0": ("none", "text"), "1": ("open", "red")}

ROWS: tuple[Row, ...] = (
    Row(
        "How many are in trouble?",
        figure("Clusters", signals.CLUSTERS, no_value="none"),
        figure("In trouble", signals.CLUSTERS_IN_TROUBLE, steps=ZERO_IS_GOOD, always=True),
        figure(
            "Without a controller",
            signals.CLUSTERS_WITHOUT_CONTROLLER,
            steps=ZERO_IS_GOOD,
            no_value="not known",
            always=True,
        ),
        figure("Not followed", signals.CLUSTERS_NOT_FOLLOWED, steps=ZERO_IS_GOOD, always=True),
    ),
    Row(
        "Which ones?",
        table_of(
            "Clusters, the worst first",
            Column("Trouble", signals.TROUBLE, steps=ZERO_IS_GOOD, always=True),
            Column("Followed", FOLLOWED.for_fleet(), texts=YES_IS_GOOD, always=True),
            Column("Controller", CONTROLLER_ID.for_fleet(), texts=NOBODY),
            Column("Incident", INCIDENT_OPEN.for_fleet(), texts=_INCIDENT),
            Column("Elections, 1 h", ELECTIONS_HOUR.for_fleet(), steps=ZERO_IS_BEST),
            Column("Brokers down", BROKERS_DOWN.for_fleet(), steps=ZERO_IS_BEST),
            Column("Offline", OFFLINE.for_fleet(), steps=ZERO_IS_GOOD),
            Column("Under min ISR", UNDER_MIN_ISR.for_fleet(), steps=ZERO_IS_GOOD),
            Column("Under-replicated", UNDER_REPLICATED.for_fleet(), steps=ZERO_IS_BEST),
            Column("Imbalance", IMBALANCE.for_fleet(), steps=ZERO_IS_BEST),
            Column("Partitions", PARTITIONS.for_fleet()),
            Column("Proven, ago", VERIFIED_AGE.for_fleet()),
            key="cluster",
            worst_by="Trouble",
            link=_CLUSTERS_BOARD,
        ),
    ),
    Row(
        "Since when?",
        counts("Trouble over time", signals.TROUBLE),
        counts("Offline partitions", OFFLINE.for_fleet()),
        lines("Controller elections within an hour", ELECTIONS_HOUR.for_fleet()),
        counts("Under-replicated", UNDER_REPLICATED.for_fleet()),
    ),
)
"""The rows: how many are in trouble, which, and since when."""
