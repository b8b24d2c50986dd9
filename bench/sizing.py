"""What the pages show of a whole result: the main figures, what to plan by, and a large fleet on paper."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping
from typing import Any

from bench.cells import mib, ms, number, s
from tools.docs.markdown import table

Result = Mapping[str, Any]

FLEET = 100
"""Clusters of the fleet on paper."""
FLEET_PARTITIONS = 70_000
"""Of each of them, on 30 brokers: 7 million in all."""
HEARTBEATS_PER_S = 0.1
CHANGES_PER_S = 1.0
"""Of each cluster: many leaders a minute, day and night."""


def figures_table(result: Result, names: Collection[str] = ()) -> str | None:
    """Return the main figures: all, or those of these names; None where none was measured."""
    figures = [
        figure for name, figure in result.get("figures", {}).items() if not names or name in names
    ]
    if not figures:
        return None
    return table(
        ("What", "Figure"),
        ((figure["what"], f"{number(figure['value'])} {figure['unit']}") for figure in figures),
    )


def measured_on(result: Result) -> str | None:
    """Return on what it was measured, and which scenarios were measured on something else; None for nothing."""
    machine = result["machine"]
    if not machine:
        return None
    machines = {
        name: _described(scenario["machine"])
        for name, scenario in result["scenarios"].items()
        if "machine" in scenario
    }
    most = Counter(machines.values()).most_common(1)
    usual = most[0][0] if most else _described(machine)
    others = "".join(
        f", `{name}` on {other}" for name, other in sorted(machines.items()) if other != usual
    )
    return (
        f"Measured on {usual}{others}, with the shipped settings. The "
        "watched ZooKeeper, all parts, their Kafka and the load itself ran on them together."
    )


def _described(machine: Mapping[str, Any]) -> str:
    return (
        f"{machine['cpus']} processors ({machine['cpu_model']}), "
        f"{machine['memory_mib'] // 1024} GiB, Python {machine['python']}"
    )


def sizing_table(result: Result) -> str | None:
    """Return what an operator plans by, of what was measured; None where nothing of it was."""
    scenarios = result["scenarios"]
    rows = [
        (what, show(scenarios[name]), f"`python -m bench {name}`")
        for what, name, show in _SIZING
        if name in scenarios
    ]
    return table(("What", "Figure", "Command"), rows) if rows else None


_SIZING: tuple[tuple[str, str, Callable[[Result], str]], ...] = (
    (
        "a leader's change is in a scrape; of that, the fold (p50)",
        "delay",
        lambda r: (
            f"p50 {ms(r['p50_ms'])}, p99 {ms(r['p99_ms'])}; {ms(r['stages']['fold']['p50_ms'])}"
        ),
    ),
    (
        "CPU and memory of all parts at rest beside 10,000 partitions",
        "rest",
        lambda r: (
            f"{r['at_rest']['all']['cpu_percent']:.0f} % of a core, {mib(r['at_rest']['all']['rss_mib'])}"
        ),
    ),
    (
        "51 clusters, two of them of 200,000 partitions: memory at most",
        "fleet",
        lambda r: ", ".join(f"{part} {mib(size)}" for part, size in r["peak_memory_mib"].items()),
    ),
    (
        "the same: a large one is read",
        "fleet",
        lambda r: (
            f"shown after {s(r['resync_s'])}, other clusters' changes delayed by at most "
            f"{ms(r['delay_in_resync']['max_ms'])}"
        ),
    ),
    (
        "a resync of 20,206 znodes, by each way of watching",
        "resync",
        lambda r: ", ".join(f"{way} {s(each['median_s'])}" for way, each in r["ways"].items()),
    ),
    (
        "the model, on one core; memory of 1,000,000 partitions",
        "replay",
        lambda r: f"{number(r['changes_per_s'])} changes/s; {mib(r['large_peak_memory_mib'])}",
    ),
    (
        "a scrape of 200,000 partitions, 100 brokers; with every partition",
        "scrape",
        lambda r: "; ".join(
            f"{ms(r['clusters'][-1][path]['p50_ms'])}, {number(r['clusters'][-1][path]['series'])} series"
            for path in ("/metrics", "/metrics/partitions")
        ),
    ),
)


def paper_table(result: Result) -> str | None:
    """Return what 100 clusters of 7 million partitions take, by what was measured; None where that is not all there."""
    scenarios = result["scenarios"]
    if not {"replay", "brokers", "rest", "cold"} <= scenarios.keys():
        return None
    replay, batches = scenarios["replay"], scenarios["brokers"]["brokers"]["30"]
    partitions = FLEET * FLEET_PARTITIONS
    changing = scenarios["rest"]["changing"]
    fold = sum(cost["cpu_percent"] for part, cost in changing.items() if part.startswith("fold"))
    beats = FLEET * HEARTBEATS_PER_S * batches["heartbeat"]["ms"]
    changes = FLEET * CHANGES_PER_S * batches["one change"]["ms"]
    watchers = FLEET * _memory_mib(scenarios["cold"], "watcher", FLEET_PARTITIONS)
    exporter = _memory_mib(scenarios["cold"], "exporter", partitions)
    led = FLEET_PARTITIONS // 3
    return table(
        ("What", "How it is reckoned", "Figure"),
        (
            (
                "batches of one query, all the time",
                "the fold's CPU at 10 changes/s (`rest`)",
                f"{fold:.0f} % of a core",
            ),
            (
                "heartbeats of all clusters",
                f"{FLEET * HEARTBEATS_PER_S:g}/s of {batches['heartbeat']['ms']} ms (`brokers`, 30)",
                f"{beats / 10:.1f} % of a core",
            ),
            (
                "a change a second in each cluster",
                f"{FLEET * CHANGES_PER_S:g}/s of {batches['one change']['ms']} ms (`brokers`, 30)",
                f"{changes / 10:.1f} % of a core",
            ),
            (
                f"a broker dies that led {number(led)} partitions",
                f"at {number(replay['changes_per_s_with_views'])}/s (`replay`)",
                f"{s(led / replay['changes_per_s_with_views'])} of one core",
            ),
            (
                "every cluster is read again (once a day, spread over it)",
                f"{number(partitions)} at {number(replay['large_changes_per_s'])}/s (`replay`)",
                f"{s(partitions / replay['large_changes_per_s'])} of one core",
            ),
            (
                "the state on disk",
                f"{replay['large_packed_bytes_per_partition']} bytes a partition (`replay`)",
                mib(partitions * replay["large_packed_bytes_per_partition"] / 2**20),
            ),
            ("memory of 100 watchers", "by partitions (`cold`)", mib(watchers)),
            ("memory of an exporter", "by partitions (`cold`)", mib(exporter)),
        ),
    )


def _memory_mib(cold: Result, part: str, partitions: int) -> float:
    """Return what a part would hold of so many partitions: the line through the smallest and the largest measured."""
    sizes = sorted(cold["sizes"], key=lambda size: size["partitions"])
    least, most = sizes[0], sizes[-1]
    low, high = (each["rounds"][-1]["memory_mib"][part] for each in (least, most))
    apart = most["partitions"] - least["partitions"]
    each = max(0.0, high - low) / apart if apart else 0.0
    return float(low + each * (partitions - least["partitions"]))
