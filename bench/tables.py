"""What the pages show of a result: a table for each scenario."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from bench.cells import mib, ms, number, s
from bench.kraft_tables import KRAFT_TABLES
from tools.docs.markdown import table

Result = Mapping[str, Any]


def _delay(result: Result) -> str:
    """Return the stages of each kind of change: of leaders, and of ISRs alone where those were measured."""
    kinds = [result, *filter(None, [result.get("isr")])]
    titles = ("p50", "p99", "an ISR alone: p50", "p99")[: 2 * len(kinds)]
    stages = [{**kind["stages"], "all": kind} for kind in kinds]
    rows = (
        (name, *(ms(stage[name][figure]) for stage in stages for figure in ("p50_ms", "p99_ms")))
        for name in stages[0]
    )
    return table(("Stage", *titles), rows)


def _batch(result: Result) -> str:
    """Return what a batch of the delay's load takes, by Spark's stages."""
    batch = result["batch"]
    rows = [*batch["stages_ms"].items(), ("the whole batch", batch["ms"])]
    return table(("Stage", "Time, mean"), ((name, f"{ms:.1f} ms") for name, ms in rows))


def _storm(result: Result) -> str:
    titles = (
        "Leaders that change",
        "Last shown after last write",
        "Half shown after half written",
        "A partition after its write: median, p99, at most",
    )
    storms = [
        (f"{number(each['leaders'])} of {number(each['partitions'])}, written by a client", each)
        for each in result["storms"]
    ]
    storms += [
        (
            f"{number(each['led'])} of {number(each['partitions'])}, of a real broker that is killed",
            each,
        )
        for each in result["kills"]
    ]
    return table(
        titles,
        (
            (
                what,
                s(each["tail_s"]),
                s(each["half_s"]),
                ", ".join(s(each[f"partition_{p}_s"]) for p in ("p50", "p99", "max")),
            )
            for what, each in storms
        ),
    )


STAGES = {
    "imports_s": "Python and its packages",
    "session_s": "JVM, session, query",
    "planning_s": "the first batch's plan",
    "batch_s": "its run",
    "rest_s": "its offsets, Kafka, exporter, scrape",
}
"""What a fold does until it shows the next change."""


def _cold(result: Result) -> str:
    return table(
        (
            "Partitions",
            "Cold start to live",
            "Fold killed and started: next change shown",
            "Where that time goes",
            "Memory",
        ),
        (
            (
                number(size["partitions"]),
                s(size["live_s"]),
                s(size["again_s"]),
                ", ".join(
                    f"{STAGES[stage]} {s(took_s)}"
                    for stage, took_s in size.get("again_stages", {}).items()
                ),
                ", ".join(
                    f"{part} {mib(size_mib)}"
                    for part, size_mib in size["rounds"][-1]["memory_mib"].items()
                ),
            )
            for size in result["sizes"]
        ),
    )


def _rest(result: Result) -> str:
    rate = result["settings"]["rate_per_s"]
    loads = {
        "at_rest": "CPU at rest",
        "changing": f"CPU at {rate:g} changes/s",
        "isrs_changing": "the same, of ISRs alone",
    }
    measured = {load: title for load, title in loads.items() if load in result}
    return table(
        ("Part", *measured.values(), "Memory at rest (RSS)", "Memory then"),
        (
            (
                part,
                *(f"{result[load][part]['cpu_percent']:.1f} %" for load in measured),
                mib(cost["rss_mib"]),
                mib(result["changing"][part]["rss_mib"]),
            )
            for part, cost in result["at_rest"].items()
            if all(part in result[load] for load in measured)
        ),
    )


def _peers(result: Result) -> str:
    turns = [
        (f"{turn['peer']}, asked each {turn['every_s']:g} s", turn) for turn in result["turns"]
    ]
    led = result["settings"]["led"]
    rows: list[tuple[str, list[str]]] = [
        ("an answer, median", [s(turn["quiet"]["answer_p50_s"]) for _, turn in turns]),
        (
            "series; bytes",
            [f"{number(t['quiet']['series'])}; {number(t['quiet']['bytes'])}" for _, t in turns],
        ),
        (
            "CPU; memory, asked so",
            [f"{t['quiet']['cpu_percent']} %; {mib(t['quiet']['memory_mib'])}" for _, t in turns],
        ),
        (
            f"a broker that led {number(led)} is killed: first new leader shown after the first was written",
            [s(turn["leader_killed"]["first_s"]) for _, turn in turns],
        ),
        ("all of them", [_all_shown(turn["leader_killed"]) for _, turn in turns]),
        (
            "each after its write: median, at most",
            [
                f"{s(t['leader_killed']['partition_p50_s'])}, {s(t['leader_killed']['partition_max_s'])}"
                for _, t in turns
            ],
        ),
        (
            "the controller is killed: the next is shown after its election; each kill",
            [", ".join(map(s, turn["controller_killed"])) for _, turn in turns],
        ),
        (
            "/controller is deleted: elections shown",
            [f"{t['flap']['shown']} of {t['flap']['elections']}" for _, t in turns],
        ),
    ]
    return table(("", *(name for name, _ in turns)), ((what, *cells) for what, cells in rows))


def _all_shown(killed: Result) -> str:
    if killed["all_s"] is None:
        return f"{number(killed['shown'])} of {number(killed['of'])}"
    return s(killed["all_s"])


def _brokers(result: Result) -> str:
    kinds = list(next(iter(result["brokers"].values())))
    return table(
        ("Brokers", *(f"{kind}: Python; state; views" for kind in kinds)),
        (
            (
                brokers,
                *(
                    f"{batch['ms']} ms; {number(batch['state_bytes'])} B; {number(batch['view_bytes'])} B"
                    for batch in batches.values()
                ),
            )
            for brokers, batches in result["brokers"].items()
        ),
    )


def _rehearse(result: Result) -> str:
    return table(
        ("Partitions, brokers", "Step", "Operations", "Time", "CPU", "Memory"),
        (
            (
                f"{number(case['partitions'])}, {case['brokers']}",
                case["step"],
                number(case["operations"]),
                f"{case['seconds']} s",
                f"{case['cpu_seconds']} s",
                f"{number(case['mib'])} MiB",
            )
            for case in result["cases"]
        ),
    )


def _fleet(result: Result) -> str:
    memory = result["peak_memory_mib"]
    return table(
        ("What", "Figure"),
        (
            ("clusters", number(result["clusters"])),
            (
                "a small one's change, nothing beside it: p50, at most",
                _p50_and_most(result["delay_before"], "max_ms"),
            ),
            (
                f"a large one is read, {number(result['large_partitions'])} partitions: shown after",
                s(result["resync_s"]),
            ),
            (
                "a small one's change meanwhile: p50, at most",
                _p50_and_most(result["delay_in_resync"], "max_ms"),
            ),
            ("all of another large one is in the log at once: shown after", s(result["backlog_s"])),
            (
                "a small one's change meanwhile: p50, at most",
                _p50_and_most(result["delay_in_backlog"], "max_ms"),
            ),
            ("memory at most", ", ".join(f"{part} {mib(size)}" for part, size in memory.items())),
        ),
    )


def _scaleout(result: Result) -> str:
    shares = ", ".join(f"{worker} {share} %" for worker, share in result["share_percent"].items())
    return table(
        ("What", "Figure"),
        (
            (
                "clusters; their partitions; workers",
                "; ".join(number(result[name]) for name in ("clusters", "partitions", "workers")),
            ),
            ("all folded, from the start of everything", s(result["folded_s"])),
            ("the workers' shares of the processor time", shares),
            ("a change before the kill: p50, at most", _p50_and_most(result["before"])),
            ("a worker is killed: at most", ms(result["killed"]["most_ms"])),
            ("afterwards: p50, at most", _p50_and_most(result["after"])),
            (
                "views that differ from a replay of the logs",
                f"{result['views_differing']} of {number(result['views_compared'])}",
            ),
        ),
    )


def _p50_and_most(delay: Result, most: str = "most_ms") -> str:
    return f"{ms(delay['p50_ms'])}, {ms(delay[most])}"


def _scrape(result: Result) -> str:
    return table(
        ("Partitions, brokers", "Path", "p50", "p99", "Series", "Bytes"),
        (
            (
                f"{number(each['partitions'])}, {each['brokers']}",
                f"`{path}`",
                f"{each[path]['p50_ms']} ms",
                f"{each[path]['p99_ms']} ms",
                number(each[path]["series"]),
                number(each[path]["bytes"]),
            )
            for each in result["clusters"]
            for path in ("/metrics", "/metrics/partitions")
        ),
    )


def _commands(result: Result) -> str:
    commands = result["clusters"][0]["seconds"]
    titles = (f"{number(each['partitions'])} partitions" for each in result["clusters"])
    return table(
        ("Command: median; first", *titles),
        (
            (
                f"`kcm {words}`",
                *(
                    f"{s(each['seconds'][words]['p50'])}; {s(each['seconds'][words]['first'])}"
                    for each in result["clusters"]
                ),
            )
            for words in commands
        ),
    )


def _resync(result: Result) -> str:
    return table(
        ("Watches", "Median", "Znodes"),
        (
            (way, s(each["median_s"]), f"{number(each['znodes_per_s'])}/s")
            for way, each in result["ways"].items()
        ),
    )


def _replay(result: Result) -> str:
    return table(
        ("What", "Figure"),
        (
            ("changes that elect a leader", f"{number(result['changes_per_s'])}/s"),
            ("the same, and their views", f"{number(result['changes_per_s_with_views'])}/s"),
            ("a resync", f"{number(result['resync_changes_per_s'])}/s"),
            (
                f"one of {number(result['large_partitions'])} partitions; memory at most",
                f"{number(result['large_changes_per_s'])}/s; {mib(result['large_peak_memory_mib'])}",
            ),
        ),
    )


def _spark_shape(result: Result) -> str:
    settings = result["settings"]
    return table(
        ("Records", "p50", "p99", "at most", "CPU"),
        (
            (
                f"{number(result['records'])}, {number(settings['rate_per_s'])}/s, of {number(settings['partitions'])} partitions",
                ms(result["p50_ms"]),
                ms(result["p99_ms"]),
                ms(result["max_ms"]),
                ", ".join(f"{part} {used} %" for part, used in result["cpu_percent"].items()),
            ),
        ),
    )


TABLES: dict[str, Callable[[Result], str]] = {
    "delay": _delay,
    "delay-batch": _batch,
    "fleet": _fleet,
    "scaleout": _scaleout,
    "scrape": _scrape,
    "commands": _commands,
    "resync": _resync,
    "replay": _replay,
    "spark-shape": _spark_shape,
    "storm": _storm,
    "cold": _cold,
    "brokers": _brokers,
    "rest": _rest,
    "rehearse": _rehearse,
    "peers": _peers,
    **KRAFT_TABLES,
}
