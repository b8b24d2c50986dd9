"""`kcm recommend`: which preferred elections to run now, and what they would fix.

A file for Kafka's tool holds as many partitions as one run of it should elect. A script
that asks for files learns from the exit code that there is nothing to elect, or that the figures
are not live.
"""

import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Group, RenderableType
from rich.text import Text

from controller_model.insight.commands import recommended_elections
from controller_model.insight.rebalance import PARTITIONS_PER_CHUNK
from controller_model.insight.wording import counted
from kcm.cli.event_text import event_text
from kcm.cli.exits import EXIT_CONDITION_FALSE, NOTHING_TO_ELECT
from kcm.cli.plain_table import PlainTable
from kcm.cli.text import printable, time_text, warn
from kcm.queries.api_client import DEFAULT_URL, ExporterApi, cluster_path
from kcm.queries.options import (
    Cluster,
    Exporter,
    HttpConfigFile,
    PreferredBroker,
    console,
    print_json,
    print_not_live_warning,
    printing,
)
from kcm.queries.recommended import RecommendedElections, read_recommended
from pipeline.runtime import UsageError

SHOWN = 10
"""Partitions and brokers that are named in text; --json has all partitions."""


ChunkNumber = Annotated[
    int | None,
    typer.Option(metavar="N", min=1, help="Only this chunk (500 partitions) of them."),
]
AsElectionFile = Annotated[
    bool,
    typer.Option(
        "--json",
        help=f"Print the file that kafka-leader-election.sh takes, with at most {PARTITIONS_PER_CHUNK} "
        f"partitions. Exits with {NOTHING_TO_ELECT} if there is nothing to elect, with {EXIT_CONDITION_FALSE} if the figures are "
        "not live.",
    ),
]
Output = Annotated[
    Path | None,
    typer.Option(
        "--output",
        metavar="DIR",
        help="Write these files to this folder, election-1.json and so on, one for each chunk. "
        "Exits as --json does.",
    ),
]


def recommend(
    *,
    exporter: Exporter = DEFAULT_URL,
    http_config_file: HttpConfigFile = None,
    cluster: Cluster = None,
    broker: PreferredBroker = None,
    chunk: ChunkNumber = None,
    as_json: AsElectionFile = False,
    output: Output = None,
) -> int:
    """Print which preferred elections to run, and what they would fix.

    Examples: kcm recommend, kcm recommend --broker 3 --json > election.json, kcm recommend --output elections

    The list has only partitions whose preferred replica is live and in sync now. Then run kcm elect, which watches the elections, or
    kafka-leader-election.sh --bootstrap-server HOST:PORT --election-type PREFERRED --path-to-json-file election.json
    """
    api = ExporterApi(exporter, http_config_file)
    with printing():
        path = cluster_path(api.choose(cluster), "/recommendations")
        if as_json or output is not None:
            if as_json and output is not None:
                raise UsageError("give --json or --output, not both")
            return _write_files(read_recommended(api, path, broker, chunk), output)
        if chunk is None:  # the first one shows what all of them would fix
            first = api.get(path, broker=broker, limit=1)
            chunks = first["chunks"]
        else:
            first, chunks = read_recommended(api, path, broker, chunk)
        print_not_live_warning(first, as_json=False)
        given = _given(exporter=exporter, cluster=cluster, broker=broker)
        # Commands are there to be copied: a long line runs over, unbroken.
        console().print(recommendation_text(first, chunks, chunk, given), soft_wrap=True)
    return 0


def _write_files(found: RecommendedElections, folder: Path | None) -> int:
    """Print the file for Kafka's tool, or write one for each chunk; return the exit code."""
    count = len(found.partitions)
    if folder is None and count > PARTITIONS_PER_CHUNK:
        raise UsageError(
            f"{count} partitions are more than the {PARTITIONS_PER_CHUNK} of one file: give --output DIR, "
            "or --chunk N"
        )
    if folder is None:
        print_json(found.election(), indent=None)
    else:
        for path in write_elections(found.chunks, folder):
            sys.stdout.write(f"{path}\n")
    print_not_live_warning(found.first, as_json=True)
    if not count:
        warn("nothing to elect")
    if found.first["completeness"]["status"] != "live":
        return EXIT_CONDITION_FALSE
    return 0 if count else NOTHING_TO_ELECT


def write_elections(chunks: Sequence[dict[str, Any]], folder: Path) -> list[Path]:
    """Write each chunk as a file for Kafka's tool; return their paths.

    Raises UsageError for a folder that cannot be written, or that holds such files already: a run
    over all of them would elect by old figures.
    """
    files = {
        folder / f"election-{chunk['number']}.json": chunk["election"]
        for chunk in chunks
        if chunk["election"]["partitions"]
    }
    try:
        if any(folder.glob("election-*.json")):
            raise UsageError(f"{folder} already holds election files: choose another --output")
        if files:
            folder.mkdir(parents=True, exist_ok=True)
        for path, election in files.items():
            path.write_text(json.dumps(election) + "\n")
    except OSError as error:
        raise UsageError(f"cannot write to {folder}: {error.strerror or error}") from None
    return list(files)


def recommendation_text(
    answer: dict[str, Any], chunks: list[dict[str, Any]], chunk: int | None, given: list[str]
) -> RenderableType:
    """Return a recommendation as text: `chunks` of it, and the command that runs it."""
    count = answer["partition_count"]
    parts: list[RenderableType] = [Text(_summary(answer), style="bold" if count else "")]
    if answer["brokers"]:
        parts.append(_brokers(answer["brokers"]))
    for shown in chunks[:1]:
        named = shown["election"]["partitions"]
        names = ", ".join(f"{p['topic']}-{p['partition']}" for p in named[:SHOWN])
        left = (count if chunk is None else shown["partition_count"]) - SHOWN
        more = f" and {left} more" if left > 0 else ""
        of = "" if chunk is None else f" (chunk {chunk} of {answer['chunk_count']})"
        parts.append(Text(printable(f"elect       {names}{more}{of}")))
    for blocked in answer["blocked"]:
        reason = blocked["reason"].replace("_", " ")
        names = ", ".join(f"{p['topic']}-{p['partition']}" for p in blocked["examples"][:3])
        line = f"cannot be   {blocked['partition_count']}: preferred replica {reason} ({names})"
        parts.append(Text(printable(line), style="bold yellow"))
    parts.append(Text(_next(answer["next_rebalance"])))
    parts += map(Text, _triggered(answer["triggered"]))
    if count and answer["completeness"]["status"] == "live":
        run = recommended_elections(
            answer["bootstrap_server"],
            chunk_count=answer["chunk_count"],
            chunk=chunk,
            options=given,
        )
        parts.append(Text(printable(f"run         {run}")))
    return Group(*parts)


def _given(*, exporter: str, cluster: str | None, broker: int | None) -> list[str]:
    """Return the options that repeat what was asked, and of which exporter."""
    url = None if exporter == DEFAULT_URL else exporter
    options = {"--exporter": url, "--cluster": cluster, "--broker": broker}
    return [
        word for name, value in options.items() if value is not None for word in (name, str(value))
    ]


def _summary(answer: dict[str, Any]) -> str:
    count, chunks = answer["partition_count"], answer["chunk_count"]
    if not count:
        return f"nothing to elect; imbalance {answer['imbalance_before']}"
    of = "" if answer["broker"] is None else f" of broker {answer['broker']}"
    return (
        f"{counted(count, 'preferred election')} would take the imbalance{of} from "
        f"{answer['imbalance_before']} to {answer['imbalance_after']}"
        f"{f', in {chunks} chunks' if chunks > 1 else ''}"
    )


def _brokers(brokers: list[dict[str, Any]]) -> RenderableType:
    table = PlainTable("broker", "preferred", "not led", "then", "imbalance", "after")
    for broker in brokers[:SHOWN]:
        counts = ("broker", "preferred", "not_led_before", "not_led_after")
        table.add(
            *(str(broker[name]) for name in counts),
            f"{broker['ratio_before']:.1%}",
            f"{broker['ratio_after']:.1%}",
        )
    table.add_more(len(brokers) - SHOWN)
    return table


def _next(planned: dict[str, Any]) -> str:
    assumed = planned["assumed"]
    percentage = assumed["leader_imbalance_per_broker_percentage"]
    if not assumed["auto_leader_rebalance_enable"]:
        return (
            "rebalance   the controller elects nothing by itself (auto_leader_rebalance, assumed)"
        )
    elects = f"elects {planned['elects']}" if planned["elects"] else "elects nothing"
    if percentage is None:
        return (
            "rebalance   the KRaft controller checks an imbalance after its interval (5 minutes by default) and "
            f"{elects} (no threshold, 1,000 in a round)"
        )
    if planned["at_earliest"] is None:
        return "rebalance   when the controller checks next is not known"
    return (
        f"rebalance   the controller checks next not before {time_text(planned['at_earliest'])} "
        f"and {elects} (threshold {percentage}%, assumed)"
    )


def _triggered(triggered: dict[str, Any]) -> Iterator[str]:
    """Yield what the monitor has recommended by itself, and the result of the last election."""
    standing = triggered["standing"]
    if standing is not None:
        brokers = ", ".join(map(str, standing["brokers"]))
        elected = standing["elected_at"]
        begun = "" if elected is None else f"; elections began {time_text(elected)}"
        yield f"recommended {time_text(standing['made_at'])}, for broker {brokers}{begun}"
    if triggered["graded"]:
        last = {"kind": "RecommendationGraded", "grade": triggered["graded"][0]}
        yield f"last time   {event_text(last)}"
