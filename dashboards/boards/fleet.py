"""The board *Fleet*: all clusters, the worst on top; a click leads to the cluster's own board."""

from __future__ import annotations

from dashboards.boards import panels
from dashboards.boards.panels import Column, figure, lines
from dashboards.boards.panels import rows as table_of
from dashboards.boards.rows import YES_IS_GOOD, Row
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


def rows() -> tuple[Row, ...]:
    """Return the rows: how many are in trouble, which, and since when."""
    return (_how_many(), _which(), _since_when())


def _how_many() -> Row:
    good = panels.ZERO_IS_GOOD
    return Row(
        title="How many are in trouble?",
        panels=(
            figure("Clusters", signals.CLUSTERS.for_fleet(), span=6, no_value="none"),
            figure("In trouble", signals.CLUSTERS_IN_TROUBLE.for_fleet(), span=6, steps=good),
            figure(
                "Without a controller",
                signals.CLUSTERS_WITHOUT_CONTROLLER.for_fleet(),
                span=6,
                steps=good,
                no_value="not known",
            ),
            figure("Not followed", signals.CLUSTERS_NOT_FOLLOWED.for_fleet(), span=6, steps=good),
        ),
    )


def _which() -> Row:
    good = panels.ZERO_IS_GOOD
    best = panels.ZERO_IS_BEST
    incident = {"0": ("none", "text"), "1": ("open", "red")}
    nobody = {"-1": ("nobody", "red")}
    return Row(
        title="Which ones?",
        panels=(
            table_of(
                "Clusters, the worst first",
                Column(title="Trouble", signal=signals.TROUBLE.for_fleet(), steps=good),
                Column(title="Followed", signal=FOLLOWED.for_fleet(), texts=YES_IS_GOOD),
                Column(title="Controller", signal=CONTROLLER_ID.for_fleet(), texts=nobody),
                Column(title="Incident", signal=INCIDENT_OPEN.for_fleet(), texts=incident),
                Column(title="Elections, 1 h", signal=ELECTIONS_HOUR.for_fleet(), steps=best),
                Column(title="Brokers down", signal=BROKERS_DOWN.for_fleet(), steps=best),
                Column(title="Offline", signal=OFFLINE.for_fleet(), steps=good),
                Column(title="Under min ISR", signal=UNDER_MIN_ISR.for_fleet(), steps=good),
                Column(title="Under-replicated", signal=UNDER_REPLICATED.for_fleet(), steps=best),
                Column(title="Imbalance", signal=IMBALANCE.for_fleet(), steps=best),
                Column(title="Partitions", signal=PARTITIONS.for_fleet()),
                Column(title="Proven, ago", signal=VERIFIED_AGE.for_fleet()),
                span=24,
                key="cluster",
                worst_by="Trouble",
                link=_CLUSTERS_BOARD,
            ),
        ),
    )


def _since_when() -> Row:
    return Row(
        title="Since when?",
        panels=(
            lines("Trouble over time", signals.TROUBLE.for_fleet(), span=12, decimals=0),
            lines("Offline partitions", OFFLINE.for_fleet(), span=12, decimals=0),
            lines("Controller elections within an hour", ELECTIONS_HOUR.for_fleet(), span=12),
            lines("Under-replicated", UNDER_REPLICATED.for_fleet(), span=12, decimals=0),
        ),
    )
