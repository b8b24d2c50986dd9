"""Prometheus's own promtool, and written-out series that it plays against the shipped rules.

A test of one alert loads that alert as it is shipped, and no other: promtool evaluates all
that it loads at each moment of a story, of which some last for days.
"""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Collection, Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

from dashboards.__main__ import FOLDER
from tests.component.rules.rule_stories import INTERVAL_S

PROMTOOL = shutil.which("promtool")
RULES = FOLDER / "rules" / "kafka-controller-monitor.yaml"
NEEDS_PROMTOOL = pytest.mark.skipif(
    PROMTOOL is None,
    reason="promtool is not installed (Debian: apt-get install prometheus)",
)

_DEADLINE_S = 240
"""promtool takes seconds for a story of days."""


def promtool(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run promtool to its end."""
    assert PROMTOOL is not None
    return subprocess.run(
        [PROMTOOL, *arguments], capture_output=True, text=True, check=False, timeout=_DEADLINE_S
    )


def play(
    folder: Path,
    series: Mapping[str, str],
    alerts: Collection[str],
    groups: Iterable[Mapping[str, Any]] | None = None,
    **checks: list[dict[str, object]],
) -> subprocess.CompletedProcess[str]:
    """Play the series, and let promtool check what the alerts of the groups do, None: of the shipped ones."""
    rules = folder / "rules.yaml"
    loaded = _groups_for(alerts, _shipped() if groups is None else groups)
    rules.write_text(json.dumps({"groups": list(loaded)}))
    interval = f"{INTERVAL_S}s"
    inputs = [{"series": name, "values": values} for name, values in series.items()]
    path = folder / "story.yaml"
    path.write_text(
        json.dumps(
            {
                "rule_files": [str(rules)],
                "evaluation_interval": interval,
                "tests": [{"interval": interval, "input_series": inputs, **checks}],
            }
        )
    )
    return promtool("test", "rules", str(path))


def _groups_for(
    alerts: Collection[str], groups: Iterable[Mapping[str, Any]]
) -> Iterator[dict[str, object]]:
    """Yield the groups of alerts, with those alone."""
    for group in groups:
        rules = [rule for rule in group["rules"] if rule["alert"] in alerts]
        if rules:
            yield {**group, "rules": rules}


@cache
def _shipped() -> list[dict[str, Any]]:
    groups: list[dict[str, Any]] = yaml.safe_load(RULES.read_text())["groups"]
    return groups
