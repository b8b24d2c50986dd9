"""The search over all partitions: its count is exact, and its pages equal the plain pages."""

from __future__ import annotations

from typing import Any

import pytest

from exporter.partitions.conditions import Condition
from tests.support.api_server import Served
from tests.support.samples import cluster_view, topic_view
from tests.support.sick_cluster import ids

PROD = "/api/v1/clusters/prod"


def found_by(served: Served, **query: Any) -> list[str]:
    """Return everything that a search finds, page by page; each page must have the same count."""
    found: list[str] = []
    after: dict[str, str] = {}
    while True:
        page = served.json(f"{PROD}/search", **query, **after)
        found += ids(page["partitions"])
        if page["next"] is None:
            assert page["matched"] == len(found)
            return found
        assert page["matched"] > len(found)
        after = {"after": page["next"]}


@pytest.mark.parametrize("limit", [1, 3, 50])
@pytest.mark.parametrize("condition", [None, *Condition])
@pytest.mark.parametrize("broker", [None, 2])
def test_a_search_finds_the_same_partitions_as_the_pages(
    served: Served, limit: int, condition: Condition | None, broker: int | None
) -> None:
    """This holds for each condition and broker, in the same order, whatever the size of a page."""
    query = {"filter": condition, "broker": broker}
    asked = {name: value for name, value in query.items() if value is not None}
    whole = served.json(f"{PROD}/partitions", limit=1000, **asked)
    assert found_by(served, limit=limit, **asked) == ids(whole["partitions"])


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("ick", [f"sick-{number}" for number in range(8)]),
        ("SICK-3", ["sick-3"]),
        ("ell-", ["well-0", "well-1"]),
        ("-1", ["gone-1", "sick-1", "well-1"]),
        ("sick-x", []),
        ("7", []),
    ],
)
def test_a_search_text_matches_topics_and_partitions(
    served: Served, text: str, expected: list[str]
) -> None:
    """It may be a part of the topic's name, or of topic and number; a number alone means no partition."""
    assert found_by(served, text=text, limit=2) == expected


def test_a_partition_number_matches_as_a_prefix(served: Served) -> None:
    """This is as in any search box; topics in several chunks are searched to the last chunk."""
    numbers = tuple(range(40))
    pair = (0, 1)
    columns: dict[str, Any] = {
        "replicas": (pair,) * 40,
        "isr": (pair,) * 40,
        "leader": (0,) * 40,
        "leader_epoch": (0,) * 40,
        "controller_epoch": (0,) * 40,
        "partition_epoch": (0,) * 40,
        "leader_recovery_state": (None,) * 40,
    }
    served.write(
        *(
            topic_view(
                "wide", chunk=chunk, chunks=2,
                partitions=tuple(n + 40 * chunk for n in numbers),
                **columns,
            )
            for chunk in range(2)
        ),
        cluster_view(),
    )  # fmt: skip
    assert found_by(served, text="wide-7", limit=4) == [
        "wide-7",
        *(f"wide-7{n}" for n in range(10)),
    ]


def test_an_invalid_search_cursor_is_refused(served: Served) -> None:
    """A cursor that is not valid is refused with the name of the parameter."""
    answer = served.get(f"{PROD}/search", {"after": "sick"})
    assert answer.status_code == 400
    assert "'after'" in answer.json()["detail"]
