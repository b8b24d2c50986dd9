"""The file that Prometheus loads contains every alert once."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from dashboards.alerts.rules import ALERTS, GROUP, rules


@pytest.fixture(scope="module")
def groups() -> dict[str, list[dict[str, Any]]]:
    """The rules by the names of their groups."""
    return {group["name"]: group["rules"] for group in yaml.safe_load(rules())["groups"]}


def test_names_of_rules_are_unique(groups: dict[str, list[dict[str, Any]]]) -> None:
    """With two rules of a name it would not be clear which one fires."""
    names = [rule["alert"] for held in groups.values() for rule in held]
    assert len(set(names)) == len(names) == len(ALERTS)


def test_alert_rules_are_in_the_order_of_the_code_in_one_group(
    groups: dict[str, list[dict[str, Any]]],
) -> None:
    """They are one group without recording rules: dashboards and alerts query scraped metrics."""
    assert list(groups) == [GROUP]
    assert [rule["alert"] for rule in groups[GROUP]] == [alert.name for alert in ALERTS]


def test_a_multiline_description_is_a_yaml_block() -> None:
    """People read the file, too: no line break in it is an escape sequence."""
    text = rules()
    assert text.count("description: |\n") == len(ALERTS)
    assert "\\n" not in text
