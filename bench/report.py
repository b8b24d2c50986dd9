"""`python -m bench report RESULT.json`: write the pages' tables and plots from a result of `all`.

docs/performance.md is made whole, with its plots; in README.md and docs/comparison.md the tables between
`<!-- bench: NAME -->` and `<!-- bench end -->` are. A figure that misses its bound stands there like
the others.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from docs.markdown import table

MADE_BY = "<!-- Made by `python -m bench report` from what `make bench` measured. -->"
FOLDER = "performance"
"""Of the plots, beside the page."""
_TABLE = re.compile(r"(<!-- bench: (\w+) -->\n).*?(<!-- bench end -->)", re.DOTALL)

Result = Mapping[str, Any]


def performance_page(result: Result, plots: Mapping[str, str]) -> str:
    """Return docs/performance.md; `plots` are the titles of those that were drawn, by file."""
    blocks = [
        MADE_BY,
        "# How fast it is",
        _measured_on(result),
        "## What it is held to",
        figures_table(result),
    ]
    for name, title in TITLES.items():
        if name in result["scenarios"]:
            blocks += [f"## {title}", TABLES[name](result["scenarios"][name])]
            drawn = [file for file in plots if file.startswith(f"{name}-")]
            blocks += [f"![{plots[file]}]({FOLDER}/{file})" for file in drawn]
    if result["failed"]:
        blocks += ["## Not measured", table(("Scenario", "Why"), result["failed"].items())]
    return "\n\n".join(blocks) + "\n"


def _measured_on(result: Result) -> str:
    machine = result["machine"]
    return (
        f"Measured by `make bench` on {machine['cpus']} processors ({machine['cpu_model']}), "
        f"{machine['memory_mib'] // 1024} GiB, Python {machine['python']}, with the shipped settings. The "
        "watched ZooKeeper, all parts, their Kafka and the load itself ran on them together."
    )


def with_tables(text: str, result: Result) -> str:
    r"""Return a page with its tables made anew, as far as the result holds what they show.

    >>> with_tables("<!-- bench: gone -->\nold\n<!-- bench end -->", {"scenarios": {}})
    '<!-- bench: gone -->\nold\n<!-- bench end -->'
    """

    def made(found: re.Match[str]) -> str:
        before, name, after = found.groups()
        if name == "figures":
            return f"{before}{figures_table(result)}\n{after}"
        if name not in result["scenarios"]:
            return found.group()
        return f"{before}{TABLES[name](result['scenarios'][name])}\n{after}"

    return _TABLE.sub(made, text)


def figures_table(result: Result) -> str:
    """Return what is held to a bound."""
    return table(
        ("What", "Figure", "Must", "Aim", "Kept"),
        (
            (
                figure["what"],
                f"{_number(figure['value'])} {figure['unit']}",
                _number(figure["must"]),
                _number(figure["aim"]),
                "aim" if figure["aim_met"] else "must" if figure["must_met"] else "**no**",
            )
            for figure in result["figures"].values()
        ),
    )


def _delay(result: Result) -> str:
    rows = [
        (name, _ms(stage["p50_ms"]), _ms(stage["p99_ms"]))
        for name, stage in result["stages"].items()
    ]
    rows.append(("all", _ms(result["p50_ms"]), _ms(result["p99_ms"])))
    return table(("Stage", "p50", "p99"), rows)


def _storm(result: Result) -> str:
    titles = (
        "Leaders that change",
        "Last shown after last write",
        "Half shown after half written",
        "A partition after its write: median, p99, at most",
    )
    storms = [
        (f"{_number(s['leaders'])} of {_number(s['partitions'])}, written by a client", s)
        for s in result["storms"]
    ]
    storms += [
        (f"{_number(s['led'])} of {_number(s['partitions'])}, of a real broker that is killed", s)
        for s in result["kills"]
    ]
    return table(
        titles,
        (
            (
                what,
                _s(s["tail_s"]),
                _s(s["half_s"]),
                ", ".join(_s(s[f"partition_{p}_s"]) for p in ("p50", "p99", "max")),
            )
            for what, s in storms
        ),
    )


def _cold(result: Result) -> str:
    return table(
        (
            "Partitions",
            "Cold start to live",
            "Fold killed and started: next change shown",
            "Memory",
        ),
        (
            (
                _number(size["partitions"]),
                _s(size["live_s"]),
                _s(size["again_s"]),
                ", ".join(
                    f"{part} {_mib(mib)}" for part, mib in size["rounds"][-1]["memory_mib"].items()
                ),
            )
            for size in result["sizes"]
        ),
    )


def _rest(result: Result) -> str:
    rate = result["settings"]["rate_per_s"]
    return table(
        (
            "Part",
            "CPU at rest",
            f"CPU at {rate:g} changes/s",
            "Memory at rest (RSS)",
            "Memory then",
        ),
        (
            (
                part,
                f"{cost['cpu_percent']:.1f} %",
                f"{result['changing'][part]['cpu_percent']:.1f} %",
                _mib(cost["rss_mib"]),
                _mib(result["changing"][part]["rss_mib"]),
            )
            for part, cost in result["at_rest"].items()
            if part in result["changing"]
        ),
    )


def _peers(result: Result) -> str:
    turns = [
        (f"{turn['peer']}, asked each {turn['every_s']:g} s", turn) for turn in result["turns"]
    ]
    led = result["settings"]["led"]
    rows: list[tuple[str, list[str]]] = [
        ("an answer, median", [_s(turn["quiet"]["answer_p50_s"]) for _, turn in turns]),
        (
            "series; bytes",
            [f"{_number(t['quiet']['series'])}; {_number(t['quiet']['bytes'])}" for _, t in turns],
        ),
        (
            "CPU; memory, asked so",
            [f"{t['quiet']['cpu_percent']} %; {_mib(t['quiet']['memory_mib'])}" for _, t in turns],
        ),
        (
            f"a broker that led {_number(led)} is killed: first new leader shown after the first was written",
            [_s(turn["leader_killed"]["first_s"]) for _, turn in turns],
        ),
        ("all of them", [_all_shown(turn["leader_killed"]) for _, turn in turns]),
        (
            "each after its write: median, at most",
            [
                f"{_s(t['leader_killed']['partition_p50_s'])}, {_s(t['leader_killed']['partition_max_s'])}"
                for _, t in turns
            ],
        ),
        (
            "the controller is killed: the next is shown after its election",
            [_s(turn["controller_killed"]["shown_s"]) for _, turn in turns],
        ),
        (
            "/controller is deleted: elections shown",
            [f"{t['flap']['shown']} of {t['flap']['elections']}" for _, t in turns],
        ),
    ]
    return table(("", *(name for name, _ in turns)), ((what, *cells) for what, cells in rows))


def _all_shown(killed: Result) -> str:
    if killed["all_s"] is None:
        return f"{_number(killed['shown'])} of {_number(killed['of'])}"
    return _s(killed["all_s"])


def _brokers(result: Result) -> str:
    kinds = list(next(iter(result["brokers"].values())))
    return table(
        ("Brokers", *(f"{kind}: Python; state; views" for kind in kinds)),
        (
            (
                brokers,
                *(
                    f"{batch['ms']} ms; {_number(batch['state_bytes'])} B; {_number(batch['view_bytes'])} B"
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
                f"{_number(case['partitions'])}, {case['brokers']}",
                case["step"],
                _number(case["operations"]),
                f"{case['seconds']} s",
                f"{case['cpu_seconds']} s",
                f"{_number(case['mib'])} MiB",
            )
            for case in result["cases"]
        ),
    )


TABLES = {
    "delay": _delay,
    "storm": _storm,
    "cold": _cold,
    "brokers": _brokers,
    "rest": _rest,
    "rehearse": _rehearse,
    "peers": _peers,
}
TITLES = {
    "delay": "One change, by stage",
    "storm": "A storm",
    "cold": "A cold start, by partitions",
    "brokers": "A batch, by brokers",
    "rest": "At rest",
    "rehearse": "A rehearsal",
    "peers": "Beside others",
}


def write(result: Result, root: Path) -> Iterator[Path]:
    """Write the pages and the plots below the repository's root; yield what was written."""
    from bench.plots import draw  # noqa: PLC0415  # matplotlib takes a second to import

    docs = root / "docs"
    plots = draw(result, docs / FOLDER)
    yield from (docs / FOLDER / file for file in plots)
    page = docs / "performance.md"
    page.write_text(performance_page(result, plots), encoding="utf-8")
    yield page
    for page in (root / "README.md", docs / "comparison.md"):
        page.write_text(with_tables(page.read_text(encoding="utf-8"), result), encoding="utf-8")
        yield page


def _s(seconds: float | None) -> str:
    return "never" if seconds is None else f"{seconds:.3g} s"


def _ms(milliseconds: float | None) -> str:
    return "-" if milliseconds is None else f"{milliseconds:.0f} ms"


def _mib(mib: float) -> str:
    return f"{mib:,.0f} MiB"


def _number(number: float | None) -> str:
    return "-" if number is None else f"{number:,}"
