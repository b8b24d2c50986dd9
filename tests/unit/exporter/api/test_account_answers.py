"""Incidents and triggered recommendations, as the API has them."""

from __future__ import annotations

from controller_model.records.incidents import INCIDENTS_KEPT
from tests.support.api_server import Served
from tests.support.samples import (
    as_of,
    cluster_view,
    incident,
    incidents_view,
    recommendation_view,
)

PROD = "/api/v1/clusters/prod"


def test_incidents_are_the_newest_first_and_can_be_chosen(served: Served) -> None:
    """The open one is in front; older ones than are kept are counted."""
    path = f"{PROD}/incidents"
    assert served.json(path)["incidents"] == []
    assert served.json(path)["total"] == 0
    is_open = incident(9, closed_at=None, end=None)
    served.write(
        incidents_view(is_open, incident(8), incident(7), at=as_of(2), total=9),
        cluster_view(at=as_of(2)),
    )
    answer = served.json(path)
    assert answer["total"] == 9
    assert [each["number"] for each in answer["incidents"]] == [9, 8, 7]
    assert answer["incidents"][1]["broker_ends"] == {"crashed": 1}
    assert answer["completeness"]["status"] == "live"
    assert [i["number"] for i in served.json(path, state="open")["incidents"]] == [9]
    assert [i["number"] for i in served.json(path, state="closed")["incidents"]] == [8, 7]
    assert [i["number"] for i in served.json(path, limit=1)["incidents"]] == [9]
    assert len(served.json(path, limit=INCIDENTS_KEPT + 1)["incidents"]) == 3
    assert served.get(path, {"limit": INCIDENTS_KEPT + 2}).status_code == 400, "none has so many"
    served.write(cluster_view(at=as_of(3)))
    assert served.json(path)["total"] == 9, "what did not change stands"


def test_what_was_triggered_stands_beside_what_can_be_elected_now(served: Served) -> None:
    """The recommendation as it was made, and the grades of those before it."""
    path = f"{PROD}/recommendations"
    assert served.json(path)["triggered"] == {"standing": None, "graded": []}
    served.write(recommendation_view(as_of(2)), cluster_view(at=as_of(2)))
    answer = served.json(path)["triggered"]
    assert answer["standing"]["partitions"] == [{"topic": "t", "partition": 1}]
    assert answer["standing"]["brokers"] == [1]
    (grade,) = answer["graded"]
    assert grade["outcome"] == "relapsed"
    assert grade["examples_lost_again"] == [{"topic": "t", "partition": 1}]


def test_incidents_of_another_lineage_are_not_of_this_one(served: Served) -> None:
    """Incidents are counted within a lineage, and go with it."""
    served.write(incidents_view(incident(7), at=as_of(2)), cluster_view(at=as_of(2)))
    newer = as_of(3, lineage="L2")
    served.write(cluster_view(at=newer))
    assert served.json(f"{PROD}/incidents")["total"] == 0
