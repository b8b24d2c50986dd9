"""From panels to boards: which figures stand together, and in which order they are read.

The rule: a board answers one question from top to bottom, and ends with whether its answer can be
trusted. Every row fills the grid's 24 columns. Ids are counted here, so the same code makes the same
bytes.
"""

from __future__ import annotations

import dataclasses
import json

from grafana_foundation_sdk.builders import dashboard as board
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models import dashboard as model

from dashboards import panels, signals
from dashboards.panels import Panel, bars, figure, lines, timeline, word

FLAPPING_ELECTIONS = 3
"""So many elections within signals.FLAPPING_WINDOW are flapping: the restart of one broker makes
one at most."""

IMBALANCE_RATIO = 0.1
"""leader.imbalance.per.broker.percentage, Kafka's default."""

LATE_SECONDS = 25
"""A stage without a sign of life for so long is called late by the verdict."""

_NOBODY = {"-1": ("nobody", "red")}


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Row:
    """Panels under a heading."""

    title: str
    panels: tuple[Panel, ...]


def controller_rows() -> tuple[Row, ...]:
    """Return the rows of the board *Controller*: who it is, how steady, and what it costs."""
    return (_who(), _steadiness(), _partitions(), _brokers(), _trust())


def controller() -> str:
    """Return the board *Controller* as JSON."""
    return render(
        uid="kcm-controller",
        title="Kafka Controller Monitor / Controller",
        description="Who the controller is, how steady it is, and what its changes cost.",
        rows=controller_rows(),
    )


def render(*, uid: str, title: str, description: str, rows: tuple[Row, ...]) -> str:
    """Return a board as JSON that is the same each time."""
    made = (
        board.Dashboard(title)
        .uid(uid)
        .description(description)
        .tags(["kafka", "kafka-controller-monitor"])
        .timezone("browser")
        .tooltip(model.DashboardCursorSync.CROSSHAIR)
        .time("now-3h", "now")
        .refresh("10s")
        .with_variable(
            board.DatasourceVariable("datasource").label("Data source").type("prometheus")
        )
        .with_variable(
            board.QueryVariable("cluster")
            .label("Cluster")
            .datasource(panels.DATASOURCE)
            .query("label_values(kcm_cluster_up, cluster)")
            .refresh(model.VariableRefresh.ON_TIME_RANGE_CHANGED)
            .sort(model.VariableSort.ALPHABETICAL_ASC)
        )
    )
    for row in rows:
        made = made.with_row(board.Row(row.title))
        for panel in row.panels:
            made = made.with_panel(panel)
    built = made.build()
    for number, placed in enumerate(built.panels or [], start=1):
        placed.id_val = number
    return json.dumps(built, cls=JSONEncoder, indent=2, sort_keys=True) + "\n"


def _who() -> Row:
    return Row(
        title="Who is the controller?",
        panels=(
            figure("Controller", signals.CONTROLLER_ID, span=4, texts=_NOBODY),
            figure("In office", signals.CONTROLLER_AGE, span=4, no_value="nobody is"),
            figure("Epoch", signals.CONTROLLER_EPOCH, span=4),
            figure(
                "Elections in the last hour",
                signals.ELECTIONS_HOUR,
                signals.ID_CHANGES_HOUR,
                span=6,
                steps=((None, "green"), (1, "orange"), (FLAPPING_ELECTIONS, "red")),
            ),
            figure(
                "Vacant now", signals.VACANT_NOW, span=6, steps=((None, "green"), (0.001, "red"))
            ),
            timeline("Controller over time", signals.CONTROLLER_ID, span=24, texts=_NOBODY),
        ),
    )


def _steadiness() -> Row:
    return Row(
        title="Elections, vacancy and failover",
        panels=(
            lines(
                f"Elections within {signals.FLAPPING_WINDOW}",
                signals.ELECTIONS_RECENT,
                span=12,
                steps=((None, "transparent"), (FLAPPING_ELECTIONS, "red")),
                decimals=0,
            ),
            lines(
                "Time without a controller within an hour",
                signals.VACANCY_HOUR,
                signals.VACANCY_AT_MOST_HOUR,
                span=12,
            ),
            figure("Last vacancy", signals.LAST_VACANCY, signals.LAST_VACANCY_AT_MOST, span=8),
            word("Failover work", signals.FAILOVER, span=4),
            figure("Last failover work took", signals.LAST_FAILOVER, span=6, no_value="none yet"),
            figure(
                "Leader writes due",
                signals.LEADER_WRITES_DUE,
                span=6,
                steps=panels.ZERO_IS_GOOD,
            ),
            timeline("Failover work over time", signals.FAILOVER, span=12, texts=_ONLY_COLOUR),
            lines("Leader writes due over time", signals.LEADER_WRITES_DUE, span=12, decimals=0),
        ),
    )


_ONLY_COLOUR = {"1": ("so", "blue")}


def _partitions() -> Row:
    shown = (signals.OFFLINE, signals.UNDER_MIN_ISR, signals.UNDER_REPLICATED, signals.IMBALANCE)
    good = panels.ZERO_IS_GOOD
    best = panels.ZERO_IS_BEST
    return Row(
        title="What does it cost?",
        panels=(
            figure("Offline partitions", signals.OFFLINE, span=6, steps=good),
            figure("Under min ISR", signals.UNDER_MIN_ISR, span=6, steps=good),
            figure("Under-replicated", signals.UNDER_REPLICATED, span=6, steps=best),
            figure("Not led by the preferred replica", signals.IMBALANCE, span=6, steps=best),
            lines("Partitions not as they should be", *shown, span=24, decimals=0),
        ),
    )


def _brokers() -> Row:
    return Row(
        title="Leaders per broker",
        panels=(
            bars("Leaders", signals.BROKER_LEADERS, span=12, steps=((None, "blue"),)),
            bars(
                "Imbalance ratio",
                signals.BROKER_IMBALANCE,
                span=12,
                steps=((None, "green"), (IMBALANCE_RATIO, "red")),
                most=1,
            ),
        ),
    )


def _trust() -> Row:
    follows = {"0": ("no", "red"), "1": ("yes", "green")}
    doubts = {"0": ("no", "green"), "1": ("yes", "red"), "2": ("yes, both", "red")}
    late = ((None, "transparent"), (LATE_SECONDS, "red"))
    return Row(
        title="Can I trust this?",
        panels=(
            figure(
                "Follows ZooKeeper",
                signals.FOLLOWED,
                span=6,
                texts=follows,
                no_value="not served",
            ),
            word("Status", signals.STATUS, span=6, no_value="not served"),
            figure("Incomplete or divergent", signals.DOUBTFUL, span=6, texts=doubts),
            figure(
                "Proven equal to ZooKeeper, ago", signals.VERIFIED_AGE, span=6, no_value="never"
            ),
            lines("Since the newest sign of life", signals.BEHIND, span=24, steps=late),
        ),
    )
