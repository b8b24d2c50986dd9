"""Parameters of a request: one that is not understood is refused by its name."""

from __future__ import annotations

import pytest

from tests.support.api_server import Served

PROD = "/api/v1/clusters/prod"


@pytest.mark.parametrize(
    ("path", "names"),
    [
        ("/partitions?filter=offlin", ["filter", "offlin", "offline"]),
        ("/partitions?fliter=offline", ["fliter", "filter"]),
        ("/partitions?limit=0", ["limit", "1 to 1000"]),
        ("/partitions?limit=1001", ["limit"]),
        ("/partitions?limit=1&limit=2", ["limit", "often"]),
        ("/events?kind=Nothing", ["kind", "ControllerElected"]),
        ("/events?since=yesterday", ["since", "2026-"]),
        ("/events?since=2026-11-21T10:00:00+01:00", ["since", "%2B"]),
        (f"/topics?contains={'x' * 301}", ["contains", "300"]),
    ],
)
def test_a_bad_parameter_is_refused_with_its_name_and_value(
    served: Served, path: str, names: list[str]
) -> None:
    """The problem's detail has the parameter, the given value, and what it may be."""
    answer = served.get(f"{PROD}{path}")
    assert answer.status_code == 400
    assert answer.headers["content-type"] == "application/problem+json"
    assert all(name in answer.json()["detail"] for name in names), answer.text
