"""`kcm recommend`: which preferred elections to run now, and what they would mend."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Annotated, Any

import typer
from rich.console import Group, RenderableType
from rich.text import Text

from kcm.api_client import ExporterApi, cluster_path
from kcm.asking import DEFAULT_URL, Cluster, Exporter, console, print_json, printing
from kcm.status_words import plain_table
from kcm.story.event_words import event_words
from kcm.written import printable, time_text
from pipeline.runtime import UsageError

CHUNKS_A_PAGE = 100
SHOWN = 10
"""Partitions and brokers that are named for the eye; --json has all partitions."""


def recommend(
    *,
    exporter: Exporter = DEFAULT_URL,
    cluster: Cluster = None,
    broker: Annotated[
        int | None,
        typer.Option(metavar="N", min=0, help="Only partitions that this broker is to lead."),
    ] = None,
    chunk: Annotated[
        int | None,
        typer.Option(metavar="N", min=1, help="Only this chunk (500 partitions) of them."),
    ] = None,
    as_json: Annotated[
        bool,
        typer.Option("--json", help="Print the file that kafka-leader-election.sh takes."),
    ] = False,
) -> int:
    """Tell which preferred elections to run, and what they would mend.

    Examples: kcm recommend, kcm recommend --broker 3 --json > election.json

    Only partitions are named whose preferred replica is live and in sync now. Then run kcm elect, which watches what they do, or
    kafka-leader-election.sh --bootstrap-server HOST:PORT --election-type PREFERRED --path-to-json-file election.json
    """
    api = ExporterApi(exporter)
    with printing():
        path = cluster_path(api.choose(cluster), "/recommendations")
        if as_json:
            print_json(election(api, path, broker, chunk), indent=None)
        else:
            after = None if chunk is None else chunk - 1
            told = api.get(path, broker=broker, limit=1, after=after)
            _check_chunk(chunk, told)
            console().print(words(told))
    return 0


def election(api: ExporterApi, path: str, broker: int | None, chunk: int | None) -> dict[str, Any]:
    """Return the partitions to elect, all of them or those of a chunk, for Kafka's own tool."""
    if chunk is not None:
        told = api.get(path, broker=broker, limit=1, after=chunk - 1)
        _check_chunk(chunk, told)
    else:
        told = api.get(path, broker=broker, limit=CHUNKS_A_PAGE)
    chunks = list(told["chunks"])
    while chunk is None and told["next"] is not None:
        told = api.get(path, broker=broker, limit=CHUNKS_A_PAGE, after=told["next"])
        chunks += told["chunks"]
    # The cluster may have moved on between two pages: each partition once.
    partitions = {
        (p["topic"], p["partition"]): p for c in chunks for p in c["election"]["partitions"]
    }
    if not partitions:
        sys.stderr.write("kcm: nothing to elect\n")
    return {"partitions": list(partitions.values())}


def words(told: dict[str, Any]) -> RenderableType:
    """Return a recommendation for the eye."""
    count = told["partition_count"]
    parts: list[RenderableType] = [Text(_summary(told), style="bold" if count else "")]
    if told["brokers"]:
        parts.append(_brokers(told["brokers"]))
    for chunk in told["chunks"][:1]:
        named = chunk["election"]["partitions"]
        names = ", ".join(f"{p['topic']}-{p['partition']}" for p in named[:SHOWN])
        more = f" and {count - SHOWN} more" if count > SHOWN else ""
        parts.append(Text(printable(f"elect       {names}{more}")))
    for blocked in told["blocked"]:
        reason = blocked["reason"].replace("_", " ")
        names = ", ".join(f"{p['topic']}-{p['partition']}" for p in blocked["examples"][:3])
        line = f"cannot be   {blocked['partition_count']}: preferred replica {reason} ({names})"
        parts.append(Text(printable(line), style="bold yellow"))
    parts.append(Text(_next(told["next_rebalance"])))
    parts += map(Text, _triggered(told.get("triggered")))
    if count:
        parts.append(
            Text(
                printable(f"run         kcm recommend --json > election.json && {told['command']}")
            )
        )
    return Group(*parts)


def _summary(told: dict[str, Any]) -> str:
    count, chunks = told["partition_count"], told["chunk_count"]
    if not count:
        return f"nothing to elect; imbalance {told['imbalance_before']}"
    of = "" if told["broker"] is None else f" of broker {told['broker']}"
    return (
        f"{count} preferred election{'' if count == 1 else 's'} would take the imbalance{of} from "
        f"{told['imbalance_before']} to {told['imbalance_after']}"
        f"{f', in {chunks} chunks' if chunks > 1 else ''}"
    )


def _brokers(brokers: list[dict[str, Any]]) -> RenderableType:
    table = plain_table("broker", "preferred", "not led", "then", "imbalance", "after")
    for broker in brokers[:SHOWN]:
        table.add_row(
            str(broker["broker"]),
            str(broker["preferred"]),
            str(broker["not_led_before"]),
            str(broker["not_led_after"]),
            f"{broker['ratio_before']:.1%}",
            f"{broker['ratio_after']:.1%}",
        )
    if len(brokers) > SHOWN:
        table.add_row("...", f"{len(brokers) - SHOWN} more")
    return table


def _next(planned: dict[str, Any]) -> str:
    assumed = planned["assumed"]
    percentage = assumed["leader_imbalance_per_broker_percentage"]
    if planned["at_earliest"] is None:
        return "rebalance   when the controller checks next is not known"
    what = f"elects {planned['elects']}" if planned["elects"] else "elects nothing"
    return (
        f"rebalance   the controller checks next not before {time_text(planned['at_earliest'])} "
        f"and {what} (threshold {percentage}%, assumed)"
    )


def _triggered(triggered: dict[str, Any] | None) -> Iterator[str]:
    """Yield what the monitor has told of its own accord, and how the last election did.

    None: an exporter of before that.
    """
    if triggered is None:
        return
    standing = triggered["standing"]
    if standing is not None:
        brokers = ", ".join(map(str, standing["brokers"]))
        elected = standing["elected_at"]
        begun = "" if elected is None else f"; elections began {time_text(elected)}"
        yield f"recommended {time_text(standing['made_at'])}, for broker {brokers}{begun}"
    if triggered["graded"]:
        last = {"kind": "RecommendationGraded", "grade": triggered["graded"][0]}
        yield f"last time   {event_words(last)}"


def _check_chunk(chunk: int | None, told: dict[str, Any]) -> None:
    if chunk is not None and chunk > max(1, told["chunk_count"]):
        count = told["chunk_count"]
        is_are = "is 1 chunk" if count == 1 else f"are {count} chunks"
        raise UsageError(f"option --chunk: there {is_are}")
