"""A board is the same each time it is made, and explains every figure on it."""

from __future__ import annotations

import json
from typing import Any

import pytest
from grafana_foundation_sdk.cog.encoder import JSONEncoder

from controller_model.completeness import LATE_MS
from dashboards import boards
from dashboards.panels import figure
from dashboards.signals import CLUSTER_MARK, CONTROLLER_ID, SIGNALS

_GRID_COLUMNS = 24


@pytest.fixture(scope="module")
def board() -> dict[str, Any]:
    """The board *Controller* as Grafana reads it."""
    made: dict[str, Any] = json.loads(boards.controller())
    return made


@pytest.fixture(scope="module")
def panels(board: dict[str, Any]) -> list[dict[str, Any]]:
    """Its panels without the headings of rows."""
    return [panel for panel in board["panels"] if panel["type"] != "row"]


def test_the_board_is_the_same_each_time() -> None:
    """Two runs make the same bytes, so that a difference always means a change."""
    assert boards.controller() == boards.controller()


def test_every_panel_has_a_title_a_description_and_a_unit(panels: list[dict[str, Any]]) -> None:
    """No figure is shown without what it means and what it is counted in."""
    assert panels
    for panel in panels:
        assert panel["title"]
        assert panel["description"], panel["title"]
        assert panel["fieldConfig"]["defaults"]["unit"], panel["title"]


def test_the_signals_of_a_panel_share_a_unit() -> None:
    """A panel has one unit, so all of its signals are counted in it."""
    for row in boards.controller_rows():
        for panel in row.panels:
            built = panel.build()
            targets = json.loads(json.dumps(built.targets, cls=JSONEncoder))
            exprs = [target["expr"] for target in targets]
            units = {s.unit for s in SIGNALS if s.on_board() in exprs}
            assert len(units) == 1, built.title


def test_every_query_asks_the_chosen_source_for_the_chosen_cluster(
    panels: list[dict[str, Any]],
) -> None:
    """Both variables of the board reach each query, and no mark is left in one."""
    for panel in panels:
        assert panel["targets"], panel["title"]
        for target in panel["targets"]:
            assert target["datasource"] == {"type": "prometheus", "uid": "${datasource}"}
            assert 'cluster="$cluster"' in target["expr"]
            assert CLUSTER_MARK not in target["expr"]


def test_queries_of_a_panel_are_told_apart(panels: list[dict[str, Any]]) -> None:
    """Each query of a panel has a letter of its own, as Grafana needs it."""
    for panel in panels:
        letters = [target["refId"] for target in panel["targets"]]
        assert len(set(letters)) == len(letters)


def test_figures_of_now_do_not_show_the_past(panels: list[dict[str, Any]]) -> None:
    """Large figures and bars are instant queries: an ended series is not shown as if it lasted."""
    for panel in panels:
        of_now = panel["type"] in {"stat", "bargauge"}
        assert [target["instant"] for target in panel["targets"]] == (
            [of_now] * len(panel["targets"])
        ), panel["title"]


def test_panels_neither_overlap_nor_leave_the_grid(board: dict[str, Any]) -> None:
    """Each cell of the grid belongs to one panel at most, and each line of panels is full."""
    taken: set[tuple[int, int]] = set()
    for panel in board["panels"]:
        at = panel["gridPos"]
        cells = {
            (x, y)
            for x in range(at["x"], at["x"] + at["w"])
            for y in range(at["y"], at["y"] + at["h"])
        }
        assert not cells & taken, panel["title"]
        assert at["x"] + at["w"] <= _GRID_COLUMNS
        taken |= cells
    height = max(y for _, y in taken) + 1
    assert len(taken) == height * _GRID_COLUMNS


def test_ids_of_panels_are_unique(board: dict[str, Any]) -> None:
    """Each panel has an id, so that a link to it stays right."""
    ids = [panel["id"] for panel in board["panels"]]
    assert sorted(set(ids)) == sorted(ids)


def test_variables_are_the_source_and_the_cluster(board: dict[str, Any]) -> None:
    """The operator chooses where to ask and about which cluster."""
    variables = {variable["name"]: variable for variable in board["templating"]["list"]}
    assert list(variables) == ["datasource", "cluster"]
    assert variables["datasource"]["query"] == "prometheus"
    assert variables["cluster"]["query"] == "label_values(kcm_cluster_up, cluster)"


def test_the_board_ends_with_whether_it_can_be_trusted(board: dict[str, Any]) -> None:
    """Staleness is told on the same board as the figures."""
    rows = [panel["title"] for panel in board["panels"] if panel["type"] == "row"]
    assert rows[-1] == "Can I trust this?"


def test_the_limit_of_late_is_the_models() -> None:
    """The line that a board draws at 'late' is where the verdict turns."""
    assert boards.LATE_SECONDS * 1000 == LATE_MS


def test_nobody_is_told_by_name() -> None:
    """A vacant controller is shown as a word, not as broker -1."""
    built = figure("c", CONTROLLER_ID, span=4, texts={"-1": ("nobody", "red")}).build()
    shown = json.dumps(built, cls=JSONEncoder)
    assert '"nobody"' in shown
