"""A panel shows what its signals say, and refuses what it cannot show."""

from __future__ import annotations

import json

import pytest
from grafana_foundation_sdk.cog.encoder import JSONEncoder

from dashboards.boards.panels import NOBODY, figure, lines
from dashboards.signals.controller import CONTROLLER_ID, VACANCY_AT_MOST_HOUR, VACANCY_HOUR


def test_a_vacant_controller_is_shown_as_nobody() -> None:
    """A vacant controller is shown as a word, not as broker -1."""
    built = figure("c", CONTROLLER_ID, texts=NOBODY).build()
    shown = json.dumps(built, cls=JSONEncoder)
    assert '"nobody"' in shown


def test_a_panel_with_too_many_queries_is_refused() -> None:
    """A query without a letter would silently be left out."""
    with pytest.raises(ValueError, match="more queries than letters"):
        figure("c", *[CONTROLLER_ID] * 13)


def test_a_panel_has_the_unit_legends_and_descriptions_of_its_signals() -> None:
    """Each description is there once, after the name of its series."""
    built = json.loads(
        json.dumps(lines("v", VACANCY_HOUR, VACANCY_AT_MOST_HOUR).build(), cls=JSONEncoder)
    )
    assert built["fieldConfig"]["defaults"]["unit"] == VACANCY_HOUR.unit
    assert [target["legendFormat"] for target in built["targets"]] == ["at least", "at most"]
    assert built["description"] == (
        f"**at least:** {VACANCY_HOUR.description}\n\n**at most:** {VACANCY_AT_MOST_HOUR.description}"
    )
