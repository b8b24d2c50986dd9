"""Compare two results: an older and a newer one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

EXPLAINED = frozenset({"machine", "settings", "rounds", "runs_s", "polls"})
"""Parts of a result that are not figures: the single runs, and the machine."""
NAMES = ("peer", "every_s", "partitions", "leaders", "led", "brokers", "topics", "step")
"""Fields that identify the entries of a list, where an entry has them."""


def comparison(old: Mapping[str, Any], new: Mapping[str, Any]) -> str:
    """Return a table: first the figures with a bound, then every other figure of both results.

    One scenario is compared with the same scenario of an older run of all.

    >>> print(comparison({"tail_s": 2.0}, {"tail_s": 1.0, "half_s": 1.0}))
    | figure | old | new | change | must | aim |
    |---|---|---|---|---|---|
    | half_s | - | 1.0 |  |  |  |
    | tail_s | 2.0 | 1.0 | -50 % |  |  |
    """
    if "scenarios" in old and "scenarios" not in new:
        old = old["scenarios"].get(new["scenario"], {})
    lines = ["| figure | old | new | change | must | aim |", "|---|---|---|---|---|---|"]
    before, after = old.get("figures", {}), new.get("figures", {})
    for name in sorted(before.keys() | after.keys()):
        known = after.get(name) or before[name]
        values = (before.get(name, {}).get("value"), after.get(name, {}).get("value"))
        what = f"{known.get('what', name)}, {known.get('unit', '')}".rstrip(", ")
        lines.append(_line(what, *values, known["must"], known["aim"]))
    was, now = dict(leaves(old)), dict(leaves(new))
    lines += [_line(name, was.get(name), now.get(name)) for name in sorted(was.keys() | now.keys())]
    if old.get("machine") != new.get("machine"):
        lines += ["", "They were measured on different machines, or by different Pythons."]
    return "\n".join(lines)


def leaves(result: Any, path: str = "") -> Iterator[tuple[str, float]]:
    """Yield each number of a result with its path.

    >>> dict(leaves({"storms": [{"leaders": 10, "tail_s": 0.5}], "machine": {"cpus": 2}}))
    {'storms[leaders=10].tail_s': 0.5}
    """
    if isinstance(result, Mapping):
        for key, value in result.items():
            if key not in EXPLAINED and not (key == "figures" or (key in NAMES and "[" in path)):
                yield from leaves(value, f"{path}.{key}" if path else key)
    elif isinstance(result, list):
        for number, value in enumerate(result):
            yield from leaves(value, f"{path}[{name_of(value) or number}]")
    elif isinstance(result, int | float) and not isinstance(result, bool):
        yield path, result


def name_of(value: Any) -> str:
    """Return what identifies an entry of a list; empty where nothing does."""
    names = [name for name in NAMES if isinstance(value, Mapping) and name in value]
    return ",".join(f"{name}={value[name]}" for name in names)


def _line(what: str, old: float | None, new: float | None, *bounds: float) -> str:
    change = f"{(new / old - 1) * 100:+.0f} %" if old and new is not None else ""
    shown = ["-" if value is None else str(value) for value in (old, new)]
    must, aim = bounds or ("", "")
    return f"| {what} | {' | '.join(shown)} | {change} | {must} | {aim} |"
