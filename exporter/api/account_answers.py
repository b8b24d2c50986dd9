"""Incidents and triggered recommendations in the API's words, over the views that hold them.

The rule: the fold keeps a bounded number of both, so an answer holds all of them; what is older
stands in the events.
"""

from __future__ import annotations

from typing import Any

import msgspec

from controller_model.records.incidents import INCIDENTS_KEPT, Incident
from controller_model.records.recommendations import Grade, Recommended
from controller_model.records.views import IncidentsView, RecommendationView
from exporter.api.answers import Triggered

Json = dict[str, Any]

STATES = ("open", "closed")
"""What incidents can be asked for by."""

INCIDENTS_SHOWN = INCIDENTS_KEPT + 1
"""The closed ones that are kept, and one that is open."""


def incidents_of(view: IncidentsView | None, *, state: str | None) -> tuple[Incident, ...]:
    """Return the incidents that are held, open, closed, or (None) both; newest first."""
    held = () if view is None else view.incidents
    return tuple(i for i in held if state is None or (i.closed_at is None) == (state == "open"))


def triggered_answer(view: RecommendationView | None) -> Triggered:
    """Return the recommendation that stands, and how those before it did."""
    standing = None if view is None else view.standing
    return Triggered(
        standing=None if standing is None else recommended_answer(standing),
        graded=[] if view is None else [grade_answer(each) for each in view.graded],
    )


def recommended_answer(recommended: Recommended) -> Json:
    """Return a recommendation as it was made."""
    body: Json = msgspec.to_builtins(recommended)
    return body | {"partitions": [each._asdict() for each in recommended.partitions]}


def grade_answer(grade: Grade) -> Json:
    """Return what became of a recommendation."""
    body: Json = msgspec.to_builtins(grade)
    for name in ("examples_lost_again", "examples_not_regained"):
        body[name] = [each._asdict() for each in getattr(grade, name)]
    return body
