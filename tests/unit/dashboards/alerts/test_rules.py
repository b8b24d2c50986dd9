"""The file that Prometheus loads holds every alert and every recorded figure, once."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from dashboards.alerts.recordings import RECORDED
from dashboards.alerts.rules import ALERTS, GROUP, rules


@pytest.fixture(scope="module")
def groups() -> dict[str, list[dict[str, Any]]]:
    """The rules by the names of their groups."""
    return {group["name"]: group["rules"] for group in yaml.safe_load(rules())["groups"]}


def test_names_of_rules_are_unique(groups: dict[str, list[dict[str, Any]]]) -> None:
    """Nobody has to guess which of two rules fired."""
    names = [rule.get("alert") or rule["record"] for held in groups.values() for rule in held]
    assert len(set(names)) == len(names) == len(ALERTS) + len(RECORDED)


def test_alerts_and_recorded_figures_are_groups_of_their_own(
    groups: dict[str, list[dict[str, Any]]],
) -> None:
    """A slow alert does not hold up what is recorded; the order is that of the code."""
    assert [rule["alert"] for rule in groups[GROUP]] == [alert.name for alert in ALERTS]
    recorded = {rule["record"]: rule["expr"] for rule in groups[f"{GROUP}-recorded"]}
    assert recorded == {name: signal.in_rules() for name, signal in RECORDED}


def test_a_text_of_several_lines_is_written_as_such() -> None:
    """A person reads the file as well: no line break is an escape in it."""
    text = rules()
    assert text.count("description: |\n") == len(ALERTS)
    assert "\\n" not in text
