"""Hostile requests to every page: each is answered or refused, and none raises an unexpected exception."""

from __future__ import annotations

import urllib.parse

import pytest

from exporter.api.operations import LONGEST_STEP, OPERATIONS, Operation
from rehearsal.steps import StepKind
from tests.support.api_server import Served
from tests.support.hostile import spoiled

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
"""Values that are not valid, or that a parser of numbers or names might take for another one."""
NO_UTF8 = ("%ff", "%ed%a0%80", "%c0%ae", "%zz", "%")


def _ask(served: Served, path: str, query: str = "") -> None:
    answer = served.get(f"{path}?{query}" if query else path)
    assert answer.status_code in {200, 400, 404}, (path, query[:80], answer.text[:200])
    kind = "application/json" if answer.status_code == 200 else "application/problem+json"
    assert answer.headers["content-type"] == kind


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda each: str(each.path))
def test_every_operation_answers_or_refuses_hostile_values(
    operation: Operation, served: Served
) -> None:
    """Each parameter gets them once and twice, also a parameter that no operation has."""
    path = operation.path.replace("{name}", "prod")
    for name in (*(each.name for each in operation.parameters), "nobody_s"):
        for value in (*map(urllib.parse.quote, ODD), *NO_UTF8):
            _ask(served, path, f"{name}={value}")
        _ask(served, path, f"{name}=1&{name}=2")
        _ask(served, path, f"{name}&=&&{name}")
    _ask(served, path, "&".join(f"p{number}=1" for number in range(2_000)))


FILES = (
    b'{"version":1,"partitions":[{"topic":"t","partition":0,"replicas":[1,2]}]}',
    b'{"partitions":[{"topic":"t","partition":0}]}',
)
"""Values for the argument of a rehearsal's step."""
NUMBERS = ("-1", "2147483648", "9" * 5_000, "1e999999", "NaN", '"1"', "[]", "null", "true")


@pytest.mark.parametrize("kind", StepKind)
def test_a_rehearsal_answers_or_refuses_hostile_steps(kind: StepKind, served: Served) -> None:
    """They are damaged, nested or huge, in place of a step's number or JSON."""
    damaged_files = [
        harm for file in FILES for harm in spoiled(file).values() if len(harm) < LONGEST_STEP
    ]
    numbers = [
        file.replace(b":0", b":" + n.encode()).replace(b"[1,2]", b"[" + n.encode() + b"]")
        for file in FILES
        for n in NUMBERS
    ]
    twice = [file.replace(b"[{", file[file.index(b"[{") : -2] + b",{", 1) for file in FILES]
    for about in (*damaged_files, *numbers, *twice, *(odd.encode() for odd in ODD), b"[" * 5_000):
        text = urllib.parse.quote(b"%s:%s" % (kind.encode(), about))
        if len(text) < LONGEST_STEP:
            _ask(served, "/api/v1/clusters/prod/rehearsal", f"step={text}")
    many = "&".join(f"step={kind}:{number}" for number in range(200))
    _ask(served, "/api/v1/clusters/prod/rehearsal", many)


def test_hostile_cluster_names_are_answered_or_refused(served: Served) -> None:
    """This holds for any text in place of a cluster's name."""
    for value in (*map(urllib.parse.quote, ODD), *NO_UTF8):
        for operation in OPERATIONS:
            if "{" in operation.path:
                _ask(served, operation.path.replace("{name}", value))
