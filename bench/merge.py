"""Merge several results into one, whether each is of single scenarios or of all."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from bench.compare import name_of

ALL = "all"
"""The scenario's name in a result that holds several scenarios."""


def merged(results: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Return one result of all: a later measurement replaces an earlier one.

    Within a scenario, entries such as sizes and storms that only one result has are all kept.

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
    """Return the newer value plus what only the older one has: keys, and entries of lists with names.

    >>> combined({"a": 1, "b": 2}, {"b": 3})
    {'a': 1, 'b': 3}
    >>> combined([{"leaders": 10, "tail_s": 2}], [{"leaders": 10, "tail_s": 1}])
    [{'leaders': 10, 'tail_s': 1}]

    Where entries share a name, the newer list counts as it is, and no measurement is lost.

    >>> combined([], [{"leaders": 10, "tail_s": 2}, {"leaders": 10, "tail_s": 1}])
    [{'leaders': 10, 'tail_s': 2}, {'leaders': 10, 'tail_s': 1}]
    """
    if isinstance(old, Mapping) and isinstance(new, Mapping):
        kept = {name: value for name, value in old.items() if name not in new}
        return kept | {name: combined(old.get(name), value) for name, value in new.items()}
    if (
        isinstance(old, list)
        and isinstance(new, list)
        and _have_distinct_names(old)
        and _have_distinct_names(new)
    ):
        entries = {name_of(each): each for each in old}
        return list((entries | {name_of(each): each for each in new}).values())
    return new


def _have_distinct_names(entries: Sequence[Any]) -> bool:
    names = [name_of(each) for each in entries]
    return all(names) and len(set(names)) == len(names)
