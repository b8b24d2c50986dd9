"""Several results as one: of single scenarios, or of all, whatever each holds."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from bench.compare import name_of

ALL = "all"
"""What a result calls itself that holds several scenarios."""


def merged(results: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Return one result of all: what a later one measured stands in the place of what an earlier did.

    Within a scenario, sizes, storms and the like that only one of them has stay beside each other.

    >>> small = {"scenario": "cold", "sizes": [{"partitions": 1000, "live_s": 9}]}
    >>> large = {"scenario": "cold", "sizes": [{"partitions": 10000, "live_s": 12}]}
    >>> [size["live_s"] for size in merged([small, large])["scenarios"]["cold"]["sizes"]]
    [9, 12]
    """
    figures: dict[str, Any] = {}
    scenarios: dict[str, Any] = {}
    failed: dict[str, Any] = {}
    machine: Any = {}
    for result in results:
        found = result["scenarios"] if result["scenario"] == ALL else {result["scenario"]: result}
        for name, scenario in found.items():
            scenarios[name] = combined(scenarios.get(name, {}), scenario)
            failed.pop(name, None)
        figures |= result.get("figures", {})
        failed |= result.get("failed", {})
        machine = result.get("machine", machine)
    return {
        "scenario": ALL,
        "figures": figures,
        "failed": failed,
        "scenarios": scenarios,
        "machine": machine,
    }


def combined(old: Any, new: Any) -> Any:
    """Return a newer value with what only the older one has: keys, and entries of lists that have names.

    >>> combined({"a": 1, "b": 2}, {"b": 3})
    {'a': 1, 'b': 3}
    >>> combined([{"leaders": 10, "tail_s": 2}], [{"leaders": 10, "tail_s": 1}])
    [{'leaders': 10, 'tail_s': 1}]
    """
    if isinstance(old, Mapping) and isinstance(new, Mapping):
        kept = {name: value for name, value in old.items() if name not in new}
        return kept | {name: combined(old.get(name), value) for name, value in new.items()}
    if isinstance(old, list) and isinstance(new, list) and all(map(name_of, [*old, *new])):
        entries = {name_of(each): each for each in old}
        return list((entries | {name_of(each): each for each in new}).values())
    return new
