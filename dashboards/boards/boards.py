"""Make dashboards from rows: what all dashboards share, and the files that they make.

A dashboard answers one question from top to bottom, and ends with whether its answer can be
trusted. Every row fills the grid's 24 columns. Ids are counted here, so the same code makes the same
bytes.
"""

import copy
import dataclasses
import json

from grafana_foundation_sdk.builders import dashboard as board
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models import dashboard as model

from dashboards.boards import balance, controller, fleet, panels, partitions, pipeline, quorum
from dashboards.boards.rows import Row
from dashboards.signals.brokers import BROKER_SINCE
from dashboards.signals.controller import CONTROLLER_ELECTED_AT
from dashboards.signals.incidents import INCIDENT_ABNORMAL, INCIDENT_LAST
from dashboards.signals.partitions import UNCLEAN_MINUTE
from dashboards.signals.pipeline import FOLLOWED_NOT

TAG = "kafka-controller-monitor"
"""The tag by which the dashboards find each other."""


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Board:
    """One dashboard; `name` is its file's name and the end of its uid."""

    name: str
    title: str
    description: str
    rows: tuple[Row, ...]
    of_all: bool = False
    """Whether several clusters can be chosen at once."""
    by_target: bool = False
    """Whether Prometheus' jobs and instances can be chosen, too: for a dashboard about the scraped parts."""


BOARDS: tuple[Board, ...] = (
    Board(
        name="fleet",
        title="Fleet",
        description="All clusters, the worst first.",
        rows=fleet.ROWS,
        of_all=True,
    ),
    Board(
        name="controller",
        title="Controller",
        description="Who the controller is, how steady it is, and what its changes cost.",
        rows=controller.ROWS,
    ),
    Board(
        name="quorum",
        title="Quorum",
        description="Whether a KRaft quorum commits, who follows its active controller, and what can be lost.",
        rows=quorum.ROWS,
    ),
    Board(
        name="partitions",
        title="Partitions and ISR",
        description="Which partitions are lost or at risk, and which broker is at fault.",
        rows=partitions.ROWS,
    ),
    Board(
        name="balance",
        title="Balance",
        description="Who leads what, what a preferred election would fix, which broker can be stopped.",
        rows=balance.ROWS,
    ),
    Board(
        name="pipeline",
        title="Pipeline",
        description="Whether the monitor follows, how late it is, and what it has proved.",
        rows=pipeline.ROWS,
        by_target=True,
    ),
)
"""All dashboards, in the order in which an operator goes from one to the next."""


def render(made_of: Board) -> str:
    """Return a dashboard as JSON that is the same each time."""
    made = (
        board.Dashboard(f"Kafka Controller Monitor / {made_of.title}")
        .uid(f"kcm-{made_of.name}")
        .description(made_of.description)
        .tags(["kafka", TAG])
        .timezone("browser")
        .tooltip(model.DashboardCursorSync.CROSSHAIR)
        .time("now-3h", "now")
        .refresh("10s")
        .link(_other_boards())
        .with_variable(
            board.DatasourceVariable("datasource").label("Data source").type("prometheus")
        )
        .with_variable(_choice("cluster", "Cluster", _CLUSTERS, of_several=made_of.of_all))
    )
    if not made_of.of_all:
        made = made.with_variable(_broker())
    if made_of.by_target:
        instances = f'label_values({{{_PARTS}, job=~"$job"}}, instance)'
        made = made.with_variable(_choice("job", "Job", f"label_values({{{_PARTS}}}, job)"))
        made = made.with_variable(_choice("instance", "Instance", instances))
    for row in made_of.rows:
        made = made.with_row(board.Row(row.title))
        for panel in row.panels:
            made = made.with_panel(copy.deepcopy(panel))  # the SDK sets its position
    built = made.build()
    for number, placed in enumerate(built.panels or [], start=1):
        placed.id_val = number
    as_data = json.loads(json.dumps(built, cls=JSONEncoder))
    if not made_of.of_all:
        as_data["annotations"] = _annotations()
    if made_of.by_target:
        panels_asked = (each for panel in as_data["panels"] for each in panel.get("targets", ()))
        for asked in (*panels_asked, *as_data["annotations"]["list"]):
            asked["expr"] = _of_target(asked["expr"])
    return json.dumps(as_data, indent=2, sort_keys=True) + "\n"


def _other_boards() -> board.DashboardLink:
    """Return the links to the other dashboards, which keep the choices made here."""
    return (
        board.DashboardLink("Boards")
        .type(model.DashboardLinkType.DASHBOARDS)
        .tags([TAG])
        .include_vars(True)
        .keep_time(True)
    )


def _broker() -> board.QueryVariable:
    """Return the variable for brokers: shown by id, host and rack, queried by id."""
    query = (
        "query_result(max by (broker, name) (label_join("
        'kafka_broker_info{cluster="$cluster"}, "name", " ", "broker", "host", "rack")))'
    )
    return (
        _choice("broker", "Broker", query)
        .regex('/broker="(?<value>[^"]+)".*name="(?<text>[^"]+)"/')
        .sort(model.VariableSort.NUMERICAL_ASC)
    )


_CLUSTERS = "label_values(kcm_cluster_up, cluster)"

_PARTS = '__name__=~"kcm_(cluster_up|watcher_leader|fold_lag_records)"'
"""One metric each of the exporter, the watcher and the fold, to find their scrapes."""


def _of_target(expr: str) -> str:
    """Return an expression with matchers for the chosen jobs and instances in each selector.

    >>> _of_target('a{cluster="$cluster"} + b{}')
    'a{cluster="$cluster", job=~"$job", instance=~"$instance"} + b{job=~"$job", instance=~"$instance"}'
    """
    chosen = 'job=~"$job", instance=~"$instance"'
    cluster = 'cluster="$cluster"'
    return expr.replace("{}", f"{{{chosen}}}").replace(cluster, f"{cluster}, {chosen}")


def _choice(name: str, label: str, query: str, *, of_several: bool = True) -> board.QueryVariable:
    """Return a variable for a value that the query returns, or for several of them or all."""
    variable = (
        board.QueryVariable(name)
        .label(label)
        .datasource(panels.DATASOURCE)
        .query(query)
        .refresh(model.VariableRefresh.ON_TIME_RANGE_CHANGED)
        .sort(model.VariableSort.ALPHABETICAL_ASC)
    )
    if of_several:
        variable = variable.multi(True).include_all(True).all_value(".+").current(_ALL)
    return variable


_ALL = model.VariableOption(selected=True, text=["All"], value=["$__all"])


_ANNOTATIONS = (
    ("Controller elected", CONTROLLER_ELECTED_AT, "blue", True),
    ("Broker came or went", BROKER_SINCE, "orange", True),
    ("Unclean election", UNCLEAN_MINUTE, "red", False),
    ("Incident", INCIDENT_ABNORMAL, "dark-red", False),
    ("Incident over", INCIDENT_LAST, "dark-red", True),
    ("Figures do not follow the cluster", FOLLOWED_NOT, "dark-orange", False),
)
"""Name, signal, colour, and whether its value is the annotation's time (in ms)."""


def _annotations() -> dict[str, object]:
    """Return the annotations of all graphs, by queries that need no plugin.

    They are written by hand because the SDK does not have the fields of Prometheus's annotations.
    """
    return {
        "list": [
            {
                "name": name,
                "datasource": {"type": "prometheus", "uid": "${datasource}"},
                "enable": True,
                "iconColor": colour,
                "expr": signal.on_board() if is_time else f"({signal.on_board()}) > 0",
                "step": "10s",
                "titleFormat": name,
                "textFormat": signal.legend,
                "tagKeys": "cluster,broker,number",
                "useValueForTime": "on" if is_time else False,
            }
            for name, signal, colour, is_time in _ANNOTATIONS
        ]
    }
