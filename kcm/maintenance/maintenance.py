"""`kcm maintenance`: work that is planned on brokers, so that alerts about them are muted.

The rule: what is marked is checked against what the monitor shows before anything is written, and a
command that sets or ends a mark ends well only when the exporter shows it: from then on it counts.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from kcm.cli.options import Options, with_options
from kcm.history.replay_settings import ReplaySettings, load_replay
from kcm.maintenance.marks import (
    MarkWriter,
    check_length,
    known_brokers,
    marks_to_write,
    refuse_overlap,
)
from kcm.maintenance.words import started_line, unsafe_line, words
from kcm.queries.api_client import ExporterApi, cluster_path
from kcm.queries.asking import (
    DEFAULT_URL,
    AsJson,
    Cluster,
    Exporter,
    console,
    looks,
    print_json,
    printing,
    tell_doubt,
)
from pipeline.maintenance import LONGEST_REASON
from pipeline.runtime import UnreachableError, UsageError

SHOWN_WITHIN_S = 10.0
"""A mark is shown some milliseconds after it was written; an exporter that is late is told."""
LOOK_EVERY_S = 0.1
WATCH_EVERY_S = 1.0
TITLE = "Where the mark is written, if not where the exporter reads it"
NAMES = ("bootstrap_servers", "kafka_properties", "topic_prefix")
BY_EXPORTER = "what the exporter reads"
_DEFAULTS = {"bootstrap_servers": BY_EXPORTER, "topic_prefix": BY_EXPORTER}

Brokers = Annotated[
    list[int] | None,
    typer.Option("--broker", metavar="N", min=0, help="Which broker; repeatable."),
]
Marks = dict[int, dict[str, Any]]

app = typer.Typer(rich_markup_mode=None, invoke_without_command=True)


@app.callback()
def maintenance(context: typer.Context) -> None:
    """Plan work on brokers, and mute alerts about them.

    Examples: kcm maintenance start --broker 3 --for 30m, kcm maintenance status --watch, kcm maintenance end --broker 3
    """
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


@app.command()
@with_options((TITLE, ReplaySettings), only=NAMES, defaults=_DEFAULTS)
def start(
    config: Path | None,
    options: Options,
    *,
    lasts: Annotated[
        str,
        typer.Option(
            "--for", metavar="TIME", help="How long it lasts at most: 30m, 2h, up to 24h."
        ),
    ],
    broker: Brokers = None,
    reason: Annotated[
        str | None, typer.Option(metavar="TEXT", help="A line for whoever looks meanwhile.")
    ] = None,
    replace: Annotated[
        bool, typer.Option("--replace", help="Give work that is planned already another end.")
    ] = False,
    exporter: Exporter = DEFAULT_URL,
    cluster: Cluster = None,
) -> int:
    """Mark brokers as being worked on, from now on.

    Examples: kcm maintenance start --broker 3 --for 30m, kcm maintenance start --broker 1 --broker 2 --for 2h --reason 3.9.1

    Alerts about these brokers are muted until the mark ends, by itself or by kcm maintenance end. Alerts about the
    cluster, such as offline partitions, are never muted. It tells of each broker that is not safe to stop now, or of which that is
    not known, and says so if the figures are not live.
    """
    lasts_ms = check_length(lasts)
    if not broker:
        raise UsageError("which broker? name it with --broker N; repeat it for a rolling restart")
    if reason is not None and not 0 < len(reason) <= LONGEST_REASON:
        raise UsageError(f"option --reason: write a line of at most {LONGEST_REASON} characters")
    api = ExporterApi(exporter)
    name = api.choose(cluster)
    known = known_brokers(api, name, broker)
    told = _look(api, name)
    planned = _by_broker(told)
    if not replace:
        refuse_overlap(planned[id_] for id_ in broker if id_ in planned)
    now = _now_ms()
    chosen = {id_: known[id_] for id_ in broker}
    works = marks_to_write(name, chosen, planned, now=now, until=now + lasts_ms, reason=reason)
    writer = MarkWriter(load_replay(config, options), told["written_to"])
    writer.write({(name, work.broker): work for work in works})
    shown = _await(
        api, name, lambda marks: all(marks.get(w.broker, {}).get("until") == w.until for w in works)
    )
    with printing():
        for work in works:
            sys.stdout.write(f"{started_line(shown[work.broker])}\n")
        tell_doubt(told, as_json=False)
        for work in works:
            if unsafe := unsafe_line(known[work.broker]):
                sys.stdout.write(f"{unsafe}\n")
    return 0


@app.command()
@with_options((TITLE, ReplaySettings), only=NAMES, defaults=_DEFAULTS)
def end(
    config: Path | None,
    options: Options,
    *,
    broker: Brokers = None,
    exporter: Exporter = DEFAULT_URL,
    cluster: Cluster = None,
) -> int:
    """End planned work before its time.

    Examples: kcm maintenance end --broker 3, kcm maintenance end

    Without a broker: all that is planned in the cluster.
    """
    api = ExporterApi(exporter)
    name = api.choose(cluster)
    told = _look(api, name)
    planned = _by_broker(told)
    for id_ in broker or ():
        if id_ not in planned:
            listed = ", ".join(map(str, planned)) or "none"
            raise UsageError(f"no work is planned on broker {id_}; brokers with some: {listed}")
    ended = list(dict.fromkeys(broker or planned))
    if ended:
        writer = MarkWriter(load_replay(config, options), told["written_to"])
        writer.write({(name, id_): None for id_ in ended})
        _await(api, name, lambda marks: not marks.keys() & set(ended))
    with printing():
        for id_ in ended:
            sys.stdout.write(f"broker {id_}: planned work has ended; its alerts count again\n")
        if not ended:
            sys.stdout.write("no work is planned\n")
    return 0


@app.command()
def status(
    *,
    watch: Annotated[
        bool, typer.Option("--watch", "-w", help="Look again every second, until Ctrl-C.")
    ] = False,
    exporter: Exporter = DEFAULT_URL,
    cluster: Cluster = None,
    as_json: AsJson = False,
) -> int:
    """Show what is planned, and how far it has come.

    Examples: kcm maintenance status, kcm maintenance status --watch, kcm maintenance status --json
    """
    api = ExporterApi(exporter)
    name = api.choose(cluster)
    before = None
    with printing():
        for told in looks(lambda: _look(api, name), every_s=WATCH_EVERY_S):
            if told != before:
                before = told
                if as_json:
                    print_json(told, indent=None if watch else 2)
                else:
                    shown = words(told, _now_ms())
                    console().print(shown, *([""] if watch else []), crop=False)
                sys.stdout.flush()
            if not watch:
                break
    return 0


def _look(api: ExporterApi, cluster: str) -> dict[str, Any]:
    told: dict[str, Any] = api.get(cluster_path(cluster, "/maintenance"))
    return told


def _by_broker(told: dict[str, Any]) -> Marks:
    return {mark["broker"]: mark for mark in told["planned"]}


def _await(api: ExporterApi, cluster: str, holds: Callable[[Marks], bool]) -> Marks:
    """Wait until the exporter shows what was written; raises UnreachableError when it does not."""
    deadline = time.monotonic() + SHOWN_WITHIN_S
    while not holds(marks := _by_broker(_look(api, cluster))):
        if time.monotonic() > deadline:
            raise UnreachableError(
                f"written, but the exporter at {api.url} does not show it after "
                f"{SHOWN_WITHIN_S:g} s; see its log, and compare this machine's clock with its"
            )
        time.sleep(LOOK_EVERY_S)
    return marks


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
