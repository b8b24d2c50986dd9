"""A dashboard is the same each time it is made, and explains every figure on it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.cog.plugins import register_default_plugins
from grafana_foundation_sdk.models.dashboard import Dashboard

from controller_model.insight import thresholds
from dashboards.boards.boards import BOARDS, TAG, Board, render
from dashboards.signals.first_screen import (
    FIGURES_STALE,
    STALE,
    STALE_MEANING,
    unless_in_kraft,
    unless_stale,
    while_followed,
)
from dashboards.signals.signal import (
    BROKER_PLACEHOLDER,
    CLUSTER_PLACEHOLDER,
    RUNBOOKS,
    Signal,
)
from tests.support.signals import SIGNALS

_GRID_COLUMNS = 24
_FLEET = "fleet"
_SCREEN_UNITS = 23


@pytest.fixture(params=BOARDS, ids=lambda made: made.name)
def made(request: pytest.FixtureRequest) -> Board:
    """Each dashboard in turn."""
    chosen: Board = request.param
    return chosen


@pytest.fixture
def board(made: Board) -> dict[str, Any]:
    """The dashboard as Grafana reads it."""
    read: dict[str, Any] = json.loads(render(made))
    return read


@pytest.fixture
def panels(board: dict[str, Any]) -> list[dict[str, Any]]:
    """The dashboard's panels with figures: without the headings of rows and without lists of links."""
    return [panel for panel in board["panels"] if panel["type"] not in {"row", "text"}]


def test_the_board_is_the_same_each_time(made: Board) -> None:
    """Two runs make the same bytes, so that a difference always means a change."""
    assert render(made) == render(made)


def test_every_panel_has_a_title_a_description_and_a_unit(panels: list[dict[str, Any]]) -> None:
    """No figure is shown without its meaning and its unit."""
    assert panels
    for panel in panels:
        assert panel["title"]
        assert panel["description"], panel["title"]
        assert panel["fieldConfig"]["defaults"]["unit"], panel["title"]


def test_the_controller_board_shows_the_key_panels_without_scrolling() -> None:
    """A screen of 1080 lines shows some 23 units of the grid; no figure there is green while it is not known."""
    board = json.loads(render(next(made for made in BOARDS if made.name == "controller")))
    rows = [panel["gridPos"]["y"] for panel in board["panels"] if panel["type"] == "row"]
    assert rows[0] == 0
    assert rows[1] <= _SCREEN_UNITS
    first = [p for p in board["panels"] if p["gridPos"]["y"] < rows[1] and p["type"] != "row"]
    titles = " ".join(panel["title"] for panel in first)
    for word in (
        "trust",
        "Controller",
        "Time since election",
        "Elections",
        "Offline",
        "Under min ISR",
    ):
        assert word in titles
    for word in ("Under-replicated", "brokers are gone", "fires now", "Where next"):
        assert word in titles
    for panel in first:
        steps = panel.get("fieldConfig", {}).get("defaults", {}).get("thresholds", {})
        lowest = next(iter(steps.get("steps", [])), {"color": "text"})
        assert lowest["color"] != "green", panel["title"]


def test_a_healthy_controller_is_not_red_whatever_its_id_and_age() -> None:
    """Neither the broker's id nor the time since its election has a limit; that there is no controller is red."""
    board = json.loads(render(next(made for made in BOARDS if made.name == "controller")))
    panels = {panel["title"]: panel for panel in board["panels"]}
    controller = panels["Controller"]["fieldConfig"]["defaults"]
    for defaults in (controller, panels["Time since election"]["fieldConfig"]["defaults"]):
        colours = [step["color"] for step in defaults["thresholds"]["steps"]]
        assert colours[0] == "orange", "stale, or missing"
        assert "red" not in colours
    assert controller["mappings"][0]["options"]["-1"]["color"] == "red", "nobody"


def test_the_controller_board_links_to_every_other_board_and_to_the_runbooks() -> None:
    """One link to each; a click on an alert opens its runbook."""
    board = json.loads(render(next(made for made in BOARDS if made.name == "controller")))
    (links,) = [panel for panel in board["panels"] if panel["type"] == "text"]
    content = links["options"]["content"]
    for made in BOARDS:
        assert (f"/d/kcm-{made.name}" in content) == (made.name != "controller")
    assert f"({RUNBOOKS})" in content
    assert f"{RUNBOOKS}/${{__value.text}}" in json.dumps(board)


def test_a_panel_says_the_meaning_the_normal_value_and_the_first_action(
    panels: list[dict[str, Any]],
) -> None:
    """Each query of a panel has the description that its signal is made of, and nothing is about our tests."""
    described = {
        shown.on_board(): shown.description
        for each in SIGNALS.values()
        for signal in (each, each.for_fleet())
        for shown in _as_shown(signal)
    }
    for panel in panels:
        for target in panel["targets"]:
            shown = target["expr"].replace(', job=~"$job", instance=~"$instance"', "")
            shown = shown.replace('{job=~"$job", instance=~"$instance"}', "{}")
            assert described[shown] in panel["description"], panel["title"]
        assert not re.search(r"\b(?:demo|drill|tests?)\b", panel["description"]), panel["title"]


def _as_shown(signal: Signal) -> tuple[Signal, ...]:
    """Return a signal in each form in which panels query it."""
    shown = (signal, unless_stale(signal), while_followed(signal))
    if not signal.only_in_zookeeper:
        return shown
    marked = unless_in_kraft(signal)
    return (
        *shown,
        marked,
        unless_stale(marked),
        unless_in_kraft(while_followed(signal)),
    )


def test_the_signals_of_a_graph_share_a_unit(made: Board) -> None:
    """A graph has one unit, so all of its signals must have that; columns have their own."""
    shown = [s for each in SIGNALS.values() for s in (each, each.for_fleet())]
    units = {s.on_board(): s.unit for each in shown for s in _as_shown(each)}
    for row in made.rows:
        for panel in row.panels:
            built = panel.build()
            if built.type_val in {"table", "text"}:
                continue
            targets = json.loads(json.dumps(built.targets, cls=JSONEncoder))
            assert len({units[target["expr"]] for target in targets}) == 1, built.title


def test_every_query_uses_the_chosen_datasource_and_cluster(
    made: Board, panels: list[dict[str, Any]]
) -> None:
    """The dashboard's variables are in each query, and no placeholder is left in one."""
    chosen = 'cluster=~"$cluster"' if made.of_all else 'cluster="$cluster"'
    for panel in panels:
        assert panel["targets"], panel["title"]
        for target in panel["targets"]:
            assert target["datasource"] == {"type": "prometheus", "uid": "${datasource}"}
            of_all_clusters = re.search(r"\bkcm_(fold|exporter)_", target["expr"]) is not None
            assert (chosen in target["expr"]) != of_all_clusters
            assert CLUSTER_PLACEHOLDER not in target["expr"]
            assert BROKER_PLACEHOLDER not in target["expr"]
            if made.of_all:
                assert "$broker" not in target["expr"]
                assert 'cluster="$cluster"' not in target["expr"]


def test_queries_of_a_panel_have_unique_ref_ids(panels: list[dict[str, Any]]) -> None:
    """Grafana needs a different letter for each query of a panel."""
    for panel in panels:
        letters = [target["refId"] for target in panel["targets"]]
        assert len(set(letters)) == len(letters)


def test_stat_bar_and_table_panels_use_instant_queries(panels: list[dict[str, Any]]) -> None:
    """Large figures, bars and tables are instant queries: an ended series is not shown."""
    for panel in panels:
        of_now = panel["type"] in {"stat", "bargauge", "table"}
        assert [target["instant"] for target in panel["targets"]] == (
            [of_now] * len(panel["targets"])
        ), panel["title"]


def test_columns_of_a_table_are_named_and_joined(panels: list[dict[str, Any]]) -> None:
    """Each query of a table becomes a column with a name, in rows of one label."""
    for panel in panels:
        if panel["type"] != "table":
            continue
        merge, organize = panel["transformations"]
        assert merge["id"] == "merge"
        named = organize["options"]["renameByName"]
        assert {f"Value #{target['refId']}" for target in panel["targets"]} <= set(named)
        assert all(target["format"] == "table" for target in panel["targets"])
        sorted_by = panel["options"]["sortBy"][0]["displayName"]
        assert sorted_by in named.values()
        looks = {o["matcher"]["options"] for o in panel["fieldConfig"]["overrides"]}
        assert looks <= set(named.values())


_PROMETHEUS_FIELDS = {"step", "titleFormat", "textFormat", "tagKeys", "useValueForTime"}
"""Fields of an annotation that the data source reads, and that Grafana's own schema does not have."""


def _unknown(written: Any, read: Any, path: str = "") -> Iterator[str]:
    """Yield the paths of written values that are missing from what was read, or differ."""
    if isinstance(written, dict):
        for key, value in written.items():
            if key not in read:
                yield f"{path}/{key}"
            else:
                yield from _unknown(value, read[key], f"{path}/{key}")
    elif isinstance(written, list):
        if len(written) != len(read):
            yield f"{path}: {len(written)} became {len(read)}"
        for number, (one, other) in enumerate(zip(written, read, strict=False)):
            yield from _unknown(one, other, f"{path}/{number}")
    elif written != read:
        yield f"{path}: {written!r} became {read!r}"


def test_the_grafana_sdk_round_trips_every_field_of_a_board(board: dict[str, Any]) -> None:
    """A dashboard that is parsed into the SDK's types and serialized again loses nothing."""
    register_default_plugins()
    again = json.loads(json.dumps(Dashboard.from_json(board), cls=JSONEncoder))
    lost = [
        path for path in _unknown(board, again) if path.rpartition("/")[2] not in _PROMETHEUS_FIELDS
    ]
    assert lost == []


def test_panels_neither_overlap_nor_leave_the_grid(board: dict[str, Any]) -> None:
    """Each cell of the grid belongs to at most one panel, and each line of panels is full."""
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


def test_ids_of_panels_and_of_boards_are_unique(board: dict[str, Any]) -> None:
    """Each panel and each dashboard has an id, so that a link to it stays valid."""
    ids = [panel["id"] for panel in board["panels"]]
    assert sorted(set(ids)) == sorted(ids)
    assert len({made.name for made in BOARDS}) == len(BOARDS)


def test_variables_are_the_source_the_cluster_and_the_brokers(
    made: Board, board: dict[str, Any]
) -> None:
    """The operator chooses the data source, the cluster, and the brokers."""
    variables = {variable["name"]: variable for variable in board["templating"]["list"]}
    targets = ["job", "instance"] if made.by_target else []
    assert list(variables) == [
        "datasource",
        "cluster",
        *["broker"] * (not made.of_all),
        *targets,
    ]
    for name in targets:
        assert variables[name]["includeAll"]
        assert variables[name]["query"].endswith(f", {name})")
    assert variables["datasource"]["query"] == "prometheus"
    assert variables["cluster"]["query"] == "label_values(kcm_cluster_up, cluster)"
    assert variables["cluster"].get("multi", False) == made.of_all


def test_only_the_pipeline_board_selects_job_and_instance() -> None:
    """Each selector of Pipeline has the chosen jobs and instances, and no selector of another dashboard has."""
    for made in BOARDS:
        asked = json.loads(render(made))
        marks = asked.get("annotations", {}).get("list", [])
        targets = [each for panel in asked["panels"] for each in panel.get("targets", [])]
        for each in (*targets, *marks):
            selectors = re.findall(r"\w\{([^}]*)\}", each["expr"])
            chosen = ['job=~"$job", instance=~"$instance"' in selector for selector in selectors]
            assert selectors
            assert set(chosen) == {made.by_target}, each["expr"]


SHOWN_WHILE_FIGURES_ARE_STALE = {
    *("Follows the cluster", "Incomplete or divergent", "Watcher's session"),
    *("Paths that may not be read", "In trouble", "Without a controller", "Not followed"),
}
"""Panels that are not shown as stale while figures are stale, or that count clusters."""


SHOWS_NOW = {"stat", "bargauge", "status-history"}
"""Panels whose colours say how good a figure is."""


def test_a_stale_value_is_orange(panels: list[dict[str, Any]]) -> None:
    """The query of a figure, bar or cell that can be green returns stale, which is orange (below 0)."""
    for panel in panels:
        if panel["type"] not in SHOWS_NOW or panel["title"] in SHOWN_WHILE_FIGURES_ARE_STALE:
            continue
        defaults = panel["fieldConfig"]["defaults"]
        steps = defaults.get("thresholds", {}).get("steps", [])
        if "green" not in {step["color"] for step in steps}:
            continue
        assert steps[0]["color"] == "orange", panel["title"]
        assert steps[1]["value"] == 0
        _assert_stale_is_named(panel)


NAMES_SHOWN_WHILE_FIGURES_ARE_STALE = {
    *("Can I trust this?", "Status", "Status over time"),
    *("ZooKeeper server in use", "Server's role and release"),
}
"""Names that say whether figures are live, and the ZooKeeper server's, which the watcher reports."""


def test_a_stale_name_is_shown_as_stale_in_orange(panels: list[dict[str, Any]]) -> None:
    """A word says in orange that it is stale; a state timeline is stale while its figures were."""
    for panel in panels:
        if panel["title"] in NAMES_SHOWN_WHILE_FIGURES_ARE_STALE:
            continue
        if panel["type"] == "state-timeline":
            _assert_stale_is_named(panel)
        if panel.get("options", {}).get("textMode") == "name":
            steps = panel["fieldConfig"]["defaults"]["thresholds"]["steps"]
            assert [step["color"] for step in steps] == ["orange", "text"], panel["title"]
            _, stale = panel["targets"]
            assert stale["expr"] == FIGURES_STALE.on_board()


def test_the_table_of_gone_brokers_has_a_stale_row_while_figures_are_stale() -> None:
    """Without the row the table would be empty, as if no broker were gone; its figure is orange."""
    board = json.loads(render(next(made for made in BOARDS if made.name == "controller")))
    (table,) = [panel for panel in board["panels"] if "brokers are gone" in panel["title"]]
    assert FIGURES_STALE.on_board() in table["targets"][0]["expr"]
    (look,) = [
        o for o in table["fieldConfig"]["overrides"] if o["matcher"]["options"] == "Replicas"
    ]
    looks = {each["id"]: each["value"] for each in look["properties"]}
    assert looks["thresholds"]["steps"][0]["color"] == "orange"
    assert looks["mappings"][0]["options"][str(STALE)]["text"] == "stale"


def _assert_stale_is_named(panel: dict[str, Any]) -> None:
    assert all(target["expr"].endswith(f" - {-STALE}") for target in panel["targets"])
    named = [
        each["options"].get(str(STALE), {}) for each in panel["fieldConfig"]["defaults"]["mappings"]
    ]
    assert {"text": "stale", "color": "orange"}.items() <= named[0].items(), panel["title"]
    assert panel["description"].count(STALE_MEANING) == 1


def test_boards_link_to_each_other(board: dict[str, Any]) -> None:
    """Each dashboard lists those with the common tag, and keeps the choices."""
    (link,) = board["links"]
    assert link["tags"] == [TAG]
    assert TAG in board["tags"]
    assert link["includeVars"]
    assert link["keepTime"]


def test_a_row_of_the_fleet_board_links_to_its_controller_board() -> None:
    """A click on a cluster opens its dashboard Controller, and that exists."""
    fleet = next(made for made in BOARDS if made.name == _FLEET)
    assert "/d/kcm-controller?" in render(fleet)
    assert '"uid": "kcm-controller"' in "".join(render(made) for made in BOARDS)


def test_boards_of_one_cluster_have_annotations(made: Board, board: dict[str, Any]) -> None:
    """Dashboards of a cluster have annotations, by queries of the same data source."""
    marks = board.get("annotations", {}).get("list", [])
    assert bool(marks) != made.of_all
    for mark in marks:
        assert mark["datasource"]["uid"] == "${datasource}"
        assert 'cluster="$cluster"' in mark["expr"]
        assert CLUSTER_PLACEHOLDER not in mark["expr"]


def test_a_board_of_one_cluster_ends_with_the_staleness_row(
    made: Board, board: dict[str, Any]
) -> None:
    """Staleness is shown on the same dashboard as the figures."""
    titles = [panel["title"] for panel in board["panels"] if panel["type"] == "row"]
    assert made.of_all or titles[-1] == "Can I trust this?"


def test_panels_of_the_imbalance_ratio_have_no_fixed_red_threshold(
    panels: list[dict[str, Any]],
) -> None:
    """The ratio itself has no fixed limit on a dashboard: the threshold is a setting, and drawn as a series."""
    ratio = re.compile(r"^max by \(cluster, broker\) \(kafka_broker_imbalance_ratio\{[^}]*\}\)$")
    for panel in panels:
        if any(ratio.match(target["expr"]) for target in panel.get("targets", [])):
            steps = panel["fieldConfig"]["defaults"].get("thresholds", {}).get("steps", [])
            assert not [step for step in steps if step["color"] == "red"], panel["title"]


def test_leader_skew_is_red_below_and_above_the_even_share() -> None:
    """A broker that leads far too little is as much a problem as one that leads far too much."""
    balance = json.loads(render(next(made for made in BOARDS if made.name == "balance")))
    (panel,) = [p for p in balance["panels"] if "even share" in p["title"]]
    steps = panel["fieldConfig"]["defaults"]["thresholds"]["steps"]
    assert [(step["value"], step["color"]) for step in steps] == [
        (None, "red"),
        (-thresholds.SKEW_RATIO, "blue"),
        (thresholds.SKEW_RATIO, "red"),
    ]


def test_hourly_election_panels_lack_the_short_window_threshold() -> None:
    """The limit of the short window is drawn only for figures of the short window."""
    for made in BOARDS:
        for panel in json.loads(render(made))["panels"]:
            if [
                t["expr"] for t in panel.get("targets", []) if "kafka_controller_epoch" in t["expr"]
            ]:
                steps = panel["fieldConfig"]["defaults"].get("thresholds", {}).get("steps", [])
                red = [step["value"] for step in steps if step["color"] == "red"]
                assert not red or "[1h]" not in panel["targets"][0]["expr"], panel["title"]
