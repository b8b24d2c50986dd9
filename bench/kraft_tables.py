"""What the pages show of the measurements beside a KRaft cluster."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from bench.cells import mib, ms, number, s
from tools.docs.markdown import table

Result = Mapping[str, Any]
NOT_MEASURED = "Not measured alone on this machine yet: `python -m bench kraft`."


def _shown(result: Result) -> str:
    """Return when what is shown, counted from the append to the metadata log."""
    fence, wide, killed = (result.get(each) for each in ("fence", "wide", "controller_killed"))
    rows: list[tuple[str, str]] = [
        (
            f"10 changes/s of {what}: p50, p99, at most",
            f"{ms(delay['p50_ms'])}, {ms(delay['p99_ms'])}, {ms(delay['max_ms'])}",
        )
        for name, what in (
            ("delay", "leaders"),
            ("isr_delay", "ISRs alone, which may wait"),
        )
        if (delay := result.get(name)) is not None
    ]
    if fence is not None:
        rows.append(
            (
                (
                    f"a broker that leads {number(fence['led'])} of {number(fence['partitions'])} is fenced: the last "
                    "leader, after the last record; after the first"
                ),
                f"{s(fence['tail_s'])}; {s(fence['from_first_s'])}",
            )
        )
    if wide is not None:
        rows.append(
            (
                (
                    f"a broker with {number(wide['changes'])} replicas is fenced, appended within "
                    f"{s(wide['appended_within_s'])}: the last ISR, after the last record; after the first"
                ),
                f"{s(wide['tail_s'])}; {s(wide['from_first_s'])}",
            )
        )
    if killed is not None:
        rows.append(
            (
                "the active controller is killed: the next one, after its LeaderChange: median, at most",
                f"{s(killed['median_s'])}, {s(killed['max_s'])}",
            )
        )
    if (replay := result.get("replay")) is not None:
        rows.append(
            (
                f"`kcm replay` of a folder of {number(replay['records'])} records: CPU",
                s(replay["cpu_s"]),
            )
        )
    if (decoding := result.get("decoding")) is not None:
        rows.append(
            ("records checked and decoded on one core", f"{number(decoding['records_per_s'])}/s")
        )
    return _table(("What", "Figure"), rows)


def _cold(result: Result) -> str:
    return _table(
        ("Partitions", "Snapshot", "Cold start to live", "CPU until then", "Memory"),
        (
            (
                number(size["partitions"]),
                mib(size["snapshot_mib"]),
                s(size["live_s"]),
                _parts(size["rounds"][-1]["cpu_s"], s),
                _parts(size["rounds"][-1]["memory_mib"], mib),
            )
            for size in result.get("sizes", ())
        ),
    )


def _delay(result: Result) -> str:
    delay = result.get("delay")
    rows = [] if delay is None else list(delay["stages"].items())
    return _table(
        ("Stage", "p50", "p99"),
        [(name, ms(stage["p50_ms"]), ms(stage["p99_ms"])) for name, stage in rows],
    )


def _table(titles: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table; where nothing was measured, how it is."""
    found = list(rows)
    return table(titles, found) if found else NOT_MEASURED


def _parts(values: Mapping[str, float], text: Callable[[float], str]) -> str:
    return ", ".join(f"{part} {text(value)}" for part, value in values.items())


def _rest(result: Result) -> str:
    rest = result.get("rest", {"at_rest": {}, "changing": {}, "changes_per_s": 0})
    rate = number(rest["changes_per_s"])
    return _table(
        ("Part", "CPU at rest", f"CPU at {rate} changes/s", "Memory at rest (RSS)", "Memory then"),
        (
            (
                part,
                f"{cost['cpu_percent']:.1f} %",
                f"{rest['changing'][part]['cpu_percent']:.1f} %",
                mib(cost["rss_mib"]),
                mib(rest["changing"][part]["rss_mib"]),
            )
            for part, cost in rest["at_rest"].items()
            if part in rest["changing"]
        ),
    )


def _peers(result: Result) -> str:
    return _table(
        (
            "Who asks",
            "a broker is fenced: the last leader, after the last record; this monitor's scrapes then",
            "the active controller is killed: the next one, after its LeaderChange; this monitor's scrapes then",
            "CPU of the one who asks",
        ),
        (
            (
                turn["peer"],
                "not asked"
                if (fenced := turn.get("fenced")) is None
                else f"{s(fenced['tail_s'])}; {s(fenced['this_tail_s'])}",
                f"{s(turn['controller_killed']['shown_s'])}; {s(turn['controller_killed']['this_shown_s'])}",
                s(turn["cpu_s"]),
            )
            for turn in result.get("turns", ())
        ),
    )


KRAFT_TABLES: dict[str, Callable[[Result], str]] = {
    "kraft": _shown,
    "kraft-delay": _delay,
    "kraft-cold": _cold,
    "kraft-rest": _rest,
    "kraft-peers": _peers,
}
