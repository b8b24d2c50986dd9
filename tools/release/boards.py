"""The boards as grafana.com takes them: with the inputs that Grafana asks for at their import, and what they need.

The rule: an input stands for a text of the board that differs from one installation to the next. Grafana's import puts the answer in the place
of `${NAME}` wherever that stands in a text (`DashTemplateEvaluator.evalValue`), and leaves names that are no inputs, such as variables, alone.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from dashboards.signals.signal import RUNBOOKS

Board = dict[str, Any]

OLDEST_GRAFANA = "10.0.0"
"""As docs/alerts.md says."""

SOURCE, RUNBOOK = "DS_PROMETHEUS", "VAR_RUNBOOKS"


def shared(text: str) -> str:
    """Return a board for grafana.com: its data source and the address of runbooks are asked for."""
    board: Board = json.loads(text.replace(RUNBOOKS, f"${{{RUNBOOK}}}"))
    for variable in board["templating"]["list"]:
        if variable["type"] == "datasource":
            variable["current"] = {"text": f"${{{SOURCE}}}", "value": f"${{{SOURCE}}}"}
    inputs = [
        {
            "name": SOURCE,
            "label": "Prometheus",
            "description": "The data source that scrapes the exporter.",
            "type": "datasource",
            "pluginId": "prometheus",
            "pluginName": "Prometheus",
        },
        {
            "name": RUNBOOK,
            "label": "Runbooks",
            "description": "Where people reach the runbooks that an exporter serves.",
            "type": "constant",
            "value": RUNBOOKS,
        },
    ]
    needs = [
        {"type": "grafana", "id": "grafana", "name": "Grafana", "version": OLDEST_GRAFANA},
        {"type": "datasource", "id": "prometheus", "name": "Prometheus", "version": "1.0.0"},
        *(
            {"type": "panel", "id": kind, "name": kind, "version": ""}
            for kind in sorted(set(_kinds(board["panels"])) - {"row"})
        ),
    ]
    made = {"__inputs": inputs, "__elements": {}, "__requires": needs, "id": None, **board}
    return json.dumps(made, indent=2, sort_keys=True) + "\n"


def _kinds(panels: list[Board]) -> Iterator[str]:
    """Yield the kind of each panel, also of those in closed rows."""
    for panel in panels:
        yield panel["type"]
        yield from _kinds(panel.get("panels", []))
