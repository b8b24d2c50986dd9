"""Requests that somebody makes to do harm, of every page: each is answered or refused, none is a mistake of ours."""

from __future__ import annotations

import urllib.parse

import pytest

from exporter.api.operations import OPERATIONS, Operation
from tests.support.api_server import Served

ODD = (
    *(
        "",
        " ",
        "\0",
        "\x7f",
        "\u0663",
        "²",
        "\U0001f600",
        "<script>",
        "..",
        "../../etc/passwd",
        "%",
    ),
    *("-1", "+1", "1_0", "0x10", "1e9", "NaN", "9" * 19, "9" * 5_000, "a" * 10_000, "true"),
)
"""Values that are no value, or that a reader of numbers or of names might take for another one."""
NO_UTF8 = ("%ff", "%ed%a0%80", "%c0%ae", "%zz", "%")


def _ask(served: Served, path: str, query: str = "") -> None:
    answer = served.get(f"{path}?{query}" if query else path)
    assert answer.status_code in {200, 400, 404}, (path, query[:80], answer.text[:200])
    kind = "application/json" if answer.status_code == 200 else "application/problem+json"
    assert answer.headers["content-type"] == kind


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda each: str(each.path))
def test_odd_values_are_refused_by_every_operation(operation: Operation, served: Served) -> None:
    """Of each parameter, one that no operation has included, once and twice."""
    path = operation.path.replace("{name}", "prod")
    for name in (*(each.name for each in operation.parameters), "nobody_s"):
        for value in (*map(urllib.parse.quote, ODD), *NO_UTF8):
            _ask(served, path, f"{name}={value}")
        _ask(served, path, f"{name}=1&{name}=2")
        _ask(served, path, f"{name}&=&&{name}")
    _ask(served, path, "&".join(f"p{number}=1" for number in range(2_000)))


def test_odd_names_are_of_no_cluster(served: Served) -> None:
    """Whatever stands where a cluster's name does."""
    for value in (*map(urllib.parse.quote, ODD), *NO_UTF8):
        for operation in OPERATIONS:
            if "{" in operation.path:
                _ask(served, operation.path.replace("{name}", value))
