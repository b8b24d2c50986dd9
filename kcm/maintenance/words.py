"""Planned work and its progress, in words."""

from __future__ import annotations

from typing import Any

from rich.console import Group, RenderableType
from rich.text import Text

from kcm.cli.plain_table import PlainTable
from kcm.cli.written import printable, time_text
from kcm.queries.asking import ago

Json = dict[str, Any]

_STYLES = {"down": "bold yellow", "back": "yellow", "caught_up": "green"}


def words(told: Json, now_ms: int) -> RenderableType:
    """Return all planned work of a cluster for the eye, with how complete the figures are."""
    parts: list[RenderableType] = []
    status = told["completeness"]["status"]
    if status != "live":
        head = f"figures are {status} for {ago(told['completeness']['since'], now_ms)}"
        parts.append(Text(f"{head}: progress is what was true then", style="bold red"))
    if not told["planned"]:
        parts.append(Text("no work is planned"))
        return Group(*parts)
    table = PlainTable(
        "broker", "progress", "in ISRs", "time left", "reason", left=("progress", "reason")
    )
    for mark in told["planned"]:
        table.add(
            str(mark["broker"]),
            Text(progress(mark, now_ms), style=_STYLES.get(mark["progress"], "")),
            "-" if mark["in_isr"] is None else f"{mark['in_isr']} of {mark['replicas']}",
            time_left(mark, now_ms),
            printable(mark["reason"] or "-"),
        )
    done = sum(mark["progress"] == "caught_up" for mark in told["planned"])
    parts += [table, Text(f"{done} of {len(told['planned'])} done")]
    return Group(*parts)


def progress(mark: Json, now_ms: int) -> str:
    """Return how far the work on a broker has come."""
    since = ago(mark["since"], now_ms)
    return {
        "waiting": "not stopped yet",
        "down": f"down for {since}",
        "back": f"back for {since}, catching up",
        "caught_up": f"back for {since}, in every ISR",
    }.get(mark["progress"], "the monitor knows no such broker")


def time_left(mark: Json, now_ms: int) -> str:
    """Return for how long a mark still lasts."""
    return ago(2 * now_ms - mark["until"], now_ms)


def unsafe_line(broker: Json) -> str | None:
    """Return one line about a broker that should not be stopped now; None when it may be.

    >>> unsafe_line({"id": 3, "live": True, "safe_to_stop": {"safe": False, "offline": 2, "under_min_isr": 0}})
    'broker 3 is NOT safe to stop now: 2 partitions would go offline; kcm what-if --lose-broker 3'
    """
    safety, id_ = broker["safe_to_stop"], broker["id"]
    if safety["safe"] or not broker["live"]:
        return None
    if safety["safe"] is None:
        why = f": {safety['why']}" if safety.get("why") else ""
        return printable(
            f"broker {id_}: whether it is safe to stop is not known now{why}; "
            f"kcm what-if --lose-broker {id_}"
        )
    told = [
        f"{safety[name]} partition{'' if safety[name] == 1 else 's'} would go {words}"
        for name, words in (("offline", "offline"), ("under_min_isr", "under min ISR"))
        if safety[name]
    ]
    return (
        f"broker {id_} is NOT safe to stop now: {', '.join(told)}; kcm what-if --lose-broker {id_}"
    )


def started_line(mark: Json) -> str:
    """Return one line about a mark that is in force."""
    return (
        f"broker {mark['broker']}: planned work until {time_text(mark['until'])}; "
        "alerts about it are muted until then"
    )
